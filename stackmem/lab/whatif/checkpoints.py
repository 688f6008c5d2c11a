"""Leaves the checkpoints of a recorded run out under strategies that do not have them.

Rule 1: An attempt that was answered with a checkpoint is left out with its answer and its failed requests. The second
    attempt stays, and so does everything that the model did in between.
Rule 2: The other records stay as they are, with their times. The steps after a left-out attempt have lower numbers.
Rule 3: The trace does not say whether checkpoints were the default. If the recorded strategy has them by default with
    its model, each strategy has its own default. Otherwise every strategy with frames has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from stackmem.core.facts import CallRejected, ContextCompacted, ModelFailed, ModelReplied, RunStarted
from stackmem.core.guidance.checkpoints import CODE
from stackmem.core.strategy import MemoryStrategy
from stackmem.core.tools import tools_that
from stackmem.memory import open_strategy
from stackmem.review.measure.moments import Moment, moments
from stackmem.run.models import checkpoints_of

Answering = Literal["on", "pops"] | UnsetType
"""Which attempts are answered: pushes and pops, only pops, or none. As in ``RunStarted.checkpoints``."""

_STARTING = tools_that(lambda behavior: behavior.frame == "starts")


def answering_under(start: RunStarted, strategy: MemoryStrategy) -> Answering:
    """Return which attempts of the recorded run would be answered under another strategy."""
    if start.checkpoints is UNSET:
        return UNSET
    default = checkpoints_of("auto", open_strategy(start.strategy), start.model)
    return checkpoints_of("on" if default is UNSET else "auto", strategy, start.model)


def without_checkpoints(run: tuple[Moment, ...], answering: Answering) -> tuple[Moment, ...]:
    """Return the run without the checkpoints that it would not have. If there are none, the same object."""
    left_out = _left_out(run, answering)
    if not left_out:
        return run
    staying = [moment for moment in run if moment.seq not in left_out]
    evolved = moments((moment.at, moment.event) for moment in staying)
    return tuple(replace(old, before=new.before, after=new.after) for old, new in zip(staying, evolved, strict=True))


def _left_out(run: Sequence[Moment], answering: Answering) -> set[int]:
    """Return the numbers of the records of answered attempts."""
    numbers, failed, attempt = set[int](), list[int](), list[int]()
    for moment in run:
        match moment.event:
            case ModelFailed():
                failed.append(moment.seq)
            case ContextCompacted():
                failed = []
            case ModelReplied():
                attempt, failed = [*failed, moment.seq], []
            case CallRejected(code=code) if code == CODE and not _is_answered(moment, answering):
                numbers.update((*attempt, moment.seq))
    return numbers


def _is_answered(moment: Moment, answering: Answering) -> bool:
    pending = moment.before.pending
    starts = pending is not None and pending.calls[0].name in _STARTING
    return answering == "on" or (answering == "pops" and not starts)
