"""``hierarchical:HOT,WARM``: the last HOT turns whole, WARM turns before them compact, what is older as a summary.

The tiers move in steps. Hot turns turn warm HOT at a time: their results keep head and tail. Warm turns turn cold WARM
at a time: the model sums them up, from the turns as they were recorded and not as they were shown (a cold prefix), so
that a fact in the middle of a long result is not lost before anybody has summed it up.

Parameters: ``hot`` (5), ``warm`` (15).

Source: tiered histories (MemGPT's main and external context; hot, warm and cold storage).
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.messages import ToolResult
from stackmem.core.state import State
from stackmem.core.text import clip_chars

from .shared.compacting import Request, Summarising, overfull, standing_for
from .shared.linear import Cut, Linear
from .shared.parameters import Count
from .shared.parameters import parameters as parse


class Hierarchical(Struct, frozen=True):
    """Attributes:
    hot: Turns that are shown whole at least.
    warm: Turns that are shown compact at least, once there are so many.
    chars: Characters of a compact result.
    """

    hot: int = 5
    warm: int = 15
    chars: int = 400
    request: Request = Request("tier", "compaction_tier", 8_000, "cold")

    def due(self, state: State, shown: Linear) -> int | None:
        cold = shown.cut.short - self.warm
        if overfull(state, shown):
            cold = len(shown.past) - min(self.hot, (len(shown.past) - shown.cut.dropped) // 2)
        elif shown.cut.short - shown.cut.dropped < 2 * self.warm:
            return None
        return cold

    def cut(self, conversation: Linear) -> Cut:
        if conversation.whole < 2 * self.hot:
            return conversation.cut
        return Cut(conversation.cut.dropped, len(conversation.past) - self.hot)

    def head(self, conversation: Linear) -> str:
        return standing_for(conversation, self.request.most)

    def shorten(self, result: ToolResult, step: int) -> ToolResult:
        return replace(result, text=clip_chars(result.text, self.chars))


def hierarchical(parameters: str) -> Summarising:
    chosen = parse("hierarchical", parameters, (Count("hot", 5), Count("warm", 15)))
    return Summarising(chosen.name, Hierarchical(chosen.counts["hot"], chosen.counts["warm"]))
