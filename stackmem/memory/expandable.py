"""``expandable:CHARS``: old results are shown by their first CHARS characters and a number; ``expand`` shows one again.

The last ``keep`` results are whole. As with ``mask``, results are shortened ``poll`` at a time, so that the provider's
cache is left alone in between. An expanded result is a result like others: it is shortened when it is old.

Parameters: ``chars`` (200), ``keep`` (5), ``poll`` (5).

Source: the loop agent, whose observations are compacted behind an index and restored on request.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.messages import ToolResult
from stackmem.core.text import shortened
from stackmem.core.tools import Expand

from .shared.linear import Cut, Linear, OneConversation
from .shared.offers import ONE_FRAME
from .shared.parameters import Count
from .shared.parameters import parameters as parse


class Expandable(Struct, frozen=True):
    """Attributes:
    chars: Characters that stay of an old result.
    keep: Results that are whole at least.
    poll: Steps between two shortenings.
    """

    chars: int = 200
    keep: int = 5
    poll: int = 5

    def cut(self, conversation: Linear) -> Cut:
        if conversation.whole < self.keep + self.poll:
            return conversation.cut
        return Cut(0, len(conversation.past) - self.keep)

    def head(self, conversation: Linear) -> str:
        return ""

    def shorten(self, result: ToolResult, step: int) -> ToolResult:
        line = f"[shortened: {self.chars:,} of {len(result.text):,} characters; expand index {step} shows it whole]"
        return replace(result, text=shortened(result.text, self.chars, f"\n{line}"))


def expandable(parameters: str) -> OneConversation:
    chosen = parse("expandable", parameters, (Count("chars", 200), Count("keep", 5), Count("poll", 5)))
    return OneConversation(
        chosen.name,
        Expandable(chosen.counts["chars"], chosen.counts["keep"], chosen.counts["poll"]),
        (*ONE_FRAME[:-1], Expand, ONE_FRAME[-1]),
        "expandable",
    )
