"""Plays one parallel frame: a run forked from the parent's at the push, which ends when its frame pops.

Rule 1: The run's name follows from the parent's and the frame's id, so a resumed parent finds what was begun.
Rule 2: A run that has ended is read, one that has begun is resumed, and one without a first record starts again.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core.errors import TraceError, UsageError, WorkspaceError
from stackmem.core.facts import RunForked
from stackmem.core.frames import partial_result
from stackmem.core.heap import Heap
from stackmem.core.limits import RUN_LIMITS
from stackmem.core.parallel.facts import FrameReturned, FramesPushed, ReturnedChunk
from stackmem.core.parallel.rules import RESUMABLE, child_end, share_of
from stackmem.core.state import Result, State
from stackmem.trace.lineage import RunReader, begun_by
from stackmem.trace.moments import StepMoment
from stackmem.trace.open_run import Run
from stackmem.trace.walk import state_after
from stackmem.workspace.tree import remove_tree

from ..fork import ForkChanges, forked_plan, forked_start
from ..interrupts import Interrupts
from ..open import open_run
from ..opened import Opened, Person
from ..play import Play
from ..repeats import MayRepeat
from ..resume import resume


class ChildRun(Struct, frozen=True):
    """A parallel frame to play."""

    parent: Opened  # the parent's open run. Its trace and its settings are only read
    state: State  # the parent's state when it started the frames
    frame: str  # id of the frame

    @property
    def run_dir(self) -> Path:
        run = self.parent.places.run
        return run.parent / f"{run.name}.{self.frame}"

    def play(self, play: Play, person: Person, interrupts: Interrupts) -> FrameReturned:
        """Play the frame to its end, and return what the parent records of it.

        Raises:
            WorkspaceError: Its workspace cannot be created.
            MayRepeat: A call may have been made already, and the user has not allowed repeating it.
            TraceError: Its trace is broken, or cannot be written.
            KeyboardInterrupt: It was cancelled before its first record.
        """
        moment, count = self._moment()
        try:
            if not self._has_begun(moment):
                self._start(moment, count, (play, person, interrupts))
            else:
                self._resume(moment, count, (person, interrupts))
        except MayRepeat:
            raise
        except UsageError as error:  # the parent's run stops and can be resumed
            raise WorkspaceError(f"the frame {self.frame} cannot run: {error}") from error
        return returned_by(self.run_dir, self.frame)

    def _moment(self) -> tuple[StepMoment, int]:
        """Return the state at the push, and the number of frames pushed together."""
        state, latest = State(), None
        reader = RunReader(self.parent.places.run)
        for record in reader:
            before, state = state, state_after(state, record)
            if isinstance(record.event, FramesPushed):
                moment = StepMoment(state.step, before, record, (), state, record.seq, reader.digest)
                latest = moment, len(record.event.frames)
        if latest is None:
            raise TraceError(f"the trace of {self.parent.places.run.name} has no parallel frames; restore it")
        return latest

    def _has_begun(self, moment: StepMoment) -> bool:
        """Return whether the run has a first record. Remove what a killed process left without one."""
        try:
            fork = begun_by(self.run_dir)
        except TraceError:
            fork = None
        if fork is None:
            remove_tree(self.run_dir)
            remove_tree(self._scratch)
            return False
        if (fork.frame, fork.digest) != (self.frame, moment.digest):
            raise TraceError(
                f"the run {self.run_dir.name} is not the frame {self.frame} of this run; move it somewhere else"
            )
        return True

    @property
    def _scratch(self) -> Path:
        return self.parent.places.scratch.parent / self.run_dir.name

    def _start(self, moment: StepMoment, count: int, how: tuple[Play, Person, Interrupts]) -> None:
        play, person, interrupts = how
        parent = Run(self.parent.places.run)
        changes = ForkChanges(isolation=self.parent.workspace.level)
        plan = forked_plan(parent, moment, changes, self.parent.environ, self.run_dir.name)
        with open_run(plan, self.parent.environ, interrupts, person) as opened:
            with interrupts.setting_up("frame", opened.places.scratch):
                start = forked_start(moment, changes, plan, opened)
            limits = share_of(replace(moment.settled, limits=self.state.limits), count)
            start = replace(start, checked=False, limits=limits)
            first = RunForked(parent.id, moment.at, moment.digest, start, frame=self.frame)
            play(first, moment.settled, opened)

    def _resume(self, moment: StepMoment, count: int, how: tuple[Person, Interrupts]) -> None:
        person, interrupts = how
        limits = share_of(replace(moment.settled, limits=self.state.limits), count)
        amounts = {limit.setting: getattr(limits, limit.field) for limit in RUN_LIMITS}
        changes = {name: "none" if amount is None else f"{amount:.12g}" for name, amount in amounts.items()}
        changes["isolation"] = self.parent.workspace.level
        if self.parent.repeats:
            changes["yes"] = ""
        resume(self.run_dir, changes, self.parent.environ, person.observe, person=person, interrupts=interrupts)


def returned_by(run_dir: Path, frame: str) -> FrameReturned:
    """Read what a parallel frame returned from its run.

    Raise TraceError if the run has not ended, or its trace is broken.
    """
    reader = RunReader(run_dir)
    before, state = State(), State()
    for record in reader:
        if isinstance(record.event, RunForked) and record.event.frame is not UNSET:
            before = state
        state = state_after(state, record)
    if state.end is None:
        raise TraceError(f"the run {run_dir.name} has not ended; resume it")
    chunks, freed = _changed_chunks(before.heap, state.heap)
    return FrameReturned(
        frame=frame,
        run=run_dir.name,
        digest=reader.digest,
        ending=state.end.ending,
        text=_text(state),
        tree=state.tree,
        steps=state.step - before.step,
        usage=state.usage.without(before.usage),
        usd=state.usd - before.usd,
        unpriced=state.unpriced - before.unpriced,
        chunks=chunks,
        freed=freed,
    )


def _text(state: State) -> str:
    """Return what the parent reads: the result as after any pop, or what the frame had when it stopped."""
    end, name = state.end, state.parallel.name
    if end is None:
        return ""
    last = state.running.turns[-1] if state.stack and len(state.running.turns) else None
    if child_end(state) is not None and isinstance(last, Result):
        return last.text
    if end.ending in RESUMABLE:
        return end.result
    own = [frame.id for frame in state.stack].index(state.parallel.child)
    partial = partial_result(replace(state, stack=state.stack[own:]))
    return f"frame {name!r} ended early ({end.ending}), and may not be done:\n{partial}"


def _changed_chunks(before: Heap, after: Heap) -> tuple[tuple[ReturnedChunk, ...], tuple[str, ...]]:
    """Return the chunks that a frame stored or replaced, and the names of those that it freed."""

    def content(heap: Heap, name: str) -> ReturnedChunk | None:
        chunk = heap.chunks.get(name)
        if chunk is None or chunk.skill:
            return None
        return ReturnedChunk(name, chunk.content, chunk.description, chunk.source, chunk.digest)

    now = [chunk for name in after.chunks if (chunk := content(after, name)) is not None]
    changed = tuple(chunk for chunk in now if content(before, chunk.name) != chunk)
    return changed, tuple(name for name in before.stored if name not in after.chunks)
