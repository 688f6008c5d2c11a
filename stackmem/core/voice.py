"""How a fact is put into words. Each fact declares it once, and every place that displays facts uses it.

Rule 1: Every fact has a ``voice``. The type checker refuses an event without one, so no event can be invisible.
Rule 2: A place may display a fact in more detail, and hides only the kinds that it lists.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

VoiceKind = Literal["internal", "run", "reply", "result", "memory", "frame", "notice", "verdict", "user", "program"]
"""What a fact is about. Internal facts only serve the rules."""


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
