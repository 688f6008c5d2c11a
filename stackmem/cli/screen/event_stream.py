"""``--stream-json``: one JSON event per line on stdout while a run works. ``docs/stream-json.md`` documents it.

Each line is made from the voice of a fact, so a fact that a later version adds has a line too.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from stackmem.core.facts import Event, ModelReplied
from stackmem.core.messages import ToolCall
from stackmem.core.state import State
from stackmem.core.voice import VoiceKind
from stackmem.run.ports import Unattended
from stackmem.run.result import RunResult

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


class ResultLine(StreamLine, frozen=True, tag="result"):
    """The run is over. ``answer`` is the agent's last answer to the user."""

    answer: str
    exit_code: int
    result: RunResult


class ErrorLine(StreamLine, frozen=True, tag="error"):
    """The command could not run. This line is the last."""

    error: str
    exit_code: int


AnyLine = StartLine | EventLine | ResultLine | ErrorLine


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

    def __init__(self) -> None:
        self._count, self._gone = 0, False

    def __exit__(self, *error: object) -> None:
        pass

    def start(self, run_dir: Path) -> None:
        self._print(StartLine(n=self._next(), run=run_dir.name, run_dir=str(run_dir)))

    def __call__(self, event: Event, state: State) -> None:
        voice = event.voice
        parts = event.parts if isinstance(event, ModelReplied) else ()
        self._print(
            EventLine(
                n=self._next(), fact=type(event).__name__, kind=voice.kind, line=voice.line, text=voice.text,
                failed=voice.failed, step=state.step, depth=max(0, len(state.stack) - 1), tokens=state.usage.total,
                cost_usd=state.cost_usd if state.start is not None else None,
                calls=tuple(StreamedCall(part.name, part.arguments) for part in parts if isinstance(part, ToolCall)),
            )
        )  # fmt: skip

    def end(self, result: RunResult, answer: str, exit_code: int) -> None:
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
