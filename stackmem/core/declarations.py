"""Declarations on the classes of tools and facts: the effects of a call, and the words for a fact.

Rule 1: Every fact has a ``voice``. The type checker refuses an event without one, so no event can be invisible.
Rule 2: A place may display a fact in more detail, and hides only the kinds that it lists.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

VoiceKind = Literal["internal", "run", "reply", "result", "memory", "frame", "notice", "verdict", "user", "program"]
"""What a fact is about. Internal facts only serve the rules."""


class Behavior(Struct, frozen=True):
    """The effects of a call, whoever makes it."""

    reads_files: bool = False  # it shows content of the workspace
    # it may change the workspace. A snapshot follows it, and resuming restores the files before it
    changes_files: bool = False
    # it has the same effect whatever the files contain, so resuming does not restore them first
    repeatable: bool = False
    # it is allowed in a frame that is closed, because it stores something or ends the frame
    while_closing: bool = False
    frame: Literal["", "starts", "ends"] = ""  # whether it starts or ends a frame
    bounded: str = ""  # the field whose text may be at most as large as one result that the model sees
    hidden: tuple[str, ...] = ()  # fields that are offered only by strategies that request them
    blank: tuple[str, ...] = ()  # required fields that an offer may hide. They are then empty


class Voice(Struct, frozen=True):
    """A fact in words."""

    kind: VoiceKind
    line: str  # one line that says what happened, without the long text
    text: str = ""  # the whole text, which a display may fold or cut
    failed: bool = False  # whether something was refused or went wrong
