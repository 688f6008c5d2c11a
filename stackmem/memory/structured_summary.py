"""``structured_summary:TOKENS``: as ``summary``, in the sections requirements, architecture, API, code written, state.

Each time the model writes all sections anew from the old ones and what came since; together they are capped. A section
keeps its place, so that what is rarely mentioned (a requirement) does not fade behind what is recent.

Parameters: ``tokens`` (24,000), ``keep`` (3), ``chars`` (8,000).

Source: structured note-taking and the schema-bound summaries of coding agents.
"""

from __future__ import annotations

from .shared.compacting import THRESHOLD, CompactionRequest, Summarizing, summary_rules
from .shared.parameters import Count, Partial
from .shared.parameters import parameters as parse
from .summary import due


def structured_summary(parameters: str) -> Summarizing:
    known = (Count("tokens", THRESHOLD), Count("keep", 3), Count("chars", 8_000, low=500))
    chosen = parse("structured_summary", parameters, known)
    tokens, keep, chars = chosen.counts.values()
    request = CompactionRequest("structured", "compaction_structured", chars)
    return Summarizing(chosen.name, request, Partial(due, (tokens, keep)), summary_rules(request))
