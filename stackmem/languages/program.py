"""A program as what decides what happens next in a run, beside the agent's rules in ``core.machine``.

The generator stands beside the fold: ``decide`` is its ``advance``, ``note`` its ``evolve``. One loop runs both, and
replay compares where running performs.

Rule 1: the interpreter is sent recorded answers only, so that running it again says the same.
Rule 2: where an agent's frame runs, the machine says what is next, and the program waits for its result.
Rule 3: what a program's language raises halts it; the run keeps all facts.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET

from stackmem.core import limits, machine
from stackmem.core.budgets import PROGRAM_DEPTH, PROGRAM_RESULT_CHARS
from stackmem.core.facts import (
    ClockRead,
    Event,
    FramePopped,
    FramePushed,
    ProgramFrame,
    RunEnded,
    RunForked,
    RunResumed,
)
from stackmem.core.frames import so_far
from stackmem.core.program_facts import (
    ChunkDropped,
    ChunkKept,
    Note,
    ProgramHalted,
    ProgramReturned,
    ProgramStarted,
    Said,
    ToolAnswered,
    UserAnswered,
    Waited,
)
from stackmem.core.requests import AskModel, AskUser, Effect, InvokeTool, LoadSource, Parallel, ReadClock, Wait
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy
from stackmem.core.text import clip_chars, mark_cut, whole

from . import chunks
from .frame.task_text import long_inputs, schema_text, task_text
from .frame.values import as_text, digest_of, kind_and_size
from .interpreter import Ended, Interpreter
from .operations import (
    ChunkAnswer,
    Complete,
    DropChunk,
    EnterFrame,
    FrameAnswer,
    Group,
    Halted,
    KeepChunk,
    LeaveFrame,
    ListChunks,
    Operation,
    Program,
    ReadChunk,
    RunFrame,
    Say,
    Single,
    Value,
)
from .questions import Question, ReadSpending, asked_model, frame_answer, given_up, spending, take


class ProgramDecider:
    """One program under way, and where it stands beside the machine."""

    def __init__(
        self,
        begun: ProgramStarted,
        make: Callable[[], Program],
        strategy: MemoryStrategy,
        open_strategy: Callable[[str], MemoryStrategy],
        text_of: Callable[[str], str],
        tell: Callable[[object], object] = id,
        *,
        keep: bool = True,
    ) -> None:
        """Start the interpreter.

        Args:
            begun: The fact that it begins with, once the run has started.
            make: The program from its beginning; called again where a halted run is resumed.
            text_of: The text of a source, by its digest.
            tell: Told of every happening, see ``language.Happening``.
            keep: Whether answers are kept, so that a halted program can be taken up again.

        """
        self._begun = begun
        self._strategy, self._open_strategy = strategy, open_strategy
        self._text_of, self._tell, self._keep = text_of, tell, keep
        self._questions: list[Question] = []
        self._due: set[int | None] = set()  # branches of the round under way that are not answered yet
        self._midway = False  # some of them are
        self._group = False
        self._frame = ""
        self._written = 0
        self._clock_read = False  # since the program asked for it
        self._interpreter = Interpreter(make, tell, keep=keep)

    @property
    def asked(self) -> Operation | ReadSpending | Note | Ended:
        """What the interpreter waits for, or how it ended."""
        return self._interpreter.asked

    @property
    def value(self) -> Value:
        """What the program returned; None before, and where it halted."""
        return self.asked.value if isinstance(self.asked, Ended) else None

    def decide(self, state: State) -> Event | Effect | None:
        """What happens next: a fact that follows, something to ask of the world, or None when the run is over."""
        if state.program is None and state.stack and state.end is None:
            return self._begun
        if state.end is not None or not state.stack or state.running.program != "steps":
            return machine.advance(state, self._strategy)
        aligned = self._aligned(state)
        if aligned is not None:
            return aligned
        while True:
            asked = self.asked
            match asked:
                case KeepChunk() | ReadChunk() | DropChunk() | ListChunks():
                    settled = chunks.settle(asked, state, self._interpreter.called)
                    if isinstance(settled, ChunkKept | ChunkDropped):
                        return settled
                    self._interpreter.answer(settled)
                case EnterFrame() if state.running.depth >= PROGRAM_DEPTH:
                    self._interpreter.refuse(_too_deep())
                case ReadSpending() if asked.seconds and not self._clock_read:
                    return ReadClock()
                case ReadSpending():
                    self._clock_read = False
                    self._interpreter.answer(spending(state))
                case Group() | InvokeTool() | Complete() | RunFrame() | LoadSource():
                    found = self._questioned(state)
                    if found is not None:
                        return found
                case _:
                    return self._follows(asked, state)

    def _follows(self, asked: Operation | Note | Ended, state: State) -> Event | Effect | None:
        match asked:
            case Say():
                return Said(whole(asked.text))
            case EnterFrame():
                return _entered(asked, state)
            case LeaveFrame():
                return FramePopped(
                    state.running.id, clip_chars(whole(asked.result), PROGRAM_RESULT_CHARS) or "(nothing)"
                )
            case AskUser() | Wait():
                return self._bounded(state, asked)
            case Ended():
                return _ended(asked, state)
            case _:
                assert isinstance(asked, Note)  # noqa: S101 - all effects are matched above or in upcoming
                return asked

    def _aligned(self, state: State) -> Event | None:
        """What brings the stack to the frames that the program has open: after a halt they may differ."""
        have, want = len(state.stack) - 1, len(self._interpreter.frames)
        if isinstance(self.asked, Ended):
            return None
        if have > want:
            return FramePopped(state.running.id, "(left by a halt)", forced="halted")
        return _entered(self._interpreter.frames[have], state) if have < want else None

    def _questioned(self, state: State) -> Event | Effect | None:
        """What is still to be asked; None once all answers were there and the program was sent them."""
        if not self._questions:
            self._question(state)
        waiting = [question for question in self._questions if not question.done]
        for question in () if self._due else waiting:  # a round is judged when all of it has come
            over = given_up(question, state)
            if over is not None:
                return over
        effect = self._effect([question for question in waiting if not isinstance(question.effect, RunFrame)], state)
        if effect is not None:
            return self._bounded(state, effect)
        if waiting:
            return self._pushed(waiting[0], state)
        found = tuple(question.answer for question in self._questions)
        self._questions = []
        self._interpreter.answer(found if self._group else found[0], outside=True)
        return None

    def _question(self, state: State) -> None:
        asked = self.asked
        self._group = isinstance(asked, Group)
        if isinstance(asked, Group):
            self._questions = [Question(effect, branch) for branch, effect in enumerate(asked.operations)]
        elif isinstance(asked, Single):
            self._questions = [Question(asked)]

    def _effect(self, waiting: list[Question], state: State) -> Effect | None:
        """What can be asked now: no more completions than steps are left; what is due comes before anything new."""
        left = None if state.limits.steps is None else state.limits.steps - state.step
        asked: list[tuple[int | None, AskModel | InvokeTool | LoadSource]] = []
        rank = 0
        for question in waiting:
            operation = question.effect
            if self._midway and question.branch not in self._due:
                continue
            if isinstance(operation, Complete):
                if left is None or rank < max(1, left):
                    asked.append((question.branch, asked_model(question, operation, state, rank)))
                rank += 1
            elif not isinstance(operation, RunFrame):
                asked.append((question.branch, operation))
        self._due = self._due or {branch for branch, _ in asked}
        if not isinstance(self.asked, Group):
            return asked[0][1] if asked else None
        branches = tuple((branch or 0, effect) for branch, effect in asked)
        return Parallel(branches, max(1, self.asked.most)) if branches else None

    def _bounded(self, state: State, effect: Effect) -> Event | Effect | None:
        """What is asked, unless a limit of the run is spent or must be looked at first."""
        if self._midway and self._due:
            return effect  # it was begun within the limits, and is asked as a whole
        if limits.needs_clock(state) and not state.clock_fresh:
            return ReadClock()
        asked = [each for _, each in effect.branches] if isinstance(effect, Parallel) else [effect]
        requests = [each for each in asked if isinstance(each, AskModel)]
        waits = [each.seconds for each in asked if isinstance(each, Wait)]
        spent = limits.ending(state, max((*waits, *(request.wait_seconds for request in requests)), default=0.0))
        if spent is not None and (requests or spent == "limit:seconds"):
            return RunEnded(spent, so_far(state))
        return effect

    def _pushed(self, question: Question, state: State) -> Event | Effect | None:
        """The frame of the work that is handed to the agent; its long inputs are written first."""
        effect = question.effect
        assert isinstance(effect, RunFrame)  # noqa: S101 - its caller looked
        if state.running.depth >= PROGRAM_DEPTH:
            self._questions = []
            self._interpreter.refuse(_too_deep())
            return self.decide(state)
        frame = f"frame-{state.pushes + 1}"
        files = long_inputs(effect, frame)
        if self._written < len(files):
            return self._bounded(state, files[self._written])
        budgets = state.begun.budgets
        return FramePushed(
            frame=frame,
            name=mark_cut(whole(effect.name), budgets.name_chars) or "work",
            intent=mark_cut(" ".join(whole(effect.task).split()), budgets.intent_chars),
            return_spec=mark_cut(" ".join(whole(effect.returns).split()), budgets.return_chars),
            constraint=limits.left(state),
            context="",
            program=ProgramFrame(
                "work", whole(task_text(effect, frame)), schema_text(effect.schema), whole(effect.model) or UNSET
            ),
        )

    def listen(self, tell: Callable[[object], object]) -> None:
        """Tell another one from here on, as the program goes on live; a halt is not taken back any more."""
        self._tell, self._keep = tell, False
        self._interpreter.listen(tell)

    def note(self, event: Event, after: State) -> None:
        """Take note of a fact and of the state that it makes; the program goes on where it answers it."""
        self._tell(event)
        match event:
            case RunForked() | RunResumed():
                if isinstance(event, RunForked):
                    self._strategy = self._open_strategy(event.start.strategy)
                self._taken_up()
            case FramePushed() if event.program is not UNSET and event.program.kind == "work":
                self._frame = event.frame
            case FramePopped() if self._frame and event.frame == self._frame:
                self._frame, self._written = "", 0
                for question in [each for each in self._questions if not each.done][:1]:
                    question.settle(frame_answer(question.effect, after.popped[-1]))
            case _ if self._frame:
                pass
            case FramePushed():
                if isinstance(self.asked, EnterFrame) and len(after.stack) - 2 == len(self._interpreter.frames):
                    self._interpreter.answer(None)
            case FramePopped():
                if isinstance(self.asked, LeaveFrame) and len(after.stack) == len(self._interpreter.frames):
                    self._interpreter.answer(None)
            case _ if self._questions:
                self._answered(event)
            case _:
                self._noted(event)

    def _answered(self, event: Event) -> None:
        waiting = [question for question in self._questions if not question.done]
        for question in waiting:
            if question.answered_by(event):
                self._due.discard(question.branch)
                self._midway = bool(self._due)
                take(question, event, self._text_of)
                return
        if isinstance(event, ToolAnswered) and waiting:  # a long input of a frame was written, or could not be
            self._written += 1
            if event.failed:
                self._written = 0
                waiting[0].settle(FrameAnswer("", failed="inputs", detail=event.detail))

    def _noted(self, event: Event) -> None:
        asked = self.asked
        match asked:
            case KeepChunk() if isinstance(event, ChunkKept):
                self._interpreter.answer(ChunkAnswer())
            case DropChunk() if isinstance(event, ChunkDropped):
                self._interpreter.answer(ChunkAnswer())
            case AskUser() if isinstance(event, UserAnswered):
                self._interpreter.answer(event.text, outside=True)
            case Wait() if isinstance(event, Waited):
                self._interpreter.answer(None, outside=True)
            case Say() if isinstance(event, Said):
                self._interpreter.answer(None)
            case ReadSpending() if isinstance(event, ClockRead):
                self._clock_read = True
            case _ if type(event) is type(asked):
                self._interpreter.go_on()
            case _:
                pass

    def _taken_up(self) -> None:
        """Forget what led to the end; a program that halted goes back to the last thing that it asked the world."""
        self._due, self._midway, self._clock_read = set(), False, False
        for question in self._questions:
            question.failures = ()
        if self._keep and isinstance(self.asked, Ended) and self.asked.fault is not None:
            self._questions = []
            self._interpreter.back_to_question()


def _too_deep() -> Halted:
    told = f"{PROGRAM_DEPTH} frames of the program are open, the most there may be; end one first"
    return Halted("Limit Reached", told)


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


def _ended(ended: Ended, state: State) -> Event:
    """The facts that close a run, one after another."""
    program, most = state.program, state.begun.budgets.root_result_chars
    if ended.fault is not None:
        if program is None or program.halted is None:
            return ProgramHalted(whole(ended.fault.kind), whole(ended.fault.report), whole(ended.fault.path))
        return RunEnded("halted", clip_chars(whole(ended.fault.report), most))
    if program is None or program.returned is None:
        return ProgramReturned(*kind_and_size(ended.value), digest_of(ended.value))
    return FramePopped(state.running.id, clip_chars(whole(as_text(ended.value)), most) or "(nothing)")
