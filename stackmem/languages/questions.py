"""What a program waits for: its questions to the world, each with what came of it so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, json
from msgspec.structs import replace

from stackmem.core.budgets import UNFIT_RESULTS
from stackmem.core.facts import Event, ModelFailed, ModelReplied, RunEnded
from stackmem.core.json_schema import first_fault, read_json
from stackmem.core.log import Log
from stackmem.core.messages import Message, Text, View
from stackmem.core.program_facts import SourceLoaded, ToolAnswered
from stackmem.core.requests import AskModel, answers
from stackmem.core.retries import after_failure, wait_seconds
from stackmem.core.state import PoppedFrame, Reply, State

from .operations import Answer, Complete, Completion, FrameAnswer, RunFrame, Single, Source, ToolAnswer

_FAILED_STOPS = {"window": "window", "truncated": "truncated", "refused": "refused"}
_WHY = {
    "misfit": f"{UNFIT_RESULTS} results did not fit what is asked for",
    "window": "the frame filled the model's window",
    "constraint": "the frame used up what it was given",
    "stalled": "the model made no usable call",
}


class ReadSpending(Struct, frozen=True):
    """Look at what the run has used so far; answered by ``Spending``. Nobody is told of it: it changes nothing.

    Attributes:
        seconds: The clock is looked at, too, which is a fact of its own.

    """

    seconds: bool = False


class Spending(Struct, frozen=True):
    """What the run has used.

    Attributes:
        usd: For all that has a price; None as long as nothing has one.
        seconds: Up to the last look at the clock.

    """

    usd: float | None
    seconds: float


def spending(state: State) -> Spending:
    known = state.begun.price is not None or state.usd > 0
    return Spending(state.usd if known else None, state.seconds)


class Question(Struct):
    """One effect and what is known of its answer.

    Attributes:
        branch: Its place in its group; None where it stands alone.
        failures: Of the provider, since its last reply.
        added: Replies that did not fit the schema, each with its refusal.

    """

    effect: Single
    branch: int | None = None
    failures: tuple[ModelFailed, ...] = ()
    added: tuple[Message, ...] = ()
    misfits: int = 0
    done: bool = False
    answer: Answer = None

    def settle(self, answer: Answer) -> None:
        self.done, self.answer = True, answer

    def answered_by(self, event: Event) -> bool:
        """Whether ``event`` is of the kind that answers it; a frame's result is no fact of its own."""
        if isinstance(self.effect, RunFrame):
            return False
        return answers(AskModel if isinstance(self.effect, Complete) else type(self.effect), event, self.branch)


def asked_model(question: Question, effect: Complete, state: State, rank: int) -> AskModel:
    """The request of a completion; ``rank`` counts the completions asked for beside it, from 0."""
    frame = state.running
    return AskModel(
        view=View(effect.system, (), Log([*_messages(effect), *question.added]), effect.breakpoints),
        step=state.step + rank + 1,
        facts=state.facts + rank,
        attempt=len(question.failures) + 1,
        wait_seconds=wait_seconds(question.failures),
        frame=effect.name or frame.name,
        depth=frame.depth,
        chunks=tuple(state.heap.chunks),
        model=effect.model,
    )


def _messages(effect: Complete) -> tuple[Message, ...]:
    if effect.schema is None:
        return effect.messages
    wanted = f"Reply with one JSON value that fits this JSON Schema, and with nothing else:\n{_text(effect.schema)}"
    *before, last = effect.messages
    return (*before, Message(last.role, (*last.parts, Text(wanted))))


def _text(schema: dict[str, Any]) -> str:
    return json.encode(schema).decode()


def take(question: Question, event: Event, text_of: Callable[[str], str]) -> None:
    """Note the event that answers the question, or part of its answer.

    Args:
        text_of: The text of a source, by its digest.

    """
    match event:
        case ToolAnswered():
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
    effect = question.effect
    text = "\n".join(part.text for part in reply.parts if isinstance(part, Text))
    failed = _FAILED_STOPS.get(reply.stop, "")
    schema = effect.schema if isinstance(effect, Complete) else None
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
        refused = f"That does not fit: {fault}. Reply again with the one JSON value, and with nothing else."
        said = Message("assistant", (Text(text if text.strip() else "(an empty reply)"),))
        question.added = (*question.added, said, Message("user", (Text(refused),)))


def given_up(question: Question, state: State) -> RunEnded | None:
    """The run's end where the provider has failed for good."""
    if not question.failures:
        return None
    followed = after_failure(replace(state, failures=question.failures))
    return followed if isinstance(followed, RunEnded) else None


def frame_answer(effect: Single, done: PoppedFrame) -> FrameAnswer:
    """What a frame that ended tells the program."""
    first = next((turn for turn in done.frame.turns if isinstance(turn, Reply)), None)
    plan = "\n".join(part.text for part in first.parts if isinstance(part, Text)).strip() if first else ""
    wanted = isinstance(effect, RunFrame) and effect.schema is not None
    value = read_json(done.result)[0] if wanted and not done.forced else None
    return FrameAnswer(done.result, value, done.forced, _WHY.get(done.forced, ""), plan)
