"""Decides what happens next in a run that is driven by a program, in addition to the agent's rules in ``core.machine``.

The generator runs in parallel to the event fold: ``decide`` corresponds to ``advance``, ``note`` to ``evolve``. One
loop drives both. Replay compares with the recording where a live run performs effects.

Rule 1: the interpreter receives only recorded answers, so running it again yields the same operations.
Rule 2: while a frame of the agent runs, the machine decides, and the program waits for the frame's result.
Rule 3: an error raised by a program's language halts the program; the run keeps all its events.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core import machine
from stackmem.core.budgets import PROGRAM_DEPTH, PROGRAM_RESULT_CHARS
from stackmem.core.decider import Tell
from stackmem.core.errors import Halted
from stackmem.core.facts import (
    ClockRead,
    Event,
    FramePopped,
    FramePushed,
    ProgramFrame,
    RunEnded,
    RunForked,
    RunResumed,
)  # fmt: skip
from stackmem.core.program_facts import (
    ChunkDropped,
    ChunkKept,
    Note,
    ProgramHalted,
    ProgramReturned,
    ProgramStarted,
    Said,
    StepFailed,
    UserAnswered,
    Waited,
)  # fmt: skip
from stackmem.core.requests import AskUser, Effect, InvokeTool, LoadSource, ReadClock, Wait
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy
from stackmem.core.text import clip_chars, mark_cut, whole

from .debugger import DebugPort
from .frame.values import as_text, digest_of, kind_and_size
from .guard import StepGuard
from .history import caller_history
from .interpreter import Ended, ProgramInterpreter
from .operations import (
    ChunkAnswer,
    Complete,
    DropChunk,
    EnterFrame,
    Group,
    KeepChunk,
    LeaveFrame,
    ListChunks,
    Operation,
    Program,
    ReadChunk,
    ReadHistory,
    ReadSpending,
    RunFrame,
    Say,
    Single,
    Value,
)
from .settle import Round, bounded, settle_chunk, spending


class ProgramDecider:
    """A running program and its position relative to the machine.

    Attributes:
        said, failed: Texts that the program printed, and steps that failed, since ``listen`` was called.
    """

    def __init__(
        self,
        start: ProgramStarted,  # the event that records the program, right after the run's start
        # creates the program from its beginning; called again when a halted run is resumed
        make: Callable[[], Program],
        strategy: MemoryStrategy,
        open_strategy: Callable[[str], MemoryStrategy],
        text_of: Callable[[str], str],  # returns the text of a source by its digest
        *,
        keep: bool = True,  # whether to keep the answers, so that a halted program can be resumed
        watch: DebugPort | None = None,  # receives the interpreter's moments
        base: int = 0,  # index of the program's first frame in the stack; above 0 if an agent called the program
    ) -> None:
        """Start the interpreter."""
        self._start, self._base = start, base
        self._strategy, self._open_strategy = strategy, open_strategy
        self._text_of, self._keep, self._watch = text_of, keep, watch
        self._round: Round | None = None
        self._guard = StepGuard()
        self._clock_read = False  # since the program asked for it
        self._tell: Tell | None = None
        self.messages, self.failed = list[str](), list[StepFailed]()
        self._interpreter = ProgramInterpreter(make, keep=keep)

    @property
    def operation(self) -> Operation | Note | Ended:
        """The operation or note that the interpreter waits for, or its end."""
        return self._interpreter.operation

    @property
    def value(self) -> Value:
        """The value the program returned; None before its end and after a halt."""
        return self.operation.value if isinstance(self.operation, Ended) else None

    def listen(self, tell: Tell) -> None:
        """Report everything that happens from now on to ``tell``, batched each time the next step has been decided.

        After this a halt can no longer be undone. Only recorded halts are, and the recording has ended.
        """
        self._tell, self._keep = tell, False
        self._interpreter.listen()

    def decide(self, state: State) -> Event | Effect | None:
        """Return the next event, the next effect to perform, or None if the run is over."""
        upcoming = self._next(state)
        if self._tell is not None:
            happened, self._interpreter.happened = tuple(self._interpreter.happened), []
            self._tell(happened, state)
        return upcoming

    def _next(self, state: State) -> Event | Effect | None:
        if state.program is None and state.stack and state.end is None:
            return self._start
        if state.end is not None or not state.stack or state.stack[-1].program != "steps":
            return machine.advance(state, self._strategy)
        aligned = self._aligned(state)
        while aligned is None:
            match operation := self.operation:
                case _ if isinstance(operation, Note):  # the most common case
                    return operation
                case InvokeTool() | Complete() | LoadSource() | RunFrame() | Group():
                    upcoming = self._ask(operation, state)
                    if upcoming is not None:
                        return upcoming
                case KeepChunk() | ReadChunk() | DropChunk() | ListChunks():
                    outcome = settle_chunk(operation, state, self._interpreter.called)
                    if isinstance(outcome, ChunkKept | ChunkDropped):
                        return outcome
                    self._interpreter.answer(outcome)
                case ReadHistory():
                    self._interpreter.answer(caller_history(state, self._base))
                case EnterFrame() if state.running.depth >= PROGRAM_DEPTH:
                    self._interpreter.refuse(_too_deep())
                case ReadSpending() if operation.seconds and not self._clock_read:
                    return ReadClock()
                case ReadSpending():
                    self._clock_read = False
                    self._interpreter.answer(spending(state))
                case _:
                    return self._follows(operation, state)
        return aligned

    def _ask(self, operation: Single | Group, state: State) -> Event | Effect | None:
        """Return the next effect for the pending operation; None once the program was answered or refused."""
        self._round = self._round or Round(self._placed(operation), self._text_of, self._guard)
        if self._round.next_frame() and state.running.depth >= PROGRAM_DEPTH:
            self._round = None
            self._interpreter.refuse(_too_deep())
            return None
        if (upcoming := self._round.decide(state)) is None:
            answer, self._round = self._round.answer, None
            self._interpreter.answer(answer, outside=True)
        return upcoming

    def _placed(self, operation: Single | Group) -> Single | Group:
        """Return the operation with its sources relative to this program, which a called program must name."""
        if isinstance(operation, Group):
            return replace(operation, operations=tuple(self._placed(each) for each in operation.operations))
        unplaced = self._base and isinstance(operation, LoadSource) and not operation.beside
        return replace(operation, beside=self._start.path) if unplaced else operation

    def _follows(self, operation: Operation | Ended, state: State) -> Event | Effect | None:
        match operation:
            case Say():
                return Said(whole(operation.text))
            case EnterFrame():
                return _entered(operation, state)
            case LeaveFrame():
                result = clip_chars(whole(operation.result), PROGRAM_RESULT_CHARS)
                return FramePopped(state.running.id, result or "(nothing)")
            case AskUser() | Wait():
                return bounded(state, operation)
            case _:
                assert isinstance(operation, Ended)  # noqa: S101 - all others are matched above or in _next
                return _called_ended(operation, state, self.messages) if self._base else _ended(operation, state)

    def _aligned(self, state: State) -> Event | None:
        """Return the event that brings the stack in line with the program's open frames.

        After a halt the two can differ, because the program was moved back to an earlier point.
        """
        surplus = self._own(state)
        if not surplus or isinstance(self.operation, Ended):
            return None
        if surplus > 0:
            return FramePopped(state.running.id, "(left by a halt)", forced="halted")
        return _entered(self._interpreter.frames[surplus], state)

    def _own(self, state: State) -> int:
        """Return how many more frames the stack has above the program's first one than the program has open."""
        return len(state.stack) - 1 - self._base - len(self._interpreter.frames)

    def note(self, event: Event, after: State) -> None:
        """Process an event and the state after it; resume the program if the event answers its operation."""
        self._interpreter.happened += [event] if self._tell is not None else []
        if self._tell is not None or self._base:
            self.messages += [event.text] if isinstance(event, Said) else []
            self.failed += [event] if isinstance(event, StepFailed) else []
        working = self._round.working if self._round is not None else ""
        if self._watch is not None:
            self._watch.note(event, after, working=bool(working))
        match event:
            case _ if isinstance(event, Note) and self._round is None and type(event) is type(self.operation):
                self._interpreter.go_on()
            case RunForked() | RunResumed():
                if isinstance(event, RunForked):
                    self._strategy = self._open_strategy(event.start.strategy)
                self._reopen()
            case FramePushed() if self._round and event.program is not UNSET and event.program.kind == "work":
                self._round.working = event.frame
            case FramePopped() if self._round and event.frame == working:
                self._round.note_popped(after.popped[-1])
            case _ if working:
                pass
            case FramePushed():
                if isinstance(self.operation, EnterFrame) and self._own(after) == 1:
                    self._interpreter.answer(None)
            case FramePopped():
                if isinstance(self.operation, LeaveFrame) and self._own(after) == -1:
                    self._interpreter.answer(None)
            case _ if self._round:
                self._round.note(event, [] if self._tell is None else self._interpreter.happened)
            case _:
                self._note_answer(event)

    def _note_answer(self, event: Event) -> None:
        operation = self.operation
        match operation, event:
            case (KeepChunk(), ChunkKept()) | (DropChunk(), ChunkDropped()):
                self._interpreter.answer(ChunkAnswer())
            case AskUser(), UserAnswered(text):
                self._interpreter.answer(text, outside=True)
            case Wait(), Waited():
                self._interpreter.answer(None, outside=True)
            case Say(), Said():
                self._interpreter.answer(None)
            case ReadSpending(), ClockRead():
                self._clock_read = True
            case _:
                pass

    def _reopen(self) -> None:
        """Undo the run's end. A halted program goes back to the last thing that it asked of the outside world."""
        self._clock_read = False
        if self._round is not None:
            self._round.reopen()
        if self._keep and isinstance(self.operation, Ended) and self.operation.fault is not None:
            self._round = None
            self._interpreter.back_to_question()


def _too_deep() -> Halted:
    message = f"{PROGRAM_DEPTH} frames of the program are open, the most there may be; end one first"
    return Halted("Limit Reached", message)


def _entered(effect: EnterFrame, state: State) -> FramePushed:
    budgets = state.begun.budgets
    return FramePushed(
        frame=f"frame-{state.pushes + 1}",
        name=mark_cut(whole(effect.name), budgets.name_chars) or "steps",
        intent=mark_cut(" ".join(whole(effect.intent).split()), budgets.intent_chars),
        return_spec="",
        constraint="",
        context="",
        program=ProgramFrame("steps"),
    )


def _called_ended(ended: Ended, state: State, lines: list[str]) -> Event:
    """Return the next of the events that end a program which an agent called."""
    program, most = state.program, state.shown_bytes
    if ended.fault is not None:
        if program is None or program.halted is None:
            return ProgramHalted(whole(ended.fault.kind), whole(ended.fault.report), whole(ended.fault.path))
        return FramePopped(state.running.id, clip_chars(whole(ended.fault.report), most), forced="halted")
    if program is None or program.returned is None:
        return ProgramReturned(*kind_and_size(ended.value), digest_of(ended.value))
    text = whole(as_text(ended.value)) or "(nothing)"
    printed = "\n".join(map(whole, lines))
    return FramePopped(state.running.id, clip_chars(f"{text}\n\nIt printed:\n{printed}" if printed else text, most))


def _ended(ended: Ended, state: State) -> Event:
    """Return the next of the events that close a run; they follow one another."""
    program, most = state.program, state.begun.budgets.root_result_chars
    if ended.fault is not None:
        if program is None or program.halted is None:
            return ProgramHalted(whole(ended.fault.kind), whole(ended.fault.report), whole(ended.fault.path))
        return RunEnded("halted", clip_chars(whole(ended.fault.report), most))
    if program is None or program.returned is None:
        return ProgramReturned(*kind_and_size(ended.value), digest_of(ended.value))
    return FramePopped(state.running.id, clip_chars(whole(as_text(ended.value)), most) or "(nothing)")
