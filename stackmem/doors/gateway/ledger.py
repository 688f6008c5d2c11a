"""What is recorded of each request and its answer: where it belongs, what it said, what it cost.

Rule 1: whatever is wrong in here, the agent's request goes on: the fault is a note.
Rule 2: several threads may record at once, each for another conversation; see ``recorder``.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Callable
from threading import Lock

import httpx2
from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Usage
from stackmem.doors.gateway.wires.wire import ForeignRequest, WireFormat
from stackmem.models.event_stream import server_events
from stackmem.models.failures import failed, kind_of_status, sentence

from .bounds import GatewaySpending
from .conversations import Conversations, Placed
from .cutting import ForeignCut
from .exchanges import AnswerPassed, RequestPassed, SummaryPassed, ToldMessage
from .identity import Chains, seed
from .recording import Recording, RunBeingTold
from .upstream import decoded, keys_in, secrets_in

_AGENT_HEADERS = ("x-claude-code-agent-id",)


class UnderwayRequest(Struct):
    """A recorded request while its answer comes."""

    wire: WireFormat
    asked: ForeignRequest
    placed: Placed
    run: RunBeingTold
    number: int
    keys: tuple[str, ...]
    body: bytes  # the digest of the request's bytes
    began: float  # the reading of a steady clock when it came
    first: float = 0.0  # the same for the answer's first byte; 0 before it


class RequestOrigin:
    """Who asks: the keys, and the chain of the conversation that begins with them."""

    def __init__(self, chains: Chains, request: Request, wire: WireFormat, asked: ForeignRequest) -> None:
        self.keys = secrets_in(request)
        secret = "\0".join(keys_in(request.headers.raw))
        agent = next((request.headers[name] for name in _AGENT_HEADERS if name in request.headers), "")
        self.group = seed(wire.name, secret, "")
        self.chain = chains.chain(seed(wire.name, secret, agent), asked.messages)


class CameRequest:
    """A request as it came, and what goes upstream of it."""

    def __init__(self, at: float, began: float, wire: WireFormat | None, request: Request, body: bytes) -> None:
        self.at, self.began, self.wire, self.request = at, began, wire, request
        self.body = self.outgoing = body
        self.asked: ForeignRequest | None = None
        self.cut = ForeignCut(())
        # the text that a strategy had written before it went on, or why there is none
        self.summary: SummaryPassed | UnsetType = UNSET
        self.underway: UnderwayRequest | None = None
        # set once recording has begun; ``underway`` is what it gave, until the answer is recorded, too
        self.recording: asyncio.Task[None] | None = None
        self.lane = asyncio.Lock()  # keeps what concerns its conversation in order
        self.first = 0.0  # the reading of a steady clock at the answer's first byte; 0 before it
        self.release: Callable[[], object] = bool  # has the bytes no longer counted as held; does so once

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to record."""
        return self.recording is not None and self.recording.done() and self.underway is None


class PreparedRequest(Struct, frozen=True):
    """A request that is read, before it takes its place."""

    wire: WireFormat
    asked: ForeignRequest
    origin: RequestOrigin
    # body, sent: the digests of its bytes as they came and as they went upstream
    body: bytes
    sent: bytes

    @property
    def opening(self) -> bytes:
        """The same for all requests of a conversation."""
        digests = self.origin.chain.digests
        return digests[min(1, len(digests) - 1)]


class GatewayLedger:
    """What one gateway has recorded."""

    def __init__(
        self, recording: Recording, conversations: Conversations, spending: GatewaySpending, strategy: str,
        clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self.recording, self.spending, self.chains = recording, spending, Chains()
        self.notes: list[str] = []  # what went wrong inside, a sentence each, the last hundred
        self._conversations, self._strategy, self._clock = conversations, strategy, clock
        self._lock = Lock()

    def read(self, wire: WireFormat, body: bytes) -> ForeignRequest | None:
        try:
            return wire.read(body)
        except ValueError as error:
            self.note(f"a request of {wire.name} cannot be read and is not recorded: {error}")
            return None

    def over(
        self, underway: UnderwayRequest | None, answer: httpx2.Response, kept: list[bytes]
    ) -> UnderwayRequest | None:
        """Record an answer that is whole, though its stream is still open; None once that is done."""
        if underway is None or answer.status_code >= 300 or "content-encoding" in answer.headers:
            return underway
        plain = b"".join(kept)
        reply = underway.wire.reply(events_of(plain))
        if not isinstance(reply, ModelReplied):
            return underway
        self.end(underway, answer.status_code, reply, plain)
        return None

    def prepare(self, came: CameRequest) -> PreparedRequest | None:
        """Read a request; None if it cannot be recorded."""
        wire = came.wire
        asked = came.asked or (self.read(wire, came.body) if wire is not None else None)
        if wire is None or asked is None:
            return None
        try:
            origin = RequestOrigin(self.chains, came.request, wire, asked)
            body = hashlib.sha256(came.body).digest()
            sent = body if came.outgoing is came.body else hashlib.sha256(came.outgoing).digest()
            return PreparedRequest(wire, asked, origin, body, sent)
        except Exception as error:  # noqa: BLE001 - whatever is wrong in here, the agent's request goes on
            self._unrecorded(wire, error)
            return None

    def record(self, came: CameRequest, prepared: PreparedRequest) -> UnderwayRequest | None:
        """Find the conversation of a request, and record what was not known of it."""
        wire, asked, origin = prepared.wire, prepared.asked, prepared.origin
        try:
            placed = self._conversations.place(asked, origin.chain, origin.group, prepared.body)
            opens = placed.kind not in ("turn", "edit")
            passed = RequestPassed(
                at=came.at,
                number=0,
                conversation=placed.conversation,
                kind=placed.kind,
                wire=wire.name,
                model=asked.model,
                told=tuple(ToldMessage(one.role, one.parts) for one in placed.told),
                body_sha256=prepared.body.hex(),
                body_bytes=len(came.body),
                sent_sha256=prepared.sent.hex(),
                sent_bytes=len(came.outgoing),
                retry=placed.retry,
                parent=placed.parent,
                call_id=placed.call_id,
                system=asked.system if opens else "",
                tools=asked.tools if opens else (),
                continues=asked.continues,
                strategy=self._strategy,
                dropped=came.cut.dropped,
                short=came.cut.short,
                summary=came.summary,
            )
            run, number = self.recording.asked(placed, passed, origin.keys)
        except Exception as error:  # noqa: BLE001 - whatever is wrong in here, the agent's request goes on
            self._unrecorded(wire, error)
            return None
        return UnderwayRequest(wire, asked, placed, run, number, origin.keys, prepared.body, came.began)

    def _unrecorded(self, wire: WireFormat, error: Exception) -> None:
        self.note(f"a request of {wire.name} was forwarded and not recorded: {type(error).__name__}: {error}")

    def spend(self, model: str, usage: Usage) -> None:
        """Count what a reply used."""
        with self._lock:
            self.spending.spend(model, usage)

    def answered(self, underway: UnderwayRequest | None, answer: httpx2.Response, kept: list[bytes], why: str) -> None:
        """Record an answer by its bytes; ``why`` says what cut it off, empty where nothing did."""
        if underway is not None:
            secret = underway.keys[0] if underway.keys else ""
            self.end(underway, answer.status_code, *reply_of(underway.wire, answer, kept, why, secret))

    def end(
        self, underway: UnderwayRequest | None, status: int, reply: ModelReplied | ModelFailed, plain: bytes = b""
    ) -> None:
        if underway is None:
            return
        now, begun = time.monotonic(), underway.began
        try:
            lost = begun_usage(underway.wire, plain) if plain and isinstance(reply, ModelFailed) else None
            used = reply.usage if isinstance(reply, ModelReplied) else lost
            if used is not None:
                self.spend(underway.asked.model, used)
            elsewhere = (
                self._conversations.answered(underway.placed, reply, underway.body)
                if isinstance(reply, ModelReplied)
                else False
            )
            passed = AnswerPassed(
                at=self._clock(),
                number=underway.number,
                status=status,
                reply=reply,
                first_byte_seconds=round(max(0.0, underway.first - begun), 6),
                seconds=round(now - begun, 6),
                elsewhere=elsewhere,
                lost=lost if lost is not None and lost.total else UNSET,
            )
            self.recording.answered(underway.run, passed, underway.keys)
        except Exception as error:  # noqa: BLE001 - the answer has passed; its record alone is missing
            self.note(f"an answer was passed and not recorded: {type(error).__name__}: {error}")

    def note(self, sentence_: str) -> None:
        with self._lock:
            self.notes = [*self.notes[-99:], sentence_[:500]]


def reply_of(
    wire: WireFormat, answer: httpx2.Response | None, kept: list[bytes], why: str, secret: str = ""
) -> tuple[ModelReplied | ModelFailed, bytes]:
    """What an answer's bytes say, and they without their coding."""
    if answer is None:
        return failed("connection", why, secret), b""
    try:
        plain = decoded(b"".join(kept), answer.headers.get("content-encoding", "").strip().lower())
    except ValueError as error:
        plain, why = b"", str(error)
    if answer.status_code >= 300:
        text = plain.decode("utf-8", "replace")
        told = f"HTTP {answer.status_code}: {sentence(text) or 'no text'}"
        return failed(kind_of_status(answer.status_code, text), told, secret, answer.headers), b""
    reply = wire.reply(events_of(plain))  # a client may leave once it has the last event
    return (failed("incomplete", why, secret) if why and isinstance(reply, ModelFailed) else reply), plain


def begun_usage(wire: WireFormat, plain: bytes) -> Usage:
    """What an answer that did not end used at least."""
    return wire.begun(events_of(plain)) if plain else Usage()


def may_be_over(wire: WireFormat, answer: httpx2.Response, chunk: bytes, size: int) -> bool:
    return any(end in chunk for end in wire.ends) or answer.headers.get("content-length") == str(size)


def events_of(plain: bytes) -> list[str]:
    return list(server_events([plain], math.inf))
