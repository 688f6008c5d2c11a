"""Steps through the lines of a recorded run, in both directions, by running the interpreter over its record."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from stackmem.core.errors import TraceError, UsageError
from stackmem.core.program_facts import Note, ProgramStarted
from stackmem.core.state import State
from stackmem.languages.debugger import DebugMoment
from stackmem.languages.running.prepare import read_program
from stackmem.run.stored_request import read_request
from stackmem.trace.open_run import Run
from stackmem.trace.program import sources_of
from stackmem.trace.walk import RecordWalk

Stops = Callable[[DebugMoment], str]
"""Returns the reason to stop at a moment; empty to continue."""


class RecordedMoments:
    """A position in a recorded run. Going back replays the run from its beginning.

    Attributes:
        moment, state: The current position.
    """

    def __init__(self, folder: Path) -> None:
        """Start at the first moment.

        Raise UsageError if it is not a program's run, or no line of the program was executed. Raise TraceError if the
        run cannot be read.
        """
        self._run = Run(folder)
        request = read_request(folder).program
        if request is None:
            raise UsageError(
                f"{self._run.id} is not a run of a program; to see it, use stackmem replay {self._run.id} --play"
            )
        self.program = Path(request.path)  # path of the program's file when the run started
        self._begin()

    def _begin(self) -> None:
        self._number, self._coming = 0, self._moments()
        first = next(self._coming, None)
        if first is None:
            raise UsageError(f"{self._run.id} ended before its program started; stackmem trace show shows why")
        self.moment, self.state = first

    def _moments(self) -> Iterator[tuple[DebugMoment, State]]:
        came: deque[tuple[DebugMoment, State]] = deque()
        walk = RecordWalk(
            self._run.records(), sources_of(self._run.folder), lambda moment, state: came.append((moment, state))
        )
        for step in walk:
            while came:
                yield came.popleft()
            if isinstance(step.record.event, Note) and step.upcoming != step.record.event:
                raise TraceError(
                    f"record {step.record.seq} differs from what the interpreter does now; stackmem replay shows how"
                )
        yield from came

    def changed_since(self) -> bool:
        """Return whether the program's file differs from the text that was run."""
        try:
            text = read_program(self.program)
        except UsageError:
            return True
        started = next(each.event for each in self._run.records() if isinstance(each.event, ProgramStarted))
        return sources_of(self._run.folder)(started.digest) != text

    def forward(self, stops: Stops) -> str:
        """Advance to the next stop and return its reason; empty at the end of the run."""
        for coming in self._coming:
            self.moment, self.state = coming
            self._number += 1
            if reason := stops(self.moment):
                return reason
        return ""

    def backward(self, stops: Stops) -> str:
        """Go back to the previous stop and return its reason; empty at the beginning."""
        here, target, stop_reason = self._number, 0, ""
        self._begin()
        for number in range(here):
            if reason := stops(self.moment):
                target, stop_reason = number, reason
            self._next()
        self._begin()
        for _ in range(target):
            self._next()
        return stop_reason

    def _next(self) -> None:
        self.moment, self.state = next(self._coming)
        self._number += 1
