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
    """The effects of a call, whoever makes it.

    Attributes:
        reads_files: It shows content of the workspace.
        changes_files: It may change the workspace. A snapshot follows it, and resuming restores the files before it.
        repeatable: It has the same effect whatever the files contain, so resuming does not restore them first.
        while_closing: It is allowed in a frame that is closed, because it stores something or ends the frame.
        frame: Whether it starts or ends a frame.
        bounded: The field whose text may be at most as large as one result that the model sees.
        hidden: Fields that are offered only by strategies that request them.
        blank: Required fields that an offer may hide. They are then empty.
    """

    reads_files: bool = False
    changes_files: bool = False
    repeatable: bool = False
    while_closing: bool = False
    frame: Literal["", "starts", "ends"] = ""
    bounded: str = ""
    hidden: tuple[str, ...] = ()
    blank: tuple[str, ...] = ()


class Voice(Struct, frozen=True):
    """A fact in words.

    Attributes:
        line: One line that says what happened, without the long text.
        text: The whole text, which a display may fold or cut.
        failed: Whether something was refused or went wrong.
    """

    kind: VoiceKind
    line: str
    text: str = ""
    failed: bool = False
