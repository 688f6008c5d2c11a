"""``handoff:TOKENS``: once the prompt reaches TOKENS, the work goes on in a new thread, from a message that begins it.

The message is written for the goal that is left: what matters to it, and the files to look at. Nothing of the old
thread is shown beside it but its last turn; the tool ``conversation_search`` finds passages in it.

Parameters: ``tokens`` (40,000).

Source: Amp's handoff (2025) and its tool that reads other threads. There a person hands off, names the goal and edits
the message; here a threshold does, and the goal is what is left of the task.
"""

from __future__ import annotations

from stackmem.core.tools import ConversationSearch
from stackmem.memory.shared.compacting import CompactionRequest, Summarizing, summary_rules
from stackmem.memory.shared.offers import ONE_FRAME
from stackmem.memory.shared.parameters import Count, Partial
from stackmem.memory.shared.parameters import parameters as parse

from .compact import everything_due

REQUEST = CompactionRequest("handoff", "compaction_handoff", 6_000)


def handoff(parameters: str) -> Summarizing:
    chosen = parse("handoff", parameters, (Count("tokens", 40_000),))
    tools = (*ONE_FRAME[:-1], ConversationSearch, ONE_FRAME[-1])
    due = Partial(everything_due, (chosen.counts["tokens"],))
    return Summarizing(chosen.name, REQUEST, due, summary_rules(REQUEST), tools, "full+search")
