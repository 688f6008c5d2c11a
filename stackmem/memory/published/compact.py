"""``compact:TOKENS``: once the prompt reaches TOKENS, all of the history is replaced by one summary.

No turns stay beside it but the last, whose answer the model has not used yet. It is asked for in the very conversation
that is summed up. Where four fifths of the model's window are less than TOKENS, they are the trigger.

Parameters: ``tokens`` (150,000).

Source: Anthropic's server-side compaction (``compact_20260112``: trigger 150,000, the summary stands for all before
it), and auto-compact in Claude Code and Codex, which fires at 80 to 90 % of the window. Done by the client here; the
words of the request are those of ``summary``.
"""

from __future__ import annotations

from stackmem.memory.shared.compacting import CompactionRequest, Summarizing, summary_rules
from stackmem.memory.shared.linear import Linear
from stackmem.memory.shared.parameters import Count, Partial
from stackmem.memory.shared.parameters import parameters as parse

REQUEST = CompactionRequest("summary", "compaction", 16_000)


def everything_due(trigger: int, window_tokens: int, shown: Linear) -> int | None:
    """All exchanges, once the whole prompt reaches the trigger or four fifths of the window."""
    return len(shown.past) if shown.tokens >= min(trigger, window_tokens * 4 // 5) else None


def compact(parameters: str) -> Summarizing:
    chosen = parse("compact", parameters, (Count("tokens", 150_000),))
    due = Partial(everything_due, (chosen.counts["tokens"],))
    return Summarizing(chosen.name, REQUEST, due, summary_rules(REQUEST))
