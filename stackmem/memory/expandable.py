"""``expandable:CHARS``: old results are shown by their first CHARS characters and a number; ``expand`` shows one again.

The last ``keep`` results are whole. As with ``mask``, results are shortened ``poll`` at a time, so that the provider's
cache is left alone in between. An expanded result is a result like others: it is shortened when it is old.

Parameters: ``chars`` (200), ``keep`` (5), ``poll`` (5).

Source: the loop agent, whose observations are compacted behind an index and restored on request.
"""

from __future__ import annotations

from msgspec.structs import replace

from stackmem.core.messages import ToolResult
from stackmem.core.text import shorten_text
from stackmem.core.tools import Expand

from .shared.linear import OneConversation, Rules, newest_whole
from .shared.offers import ONE_FRAME
from .shared.parameters import Count, Partial
from .shared.parameters import parameters as parse


def shorten(chars: int, result: ToolResult, step: int) -> ToolResult:
    """The first ``chars`` characters of a result, and how to have it whole."""
    line = f"[shortened: {chars:,} of {len(result.text):,} characters; expand index {step} shows it whole]"
    return replace(result, text=shorten_text(result.text, chars, f"\n{line}"))


def expandable(parameters: str) -> OneConversation:
    chosen = parse("expandable", parameters, (Count("chars", 200), Count("keep", 5), Count("poll", 5)))
    chars, keep, poll = chosen.counts.values()
    rules = Rules(Partial(newest_whole, (keep, poll)), shorten=Partial(shorten, (chars,)))
    return OneConversation(chosen.name, rules, (*ONE_FRAME[:-1], Expand, ONE_FRAME[-1]), "expandable")
