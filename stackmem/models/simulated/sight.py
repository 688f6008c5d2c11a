"""What one request shows, and what a policy may answer."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from .knowledge import Knowledge
from .listening import signed
from .offered import Offered

ATTEMPTS = 2
"""How often the same call is made before there is progress; then another way is taken."""

VARIANTS = ("nesting", "flat", "oracle", "forgetful", "hoarder", "never-push", "always-push")


class ReaderSight(Struct, frozen=True):
    known: Knowledge
    offered: Offered
    variant: str = "nesting"


class ChosenCall(Struct, frozen=True):
    """One call, and why in a few words."""

    tool: str
    arguments: dict[str, Any]
    why: str


def fresh(sight: ReaderSight, action: ChosenCall | None) -> ChosenCall | None:
    """The action, unless it was made too often without any progress."""
    if action is None or sight.known.repeats.get(signed(action.tool, action.arguments), 0) >= ATTEMPTS:
        return None
    return action


def command(line: str, why: str) -> ChosenCall:
    return ChosenCall("run_command", {"command": line}, why)
