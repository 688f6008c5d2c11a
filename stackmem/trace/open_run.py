"""Access to a run from Python. Everything is read on demand from its folder; no model is called and no command runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from stackmem.core.errors import TraceError
from stackmem.core.facts import RunStarted
from stackmem.core.heap import Heap
from stackmem.core.messages import View
from stackmem.core.state import State
from stackmem.core.strict_json import decode_json
from stackmem.foreign.files import read_regular

from .lineage import HISTORY, RunReader
from .moments import StepMoment, moments, no_step, prompt_of, rendered
from .program import completion_of
from .snapshot import Snapshot
from .steps import FrameSpan, Step, frame_spans, steps, total_usd
from .walk import state_after

_MOMENTS_KEPT = 32  # a viewer moves a few steps back and forth; each kept state shares most of its data with the next


class Run:
    """One run, including the runs it was forked from.

    ``records``, ``steps``, ``frames`` and ``cost`` read the trace in one pass with one step in memory at a time, so its
    size does not matter. Methods that take a step fold the trace up to it and continue from there for later steps; for
    an earlier step they start again.

    Attributes:
        folder: The run's folder.
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
        """Return a reader of the records in order, starting with those shared with a parent. Each iteration reads
        again.

        Raises:
            TraceError: During the iteration, if a line is broken, or a parent is missing or has changed.
        """
        return RunReader(self.folder)

    @cached_property
    def start(self) -> RunStarted:
        """The start of the run; for a fork, that of its oldest ancestor."""
        for record in self.records():
            if isinstance(record.event, RunStarted):
                return record.event
            break
        raise TraceError("the first record is not RunStarted, so this is not the trace of a run")

    @property
    def result(self) -> dict[str, Any] | None:
        """The output of ``--json`` at the end of the run, without reading the trace. None if the run has not ended.

        Raises:
            TraceError: The result file is invalid.
        """
        path = self.folder / "result.json"
        try:
            return decode_json(read_regular(path), dict[str, Any])
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise TraceError(
                f"{path} cannot be read ({error}); the trace next to it contains the same data and more"
            ) from error

    @property
    def steps(self) -> Iterator[Step]:
        """The steps, read on demand."""
        return steps(self.records())

    @property
    def frames(self) -> tuple[FrameSpan, ...]:
        """Every frame in the order of the pushes, the root first."""
        return frame_spans(self.records())

    @property
    def cost(self) -> float | None:
        """USD of all replies at the recorded prices. None if a price is unknown."""
        return total_usd(self.records())

    @property
    def state(self) -> State:
        """The state after the last record."""
        state = State()
        for record in self.records():
            state = state_after(state, record)
        return state

    def moment(self, step: int) -> StepMoment:
        """Return a step with the states around it; 0 is the start.

        Raises:
            UsageError: The step does not exist.
            TraceError: The trace is broken before the end of the step.
        """
        if step in self._kept:
            self._kept.move_to_end(step)
            return self._kept[step]
        if step <= self._reached or self._reached < 0:
            self._unread, self._reached = moments(self.records()), -1
        for moment in self._unread:
            self._reached = moment.step
            self._kept[moment.step] = moment
            # within the loop: a jump over thousands of steps must not keep all of them
            while len(self._kept) > _MOMENTS_KEPT:
                self._kept.popitem(last=False)
            if moment.step == step:
                return moment
        last, self._reached = self._reached, -1
        raise no_step(self.id, step, max(last, 0))

    def state_at(self, step: int) -> State:
        """Return the state after the step's call was answered, where a fork at that step starts. Raises like
        ``moment``.
        """
        return self.moment(step).settled

    def heap_at(self, step: int) -> Heap:
        """Return the heap after the step's call was answered. Raises like ``moment``."""
        return self.moment(step).settled.heap

    def prompt(self, step: int) -> View:
        """Return the exact prompt that the step's reply answers.

        Raises:
            UsageError: The step does not exist, or is 0 and has no prompt, or the run was imported.
            TraceError: The trace is broken before the end of the step, or its strategy is not installed.
            RulesDiffer: Today's code renders a different prompt from the one that was sent.
        """
        moment = self.moment(step)
        return prompt_of(moment, self.rendered(moment))

    def rendered(self, moment: StepMoment) -> View:
        """Return the prompt of a step as today's code renders it; for a completion, as its program requests it.

        Raises:
            UsageError: Step 0 has no prompt.
            TraceError: The strategy or the language is unknown, or the records do not lead to a prompt there.
        """
        state = moment.before
        if state.program is not None and state.stack and state.running.program == "steps":
            return completion_of(self.folder, self.records(), moment.record.seq)
        return rendered(moment)

    def files_at(self, step: int) -> Snapshot:
        """Return the workspace's files after the step's call was answered. Raises like ``moment``.

        Each file is read on access, which raises ``TraceError`` if the run's history lacks it.
        """
        return self.snapshot(self.moment(step).settled)

    def snapshot(self, state: State) -> Snapshot:
        """Return the workspace's files in one of the run's states."""
        return Snapshot(self.folder / HISTORY, state.tree)
