"""``hierarchical:HOT,WARM``: the last HOT turns whole, WARM turns before them compact, what is older as a summary.

The tiers move in steps. Hot turns turn warm HOT at a time: their results keep head and tail. Warm turns turn cold WARM
at a time: the model sums them up, from the turns as they were recorded and not as they were shown (a cold prefix), so
that a fact in the middle of a long result is not lost before anybody has summed it up.

Parameters: ``hot`` (5), ``warm`` (15).

Source: ours, after tiered storage. It is not MemGPT, whose model pages its own memory by calls: that is ``letta``.
"""

from __future__ import annotations

from msgspec.structs import replace

from stackmem.core.messages import ToolResult
from stackmem.core.text import clip_chars

from .shared.compacting import CompactionRequest, Summarizing, overfull, summary_rules
from .shared.linear import Linear, newest_whole
from .shared.parameters import Count, Partial
from .shared.parameters import parameters as parse

REQUEST = CompactionRequest("tier", "compaction_tier", 8_000, "cold")
_COMPACT_CHARS = 400  # of a result of a warm turn


def _due(hot: int, warm: int, window_tokens: int, shown: Linear) -> int | None:
    """The turns that are cold now."""
    if overfull(window_tokens, shown):
        return len(shown.past) - min(hot, (len(shown.past) - shown.cut.dropped) // 2)
    return shown.cut.short - warm if shown.cut.short - shown.cut.dropped >= 2 * warm else None


def _shorten(result: ToolResult, step: int) -> ToolResult:
    return replace(result, text=clip_chars(result.text, _COMPACT_CHARS))


def hierarchical(parameters: str) -> Summarizing:
    chosen = parse("hierarchical", parameters, (Count("hot", 5), Count("warm", 15)))
    hot, warm = chosen.counts.values()
    rules = summary_rules(REQUEST, Partial(newest_whole, (hot, hot)), _shorten)
    return Summarizing(chosen.name, REQUEST, Partial(_due, (hot, warm)), rules)
