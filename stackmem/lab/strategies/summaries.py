"""Strategies in which the model summarizes old turns: ``summary``, ``compact``, ``hierarchical`` and others.

``compact``, ``condenser`` and ``handoff`` resemble products, the others are ours. docs/strategies.md describes the
differences.
"""

from __future__ import annotations

from msgspec.structs import replace

from stackmem.core.conversation.calls import ConversationSearch
from stackmem.core.messages import ToolResult
from stackmem.core.text import clip_chars
from stackmem.memory.shared.linear import Linear, newest_whole
from stackmem.memory.shared.offers import ONE_FRAME
from stackmem.memory.shared.parameters import Choice, Count, Partial
from stackmem.memory.shared.parameters import parameters as parse

from .compacting import PREFIXES, THRESHOLD, CompactionRequest, Summarizing, overfull, summary_rules, worth

SUMMARY = CompactionRequest("summary", "compaction", 8_000)
ROLLING = CompactionRequest("rolling", "compaction_rolling", 6_000)
TIER = CompactionRequest("tier", "compaction_tier", 8_000, "cold")
COMPACT = CompactionRequest("summary", "compaction", 16_000)
CONDENSER = CompactionRequest("condenser", "compaction_condenser", 16_000, "cold")
HANDOFF = CompactionRequest("handoff", "compaction_handoff", 6_000)
_REPLACES = 0.25  # of the threshold
_COMPACT_CHARS = 400  # of a result of a warm turn
_FIRST_EVENTS, _PROMPT_EVENTS = 4, 2
_KEPT_EXCHANGES = (_FIRST_EVENTS - _PROMPT_EVENTS) // 2


def summary(parameters: str) -> Summarizing:
    """``summary:TOKENS``: once the prompt reaches TOKENS, the model summarizes, and a new conversation begins.

    The new conversation contains the task, the summary, and the last ``keep`` turns in full. ``prefix=shared``
    (default) requests the summary in the conversation itself; ``prefix=cold`` sends the old turns as text, which costs
    more. At half of the model's window a summary is due in any case.

    A summary waits until it replaces at least a quarter of the threshold. Otherwise long kept turns would trigger the
    next one immediately.

    Parameters: ``tokens`` (24,000), ``keep`` (3), ``prefix`` (``shared``).

    Source: ours, after the summaries of coding agents. ``compact`` and ``condenser`` resemble products, this one does
    not.
    """
    accepted = (Count("tokens", THRESHOLD), Count("keep", 3), Choice("prefix", PREFIXES))
    parsed = parse("summary", parameters, accepted)
    request = replace(SUMMARY, prefix=parsed.words["prefix"])
    tokens, keep = parsed.counts.values()
    return Summarizing(parsed.name, request, Partial(_threshold_due, (tokens, keep)), summary_rules(request))


def structured_summary(parameters: str) -> Summarizing:
    """``structured_summary:TOKENS``: like ``summary``, with sections for requirements, architecture, API, code written,
    state.

    Each time the model rewrites all sections from the old ones and the turns since then; their total length is limited.
    Sections keep their order, so that rarely mentioned facts (a requirement) do not fade behind recent ones.

    Parameters: ``tokens`` (24,000), ``keep`` (3), ``chars`` (8,000).

    Source: structured note-taking and the schema-bound summaries of coding agents.
    """
    accepted = (Count("tokens", THRESHOLD), Count("keep", 3), Count("chars", 8_000, low=500))
    parsed = parse("structured_summary", parameters, accepted)
    tokens, keep, chars = parsed.counts.values()
    request = CompactionRequest("structured", "compaction_structured", chars)
    return Summarizing(parsed.name, request, Partial(_threshold_due, (tokens, keep)), summary_rules(request))


def _threshold_due(threshold: int, keep: int, window_tokens: int, linear: Linear) -> int | None:
    """Return all exchanges but the last ``keep``, once the whole prompt reaches the threshold."""
    threshold = min(threshold, window_tokens // 2)
    turns = len(linear.past) - keep
    if linear.tokens < threshold or not worth(linear, turns, threshold * _REPLACES):
        return None
    return turns


def rolling_summary(parameters: str) -> Summarizing:
    """``rolling_summary:N``: a running summary, updated every N turns; the last N to 2N - 1 turns stay in full.

    Each update is requested in the conversation itself, so its prompt is in the provider's cache. The extra cost is the
    summary, which is written again every N turns.

    Parameters: ``turns`` (5).

    Source: incremental summaries of chat memories.
    """
    parsed = parse("rolling_summary", parameters, (Count("turns", 5),))
    due = Partial(_rolling_due, (parsed.counts["turns"],))
    return Summarizing(parsed.name, ROLLING, due, summary_rules(ROLLING))


def _rolling_due(turns: int, window_tokens: int, linear: Linear) -> int | None:
    """Return all exchanges but the last ``turns``, once there are twice as many."""
    keep = turns
    if overfull(window_tokens, linear):
        keep = min(keep, linear.whole // 2)
    elif linear.whole < 2 * turns:
        return None
    return len(linear.past) - keep


def hierarchical(parameters: str) -> Summarizing:
    """``hierarchical:HOT,WARM``: the last HOT turns in full, WARM turns before them compact, older turns as a summary.

    The tiers move in steps. Turns become warm HOT at a time: their results keep only head and tail. Turns become cold
    WARM at a time: the model summarizes them. The request contains them as recorded, not as shown (a cold prefix). So a
    fact in the middle of a long result is not lost before the summary.

    Parameters: ``hot`` (5), ``warm`` (15).

    Source: ours, after tiered storage. It is not MemGPT, whose model pages its own memory by calls: that is ``letta``.
    """
    parsed = parse("hierarchical", parameters, (Count("hot", 5), Count("warm", 15)))
    hot, warm = parsed.counts.values()
    rules = summary_rules(TIER, Partial(newest_whole, (hot, hot)), _shorten)
    return Summarizing(parsed.name, TIER, Partial(_cold_due, (hot, warm)), rules)


def _cold_due(hot: int, warm: int, window_tokens: int, linear: Linear) -> int | None:
    """Return the number of turns that are cold now."""
    if overfull(window_tokens, linear):
        return len(linear.past) - min(hot, (len(linear.past) - linear.cut.dropped) // 2)
    return linear.cut.short - warm if linear.cut.short - linear.cut.dropped >= 2 * warm else None


def _shorten(result: ToolResult, step: int) -> ToolResult:
    return replace(result, text=clip_chars(result.text, _COMPACT_CHARS))


def compact(parameters: str) -> Summarizing:
    """``compact:TOKENS``: once the prompt reaches TOKENS, one summary replaces the whole history.

    Only the last turn stays, because the model has not used its answer yet. The summary is requested in the
    conversation itself. If four fifths of the model's window are less than TOKENS, they are the trigger.

    Parameters: ``tokens`` (150,000).

    Source: Anthropic's server-side compaction (``compact_20260112``: trigger 150,000, the summary replaces everything
    before it), and auto-compact in Claude Code and Codex, which fires at 80 to 90 % of the window. Here the client does
    it, and the request is worded like that of ``summary``.
    """
    parsed = parse("compact", parameters, (Count("tokens", 150_000),))
    due = Partial(everything_due, (parsed.counts["tokens"],))
    return Summarizing(parsed.name, COMPACT, due, summary_rules(COMPACT))


def handoff(parameters: str) -> Summarizing:
    """``handoff:TOKENS``: once the prompt reaches TOKENS, the work continues in a new thread, from a message that
    begins it.

    The message is written for the remaining goal: what matters for it, and the files to look at. Only the last turn of
    the old thread stays; the tool ``conversation_search`` finds passages in the rest.

    Parameters: ``tokens`` (40,000).

    Source: Amp's handoff (2025) and its tool that reads other threads. There a user hands off, names the goal and edits
    the message. Here a threshold triggers it, and the goal is the rest of the task.
    """
    parsed = parse("handoff", parameters, (Count("tokens", 40_000),))
    tools = (*ONE_FRAME[:-1], ConversationSearch, ONE_FRAME[-1])
    due = Partial(everything_due, (parsed.counts["tokens"],))
    return Summarizing(parsed.name, HANDOFF, due, summary_rules(HANDOFF), tools, "full+search")


def everything_due(trigger: int, window_tokens: int, view: Linear) -> int | None:
    """Return all exchanges, once the whole prompt reaches the trigger or four fifths of the window."""
    return len(view.past) if view.tokens >= min(trigger, window_tokens * 4 // 5) else None


def condenser(parameters: str) -> Summarizing:
    """``condenser:EVENTS``: beyond EVENTS events the model summarizes all of the history except the first and the
    newest.

    An event is the system prompt, the task, a call, or its answer. The first four stay for the whole run. Of the others
    so many stay that half of EVENTS remain, including the summary. The old events, with an earlier summary, are sent as
    text in a separate request. The same happens at four fifths of the model's window, and then half of the turns stay.

    Parameters: ``events`` (80).

    Source: OpenHands' ``LLMSummarizingCondenser`` as the software agent SDK ships it (August 2026: 80 events, the first
    4 kept). The sections of the summary are from there, the words of the request are ours.
    """
    parsed = parse("condenser", parameters, (Count("events", 80, low=14),))
    rules = summary_rules(CONDENSER, first=_KEPT_EXCHANGES)
    return Summarizing(parsed.name, CONDENSER, Partial(_events_due, (parsed.counts["events"],)), rules)


def _events_due(most: int, window_tokens: int, linear: Linear) -> int | None:
    """Return how many exchanges a summary should cover, including the first ones that stay."""
    events = _PROMPT_EVENTS + 2 * (linear.first + linear.whole) + (linear.summary is not None)
    turns = len(linear.past) - (most // 2 - _FIRST_EVENTS - 1) // 2
    if linear.tokens > window_tokens * 4 // 5:
        turns = max(turns, len(linear.past) - linear.whole // 2)
    elif events <= most:
        return None
    return turns if turns > _KEPT_EXCHANGES else None
