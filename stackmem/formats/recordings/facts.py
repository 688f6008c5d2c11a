"""Convert a foreign recording to facts: what its trace would contain, as far as it can be known.

Rule 1: a reply is one step with the recorded usage. Usage is never estimated. Rule 2: results follow their reply in the
order of its calls, one fact each. Rule 3: a call that started another agent becomes a push, and that agent's
conversation a frame. Arguments of a foreign
    call are rewritten as a push, with the original in the context. Frames must follow one another, so a reply with
    such a call and other calls is split into several replies; the first one gets the usage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec
from msgspec import UNSET, Struct, UnsetType

from stackmem.core.budgets import Budgets, Limits
from stackmem.core.facts import (
    ContextCompacted,
    Ending,
    Event,
    FramePopped,
    FramePushed,
    ModelReplied,
    NoticeGiven,
    RunEnded,
    RunStarted,
    ToolReturned,
)
from stackmem.core.messages import ReplyPart, Text, ToolCall, Usage
from stackmem.core.pricing import Answerer, Price
from stackmem.core.tool_schemas import parse
from stackmem.core.tools import PushFrame
from stackmem.review.measure.foreign_tools import does
from stackmem.trace.imported import mark

from .session import (
    RecordedFailure,
    RecordedReply,
    RecordedResult,
    RecordedSession,
    RecordedSummary,
    RecordedText,
    RecordedTurn,
)

USER = "imported:user"
UNANSWERED = "(the recording contains no result)"
_NOT_NAME = re.compile(r"[^A-Za-z0-9_./-]+")


class TimedFact(Struct, frozen=True):
    """A fact with its time in seconds since 1970."""

    at: float
    event: Event


def own_model(reply: RecordedReply) -> UnsetType:
    """Return UNSET, which means that the recording's own model gave the reply."""
    return UNSET


def facts(
    session: RecordedSession,
    price: Price | None,  # of the recording's own model; None if unknown
    window_tokens: int,
    by: Callable[[RecordedReply], Answerer | UnsetType] = own_model,  # returns another model if one gave the reply
) -> Iterator[TimedFact]:
    """Yield the whole trace of a recording."""
    times = (at for at in (session.began, *_times(session)) if at is not None)
    teller = Teller(next(times, 0.0), by)
    yield teller.fact(None, started(session, price, window_tokens, "stackheap" if _has_children(session) else "full"))
    for turn in session.turns:
        yield from teller.turn(turn)
    if ending(session) == "popped":
        yield teller.fact(None, FramePopped("frame-0", result(session)))
    yield teller.fact(None, RunEnded(ending(session), result(session)))
    if session.checks is not None:
        yield teller.fact(None, session.checks)


def started(session: RecordedSession, price: Price | None, window_tokens: int, strategy: str) -> RunStarted:
    """Return the first fact of a recording, with the strategy that renders its prompts."""
    return RunStarted(
        task=session.task,
        task_name=session.name or session.id,
        model=session.model or "unknown",
        strategy=strategy,
        system=session.system,
        tools=session.tools,
        workspace=session.workspace,
        isolation="unknown",
        network="unknown",
        budgets=Budgets(),
        limits=Limits(steps=None),
        window_tokens=window_tokens,
        price=price,
        checked=session.checks is not None,
        command_seconds=0.0,
        version=mark(session.origin),
        rules=0,
    )


def _has_children(session: RecordedSession) -> bool:
    return any(answer.child is not None for reply in session.replies() for answer in reply.answers)


def ending(session: RecordedSession) -> Ending:
    """Return ``popped`` if the last reply has no calls or one that ends the work, or the recording says so."""
    if session.ending is not None:
        return session.ending
    if session.finished is not None:
        return "popped" if session.finished else "interrupted"
    last = next((turn for turn in reversed(session.turns) if isinstance(turn, RecordedReply)), None)
    done = last is not None and (not last.calls or does(last.calls[0]) == "ends")
    return "popped" if done else "interrupted"


def result(session: RecordedSession) -> str:
    """Return the result that the recording states, otherwise the last text."""
    if session.result is not None:
        return session.result
    for turn in reversed(session.turns):
        if isinstance(turn, RecordedReply):
            arguments = turn.calls[0].arguments if turn.calls and turn.calls[0].name == "pop_frame" else None
            if isinstance(arguments, dict) and isinstance(arguments.get("result"), str):
                return str(arguments["result"])
            text = "\n".join(part.text for part in turn.parts if isinstance(part, Text)).strip()
            if text:
                return text
    return ""


class Teller:
    """Converts the turns of a recording one by one."""

    def __init__(self, began: float, by: Callable[[RecordedReply], Answerer | UnsetType] = own_model) -> None:
        self._by = by
        self._at = began
        self._frames = 0
        self._steps = 0
        self._open: list[tuple[str, list[int]]] = [("frame-0", [])]

    def fact(self, at: float | None, event: Event) -> TimedFact:
        """Return a timed fact. Without a time it gets that of the previous fact, and times never decrease."""
        self._at = self._at if at is None else max(self._at, at)
        return TimedFact(self._at, event)

    def turn(self, turn: RecordedTurn) -> Iterator[TimedFact]:
        """Yield the facts of one turn, including a reply's answers and the agents that its calls started."""
        match turn:
            case RecordedText():
                yield self.fact(turn.at, NoticeGiven(USER, turn.text))
            case RecordedFailure():
                yield self.fact(turn.at, turn.failed)
            case RecordedSummary():
                yield self._compacted(turn)
            case RecordedReply():
                yield from self._reply_facts(turn)

    def _reply_facts(self, reply: RecordedReply) -> Iterator[TimedFact]:
        answers = {answer.call_id: answer for answer in reply.answers}
        calls = reply.calls
        if not any(answer.child for answer in reply.answers):
            yield self._replied(reply, reply.parts, reply.usage)
            for call in calls if answers else ():
                yield self._returned(answers.get(call.id))
            return
        words = tuple(part for part in reply.parts if not isinstance(part, ToolCall))
        usage = reply.usage
        for call in calls:
            answer = answers.get(call.id)
            child = answer.child if answer else None
            recorded_call = call if child is None else _as_push(call, child)
            yield self._replied(reply, (*words, recorded_call), usage)
            words, usage = (), Usage()
            if answer is None or child is None:
                yield self._returned(answer)
            else:
                yield from self._frame(recorded_call, answer, child)

    def _replied(self, recorded: RecordedReply, parts: tuple[ReplyPart, ...], usage: Usage) -> TimedFact:
        reply = ModelReplied(
            parts,
            recorded.stop,
            usage,
            reply_id=recorded.reply_id,
            answerer=self._by(recorded),
            repairs=recorded.repairs or UNSET,
        )
        self._steps += 1
        self._open[-1][1].append(self._steps)
        return self.fact(recorded.at, reply)

    def _compacted(self, turn: RecordedSummary) -> TimedFact:
        frame, steps = self._open[-1]
        text = "\n".join(part.text for part in turn.reply.parts if isinstance(part, Text)).strip()
        upto = steps[-1 - turn.kept_replies] if turn.kept_replies < len(steps) else 0
        return self.fact(turn.at, ContextCompacted(
            frame, upto, text, turn.reply.usage, stop=turn.reply.stop, reply_id=turn.reply.reply_id,
            answerer=self._by(turn.reply),
        ))  # fmt: skip

    def _returned(self, answer: RecordedResult | None) -> TimedFact:
        if answer is None:
            return self.fact(None, ToolReturned(UNANSWERED, failed=True))
        return self.fact(answer.at, ToolReturned(answer.text, answer.failed, answer.exit_code))

    def _frame(self, call: ToolCall, answer: RecordedResult, child: RecordedSession) -> Iterator[TimedFact]:
        push = parse(call, (PushFrame,))
        if not isinstance(push, PushFrame):
            raise TypeError(f"{call.name} was not spelled as a push")
        self._frames += 1
        frame = f"frame-{self._frames}"
        began = next((at for at in _times(child) if at is not None), None)
        yield self.fact(
            began, FramePushed(frame, push.name, push.objective, push.return_spec, push.constraint, push.context)
        )
        self._open.append((frame, []))
        for turn in child.turns:
            yield from self.turn(turn)
        self._open.pop()
        yield self.fact(answer.at, FramePopped(frame, answer.text))


def _times(session: RecordedSession) -> Iterator[float | None]:
    for turn in session.turns:
        yield turn.at


def frame_name(text: str) -> str:
    """Return a text as the name of a frame."""
    return _NOT_NAME.sub("-", text).strip("-")[:64]


def _as_push(call: ToolCall, child: RecordedSession) -> ToolCall:
    """Return the call as a push of stackmem, so that its frame is on the stack. Own pushes stay as they are."""
    if isinstance(parse(call, (PushFrame,)), PushFrame):
        # its chunks are not on stackmem's heap
        arguments = {name: value for name, value in call.arguments.items() if name != "store"}
        return ToolCall(call.id, call.name, arguments)
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    purpose = next((text for key in ("description", "objective", "prompt", "task") if (text := arguments.get(key))), "")
    original = f"{call.name} {msgspec.json.encode(arguments).decode()}"
    spelled = {
        "name": frame_name(child.name or call.name) or "agent",
        "objective": purpose if isinstance(purpose, str) else "",
        "context": original,
        "return_spec": "",
    }
    return ToolCall(call.id, "push_frame", spelled)
