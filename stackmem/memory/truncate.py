"""``truncate:TOKENS``: the task and as much of the newest history as fits; the oldest turns are cut.

Once the history is longer than TOKENS it is cut to ``to`` of them, half as many where nothing is said. Cutting to the
brim would write the prompt anew at nearly every step: with s tokens a step and a history cut from T to aT, each step
pays about 1.25 s a / (1 - a) for what the cut writes again, and 0.05 (1 + a) T for what it reads.

The last turn always stays whole, however long it is. Tokens are estimated: characters / 2.5.

Parameters: ``tokens`` (8,000), ``to`` (half of them).

Source: the truncation of the oldest messages in chat frameworks.
"""

from __future__ import annotations

from .shared.linear import CHARS_PER_TOKEN, Cut, Linear, OneConversation, Rules, left_out
from .shared.parameters import Count, Partial
from .shared.parameters import parameters as parse


def _cut(most: int, to: int, conversation: Linear) -> Cut:
    """Once the history has more than ``most`` tokens, its newest ``to``; what stands above it comes on top."""
    past, dropped = conversation.past, conversation.cut.dropped
    if conversation.history <= most * CHARS_PER_TOKEN:
        return conversation.cut
    room, first = to * CHARS_PER_TOKEN, len(past) - 1
    room -= past[first].chars
    while first > dropped and past[first - 1].chars <= room:
        first -= 1
        room -= past[first].chars
    return Cut(first, first)


def truncate(parameters: str) -> OneConversation:
    chosen = parse("truncate", parameters, (Count("tokens", 8_000), Count("to", 0, low=0)))
    most, to = chosen.counts.values()
    return OneConversation(chosen.name, Rules(Partial(_cut, (most, min(to or most // 2, most))), left_out))
