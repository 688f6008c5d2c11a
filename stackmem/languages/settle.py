"""Settles a program's operations: answers them from the state, or asks the outside world and collects the answers.

Rule 1: a round of operations is performed as a whole, within the limits at its start, and judged after all answers.
Rule 2: after a provider failure only the failed request is repeated; so is one whose reply does not fit its schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Struct, json
from msgspec.structs import replace

from stackmem.core import heap as heaps
from stackmem.core import limits
from stackmem.core.budgets import UNFIT_RESULTS
from stackmem.core.conversation.hook_facts import HookRan
from stackmem.core.facts import CallRejected, Event, FramePushed, ModelFailed, ModelReplied, ProgramFrame, RunEnded
from stackmem.core.frames import partial_result
from stackmem.core.log import Log
from stackmem.core.messages import Message, Text, View
from stackmem.core.person_facts import PersonDecided
from stackmem.core.program_facts import ChunkDropped, ChunkKept, SourceLoaded, ToolAnswered
from stackmem.core.requests import (
    ANSWERS,
    AskModel,
    Effect,
    InvokeTool,
    LoadSource,
    Parallel,
    ReadClock,
    Wait,
    effects_of,
)  # fmt: skip
from stackmem.core.retries import after_failure, wait_seconds
from stackmem.core.schemas.json_schema import first_fault, read_json
from stackmem.core.state import PoppedFrame, Reply, State
from stackmem.core.text import mark_cut, whole
from stackmem.core.tools import StoreEntry

from .frame.task_text import long_inputs, schema_text, task_text
from .guard import StepCheck, StepGuard, check_of
from .language import Happening
from .operations import (
    Answer,
    ChunkAnswer,
    Complete,
    Completion,
    DropChunk,
    FrameAnswer,
    Group,
    KeepChunk,
    ListChunks,
    ReadChunk,
    ReplyRefused,
    RunFrame,
    Single,
    Source,
    Spending,
    ToolAnswer,
)  # fmt: skip

_STRANGE = re.compile(r"[^A-Za-z0-9_./-]")
_FAILED_STOPS = {"window": "window", "truncated": "truncated", "refused": "refused"}
_FORCED_REASONS = {
    "misfit": f"{UNFIT_RESULTS} results did not fit what is asked for",
    "window": "the frame filled the model's window",
    "constraint": "the frame used up what it was given",
    "stalled": "the model made no usable call",
}


class Question(Struct):
    """One operation and the progress towards its answer."""

    operation: Single
    # event types that answer it; empty for a frame, whose result is not a separate event
    answers: tuple[type[Event], ...]
    branch: int | None = None  # index in its group; None for a single operation
    failures: tuple[ModelFailed, ...] = ()  # provider failures since the last reply
    # replies that did not fit the schema, each followed by its refusal; ``fault`` is the last reply's fault
    added: tuple[Message, ...] = ()
    fault: str = ""
    misfits: int = 0
    done: bool = False
    answer: Answer = None
    check: StepCheck | None = None  # the rules and hooks for a step that has begun to be checked
    may_run: bool = False  # whether they allow it, or none apply

    def settle(self, answer: Answer) -> None:
        self.done, self.answer = True, answer


def _question(operation: Single, branch: int | None = None) -> Question:
    match operation:
        case Complete():
            return Question(operation, ANSWERS[AskModel], branch)
        case RunFrame():
            return Question(operation, (), branch)
        case _:
            return Question(operation, ANSWERS[type(operation)], branch)


class Round:
    """The pending questions of one operation or one group."""

    def __init__(self, request: Single | Group, text_of: Callable[[str], str], guard: StepGuard) -> None:
        """Start the round. ``text_of`` returns the text of a source by its digest."""
        self._guard = guard
        self._checked: Question | None = None  # the step whose hook or question is under way
        self._group = isinstance(request, Group)
        self._most = max(1, request.most) if isinstance(request, Group) else 1
        operations = enumerate(request.operations) if isinstance(request, Group) else [(None, request)]
        self._questions = [_question(operation, branch) for branch, operation in operations]
        self._text_of = text_of
        self._due: set[int | None] = set()  # branches that were asked together and are still unanswered
        self._midway = False  # whether some of them have been answered
        self._written = 0  # long inputs already written for the next frame
        self.working = ""  # id of the frame in which the agent works on this round; empty if there is none

    @property
    def answer(self) -> Answer:
        """The answer for the program. Valid once every question is done."""
        answers = tuple(question.answer for question in self._questions)
        return answers if self._group else answers[0]

    def decide(self, state: State) -> Event | Effect | None:
        """Return the next effect or event, or the event that ends the run; None once all answers are in."""
        if guarded := self._check_steps(state):
            return guarded
        waiting = [question for question in self._questions if not question.done]
        for question in () if self._due else waiting:
            if question.failures and (end := _given_up(question, state)):
                return end
        effect = self._effect([question for question in waiting if question.answers], state)
        if effect is not None:
            started = self._midway and self._due  # the limits were checked when the round began
            return effect if started else bounded(state, effect)
        return self._pushed(waiting[0].operation, state) if waiting else None

    def _check_steps(self, state: State) -> Event | Effect | None:
        """Return what the rules and hooks require before the steps run, or after they ran. None between the two."""
        if self._midway or state.begun.guards is UNSET:
            return None
        for question in self._questions:
            step, check = question.operation, question.check
            if not isinstance(step, InvokeTool):
                continue
            if question.done:
                upcoming: Event | Effect | None = self._guard.after(check, state) if check is not None else None
            elif question.may_run:
                continue
            else:
                question.check = check = check or check_of(step, state.begun.workspace)
                upcoming = self._guard.before(check, state) if check is not None else None
                question.may_run = upcoming is None
            if upcoming is not None:
                self._checked = question
                return upcoming
        return None

    def _note_check(self, event: HookRan | PersonDecided | CallRejected) -> None:
        question, self._checked = self._checked, None
        if question is None or question.check is None:
            return
        if isinstance(event, CallRejected):
            question.check = None  # it did not run, so no hook follows it
            question.settle(ToolAnswer(None, "refused", event.reason))
        else:
            self._guard.note(question.check, event)

    def next_frame(self) -> bool:
        """Return whether the only thing left to start is a frame of the agent."""
        waiting = [question for question in self._questions if not question.done]
        return bool(waiting) and not any(question.answers for question in waiting)

    def _effect(self, waiting: list[Question], state: State) -> Effect | None:
        """Return the effect for everything that can be asked now.

        Outstanding branches come before new ones, and no more completions are asked than the run has steps left.
        """
        remaining = None if state.limits.steps is None else state.limits.steps - state.step
        effects: list[tuple[int | None, AskModel | InvokeTool | LoadSource]] = []
        rank = 0
        for question in waiting:
            operation = question.operation
            if self._midway and question.branch not in self._due:
                continue
            if isinstance(operation, Complete):
                if remaining is None or rank < max(1, remaining):
                    effects.append((question.branch, _request(question, operation, state, rank)))
                rank += 1
            elif not isinstance(operation, RunFrame):
                effects.append((question.branch, operation))
        self._due = self._due or {branch for branch, _ in effects}
        if not self._group:
            return effects[0][1] if effects else None
        branches = tuple((branch or 0, effect) for branch, effect in effects)
        return Parallel(branches, self._most) if branches else None

    def _pushed(self, work: Single, state: State) -> Event | Effect:
        """Return the event that pushes the agent's frame, or the effect that first writes one of its long inputs."""
        assert isinstance(work, RunFrame)  # noqa: S101 - all other questions are answered by facts
        frame = f"frame-{state.pushes + 1}"
        files = long_inputs(work, frame)
        if self._written < len(files):
            return bounded(state, files[self._written])
        budgets = state.begun.budgets
        return FramePushed(
            frame=frame,
            name=mark_cut(whole(work.name), budgets.name_chars) or "work",
            intent=mark_cut(" ".join(whole(work.task).split()), budgets.intent_chars),
            return_spec=mark_cut(" ".join(whole(work.returns).split()), budgets.return_chars),
            constraint=limits.remaining(state),
            context="",
            program=ProgramFrame(
                "work", whole(task_text(work, frame)), schema_text(work.schema), whole(work.model) or UNSET
            ),
        )

    def note(self, event: Event, happened: list[Happening]) -> None:
        """Process an event that may answer a question. A reply that did not fit is appended to ``happened``."""
        if isinstance(event, HookRan | PersonDecided | CallRejected):
            self._note_check(event)
            return
        waiting = [question for question in self._questions if not question.done]
        branch = getattr(event, "branch", 0) or 0  # the branch is 0 for a single operation, and unset on some replies
        for question in waiting:
            if isinstance(event, question.answers) and (question.branch or 0) == branch:
                self._due.discard(question.branch)
                self._midway = bool(self._due)
                question.fault = ""
                _take(question, event, self._text_of)
                operation = question.operation
                if question.fault and isinstance(operation, Complete):
                    happened.append(ReplyRefused(operation.name, question.fault))
                return
        if isinstance(event, ToolAnswered) and waiting:  # a long input of a frame was written, or writing it failed
            self._written += 1
            if event.failed:
                self._written = 0
                waiting[0].settle(FrameAnswer("", failed="inputs", detail=event.detail))

    def note_popped(self, frame: PoppedFrame) -> None:
        """Record that the agent's frame ended."""
        self.working, self._written = "", 0
        for question in self._questions:
            if not question.done:
                question.settle(_frame_answer(question.operation, frame))
                return

    def reopen(self) -> None:
        """Undo the end of the run; unanswered questions are asked again."""
        self._due, self._midway = set(), False
        for question in self._questions:
            question.failures = ()


def bounded(state: State, effect: Effect) -> Event | Effect:
    """Return the effect, or the event or clock reading that a limit of the run requires first."""
    if state.limits.seconds is None and not isinstance(effect, AskModel | Parallel):
        return effect  # the other limits apply only to model requests
    effects = effects_of(effect)
    requests = [each for each in effects if isinstance(each, AskModel)]
    if limits.needs_clock(state) and not state.clock_fresh:
        return ReadClock()
    waits = [each.seconds for each in effects if isinstance(each, Wait)]
    limit = limits.spent_limit(state, max((*waits, *(request.wait_seconds for request in requests)), default=0.0))
    if limit is not None and (requests or limit == "limit:seconds"):
        return RunEnded(limit, partial_result(state))
    return effect


def _request(question: Question, completion: Complete, state: State, rank: int) -> AskModel:
    """Return the model request for a completion. ``rank`` is its index among the completions asked in parallel."""
    frame = state.running
    return AskModel(
        view=View(completion.system, (), Log([*_messages(completion), *question.added]), completion.breakpoints),
        step=state.step + rank + 1,
        facts=state.facts + rank,
        attempt=len(question.failures) + 1,
        wait_seconds=wait_seconds(question.failures),
        frame=completion.name or frame.name,
        depth=frame.depth,
        chunks=tuple(state.heap.chunks),
        model=completion.model,
        left_seconds=limits.left_seconds(state),
    )


def _messages(completion: Complete) -> tuple[Message, ...]:
    if completion.schema is None:
        return completion.messages
    rule = f"Reply with one JSON value that fits this JSON Schema, and with nothing else:\n{_text(completion.schema)}"
    *before, last = completion.messages
    return (*before, Message(last.role, (*last.parts, Text(rule))))


def _text(schema: dict[str, Any]) -> str:
    return json.encode(schema).decode()


def _take(question: Question, event: Event, text_of: Callable[[str], str]) -> None:
    """Apply an event that answers the question, fully or in part."""
    match event:
        case ToolAnswered():
            if question.check is not None:
                question.check.answer = event
            question.settle(ToolAnswer(event.value, event.failed, event.detail))
        case SourceLoaded():
            text = "" if event.failed else text_of(event.digest)
            question.settle(Source(event.path, text, event.digest, event.failed))
        case ModelFailed(kind="window"):
            question.settle(Completion("", failed="window", detail=event.detail))
        case ModelFailed():
            question.failures = (*question.failures, event)
        case ModelReplied():
            question.failures = ()
            _replied(question, event)
        case _:
            pass


def _replied(question: Question, reply: ModelReplied) -> None:
    operation = question.operation
    text = "\n".join(part.text for part in reply.parts if isinstance(part, Text))
    failed = _FAILED_STOPS.get(reply.stop, "")
    schema = operation.schema if isinstance(operation, Complete) else None
    if failed or schema is None:
        question.settle(Completion(text, None, reply.stop, failed, reply.detail, reply.usage))
        return
    value, fault = read_json(text)
    fault = fault or first_fault(value, schema)
    question.misfits += bool(fault)
    if not fault:
        question.settle(Completion(text, value, reply.stop, usage=reply.usage))
    elif question.misfits >= UNFIT_RESULTS:
        question.settle(Completion(text, None, reply.stop, "misfit", fault, reply.usage))
    else:
        question.fault = fault
        refusal = f"That does not fit: {fault}. Reply again with the one JSON value, and with nothing else."
        own = Message("assistant", (Text(text if text.strip() else "(an empty reply)"),))
        question.added = (*question.added, own, Message("user", (Text(refusal),)))


def _given_up(question: Question, state: State) -> RunEnded | None:
    """Return the event that ends the run if the provider's failures are final."""
    followed = after_failure(replace(state, failures=question.failures))
    return followed if isinstance(followed, RunEnded) else None


def _frame_answer(work: Single, frame: PoppedFrame) -> FrameAnswer:
    """Convert an ended frame to the program's answer."""
    first = next((turn for turn in frame.frame.turns if isinstance(turn, Reply)), None)
    plan = "\n".join(part.text for part in first.parts if isinstance(part, Text)).strip() if first else ""
    has_schema = isinstance(work, RunFrame) and work.schema is not None
    value = read_json(frame.result)[0] if has_schema and not frame.forced else None
    return FrameAnswer(frame.result, value, frame.forced, _FORCED_REASONS.get(frame.forced, ""), plan)


def spending(state: State) -> Spending:
    """Return the run's usage. The cost is unknown as long as nothing has a price."""
    is_priced = state.begun.price is not None or state.usd > 0
    return Spending(state.usd if is_priced else None, state.seconds)


def chunk_name(name: str) -> str:
    """Return the chunk name for a name that the program uses."""
    return _STRANGE.sub("_", name)


def settle_chunk(
    operation: KeepChunk | ReadChunk | DropChunk | ListChunks, state: State, called: dict[str, str]
) -> ChunkKept | ChunkDropped | ChunkAnswer | tuple[tuple[str, int, str], ...]:
    """Return the event that settles a heap operation, or its answer.

    Args:
        called: Chunk name to the name that the program used.
    """
    heap = state.heap
    if isinstance(operation, ListChunks):
        return tuple((chunk.name, len(chunk.content), chunk.description) for chunk in heap.chunks.values())
    name = chunk_name(operation.name)
    if isinstance(operation, KeepChunk):
        if called.get(name, operation.name) != operation.name:
            return ChunkAnswer(
                failed=f"{operation.name[:80]!r} and {called[name][:80]!r} would be one chunk; rename one"
            )
        entry = StoreEntry(name, whole(operation.content), whole(operation.description), whole(operation.source))
        faults = heaps.faults(heap, (entry,), state.begun.budgets)
        return ChunkAnswer(failed="; ".join(faults)) if faults else ChunkKept(*_fields(entry))
    if name not in heap.chunks:
        return ChunkAnswer(failed=heaps.no_chunk(heap, name))
    return ChunkAnswer(heap.chunks[name].content) if isinstance(operation, ReadChunk) else ChunkDropped(name)


def _fields(entry: StoreEntry) -> tuple[str, str, str, str]:
    return entry.name, entry.content, entry.description, entry.source
