"""``condenser:EVENTS``: beyond EVENTS events the model sums up all of the history but the first and the newest.

An event is the system prompt, the task, a call, or what answered it. The first four stay whole for the whole run. Of
the others so many stay that half of EVENTS are left, the summary among them. The old events go out as text by a request
of their own, an earlier summary with them. The same is done at four fifths of the model's window, where half of the
turns stay.

Parameters: ``events`` (80).

Source: OpenHands' ``LLMSummarizingCondenser`` as the software agent SDK ships it (August 2026: 80 events, the first 4
kept). The sections of the summary are its own, the words of the request are ours.
"""

from __future__ import annotations

from stackmem.memory.shared.compacting import CompactionRequest, Summarizing, summary_rules
from stackmem.memory.shared.linear import Linear
from stackmem.memory.shared.parameters import Count, Partial
from stackmem.memory.shared.parameters import parameters as parse

REQUEST = CompactionRequest("condenser", "compaction_condenser", 16_000, "cold")
_FIRST_EVENTS, _PROMPT_EVENTS = 4, 2
_KEPT_EXCHANGES = (_FIRST_EVENTS - _PROMPT_EVENTS) // 2


def _due(most: int, window_tokens: int, shown: Linear) -> int | None:
    """How many exchanges a summary is to stand for, the first that stay among them."""
    told = _PROMPT_EVENTS + 2 * (shown.first + shown.whole) + (shown.summary is not None)
    turns = len(shown.past) - (most // 2 - _FIRST_EVENTS - 1) // 2
    if shown.tokens > window_tokens * 4 // 5:
        turns = max(turns, len(shown.past) - shown.whole // 2)
    elif told <= most:
        return None
    return turns if turns > _KEPT_EXCHANGES else None


def condenser(parameters: str) -> Summarizing:
    chosen = parse("condenser", parameters, (Count("events", 80, low=14),))
    rules = summary_rules(REQUEST, first=_KEPT_EXCHANGES)
    return Summarizing(chosen.name, REQUEST, Partial(_due, (chosen.counts["events"],)), rules)
