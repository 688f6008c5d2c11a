"""The gateway's log, one JSON line per event; a run's trace is derived from it.

- A line is written with one call after the event, so ``kill -9`` loses only what had not happened yet.
- Content is stored once: a request's line contains only the messages that were new.
- Keys are never stored: headers are left out, and texts go through the scrubber.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from stackmem.core.errors import TraceError
from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Part, Text, ToolCall, ToolSpec, Usage
from stackmem.doors.gateway.wires.wire import Role
from stackmem.foreign.files import bounded_lines, descriptor_of_regular, open_regular
from stackmem.trace.store import append_line, cut_torn_line

from .conversations import Kind


class ToldMessage(Struct, frozen=True):
    """A recorded message."""

    role: Role
    parts: tuple[Part, ...]


class SummaryPassed(Struct, frozen=True):
    """A summary that a strategy requested with the client's key, before the client's request continued."""

    turns: int  # exchanges that it summarizes; ``kept_exchanges`` is the number after them
    kept_exchanges: int = field(name="kept")
    request_text: str = field(name="asked")
    status: int  # the HTTP status; 0 without an answer
    reply: ModelReplied | ModelFailed
    seconds: float = 0.0
    sent_bytes: int = 0  # size of the summary request
    lost: Usage = Usage()  # known minimum usage of an incomplete answer

    @property
    def text(self) -> str:
        """Return the summary's text; empty if there is none."""
        parts = self.reply.parts if isinstance(self.reply, ModelReplied) else ()
        return "\n".join(part.text for part in parts if isinstance(part, Text)).strip()

    @property
    def usage(self) -> Usage:
        return self.reply.usage if isinstance(self.reply, ModelReplied) else self.lost


class RequestPassed(Struct, frozen=True, tag="asked"):
    """A client sent a request."""

    at: float  # seconds since 1970
    number: int  # the exchange's number in the run, from 1
    # the conversation's number in the gateway; ``parent`` is the one whose call it works for, or that a side request
    # belongs to
    conversation: int
    kind: Kind
    wire: str
    model: str
    new_messages: tuple[ToldMessage, ...] = field(name="told")  # messages that were new
    # body_sha256, body_bytes describe the client's request; ``sent_`` the request that went upstream. The digests
    # are of the bytes on the wire, the sizes without their content coding
    body_sha256: str
    body_bytes: int
    sent_sha256: str
    sent_bytes: int
    retry: bool = False
    # for an edit, the number of blocks of the earlier history that it keeps, and their digest
    earlier_blocks: int = 0
    beginning: str = ""
    parent: int | None = None
    call_id: str = ""
    # system, tools: only in the first request of a conversation
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    session: str = ""  # the client's own id of its session, in the first request of a conversation
    continues: str = ""
    # the active strategy; empty for ``full``. It left out the first ``dropped`` exchanges, and ``short`` counts
    # those dropped or shortened
    strategy: str = ""
    dropped: int = 0
    short: int = 0
    needs_thinking: bool = False  # whether each tool loop must begin with its thinking, which limits the cut
    summary: SummaryPassed | UnsetType = UNSET  # the summary that was requested first, or its failure
    # under a strategy, calls of earlier replies as the client sends them back from here on, with other arguments; the
    # cut counts these arguments. Unset if there are none, and in older logs
    changed_calls: tuple[ToolCall, ...] | UnsetType = UNSET
    # under ``stackheap``, the frame marks in ``new_messages`` that our memory server wrote; unset in older logs
    # had a seal
    marks: tuple[str, ...] | UnsetType = UNSET


class AnswerPassed(Struct, frozen=True, tag="answered"):
    """The upstream answered or failed."""

    at: float
    number: int  # the exchange's number
    status: int  # the HTTP status; 0 without an answer
    reply: ModelReplied | ModelFailed
    first_byte_seconds: float = 0.0  # from the request to the first byte of the answer; ``seconds`` to its last byte
    seconds: float = 0.0
    elsewhere: bool = False  # the conversation had moved on in the meantime
    lost: Usage | UnsetType = UNSET  # known minimum usage of an incomplete answer


class RunClosed(Struct, frozen=True, tag="closed"):
    """The gateway ended, or it forgot the run's conversations."""

    at: float


Passed = RequestPassed | AnswerPassed | RunClosed

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Passed)


class ExchangeWriter:
    """Appends events to a run's log."""

    def __init__(self, path: Path) -> None:
        """Open the log; raise ``TraceError`` if it cannot be created."""
        try:
            self._file = descriptor_of_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            # A gateway that was killed may have left half a line, and the next one would be appended to it.
            self._size = cut_torn_line(self._file)
        except OSError as error:
            raise TraceError(f"{path} cannot be created ({error.strerror}); choose another folder with -o") from error
        self._path = path

    def append(self, passed: Passed) -> None:
        """Append one event; raise ``TraceError`` if it cannot be written, in which case earlier lines stay intact."""
        try:
            self._size = append_line(self._file, _encoder.encode(passed) + b"\n", self._size)
        except OSError as error:
            raise TraceError(f"{self._path} cannot be written ({error.strerror}); free some space") from error

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def read_exchanges(path: Path) -> Iterator[Passed]:
    """Read a log in order; a last line that a crash cut short is skipped.

    Raise TraceError if the file cannot be read, or a line is not an exchange.
    """
    try:
        with open_regular(path) as file:
            for number, line in enumerate(bounded_lines(file), 1):
                # Only a crash leaves such a line; the next start of the gateway cuts it off.
                if not line.endswith(b"\n"):
                    return
                try:
                    yield _decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    raise TraceError(f"line {number} of {path} is not a line of the gateway's log ({error})") from error
    except OSError as error:
        raise TraceError(f"{path} cannot be read ({error.strerror})") from error
