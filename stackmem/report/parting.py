"""Where two runs part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from msgspec.structs import replace

from stackmem.core.events import (
    ClockRead,
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


def shared_steps(one: Iterable[Record], other: Iterable[Record]) -> int | None:
    """Steps that both begin with; None where they never part.

    As in ``stackmem diff``, two runs are not parted by times, counts of tokens or the names of replies, nor by what
    they ran under or how often they were resumed, until something else comes of it.
    """
    steps = 0
    for first, second in zip_longest(_counted(one), _counted(other)):
        if first != second:
            return steps
        steps += isinstance(first, ModelReplied)
    return None


def _counted(records: Iterable[Record]) -> Iterator[Event]:
    for record in records:
        match record.event:
            case RunStarted() | RunResumed() | RunForked() | RunEnded() | ClockRead():
                continue
            case ModelReplied() as reply:
                yield replace(reply, usage=Usage(), prompt_digest="", reply_id="")
            case ModelFailed() as failure:
                yield replace(failure, prompt_digest="")
            case event:
                yield event
