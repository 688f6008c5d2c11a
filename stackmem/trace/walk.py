"""The walk through a run's records that replay, resume, fork and comparison share: each with what it followed from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from stackmem.core.decider import ProgramUnderWay, Watcher
from stackmem.core.facts import Event, RunForked, RunResumed, RunStarted
from stackmem.core.machine import advance, evolve
from stackmem.core.program_facts import ProgramStarted
from stackmem.core.requests import Effect, answered
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy
from stackmem.errors import TraceError, UsageError
from stackmem.memory import open_strategy

from .program import TextOf, no_sources, program_of
from .record import Record


class WalkedRecord(Struct, frozen=True):
    """One record."""

    record: Record
    before: State  # the state that it was recorded in
    given: bool  # whether it is what a run is given: nothing before it says it
    # what was to happen next in that state, as today's rules or the program say; None where it is given
    upcoming: Event | Effect | None

    @property
    def effect(self) -> Effect | None:
        """What the record answers; None where it answers nothing."""
        return answered(self.upcoming, self.record.event) if isinstance(self.upcoming, Effect) else None


class RecordWalk:
    """The records in their order; a program's interpreter is run again beside them.

    A record is taken note of once the next one is asked for, so that it can be refused before anything follows from it.
    """

    def __init__(self, records: Iterable[Record], text_of: TextOf = no_sources, watch: Watcher | None = None) -> None:
        """Begin; ``text_of`` gives the text of a program's source by its digest, ``watch`` is told of its lines."""
        self._records, self._text_of, self._watch = records, text_of, watch
        self._named = ""  # the strategy in force
        self._strategy: MemoryStrategy | None = None
        self.state = State()  # the state after the records that were taken note of
        self.program: ProgramUnderWay | None = None  # where the run's program stands; None where none has begun

    @property
    def strategy(self) -> MemoryStrategy:
        """The strategy in force."""
        if self._strategy is None:
            try:
                self._strategy = open_strategy(self._named)
            except UsageError as error:
                raise TraceError(
                    f"the run used a strategy that is not here ({error}); install the package that brings it"
                ) from error
        return self._strategy

    def __iter__(self) -> Iterator[WalkedRecord]:
        """Walk."""
        for record in self._records:
            given = self._is_given(record.event)
            upcoming = None if given else self._decide()
            yield WalkedRecord(record, self.state, given, upcoming)
            self._take(record)

    def _is_given(self, event: Event) -> bool:
        if not self._named:
            if not isinstance(event, RunStarted):
                raise TraceError("the first record is not RunStarted; this is no trace of a run")
            self._named = event.strategy
            return True
        match event:
            case RunForked():
                self._named, self._strategy = event.start.strategy, None
                return True
            case RunResumed():
                return True
            case ProgramStarted():
                return self.program is None
            case _:
                return False

    def _decide(self) -> Event | Effect | None:
        return advance(self.state, self.strategy) if self.program is None else self.program.decide(self.state)

    def _take(self, record: Record) -> None:
        event, self.state = record.event, state_after(self.state, record)
        if self.program is not None:
            self.program.note(event, self.state)
        elif isinstance(event, ProgramStarted):
            self.program = program_of(event, self.state.begun, self.strategy, self._text_of, watch=self._watch)


def program_at(records: Iterable[Record], text_of: TextOf, seq: int) -> ProgramUnderWay | None:
    """The program as it stands before record ``seq``; None where none had begun. Raises as ``RecordWalk`` does."""
    walk = RecordWalk(records, text_of)
    for step in walk:
        if step.record.seq >= seq:
            break
    return walk.program


def state_after(state: State, record: Record) -> State:
    """The state after one more record."""
    if isinstance(record.event, RunStarted) and state.start is not None:
        raise TraceError(f"record {record.seq} starts a run that had started; stackmem replay tells what is wrong")
    try:
        return evolve(state, record.event)
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        kind = type(record.event).__name__
        raise TraceError(
            f"record {record.seq} ({kind}) does not follow from those before it; stackmem replay tells what is wrong"
        ) from error
