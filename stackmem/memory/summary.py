"""``summary:TOKENS``: once the prompt reaches TOKENS, the model sums up, and a new conversation begins.

The new one holds the task, the summary, and the last ``keep`` turns as they were. ``prefix=shared`` (default) asks in
the very conversation that is summed up, ``prefix=cold`` hands the old turns over as text, which costs more. At half of
the model's window a summary is due in any case.

A summary waits until it replaces at least a quarter of the threshold: long turns that stay would otherwise bring the
next one at once.

Parameters: ``tokens`` (24,000), ``keep`` (3), ``prefix`` (``shared``).

Source: ours, after the summaries of coding agents; ``compact`` and ``condenser`` are near to products, this is none.
"""

from __future__ import annotations

from msgspec.structs import replace

from .shared.compacting import PREFIXES, THRESHOLD, CompactionRequest, Summarizing, summary_rules, worth
from .shared.linear import Linear
from .shared.parameters import Choice, Count, Partial
from .shared.parameters import parameters as parse

REQUEST = CompactionRequest("summary", "compaction", 8_000)
_REPLACES = 0.25  # of the threshold


def due(threshold: int, keep: int, window_tokens: int, shown: Linear) -> int | None:
    """All exchanges but the last ``keep``, once the whole prompt reaches the threshold."""
    threshold = min(threshold, window_tokens // 2)
    turns = len(shown.past) - keep
    if shown.tokens < threshold or not worth(shown, turns, threshold * _REPLACES):
        return None
    return turns


def summary(parameters: str) -> Summarizing:
    known = (Count("tokens", THRESHOLD), Count("keep", 3), Choice("prefix", PREFIXES))
    chosen = parse("summary", parameters, known)
    request = replace(REQUEST, prefix=chosen.words["prefix"])
    tokens, keep = chosen.counts.values()
    return Summarizing(chosen.name, request, Partial(due, (tokens, keep)), summary_rules(request))
