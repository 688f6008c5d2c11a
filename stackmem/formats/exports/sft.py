"""Training samples: one per frame and per uncut stretch of it, with the spans that the model wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.facts import CallRejected, FramePopped, ModelReplied
from stackmem.core.messages import Message, Part, ReplyPart, Text, Thinking, ToolCall, ToolResult, ToolSpec
from stackmem.core.state import Reply, State
from stackmem.review.measure.moments import Moment
from stackmem.trace.record import Record

from .slices import walk
from .spelling import arguments, compact, function, view_of
from .stated import StatedRun

Json = dict[str, Any]


class _Ended(Struct):
    """A frame's last reply, or the last one before replies left its prompt, and how the frame ended."""

    last: Moment
    earlier_replies: int  # replies in the prompt that it answers
    popped: FramePopped | None = None
    cut: int = 0  # the number of the cut, from 1; 0 for the end of the frame


def sft(records: Iterable[Record], run: str) -> Iterator[str]:
    """Yield a line for each frame with a reply, in the order in which they ended.

    A sample is the frame's last prompt as it was sent, with its reply. If a strategy rewrites earlier prompts, the
    sample contains the latest version. If replies left the prompt (by a cut or a summary), the last prompt with them is
    also a sample, and so is each completion requested by a program.

    A span is marked ``elsewhere`` if another sample contains the reply as its own: an earlier sample, or one of the
    parent frame. Raise TraceError if a record is broken, or the run's strategy is not installed.
    """
    last: dict[str, _Ended] = {}
    ended: list[_Ended] = []
    refused: set[int] = set()
    cuts, state = 0, State()
    for moment in walk(records):
        state = moment.after
        match moment.event:
            case ModelReplied():
                before = last.get(moment.frame.id)
                reply_count = sum(
                    message.role == "assistant" for message in (moment.view or view_of(moment.before)).messages
                )
                if before is not None and (reply_count <= before.earlier_replies or moment.view is not None):
                    cuts += 1
                    ended.append(replace(before, cut=cuts))
                last[moment.frame.id] = _Ended(moment, reply_count)
            case CallRejected():
                refused.add(state.step)
            case FramePopped() if moment.frame.id in last:
                ended.append(replace(last.pop(moment.frame.id), popped=moment.event))
    ended += [last[frame.id] for frame in reversed(state.stack) if frame.id in last]
    spanned: set[int] = set()
    statements = StatedRun(records)
    for frame in ended:
        yield (
            compact(
                {
                    **_sample(run, frame, state, refused, spanned),
                    "strategy": statements.strategy(frame.last.before.begun),
                }
            )
            + "\n"
        )


def _sample(run: str, ended: _Ended, final: State, refused: set[int], spanned: set[int]) -> Json:
    """Return one line. ``spanned`` contains the steps that already have a span, and is updated."""
    before, event = ended.last.before, ended.last.event
    frame, start = before.running, before.begun
    view = ended.last.view or view_of(before)
    written = [*view.messages]
    if isinstance(event, ModelReplied):
        written.append(Message("assistant", tuple(event.parts)))
    text, ranges = _text(view.system, view.tools, written, _steps(ended.last, written), refused)
    own = {turn.step for turn in frame.turns if isinstance(turn, Reply)} | {before.step + 1}
    spans = [{**span, "elsewhere": span["step"] not in own or span["step"] in spanned} for span in ranges]
    spanned |= {span["step"] for span in spans if not span["elsewhere"]}
    popped = ended.popped
    ending = "open" if popped is None else f"forced:{popped.forced}" if popped.forced else "popped"
    return {
        "id": f"{run}/{frame.id}" + (f"/cut-{ended.cut}" if ended.cut else ""),
        "frame": {"id": frame.id, "name": frame.name, "depth": frame.depth, "parent": frame.parent},
        "ending": "cut" if ended.cut else ending,
        "verified": popped.verified if popped else "",
        "outcome": final.outcome,
        "rewards": final.checks.rewards if final.checks else {},
        "model": start.model,
        "strategy": start.strategy,
        "tools": [function(tool) for tool in view.tools],
        "messages": _messages(view.system, written),
        "text": text,
        "spans": spans,
    }


def _steps(last: Moment, written: list[Message]) -> list[int]:
    """Return the steps of the replies in a prompt, oldest first; those of parent frames come first.

    In a program's own prompt the steps of earlier replies are unknown, which is represented by 0.
    """
    state = last.before
    if last.view is not None:
        return [*(0 for message in written if message.role == "assistant"), state.step + 1][1:]
    return [*(turn.step for frame in state.stack for turn in frame.turns if isinstance(turn, Reply)), state.step + 1]


def _messages(system: str, written: list[Message]) -> list[Json]:
    """Return messages in the format of chat interfaces. Thinking is specific to a provider and left out."""
    messages: list[Json] = [{"role": "system", "content": system}] if system else []
    for message in written:
        words = "\n".join(part.text for part in message.parts if isinstance(part, Text))
        if message.role == "assistant":
            calls = [_call(part) for part in message.parts if isinstance(part, ToolCall)]
            messages.append({"role": "assistant", "content": words, **({"tool_calls": calls} if calls else {})})
            continue
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        messages += [{"role": "tool", "tool_call_id": part.call_id, "content": part.text} for part in results]
        if words or not results:
            messages.append({"role": "user", "content": words})
    return messages


def _call(part: ToolCall) -> Json:
    spelled = {"name": part.name, "arguments": compact(arguments(part))}
    return {"id": part.id, "type": "function", "function": spelled}


def _text(
    system: str, tools: tuple[ToolSpec, ...], written: list[Message], steps: list[int], refused: set[int]
) -> tuple[str, list[Json]]:
    """Return the sample as one text, with the character ranges that the model wrote."""
    pieces: list[str] = []
    spans: list[Json] = []
    length = 0

    def write(text: str) -> None:
        nonlocal length
        pieces.append(text)
        length += len(text)

    write("<|system|>\n" + system + "\n")
    for tool in tools:
        write(compact(function(tool)) + "\n")
    replies = [message for message in written if message.role == "assistant"]
    numbers = iter(steps[-len(replies) :])
    for message in written:
        write(f"<|{message.role}|>\n")
        start = length
        write("\n".join(filter(None, map(_spelled, message.parts))))
        if message.role == "assistant":
            step = next(numbers)
            if step:
                spans.append({"start": start, "end": length, "step": step, "refused": step in refused})
        write("\n")
    return "".join(pieces), spans


def _spelled(part: Part | ReplyPart) -> str:
    match part:
        case Text():
            return part.text
        case ToolCall():
            return f"<|call|>{compact({'name': part.name, 'arguments': arguments(part)})}"
        case ToolResult():
            return f"<|result|>{part.text}"
        case Thinking():
            return ""
        case _:
            assert_never(part)
