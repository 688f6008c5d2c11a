"""Reads a stopped run back: verifies every record and rebuilds the state from the records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from stackmem.core.decider import AgentDecider, ProgramUnderWay, Watcher
from stackmem.core.errors import RulesDiffer, TraceError
from stackmem.core.facts import RULES, ModelReplied, RunEnded, RunForked, RunResumed, RunStarted
from stackmem.core.state import State
from stackmem.foreign.files import open_regular
from stackmem.trace.lineage import RunReader
from stackmem.trace.program import sources_of
from stackmem.trace.record import Record
from stackmem.trace.store import End
from stackmem.trace.verify import verify
from stackmem.workspace.secrets import Scrubber

from .result import TraceEnd, holds_secret
from .run_folder import TRACE


class Stopped(Struct, frozen=True):
    """State of a stopped run."""

    state: State
    end: End
    torn_bytes: int  # length of an incomplete last record, which is not part of the run
    isolation: str  # the isolation level that was last used
    seconds: float  # wall time so far: the last clock reading, or the time between records while the run was active
    # time of the last decision, in seconds since 1970; files older than this cannot be effects of the pending call
    asked_at: float
    steps_with_secrets: tuple[int, ...]  # steps whose reply contains a secret
    program: ProgramUnderWay | None = None  # the interpreter's state, for a program run
    agent: AgentDecider | None = None  # the agent with the programs that it called, for every other run


class _Records:
    """Collects facts about the records that the state does not contain."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._last = 0.0
        self._steps = 0
        self.isolation = ""
        self.seconds = 0.0
        self.asked_at = 0.0
        self.secrets: list[int] = []

    def watch(self, records: Iterator[Record]) -> Iterator[Record]:
        for record in records:
            event = record.event
            match event:
                case RunStarted() | RunResumed():
                    self.isolation = event.isolation
                case RunForked():
                    self.isolation = event.start.isolation
                case ModelReplied():
                    self._steps += 1
                    if holds_secret(event, self._scrubber):
                        self.secrets.append(self._steps)
            if not isinstance(event, RunStarted | RunResumed | RunForked):
                self.seconds += max(0.0, record.at - self._last)
            if not isinstance(event, RunEnded | RunResumed):
                self.asked_at = record.at
            self._last = record.at
            yield record


def _seconds(state: State, passed: float) -> float:
    """Return the wall time so far, or at least the limit if the time limit ended the run."""
    read = state.seconds or round(passed, 3)
    timed_out = state.end is not None and state.end.ending == "limit:seconds"
    return max(read, state.limits.seconds or 0.0) if timed_out else read


def read_stopped(run_dir: Path, scrubber: Scrubber, watch: Watcher | None = None) -> Stopped:
    """Read and verify a run. ``watch`` is called for the lines of a program.

    The caller must hold the run's lock so that no other process writes to it. Raise TraceError if a line is broken or
    missing, or the trace is not that of a run. Raise RulesDiffer if the run was made under other rules, or today's
    rules derive something else.
    """
    seen = _Records(scrubber)
    reader = RunReader(run_dir)
    end = TraceEnd(run_dir)
    result = verify(seen.watch(end.passing(reader)), sources_of(run_dir), watch)
    rules = result.state.begun.rules
    if not result.same_rules:
        raise RulesDiffer(
            f"the run was recorded under rules {rules}, but this version has rules {RULES}, so its next prompt "
            "would differ; resume it with the version that recorded it"
        )
    end.refuse_other(result.state)
    try:
        with open_regular(run_dir / TRACE) as file:
            size = file.seek(0, 2) - reader.torn_bytes
            file.seek(size - 1)
            terminated = file.read(1) == b"\n"
    except OSError as error:
        raise TraceError(f"the trace {run_dir / TRACE} cannot be read: {error.strerror}") from error
    return Stopped(
        state=result.state,
        end=End(result.events, reader.digest, size, terminated),
        torn_bytes=reader.torn_bytes,
        isolation=seen.isolation,
        seconds=_seconds(result.state, seen.seconds),
        asked_at=seen.asked_at,
        steps_with_secrets=tuple(seen.secrets),
        program=result.program,
        agent=result.agent,
    )
