"""``mask:N``: the whole history, but tool outputs older than N turns are one line each.

Calls and what was said stay, so the model still knows what it did, not what it saw. Masking one more output at every
step writes the last N turns anew at every step; ``poll`` masks only every so many steps and shows between N and
N + poll - 1 outputs whole. ``poll=1`` is the published default, 10 is ours.

Parameters: ``turns`` (10), ``poll`` (10).

Source: observation masking in SWE-agent (``last_n_observations``, ``polling``); Lindenbauer et al., "The Complexity
Trap" (2025): half the cost of raw history at equal success.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.messages import ToolResult

from .shared.linear import Cut, Linear, OneConversation
from .shared.parameters import Count
from .shared.parameters import parameters as parse


class Mask(Struct, frozen=True):
    """Attributes:
    keep: Turns whose outputs are shown at least.
    poll: Steps between two maskings.
    """

    keep: int = 10
    poll: int = 10

    def cut(self, conversation: Linear) -> Cut:
        if conversation.whole < self.keep + self.poll:
            return conversation.cut
        return Cut(0, len(conversation.past) - self.keep)

    def head(self, conversation: Linear) -> str:
        return ""

    def shorten(self, result: ToolResult, step: int) -> ToolResult:
        return masked(result, "masked")


def masked(result: ToolResult, word: str) -> ToolResult:
    """One line for an output, unless the output is shorter."""
    line = f"[{word}: {len(result.text):,} characters of output; call again if you need them]"
    return replace(result, text=line) if len(line) < len(result.text) else result


def mask(parameters: str) -> OneConversation:
    chosen = parse("mask", parameters, (Count("turns", 10), Count("poll", 10)))
    return OneConversation(chosen.name, Mask(chosen.counts["turns"], chosen.counts["poll"]))
