"""One step for display: the prompt part by part, the reply, and what it changed."""

from __future__ import annotations

from typing import Any, assert_never

import msgspec
from msgspec import Struct

from stackmem.core.errors import TraceError, UsageError
from stackmem.core.facts import Event, ModelReplied
from stackmem.core.heap import Heap
from stackmem.core.messages import Part, Text, Thinking, ToolCall, ToolResult, Usage, View
from stackmem.core.state import Frame
from stackmem.trace.moments import StepMoment, proven
from stackmem.trace.open_run import Run
from stackmem.trace.snapshot import FileChange, changes
from stackmem.trace.steps import FrameSpan


class ShownPart(Struct, frozen=True):
    """A piece of a prompt or a reply, unchanged. ``label`` says what it is."""

    label: str
    text: str

    @property
    def chars(self) -> int:
        return len(self.text)


class ShownFrame(Struct, frozen=True):
    """A frame on the stack with its registers R0, R1 and R3."""

    id: str
    name: str
    depth: int
    intent: str
    return_spec: str
    constraint: str


class ShownChunk(Struct, frozen=True):
    """A chunk with the fields of ``Chunk``, and whether its source is known to have changed since."""

    name: str
    content: str
    description: str
    source: str
    created: int
    written: int
    read: int | None
    stale: bool


class StepView(Struct, frozen=True):
    """One step."""

    run: str
    step: int
    seq: int
    at: float  # when the reply came, in seconds since 1970, UTC
    strategy: str
    frame: ShownFrame  # the frame of the request
    prompt_digest: str
    prompt: tuple[ShownPart, ...]  # each tool, the system prompt, then each part of each message
    # Whether the digest proves that this exact prompt was sent. If not, it is what today's code renders: the run was
    # imported, or made under other rules.
    prompt_sent: bool
    reply: tuple[ShownPart, ...]
    stop: str
    usage: Usage
    usd: float | None  # cost of the run including this step; None if unknown
    context_tokens: int  # tokens of the prompt, as counted by the model
    followed: tuple[Event, ...]  # the events that followed the reply
    stack: tuple[ShownFrame, ...]  # frames on the stack after the reply's call was answered, root first
    heap: tuple[ShownChunk, ...]  # the chunks at that moment
    heap_chars: int
    files: tuple[FileChange, ...]  # changes of the step in the workspace
    files_missing: str = ""  # why ``files`` is not known; otherwise empty


def view_step(run: Run, step: int) -> StepView:
    """Return a step of a run, from 1.

    Raise UsageError if the step does not exist. Raise TraceError if the trace is broken before this step, or its
    strategy is not installed.
    """
    moment = run.moment(step)
    view = run.rendered(moment)
    reply = moment.record.event
    if not isinstance(reply, ModelReplied):
        raise UsageError("step 0 is the run's start and has no prompt; choose a step from 1")
    state = moment.settled
    files, missing = _files(run, moment)
    return StepView(
        run=run.id,
        step=step,
        seq=moment.record.seq,
        at=moment.record.at,
        strategy=moment.before.begun.strategy,
        frame=_frame(moment.before.running),
        prompt_digest=reply.prompt_digest,
        prompt=prompt_parts(view),
        prompt_sent=proven(moment, view),
        reply=tuple(_part(part) for part in reply.parts),
        stop=reply.stop,
        usage=reply.usage,
        usd=state.cost_usd,
        context_tokens=reply.usage.prompt,
        followed=tuple(record.event for record in moment.followed),
        stack=tuple(_frame(frame) for frame in state.stack),
        heap=_chunks(state.heap),
        heap_chars=state.heap.chars,
        files=files,
        files_missing=missing,
    )


def prompt_parts(view: View) -> tuple[ShownPart, ...]:
    """Return a prompt piece by piece, in the order in which the model reads it."""
    parts = [ShownPart(f"tool {tool.name}", f"{tool.description}\n{tool.schema}") for tool in view.tools]
    parts.append(ShownPart("system", view.system))
    for number, message in enumerate(view.messages, 1):
        for part in message.parts:
            piece = _part(part)
            parts.append(ShownPart(f"message {number}, {message.role}: {piece.label}", piece.text))
    return tuple(parts)


def last_step_of(frames: tuple[FrameSpan, ...], name: str) -> int:
    """Return the last step of the frame with this id or name. Its prompt contains the frame's whole conversation.

    Raise UsageError if the frame does not exist or had no step, or several frames have this name.
    """
    matches = [frame for frame in frames if frame.id == name] or [frame for frame in frames if frame.name == name]
    if not matches:
        names = ", ".join(f"{frame.id} {frame.name!r}" for frame in frames[:10])
        raise UsageError(f"no frame {name[:80]!r}; the run has {len(frames)}: {names}{' …' if frames[10:] else ''}")
    if len(matches) > 1:
        ids = ", ".join(frame.id for frame in matches[:10])
        raise UsageError(f"{len(matches)} frames are called {name[:80]!r}; choose one by its id: {ids}")
    if not matches[0].last:
        raise UsageError(f"the frame {name[:80]!r} has no steps; stackmem replay RUN --step lists the steps of the run")
    return matches[0].last


def _files(run: Run, moment: StepMoment) -> tuple[tuple[FileChange, ...], str]:
    if not moment.settled.tree:
        return (), "the run stored no files"
    try:
        return tuple(changes(run.snapshot(moment.before), run.snapshot(moment.settled))), ""
    except TraceError as error:
        return (), str(error)


def _frame(frame: Frame) -> ShownFrame:
    own = frame.registers
    return ShownFrame(frame.id, frame.name, frame.depth, own.intent, own.return_spec, own.constraint)


def _chunks(heap: Heap) -> tuple[ShownChunk, ...]:
    return tuple(
        ShownChunk(
            chunk.name, chunk.content, chunk.description, chunk.source, chunk.created, chunk.written, chunk.read,
            heap.stale(chunk),
        )
        for chunk in heap.chunks.values()
    )  # fmt: skip


def _part(part: Part) -> ShownPart:
    match part:
        case Text():
            return ShownPart("text", part.text)
        case Thinking():
            return ShownPart("thinking", _json(part.raw))
        case ToolCall():
            return ShownPart(
                f"call {part.name}", part.malformed if part.malformed is not None else _json(part.arguments)
            )
        case ToolResult():
            return ShownPart("failed result" if part.failed else "result", part.text)
        case _:
            assert_never(part)


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
