"""``--stream-json``: one JSON event per line on stdout while a run works. ``docs/headless.md`` documents it.

Each line is made from the voice of a fact, so a fact that a later version adds has a line too.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from stackmem.core.declarations import Voice, VoiceKind
from stackmem.core.facts import Event, ModelReplied
from stackmem.core.messages import ToolCall
from stackmem.core.parallel.facts import FramesMerged
from stackmem.core.requests import AskPermission, AskUser
from stackmem.core.state import State
from stackmem.run.ports import Unattended
from stackmem.run.result import RunResult

from .frames import FrameBoard, FrameLine, FrameNews, FrameStatus

STREAM_VERSION: Literal[1] = 1
"""Raised when a field is removed or changes its meaning. New fields and new kinds of lines keep the number."""


class StreamLine(Struct, frozen=True, tag_field="type", kw_only=True):
    """The fields of every line: the version of the format, and the number of the line in the stream, from 1."""

    n: int
    v: Literal[1] = STREAM_VERSION


class StartLine(StreamLine, frozen=True, tag="start"):
    """The run has a folder. A resumed run starts again with the same id."""

    run: str
    run_dir: str


class StreamedCall(Struct, frozen=True):
    """A call that a reply contains. Arguments that are not an object stay as the model wrote them."""

    name: str
    arguments: Any


class EventLine(StreamLine, frozen=True, tag="event"):
    """A fact was recorded.

    Attributes:
        fact: The name of the fact, as in the trace.
        kind: What it is about.
        line: One line that says what happened.
        text: The whole text, such as a reply or the output of a command; often empty.
        failed: Whether something was refused or went wrong.
        step, depth: The number of replies so far, and of frames above the root.
        tokens, cost_usd: The usage so far; the cost is null if the model's price is unknown.
        calls: The calls of a reply.
    """

    fact: str
    kind: VoiceKind
    line: str
    text: str
    failed: bool
    step: int
    depth: int
    tokens: int
    cost_usd: float | None
    calls: tuple[StreamedCall, ...] = ()


class FrameStreamLine(StreamLine, frozen=True, tag="frame"):
    """A fact of a parallel frame, or the merge of its changes.

    Attributes:
        frame, name, run: The id of the frame, its name, and the id of its run.
        status: ``running``; ``done`` once it has returned; ``ended`` if it ended for another reason, such as a limit;
            then ``merged``, or ``conflict`` if it and an earlier frame changed the same lines.
        steps, seconds: The replies in this frame so far, and the time since it began.
        fact, kind, line, text, failed, calls: As in ``event``. The fact of a merge is that of the run.
    """

    frame: str
    name: str
    run: str
    status: FrameStatus
    steps: int
    seconds: float
    fact: str
    kind: VoiceKind
    line: str
    text: str
    failed: bool
    calls: tuple[StreamedCall, ...] = ()


class ResultLine(StreamLine, frozen=True, tag="result"):
    """The run is over. ``answer`` is the agent's last answer to the user."""

    answer: str
    exit_code: int
    result: RunResult


class ErrorLine(StreamLine, frozen=True, tag="error"):
    """The command could not run. This line is the last."""

    error: str
    exit_code: int


AnyLine = StartLine | EventLine | FrameStreamLine | ResultLine | ErrorLine


def stream_schema() -> dict[str, Any]:
    """Return the JSON Schema of a line."""
    (schema,), components = msgspec.json.schema_components([AnyLine], ref_template="#/$defs/{name}")
    for shape in components.values():
        if "v" in shape["properties"]:
            shape["required"].append("v")
    name = "A line of stackmem --stream-json"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name, **schema, "$defs": components}


class EventStream(AbstractContextManager[Any]):
    """Prints a line for each fact. If the reader goes away, the run is interrupted and can be resumed."""

    observe_reading: None = None  # it prints only facts

    def __init__(self) -> None:
        self._count, self._gone = 0, False
        self._lock = threading.RLock()  # the threads of parallel frames print too
        self._board, self._run = FrameBoard(), ""

    def __exit__(self, *error: object) -> None:
        pass

    def start(self, run_dir: Path) -> None:
        self._run = run_dir.name
        with self._lock:
            self._print(StartLine(n=self._next(), run=run_dir.name, run_dir=str(run_dir)))

    def __call__(self, event: Event, state: State) -> None:
        voice = event.voice
        with self._lock:
            merged = self._board.observe(event, state)
            self._print(
                EventLine(
                    n=self._next(), fact=type(event).__name__, kind=voice.kind, line=voice.line, text=voice.text,
                    failed=voice.failed, step=state.step, depth=max(0, len(state.stack) - 1), tokens=state.usage.total,
                    cost_usd=state.cost_usd if state.start is not None else None, calls=_calls(event),
                )
            )  # fmt: skip
            for frame in merged if isinstance(event, FramesMerged) else ():
                self._print_frame(frame, event)

    def observe_frame(self, name: str, news: FrameNews, state: State) -> None:
        if isinstance(news, AskPermission | AskUser):
            return  # nobody is asked
        with self._lock:
            frame = self._board.observe_frame(name, news, state)
            if frame is not None:
                self._print_frame(frame, news)

    def _print_frame(self, frame: FrameLine, event: Event) -> None:
        voice = event.voice
        if isinstance(event, FramesMerged):
            files = f"conflict in {frame.doing}" if frame.status == "conflict" else "merged"
            voice = Voice(voice.kind, files, failed=frame.status == "conflict")
        self._print(
            FrameStreamLine(
                n=self._next(), frame=frame.frame, name=frame.name, run=f"{self._run}.{frame.frame}",
                status=frame.status, steps=frame.steps, seconds=round(frame.elapsed(self._board.clock()), 3),
                fact=type(event).__name__, kind=voice.kind, line=voice.line, text=voice.text, failed=voice.failed,
                calls=_calls(event),
            )
        )  # fmt: skip

    def end(self, result: RunResult, answer: str, exit_code: int) -> None:
        with self._lock:
            self._print(ResultLine(n=self._next(), answer=answer, exit_code=exit_code, result=result))

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _print(self, line: AnyLine) -> None:
        if self._gone:
            return
        try:
            sys.stdout.write(f"{msgspec.json.encode(line).decode()}\n")
            sys.stdout.flush()
        except OSError:
            self._gone = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.kill(os.getpid(), signal.SIGINT)


def _calls(event: Event) -> tuple[StreamedCall, ...]:
    parts = event.parts if isinstance(event, ModelReplied) else ()
    return tuple(StreamedCall(part.name, part.arguments) for part in parts if isinstance(part, ToolCall))


class StreamedUser(Unattended):
    """An absent user, whose run is named in the stream."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream

    def attend(self, run_dir: Path) -> object:
        self._stream.start(run_dir)
        return None


def error_line(says: str, code: int) -> str:
    """Return the line for an error of the command. It has no number, because the stream may not have begun."""
    return msgspec.json.encode(ErrorLine(n=0, error=says, exit_code=code)).decode()
