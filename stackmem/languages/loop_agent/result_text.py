"""What an agent reads of an action, a sub-agent or an iteration."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from stackmem.core.text import clip_chars

from .crush import crushed

MOST_CHARS = 30_000
TOLD_AFTER = 3


class Outcome(Struct, frozen=True):
    """What one action or sub-agent came to.

    Attributes:
        code: In one word; ``SUCCESS`` where it did what was asked.
        told: One sentence more.

    """

    name: str
    ok: bool
    value: Any = None
    code: str = "SUCCESS"
    told: str = ""


def plain(value: Any) -> str:
    """A value as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def action_text(outcome: Outcome, *, crush: bool, failures: int = 0) -> str:
    """An action's result as it stands in the conversation; ``failures`` counts those of the same action so far."""
    lines = [f"## {outcome.name} {'✓' if outcome.ok else '✗'}"]
    lines.append(f"**Result:** {outcome.code}" + (f" — {outcome.told}" if outcome.told else ""))
    if outcome.value is not None:
        lines.append(f"**Output:**\n{clip_chars(_shown(outcome, crush=crush), MOST_CHARS)}")
    if not outcome.ok and failures >= TOLD_AFTER:
        lines.append(f"This action has failed {failures} times; do not repeat it as it is, try another way.")
    return "\n".join(lines)


def iteration_text(number: int, outcome: Outcome, *, crush: bool) -> str:
    """An iteration's result in full."""
    told = f" — {outcome.told}" if outcome.told else ""
    shown = _shown(outcome, crush=crush)
    return f"### Iteration {number}\n{'✓' if outcome.ok else '✗'} {outcome.code}{told}\n{shown}"


def _shown(outcome: Outcome, *, crush: bool) -> str:
    return (crushed(outcome.value) if crush else None) or plain(outcome.value)
