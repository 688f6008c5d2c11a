"""Old results are shortened, the rest stays: ``mask``, ``expandable``, ``clear``, ``clear_cold``, ``memory_dir``."""

from __future__ import annotations

from msgspec.structs import replace

from stackmem.core.messages import ToolResult
from stackmem.core.requests import Effect, ReadClock
from stackmem.core.state import State
from stackmem.core.text import shorten_text
from stackmem.core.tools import Expand, Memory

from .shared.linear import (
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
from .shared.offers import ONE_FRAME
from .shared.parameters import Count, Partial
from .shared.parameters import parameters as parse

_AT_LEAST = 10  # the part of the trigger that a clearing frees: one tenth


def mask(parameters: str) -> OneConversation:
    """``mask:N``: the whole history, but tool outputs older than N turns are one line each.

    Calls and what was said stay, so the model still knows what it did, not what it saw. Masking one more output at
    every step writes the last N turns anew at every step; ``poll`` masks only every so many steps and shows between N
    and N + poll - 1 outputs whole. ``poll=1`` is the published default, 10 is ours.

    Parameters: ``turns`` (10), ``poll`` (10).

    Source: observation masking in SWE-agent (``last_n_observations``, ``polling``); Lindenbauer et al., "The Complexity
    Trap" (2025): half the cost of raw history at equal success.
    """
    chosen = parse("mask", parameters, (Count("turns", 10), Count("poll", 10)))
    keep, poll = chosen.counts.values()
    return OneConversation(
        chosen.name, Rules(Partial(newest_whole, (keep, poll)), shorten=Partial(one_line, ("masked",)))
    )


def expandable(parameters: str) -> OneConversation:
    """``expandable:CHARS``: old results are shown by their first CHARS characters and a number; ``expand`` shows one
    again.

    The last ``keep`` results are whole. As with ``mask``, results are shortened ``poll`` at a time, so that the
    provider's cache is left alone in between. An expanded result is a result like others: it is shortened when it is
    old.

    Parameters: ``chars`` (200), ``keep`` (5), ``poll`` (5).

    Source: the loop agent, whose observations are compacted behind an index and restored on request.
    """
    chosen = parse("expandable", parameters, (Count("chars", 200), Count("keep", 5), Count("poll", 5)))
    chars, keep, poll = chosen.counts.values()
    rules = Rules(Partial(newest_whole, (keep, poll)), shorten=Partial(shorten, (chars,)))
    return OneConversation(chosen.name, rules, (*ONE_FRAME[:-1], Expand, ONE_FRAME[-1]), "expandable")


def shorten(chars: int, result: ToolResult, step: int) -> ToolResult:
    """The first ``chars`` characters of a result, and how to have it whole."""
    line = f"[shortened: {chars:,} of {len(result.text):,} characters; expand index {step} shows it whole]"
    return replace(result, text=shorten_text(result.text, chars, f"\n{line}"))


def clear(parameters: str) -> OneConversation:
    """``clear:TOKENS``: once the prompt reaches TOKENS, all tool results but the last ``keep`` are cleared.

    Until the trigger it is ``full``. A clearing is one new writing of what follows the first cleared result; it waits
    until it frees at least a tenth of the trigger, so that a history which is long without its results is not cleared
    again at every step.

    Parameters: ``tokens`` (100,000), ``keep`` (3).

    Source: Anthropic's context editing, ``clear_tool_uses_20250919`` (trigger, keep, clear_at_least), done by the
    client. Tokens are estimated: characters / 2.5, of the whole prompt.
    """
    chosen = parse("clear", parameters, (Count("tokens", 100_000), Count("keep", 3)))
    return OneConversation(chosen.name, cleared(*chosen.counts.values()))


def cleared(trigger: int, keep: int) -> Rules:
    """All results but the last ``keep`` are a line each, once the whole prompt has ``trigger`` tokens."""
    return Rules(Partial(_cut_at_trigger, (trigger, keep)), shorten=Partial(one_line, ("cleared",)))


def _cut_at_trigger(trigger: int, keep: int, conversation: Linear) -> Cut:
    short = len(conversation.past) - keep
    if conversation.tokens < trigger or short <= conversation.cut.short:
        return conversation.cut
    saved = sum(freed(conversation, number) for number in range(conversation.cut.short, short))
    worth = saved * _AT_LEAST >= trigger * CHARS_PER_TOKEN
    return Cut(0, short) if worth else conversation.cut


def memory_dir(parameters: str) -> OneConversation:
    """``memory_dir:TOKENS``: a directory of notes behind one tool; nothing of it is shown until it is viewed.

    The conversation is that of ``clear``, for which the directory was made: what matters is written to a file before
    the results it came from are cleared. It clears earlier than ``clear`` does, at 32,000 tokens, for the same reason.

    Parameters: ``tokens`` (32,000), ``keep`` (3).

    Source: Anthropic's memory tool (``memory_20250818``) together with its context editing.
    """
    chosen = parse("memory_dir", parameters, (Count("tokens", 32_000), Count("keep", 3)))
    tools = (*ONE_FRAME[:-1], Memory, ONE_FRAME[-1])
    return OneConversation(chosen.name, cleared(*chosen.counts.values()), tools, "memory_dir")


class WithClock(OneConversation, frozen=True):
    """A conversation whose rules look at pauses."""

    def upkeep(self, state: State) -> Effect | None:
        return None if state.clock_fresh else ReadClock()


def clear_cold(parameters: str) -> WithClock:
    """``clear_cold:SECONDS``: the whole history; after a pause of SECONDS all results but the last ``keep`` are
    cleared.

    What the provider's cache held is gone by then, so that the prompt is written anew in any case, and clearing costs
    nothing more. Without such a pause it is ``full``. The run's clock is read before each request.

    Parameters: ``seconds`` (3,600), ``keep`` (5).

    Source: the time-based microcompaction of Claude Code (an hour, the 5 newest results kept), as others describe it.
    There it looks at the results of its own reading and running tools; here at all.
    """
    chosen = parse("clear_cold", parameters, (Count("seconds", 3_600), Count("keep", 5)))
    pause = Partial(_cut_after_pause, tuple(chosen.counts.values()))
    return WithClock(chosen.name, Rules(unmoved, shorten=Partial(one_line, ("cleared",)), pause=pause))


def _cut_after_pause(least: int, keep: int, shown: Linear, seconds: float) -> Cut:
    short = len(shown.past) - keep
    return Cut(0, short) if seconds >= least and short > shown.cut.short else shown.cut
