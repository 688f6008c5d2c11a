"""What passed, line after line: the record that a run's trace is told from.

Rule 1: a line is written with one call when the thing has happened, so kill -9 takes nothing that happened before.
Rule 2: nothing is written twice: a request's line holds what it said that was not known.
Rule 3: no key is in it: headers are not recorded, and texts go through the scrubber.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct, UnsetType

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Part, Text, ToolSpec, Usage
from stackmem.doors.gateway.wires.wire import Role
from stackmem.errors import TraceError
from stackmem.foreign.files import bounded_lines, descriptor_of_regular, open_regular
from stackmem.trace.store import append_line, cut_torn_line

from .conversations import Kind


class ToldMessage(Struct, frozen=True):
    """A message as it is recorded."""

    role: Role
    parts: tuple[Part, ...]


class SummaryPassed(Struct, frozen=True):
    """A text that a strategy asked for, with the client's key, before the client's request went on."""

    turns: int  # exchanges that it is to stand for; ``kept`` stay behind it
    kept: int
    asked: str  # what asked for it
    status: int  # the HTTP status; 0 where there was none
    reply: ModelReplied | ModelFailed
    seconds: float = 0.0
    sent_bytes: int = 0  # of the request that asked
    lost: Usage = Usage()  # of an answer that did not end: what it used at least

    @property
    def text(self) -> str:
        """What was written; empty where nothing was."""
        parts = self.reply.parts if isinstance(self.reply, ModelReplied) else ()
        return "\n".join(part.text for part in parts if isinstance(part, Text)).strip()

    @property
    def usage(self) -> Usage:
        return self.reply.usage if isinstance(self.reply, ModelReplied) else self.lost


class RequestPassed(Struct, frozen=True, tag="asked"):
    """A client asked."""

    at: float  # seconds since 1970
    number: int  # of the exchange, from 1 in the run
    conversation: int  # its number in the gateway; ``parent`` that of the one whose call it works for
    kind: Kind
    wire: str
    model: str
    told: tuple[ToldMessage, ...]  # what was not known of the conversation
    # body_sha256, body_bytes: of the request as the client sent it; ``sent_`` as it went upstream
    body_sha256: str
    body_bytes: int
    sent_sha256: str
    sent_bytes: int
    retry: bool = False
    parent: int | None = None
    call_id: str = ""
    # system, tools: with the first request of a conversation; else empty
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    continues: str = ""
    # what was in force; empty for ``full``. Of the exchanges it left out the first ``dropped`` and showed the first
    # ``short`` not whole
    strategy: str = ""
    dropped: int = 0
    short: int = 0
    summary: SummaryPassed | UnsetType = UNSET  # the text that was asked for before it went on, or why there is none


class AnswerPassed(Struct, frozen=True, tag="answered"):
    """The upstream answered, or did not."""

    at: float
    number: int  # of the exchange
    status: int  # the HTTP status; 0 where there was none
    reply: ModelReplied | ModelFailed
    first_byte_seconds: float = 0.0  # from the request to the answer's first byte; ``seconds`` to its last
    seconds: float = 0.0
    elsewhere: bool = False  # the conversation had gone on meanwhile
    lost: Usage | UnsetType = UNSET  # of an answer that did not end: what it used at least


class RunClosed(Struct, frozen=True, tag="closed"):
    """The gateway ended, or forgot the conversation."""

    at: float


Passed = RequestPassed | AnswerPassed | RunClosed

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Passed)


class ExchangeWriter:
    """Appends what passed to a run's file."""

    def __init__(self, path: Path) -> None:
        """Raises ``TraceError`` where it cannot be made."""
        try:
            self._file = descriptor_of_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            self._size = cut_torn_line(self._file)
        except OSError as error:
            raise TraceError(f"{path} cannot be made ({error.strerror}); choose another folder with -o") from error
        self._path = path

    def append(self, passed: Passed) -> None:
        """Raises ``TraceError`` where the disk takes no more; what stood before is whole."""
        try:
            self._size = append_line(self._file, _encoder.encode(passed) + b"\n", self._size)
        except OSError as error:
            raise TraceError(f"{self._path} cannot be written ({error.strerror}); make room there") from error

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def read_exchanges(path: Path) -> Iterator[Passed]:
    """What passed, in order; a last line that a crash cut short is left out."""
    try:
        with open_regular(path) as file:
            for number, line in enumerate(bounded_lines(file), 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    yield _decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    raise TraceError(f"line {number} of {path} is no line of the gateway's ({error})") from error
    except OSError as error:
        raise TraceError(f"{path} cannot be read ({error.strerror})") from error
