"""``rolling_summary:N``: a running summary, updated every N turns; the last N to 2N - 1 turns stand as they were.

Each update is asked for in the conversation itself, so its prompt is in the provider's cache; what it costs is the
summary, written anew every N turns.

Parameters: ``turns`` (5).

Source: incremental summaries of chat memories.
"""

from __future__ import annotations

from .shared.compacting import CompactionRequest, Summarizing, overfull, summary_rules
from .shared.linear import Linear
from .shared.parameters import Count, Partial
from .shared.parameters import parameters as parse

REQUEST = CompactionRequest("rolling", "compaction_rolling", 6_000)


def _due(turns: int, window_tokens: int, shown: Linear) -> int | None:
    """All exchanges but the last ``turns``, once there are twice as many."""
    keep = turns
    if overfull(window_tokens, shown):
        keep = min(keep, shown.whole // 2)
    elif shown.whole < 2 * turns:
        return None
    return len(shown.past) - keep


def rolling_summary(parameters: str) -> Summarizing:
    chosen = parse("rolling_summary", parameters, (Count("turns", 5),))
    return Summarizing(chosen.name, REQUEST, Partial(_due, (chosen.counts["turns"],)), summary_rules(REQUEST))
