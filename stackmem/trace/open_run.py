"""A run as Python sees it: read when asked, from its folder alone; no model is asked and no command runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from stackmem.core.facts import RunStarted
from stackmem.core.heap import Heap
from stackmem.core.messages import View
from stackmem.core.state import State
from stackmem.core.strict_json import decode_json
from stackmem.errors import TraceError
from stackmem.foreign.files import read_regular

from .lineage import HISTORY, RunReader
from .moments import StepMoment, moments, no_step, prompt_of, rendered
from .program import completion_of
from .snapshot import Snapshot
from .steps import FrameSpan, Step, frame_spans, steps, total_usd
from .walk import state_after

_MOMENTS_KEPT = 32


class Run:
    """One run, with those it was forked from.

    ``records``, ``steps``, ``frames`` and ``cost`` read the trace in one pass and hold one step of it at a time, so
    its size does not matter. What is asked of a step folds the trace up to there, and goes on from there when a later
    step is asked for; going back starts again.

    Attributes:
        folder: Where it is kept.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._unread: Iterator[StepMoment] = iter(())
        self._reached = -1
        self._kept: OrderedDict[int, StepMoment] = OrderedDict()

    @property
    def id(self) -> str:
        return self.folder.resolve().name

    def records(self) -> RunReader:
        """The records in order, those shared with a parent first; each iteration reads the files again.

        Raises:
            TraceError: While it is read: a line is broken, or a parent is missing or has changed.
        """
        return RunReader(self.folder)

    @cached_property
    def start(self) -> RunStarted:
        """How the run began; of a fork, how its oldest ancestor did."""
        for record in self.records():
            if isinstance(record.event, RunStarted):
                return record.event
            break
        raise TraceError("the first record is not RunStarted; this is no trace of a run")

    @property
    def result(self) -> dict[str, Any] | None:
        """What ``--json`` printed when the run ended, without a look at the trace; None while it has not ended.

        Raises:
            TraceError: The file is no result.
        """
        path = self.folder / "result.json"
        try:
            return decode_json(read_regular(path), dict[str, Any])
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise TraceError(f"{path} cannot be read ({error}); the trace beside it holds the same and more") from error

    @property
    def steps(self) -> Iterator[Step]:
        """Every step, read as it is asked for."""
        return steps(self.records())

    @property
    def frames(self) -> tuple[FrameSpan, ...]:
        """Every frame in the order of the pushes, the root first."""
        return frame_spans(self.records())

    @property
    def cost(self) -> float | None:
        """USD of all replies by the prices recorded; None where a price is unknown."""
        return total_usd(self.records())

    @property
    def state(self) -> State:
        """The state after the last record."""
        state = State()
        for record in self.records():
            state = state_after(state, record)
        return state

    def moment(self, step: int) -> StepMoment:
        """A step with the states around it; 0 is the start.

        Raises:
            UsageError: There is no such step.
            TraceError: The trace is broken up to there.
        """
        if step in self._kept:
            self._kept.move_to_end(step)
            return self._kept[step]
        if step <= self._reached or self._reached < 0:
            self._unread, self._reached = moments(self.records()), -1
        for moment in self._unread:
            self._reached = moment.step
            self._kept[moment.step] = moment
            while len(self._kept) > _MOMENTS_KEPT:
                self._kept.popitem(last=False)
            if moment.step == step:
                return moment
        last, self._reached = self._reached, -1
        raise no_step(self.id, step, max(last, 0))

    def state_at(self, step: int) -> State:
        """The state once the step's call was answered, where a fork at that step begins; raises as ``moment`` does."""
        return self.moment(step).settled

    def heap_at(self, step: int) -> Heap:
        """The heap once the step's call was answered; raises as ``moment`` does."""
        return self.moment(step).settled.heap

    def prompt(self, step: int) -> View:
        """The exact prompt that the step's reply answers.

        Raises:
            UsageError: There is no such step, or it is 0, which has none; or the run was imported.
            TraceError: The trace is broken up to there, or its strategy is not installed.
            RulesDiffer: Today another prompt is rendered than the one that was sent.
        """
        moment = self.moment(step)
        return prompt_of(moment, self.rendered(moment))

    def rendered(self, moment: StepMoment) -> View:
        """The prompt of a step as today's code renders it; of a completion, as its program asks for it.

        Raises:
            UsageError: Step 0 has no prompt.
            TraceError: The strategy or the language is unknown here, or the records allow no prompt there.
        """
        asked = moment.asked
        if asked.program is not None and asked.stack and asked.running.program == "steps":
            return completion_of(self.folder, self.records(), moment.record.seq)
        return rendered(moment)

    def files_at(self, step: int) -> Snapshot:
        """The workspace's files once the step's call was answered; raises as ``moment`` does.

        A file is read when it is asked for: ``TraceError`` where the run's history lacks it.
        """
        return self.snapshot(self.moment(step).settled)

    def snapshot(self, state: State) -> Snapshot:
        """The workspace's files in one of the run's states."""
        return Snapshot(self.folder / HISTORY, state.tree)
