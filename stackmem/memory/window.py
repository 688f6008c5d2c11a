"""``window:N``: the task and the last N turns; what is older is left out.

A window that moves at every step writes the whole prompt anew at every step. So it moves ``step`` turns at a time and
shows between N and N + step - 1 of them; ``step=1`` is the textbook window.

Parameters: ``turns`` (20), ``step`` (10).

Source: the sliding window of most chat applications; Anthropic's cost guide for what moving it costs.
"""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.messages import ToolResult

from .shared.linear import Cut, Linear, OneConversation
from .shared.parameters import Count
from .shared.parameters import parameters as parse


class Window(Struct, frozen=True):
    """Attributes:
    keep: Turns that are shown at least.
    step: Turns that leave at once.
    """

    keep: int = 20
    step: int = 10

    def cut(self, conversation: Linear) -> Cut:
        turns = len(conversation.past)
        if turns - conversation.cut.dropped < self.keep + self.step:
            return conversation.cut
        return Cut(turns - self.keep, turns - self.keep)

    def head(self, conversation: Linear) -> str:
        return left_out(conversation)

    def shorten(self, result: ToolResult, step: int) -> ToolResult:
        return result


def left_out(conversation: Linear) -> str:
    """What stands for the exchanges that nobody sees any more."""
    if not conversation.cut.dropped:
        return ""
    last = conversation.past[conversation.cut.dropped - 1].step
    return f"[Steps up to {last:,} are no longer shown. What they changed in the workspace is still so.]"


def window(parameters: str) -> OneConversation:
    chosen = parse("window", parameters, (Count("turns", 20), Count("step", 10)))
    return OneConversation(chosen.name, Window(chosen.counts["turns"], chosen.counts["step"]))
