"""``rolling_summary:N``: a running summary, updated every N turns; the last N to 2N - 1 turns stand as they were.

Each update is asked for in the conversation itself, so its prompt is in the provider's cache; what it costs is the
summary, written anew every N turns.

Parameters: ``turns`` (5).

Source: incremental summaries of chat memories.
"""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.messages import ToolResult
from stackmem.core.state import State

from .shared.compacting import Request, Summarising, overfull, standing_for
from .shared.linear import Cut, Linear
from .shared.parameters import Count
from .shared.parameters import parameters as parse


class RollingSummary(Struct, frozen=True):
    """Attributes:
    turns: Turns between two updates, and turns that stay at least.
    """

    turns: int = 5
    request: Request = Request("rolling", "compaction_rolling", 6_000)

    def due(self, state: State, shown: Linear) -> int | None:
        keep = self.turns
        if overfull(state, shown):
            keep = min(keep, shown.whole // 2)
        elif shown.whole < 2 * self.turns:
            return None
        return len(shown.past) - keep

    def cut(self, conversation: Linear) -> Cut:
        return conversation.cut

    def head(self, conversation: Linear) -> str:
        return standing_for(conversation, self.request.most)

    def shorten(self, result: ToolResult, step: int) -> ToolResult:
        return result


def rolling_summary(parameters: str) -> Summarising:
    chosen = parse("rolling_summary", parameters, (Count("turns", 5),))
    return Summarising(chosen.name, RollingSummary(chosen.counts["turns"]))
