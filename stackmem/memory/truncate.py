"""``truncate:TOKENS``: the task and as much of the newest history as fits; the oldest turns are cut.

Once the history is longer than TOKENS it is cut to ``to`` of them, half as many where nothing is said. Cutting to the
brim would write the prompt anew at nearly every step: with s tokens a step and a history cut from T to aT, each step
pays about 1.25 s a / (1 - a) for what the cut writes again, and 0.05 (1 + a) T for what it reads.

The last turn always stays whole, however long it is. Tokens are estimated: characters / 2.5.

Parameters: ``tokens`` (8,000), ``to`` (half of them).

Source: the truncation of the oldest messages in chat frameworks.
"""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.messages import ToolResult

from .shared.linear import CHARS_PER_TOKEN, Cut, Linear, OneConversation
from .shared.parameters import Count
from .shared.parameters import parameters as parse
from .window import left_out


class Truncate(Struct, frozen=True):
    """Attributes:
    most: Tokens of history that are shown at most; the system prompt, the tools and the task come on top.
    to: Tokens of history that a cut leaves.
    """

    most: int = 8_000
    to: int = 4_000

    def cut(self, conversation: Linear) -> Cut:
        past, dropped = conversation.past, conversation.cut.dropped
        if conversation.history <= self.most * CHARS_PER_TOKEN:
            return conversation.cut
        room, first = self.to * CHARS_PER_TOKEN, len(past) - 1
        room -= past[first].chars
        while first > dropped and past[first - 1].chars <= room:
            first -= 1
            room -= past[first].chars
        return Cut(first, first)

    def head(self, conversation: Linear) -> str:
        return left_out(conversation)

    def shorten(self, result: ToolResult, step: int) -> ToolResult:
        return result


def truncate(parameters: str) -> OneConversation:
    chosen = parse("truncate", parameters, (Count("tokens", 8_000), Count("to", 0, low=0)))
    most, to = chosen.counts["tokens"], chosen.counts["to"]
    return OneConversation(chosen.name, Truncate(most, min(to or most // 2, most)))
