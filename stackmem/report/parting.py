"""Where two runs part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.facts import (
    ClockRead,
    ContextCompacted,
    Event,
    ModelFailed,
    ModelReplied,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
)
from stackmem.core.messages import Usage
from stackmem.trace.record import Record


class Parting(Struct, frozen=True):
    """How much two runs share.

    Attributes:
        steps: Steps that both begin with.
        forked: They share the very records: one was forked from the other, or both from a third.

    """

    steps: int
    forked: bool


def parting(one: Iterable[Record], other: Iterable[Record]) -> Parting | None:
    """Where they part; None where they never do.

    Runs that share records part where they were forked. Others part, as in ``stackmem diff``, where something else
    happens: not by times, counts of tokens or the names of replies, nor by what they ran under.

    Args:
        one, other: The records of each; read twice where they share none.

    """
    steps = 0
    for shared, (first, second) in enumerate(zip_longest(one, other)):
        if first != second:
            return Parting(steps, forked=True) if shared else _unlike(_counted(one), _counted(other))
        steps += isinstance(first.event, ModelReplied)
    return None


def _unlike(one: Iterator[Event], other: Iterator[Event]) -> Parting | None:
    steps = 0
    for first, second in zip_longest(one, other):
        if first != second:
            return Parting(steps, forked=False)
        steps += isinstance(first, ModelReplied)
    return None


def _counted(records: Iterable[Record]) -> Iterator[Event]:
    """What happened, without what may differ between runs that did the same."""
    for record in records:
        match record.event:
            case RunStarted() | RunResumed() | RunForked() | RunEnded() | ClockRead():
                continue
            case ModelReplied() | ContextCompacted() as reply:
                yield replace(reply, usage=Usage(), prompt_digest="", reply_id="")
            case ModelFailed() as failure:
                yield replace(failure, prompt_digest="")
            case event:
                yield event
