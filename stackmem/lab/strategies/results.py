"""Strategies that shorten old results and keep the rest: ``mask``, ``expandable``, ``clear``, ``clear_cold``,
``memory_dir``, ``memory_files``.
"""

from __future__ import annotations

from msgspec.structs import replace

from stackmem.core.conversation.calls import Expand
from stackmem.core.memory_directory import Memory
from stackmem.core.messages import ToolResult
from stackmem.core.requests import Effect, ReadClock
from stackmem.core.state import State
from stackmem.core.text import shorten_text
from stackmem.memory.shared.linear import (
    CHARS_PER_TOKEN,
    Cut,
    Linear,
    OneConversation,
    Rules,
    freed,
    newest_whole,
    one_line,
    unmoved,
)
from stackmem.memory.shared.offers import ONE_FRAME
from stackmem.memory.shared.parameters import Count, Partial
from stackmem.memory.shared.parameters import parameters as parse

_AT_LEAST = 10  # a clearing must free at least one tenth of the trigger


def mask(parameters: str) -> OneConversation:
    """``mask:N``: the whole history, but tool outputs older than N turns are reduced to one line each.

    Calls and text stay, so the model still knows what it did, but not what it saw. Masking one more output at every
    step would write the last N turns to the cache again at every step. So ``poll`` masks only every so many steps, and
    between N and N + poll - 1 outputs are complete. ``poll=1`` is the published default, 10 is ours.

    Parameters: ``turns`` (10), ``poll`` (10).

    Source: observation masking in SWE-agent (``last_n_observations``, ``polling``); Lindenbauer et al., "The Complexity
    Trap" (2025): half the cost of raw history at equal success.
    """
    parsed = parse("mask", parameters, (Count("turns", 10), Count("poll", 10)))
    keep, poll = parsed.counts.values()
    return OneConversation(
        parsed.name, Rules(Partial(newest_whole, (keep, poll)), shorten=Partial(one_line, ("masked",)))
    )


def expandable(parameters: str) -> OneConversation:
    """``expandable:CHARS``: old results show their first CHARS characters and a number; ``expand`` shows one again.

    The last ``keep`` results are complete. As with ``mask``, results are shortened ``poll`` at a time, so that the
    provider's cache stays valid in between. An expanded result is treated like any other: it is shortened when it is
    old.

    Parameters: ``chars`` (200), ``keep`` (5), ``poll`` (5).

    Source: the loop agent, whose observations are compacted behind an index and restored on request.
    """
    parsed = parse("expandable", parameters, (Count("chars", 200), Count("keep", 5), Count("poll", 5)))
    chars, keep, poll = parsed.counts.values()
    rules = Rules(Partial(newest_whole, (keep, poll)), shorten=Partial(shorten, (chars,)))
    return OneConversation(parsed.name, rules, (*ONE_FRAME[:-1], Expand, ONE_FRAME[-1]), "expandable")


def shorten(chars: int, result: ToolResult, step: int) -> ToolResult:
    """Return the first ``chars`` characters of a result, and how to see all of it."""
    line = f"[shortened: {chars:,} of {len(result.text):,} characters; expand index {step} shows it whole]"
    return replace(result, text=shorten_text(result.text, chars, f"\n{line}"))


def clear(parameters: str) -> OneConversation:
    """``clear:TOKENS``: once the prompt reaches TOKENS, all tool results except the last ``keep`` are cleared.

    Until then it is the same as ``full``. Clearing writes everything after the first cleared result to the cache again.
    So it waits until it frees at least a tenth of the trigger. Otherwise a history that is long even without its
    results would be cleared at every step.

    Parameters: ``tokens`` (100,000), ``keep`` (3).

    Source: Anthropic's context editing, ``clear_tool_uses_20250919`` (trigger, keep, clear_at_least), done by the
    client. Tokens are estimated: characters / 2.5, of the whole prompt.
    """
    parsed = parse("clear", parameters, (Count("tokens", 100_000), Count("keep", 3)))
    return OneConversation(parsed.name, cleared(*parsed.counts.values()))


def cleared(trigger: int, keep: int) -> Rules:
    """Return rules that reduce all results except the last ``keep`` to one line each, at ``trigger`` tokens."""
    return Rules(Partial(_cut_at_trigger, (trigger, keep)), shorten=Partial(one_line, ("cleared",)))


def _cut_at_trigger(trigger: int, keep: int, conversation: Linear) -> Cut:
    short = len(conversation.past) - keep
    if conversation.tokens < trigger or short <= conversation.cut.short:
        return conversation.cut
    saved = sum(freed(conversation, number) for number in range(conversation.cut.short, short))
    worth = saved * _AT_LEAST >= trigger * CHARS_PER_TOKEN
    return Cut(0, short) if worth else conversation.cut


def memory_dir(parameters: str) -> OneConversation:
    """``memory_dir:TOKENS``: a directory of notes behind one tool; its content is shown only on request.

    The conversation is that of ``clear``, for which the directory was designed: the model writes important facts to a
    file before the results that they came from are cleared. It clears earlier than ``clear``, at 32,000 tokens, for the
    same reason.

    Parameters: ``tokens`` (32,000), ``keep`` (3).

    Source: Anthropic's memory tool (``memory_20250818``) together with its context editing.
    """
    parsed = parse("memory_dir", parameters, (Count("tokens", 32_000), Count("keep", 3)))
    tools = (*ONE_FRAME[:-1], Memory, ONE_FRAME[-1])
    return OneConversation(parsed.name, cleared(*parsed.counts.values()), tools, "memory_dir")


def memory_files(parameters: str) -> OneConversation:
    """``memory_files:TOKENS``: as ``memory_dir``, for a directory that earlier runs have filled.

    The model views the directory before anything else, and records its progress there in case it is interrupted. With
    ``--heap``, the files are still there in the next run. Without it, they last one run, as under ``memory_dir``.

    Parameters: ``tokens`` (32,000), ``keep`` (3).

    Source: the protocol that Anthropic's API adds to the prompt when the memory tool (``memory_20250818``) is used.
    """
    options = parse("memory_files", parameters, (Count("tokens", 32_000), Count("keep", 3)))
    tools = (*ONE_FRAME[:-1], Memory, ONE_FRAME[-1])
    return OneConversation(options.name, cleared(*options.counts.values()), tools, "memory_dir+earlier")


class WithClock(OneConversation, frozen=True):
    """A conversation whose rules depend on pauses."""

    def upkeep(self, state: State) -> Effect | None:
        return None if state.clock_fresh else ReadClock()


def clear_cold(parameters: str) -> WithClock:
    """``clear_cold:SECONDS``: the whole history; after a pause of SECONDS all results except the last ``keep`` are
    cleared.

    By then the provider's cache has expired and the whole prompt is written again in any case, so clearing costs
    nothing extra. Without such a pause it is the same as ``full``. The run's clock is read before each request.

    Parameters: ``seconds`` (3,600), ``keep`` (5).

    Source: the time-based microcompaction of Claude Code (an hour, the 5 newest results kept), according to third-party
    descriptions. Claude Code clears only results of its reading and running tools; here all results are cleared.
    """
    parsed = parse("clear_cold", parameters, (Count("seconds", 3_600), Count("keep", 5)))
    pause = Partial(_cut_after_pause, tuple(parsed.counts.values()))
    return WithClock(parsed.name, Rules(unmoved, shorten=Partial(one_line, ("cleared",)), pause=pause))


def _cut_after_pause(min_seconds: int, keep: int, linear: Linear, seconds: float) -> Cut:
    short = len(linear.past) - keep
    return Cut(0, short) if seconds >= min_seconds and short > linear.cut.short else linear.cut
