"""Iterates over a run's records together with what each one followed from, for replay, resume, fork and comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from stackmem.core.decider import AgentDecider, Decider, ProgramUnderWay, Watcher
from stackmem.core.errors import TraceError, UsageError
from stackmem.core.facts import Event, RunForked, RunResumed, RunStarted
from stackmem.core.machine import evolve
from stackmem.core.program_facts import ProgramCalled, ProgramStarted
from stackmem.core.requests import Effect, match_effect
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy
from stackmem.memory import open_strategy

from .program import TextOf, called_programs, no_sources, program_of
from .record import Record


class WalkedRecord(Struct, frozen=True):
    """One record."""

    record: Record
    before: State  # the state before it
    is_input: bool  # whether it does not follow from earlier records, such as the start
    # what should happen next in that state by today's rules or the program; None for an input
    upcoming: Event | Effect | None

    @property
    def effect(self) -> Effect | None:
        """The effect that the record answers, or None."""
        return match_effect(self.upcoming, self.record.event) if isinstance(self.upcoming, Effect) else None


class RecordWalk:
    """Yields the records in order, and runs a program's interpreter again along with them.

    A record is applied only when the next one is requested, so that it can be refused before anything follows from it.
    """

    def __init__(
        self, records: Iterable[Record], text_of: TextOf = no_sources, watch: Watcher | None = None,
        since: State | None = None,
    ) -> None:  # fmt: skip
        """Start.

        Args:
            text_of: Returns the text of a program's source for its digest.
            watch: Receives the program's lines.
            since: The state before the first record, for the records of a parallel frame. By default the run's start.
        """
        self._records, self._text_of, self._watch = records, text_of, watch
        self._named = since.begun.strategy if since is not None else ""  # name of the current strategy
        self._strategy: MemoryStrategy | None = None
        self.state = since or State()  # the state after the records applied so far
        self.program: ProgramUnderWay | None = None  # the run's program; None before it starts
        self._agent: AgentDecider | None = None  # the agent with the programs that it called

    @property
    def strategy(self) -> MemoryStrategy:
        """The current strategy. Raise TraceError if the strategy is not installed."""
        if self._strategy is None:
            try:
                self._strategy = open_strategy(self._named)
            except UsageError as error:
                raise TraceError(
                    f"the run used a strategy that is not available ({error}); install the package that provides it"
                ) from error
        return self._strategy

    def __iter__(self) -> Iterator[WalkedRecord]:
        """Yield each record before it is applied.

        Raise TraceError if records are out of sequence, a source is missing, or a strategy is not installed.
        """
        for record in self._records:
            is_given = self._is_given(record.event)
            upcoming = None if is_given else self._decide()
            yield WalkedRecord(record, self.state, is_given, upcoming)
            self._take(record)

    def _is_given(self, event: Event) -> bool:
        if not self._named:
            if not isinstance(event, RunStarted):
                raise TraceError("the first record is not RunStarted, so this is not the trace of a run")
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
        return self.agent.decide(self.state) if self.program is None else self.program.decide(self.state)

    @property
    def agent(self) -> AgentDecider:
        """The decider of a run that an agent drives."""
        if self._agent is None:
            self._agent = AgentDecider(self.strategy, called_programs(self._text_of))
        self._agent.strategy = self.strategy
        return self._agent

    def _take(self, record: Record) -> None:
        event, self.state = record.event, state_after(self.state, record)
        if self.program is not None:
            self.program.note(event, self.state)
        elif isinstance(event, ProgramStarted):
            self.program = program_of(event, self.state.begun, self.strategy, self._text_of, watch=self._watch)
        elif isinstance(event, ProgramCalled) or (self._agent is not None and self._agent.in_call):
            self.agent.note(event, self.state)


def decider_at(records: Iterable[Record], text_of: TextOf, seq: int) -> Decider:
    """Return the program before record ``seq``, or the agent if none had started. Raises like ``RecordWalk``."""
    walk = RecordWalk(records, text_of)
    for step in walk:
        if step.record.seq >= seq:
            break
    return walk.program or walk.agent


def state_after(state: State, record: Record) -> State:
    """Return the state after one more record. Raise TraceError if the record does not follow from the earlier ones."""
    if isinstance(record.event, RunStarted) and state.start is not None:
        raise TraceError(
            f"record {record.seq} starts a run that had already started; stackmem replay shows what is wrong"
        )
    try:
        return evolve(state, record.event)
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        kind = type(record.event).__name__
        raise TraceError(
            f"record {record.seq} ({kind}) does not follow from earlier records; stackmem replay shows what is wrong"
        ) from error
