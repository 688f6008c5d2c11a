"""Records each request and its answer: the conversation, the content and the cost.

- An error in this module never stops the agent's request; it becomes a note.
- Several threads may record at the same time, each for a different conversation; see ``recorder``.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Callable
from threading import Lock

import httpx2
import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Usage
from stackmem.doors.gateway.wires.wire import ForeignRequest, WireFormat
from stackmem.providers.event_stream import server_events
from stackmem.providers.failures import failed, kind_of_status, sentence

from .bounds import GatewaySpending
from .codings import decoded
from .conversations import Conversations, Placed
from .cutting import ForeignCut
from .estimates import TokenEstimates, part_texts, streamed_texts
from .exchanges import AnswerPassed, RequestPassed, SummaryPassed, ToldMessage
from .framing import FRAMES, IsGenuine, genuine_marks
from .identity import Chains, agent_ids, beginning_digest, seed
from .recording import Recording, RunBeingTold
from .upstream import keys_in, secrets_in

MAX_READ_ANSWER = 32 << 20
"""Bytes of an answer, decompressed, that are read; longer ones are only passed on."""
_MAX_READ_REQUEST = 64 << 20


class UnderwayRequest(Struct):
    """A recorded request whose answer is still coming."""

    wire: WireFormat
    content: ForeignRequest
    placed: Placed
    run: RunBeingTold
    number: int
    keys: tuple[str, ...]
    body: bytes  # digest of the request's bytes
    began: float  # monotonic time of the request's arrival
    first: float = 0.0  # monotonic time of the answer's first byte; 0 before it


class RequestOrigin:
    """The keys of a request, and the chain that they and the content identify."""

    def __init__(self, chains: Chains, request: Request, wire: WireFormat, content: ForeignRequest) -> None:
        self.keys = secrets_in(request)
        secret = "\0".join(keys_in(request.headers.raw))
        self.ids = agent_ids(request.headers)
        self.group = seed(wire.name, secret, "")
        self.chain = chains.chain(seed(wire.name, secret, self.ids.strand), content.messages)


class CameRequest:
    """An incoming request, and its body as it goes upstream."""

    def __init__(self, at: float, began: float, wire: WireFormat | None, request: Request, body: bytes) -> None:
        self.at, self.began, self.wire, self.request = at, began, wire, request
        self.model = ""  # the model in the path, for formats whose body does not name it
        self.body = body  # as received
        self.plain = body  # the body without its content coding
        self.rewritten = body  # the plain body as the strategy shows it
        self.content: ForeignRequest | None = None
        self.cut = ForeignCut(())
        # the summary that a strategy requested first, or its failure
        self.summary: SummaryPassed | UnsetType = UNSET
        self.underway: UnderwayRequest | None = None
        # task that sets ``underway``; ``underway`` becomes None again once the answer is recorded
        self.recording: asyncio.Task[None] | None = None
        self.lane = asyncio.Lock()  # keeps the records of one conversation in order
        self.first = 0.0  # monotonic time of the answer's first byte; 0 before it
        self.release: Callable[[], object] = bool  # frees the memory budget of the bytes; later calls do nothing

    @property
    def outgoing(self) -> bytes:
        """Return the body to send upstream: as received, unless a strategy changed it."""
        return self.body if self.rewritten is self.plain else self.rewritten

    @property
    def is_over(self) -> bool:
        """Return whether everything has been recorded."""
        return self.recording is not None and self.recording.done() and self.underway is None


class PreparedRequest(Struct, frozen=True):
    """A parsed request that is not yet assigned to a conversation."""

    wire: WireFormat
    content: ForeignRequest
    origin: RequestOrigin
    # body, sent: digests of the bytes as received and as sent upstream
    body: bytes
    sent: bytes

    @property
    def opening(self) -> bytes:
        """Return a digest that all requests of a conversation share."""
        digests = self.origin.chain.digests
        return digests[min(1, len(digests) - 1)]


class GatewayLedger:
    """The record of one gateway."""

    def __init__(
        self, recording: Recording, conversations: Conversations, spending: GatewaySpending, strategy: str,
        clock: Callable[[], float], is_genuine: IsGenuine,
    ) -> None:  # fmt: skip
        self.recording, self.spending, self.chains = recording, spending, Chains()
        self.notes: list[str] = []  # the last hundred internal errors, one sentence each
        self._conversations, self._strategy, self._clock = conversations, strategy, clock
        self._is_genuine = is_genuine
        self._estimates = TokenEstimates()
        self._lock = Lock()

    def decode(self, came: CameRequest) -> None:
        """Decompress a request; if that fails, the request cannot be read."""
        codings = came.request.headers.get("content-encoding", "")
        try:
            came.plain = came.rewritten = decoded(came.body, codings, _MAX_READ_REQUEST, "the request")
        except ValueError as error:
            self.note(f"a request cannot be read: {error}")

    def read(self, wire: WireFormat, body: bytes, model: str = "") -> ForeignRequest | None:
        """Parse a body; ``model`` is the model in the path. Return None and note it if that is impossible."""
        try:
            request = wire.read(body)
            return msgspec.structs.replace(request, model=model) if model else request
        except ValueError as error:
            self.note(f"a request of {wire.name} cannot be read and is not recorded: {error}")
            return None

    def record_complete(
        self, underway: UnderwayRequest | None, answer: httpx2.Response, chunks: list[bytes]
    ) -> UnderwayRequest | None:
        """Record an answer that is complete although its stream is still open; return None once recorded."""
        if underway is None or answer.status_code >= 300 or "content-encoding" in answer.headers:
            return underway
        plain = b"".join(chunks)
        reply = underway.wire.reply(events_of(plain))
        if not isinstance(reply, ModelReplied):
            return underway
        self.end(underway, answer.status_code, reply, plain)
        return None

    def prepare(self, came: CameRequest) -> PreparedRequest | None:
        """Parse a request; return None if it cannot be recorded."""
        wire = came.wire
        request = came.content or (self.read(wire, came.plain, came.model) if wire is not None else None)
        if wire is None or request is None:
            return None
        try:
            origin = RequestOrigin(self.chains, came.request, wire, request)
            body = hashlib.sha256(came.body).digest()
            sent = body if came.outgoing is came.body else hashlib.sha256(came.outgoing).digest()
            return PreparedRequest(wire, request, origin, body, sent)
        except Exception as error:  # noqa: BLE001 - must not stop the agent's request
            self._unrecorded(wire, error)
            return None

    def record(self, came: CameRequest, prepared: PreparedRequest) -> UnderwayRequest | None:
        """Assign a request to its conversation, and record its new messages."""
        wire, request, origin = prepared.wire, prepared.content, prepared.origin
        try:
            placed = self._conversations.assign(request, origin.chain, origin.group, prepared.body, origin.ids)
            opens, edits = placed.kind not in ("turn", "edit"), placed.kind == "edit"
            passed = RequestPassed(
                at=came.at,
                number=0,
                conversation=placed.conversation,
                kind=placed.kind,
                wire=wire.name,
                model=request.model,
                new_messages=tuple(ToldMessage(message.role, message.parts) for message in placed.new_messages),
                body_sha256=prepared.body.hex(),
                body_bytes=len(came.plain),
                sent_sha256=prepared.sent.hex(),
                sent_bytes=len(came.rewritten),
                retry=placed.retry,
                earlier_blocks=placed.known_blocks if edits else 0,
                beginning=beginning_digest(request.messages, placed.known_blocks) if edits else "",
                parent=placed.parent,
                call_id=placed.call_id,
                system=request.system if opens else "",
                tools=request.tools if opens else (),
                session=origin.ids.session if opens else "",
                continues=request.continues,
                strategy=self._strategy,
                dropped=came.cut.dropped,
                short=came.cut.short,
                needs_thinking=request.needs_thinking,
                summary=came.summary,
                changed_calls=placed.changed if self._strategy and placed.changed else UNSET,
                marks=genuine_marks(placed.new_messages, self._is_genuine) if self._strategy == FRAMES else UNSET,
            )
            run, number = self.recording.add_request(placed, passed, origin.keys)
        except Exception as error:  # noqa: BLE001 - must not stop the agent's request
            self._unrecorded(wire, error)
            return None
        return UnderwayRequest(wire, request, placed, run, number, origin.keys, prepared.body, came.began)

    def _unrecorded(self, wire: WireFormat, error: Exception) -> None:
        self.note(f"a request of {wire.name} was forwarded but not recorded: {type(error).__name__}: {error}")

    def spend(self, model: str, usage: Usage) -> None:
        """Add the usage of a reply to the amount spent."""
        with self._lock:
            self.spending.spend(model, usage)

    def counted(
        self, wire: WireFormat, request: ForeignRequest, reply: ModelReplied | ModelFailed, plain: bytes
    ) -> tuple[ModelReplied | ModelFailed, Usage]:
        """Return a reply with its usage, and the known usage of an incomplete answer.

        Usage that the provider did not report is estimated.
        """
        if isinstance(reply, ModelReplied):
            if reply.usage.total:
                return reply, Usage()
            usage = self._estimates.usage(wire, request, part_texts(reply.parts))
            return msgspec.structs.replace(reply, usage=usage), Usage()
        lost = begun_usage(wire, plain)
        written = "" if lost.total else "".join(streamed_texts(events_of(plain)))
        return reply, self._estimates.usage(wire, request, (written,)) if written else lost

    def record_answer(
        self, underway: UnderwayRequest | None, answer: httpx2.Response, chunks: list[bytes], reason: str
    ) -> None:
        """Record an answer from its bytes. ``reason`` says what interrupted it; empty if it is complete."""
        if underway is not None:
            secret = underway.keys[0] if underway.keys else ""
            self.end(underway, answer.status_code, *reply_of(underway.wire, answer, chunks, reason, secret))

    def end(
        self, underway: UnderwayRequest | None, status: int, reply: ModelReplied | ModelFailed, plain: bytes = b""
    ) -> None:
        if underway is None:
            return
        now, began = time.monotonic(), underway.began
        try:
            reply, lost = self.counted(underway.wire, underway.content, reply, plain)
            used = reply.usage if isinstance(reply, ModelReplied) else lost
            self.spend(underway.content.model, used)
            elsewhere = False
            if isinstance(reply, ModelReplied):
                elsewhere = self._conversations.add_reply(underway.placed, reply, underway.body)
            else:
                self._conversations.failed(underway.placed)
            passed = AnswerPassed(
                at=self._clock(),
                number=underway.number,
                status=status,
                reply=reply,
                first_byte_seconds=round(max(0.0, underway.first - began), 6),
                seconds=round(now - began, 6),
                elsewhere=elsewhere,
                lost=lost if lost.total else UNSET,
            )
            self.recording.add_answer(underway.run, passed, underway.keys)
        except Exception as error:  # noqa: BLE001 - the answer was delivered; only its record is lost
            self.note(f"an answer was delivered but not recorded: {type(error).__name__}: {error}")

    def note(self, sentence_: str) -> None:
        with self._lock:
            self.notes = [*self.notes[-99:], sentence_[:500]]


def reply_of(
    wire: WireFormat, answer: httpx2.Response | None, chunks: list[bytes], reason: str, secret: str = ""
) -> tuple[ModelReplied | ModelFailed, bytes]:
    """Parse an answer's bytes; return the reply and the decompressed bytes.

    Args:
        answer: Status and headers; None without an answer.
        reason: Why the answer was cut off; empty if it is complete.
    """
    if answer is None:
        return failed("connection", reason, secret), b""
    try:
        plain = decoded(b"".join(chunks), answer.headers.get("content-encoding", ""), MAX_READ_ANSWER, "the answer")
    except ValueError as error:
        plain, reason = b"", str(error)
    if answer.status_code >= 300:
        text = plain.decode("utf-8", "replace")
        detail = f"HTTP {answer.status_code}: {sentence(text) or 'no text'}"
        return failed(kind_of_status(answer.status_code, text), detail, secret, answer.headers), b""
    # a client may disconnect right after the last event, so the parsed reply decides
    reply = wire.reply(events_of(plain))
    return (failed("incomplete", reason, secret) if reason and isinstance(reply, ModelFailed) else reply), plain


def begun_usage(wire: WireFormat, plain: bytes) -> Usage:
    """Return the known minimum usage of an incomplete answer."""
    return wire.partial_usage(events_of(plain)) if plain else Usage()


def may_be_over(wire: WireFormat, answer: httpx2.Response, chunk: bytes, size: int) -> bool:
    return any(end in chunk for end in wire.ends) or answer.headers.get("content-length") == str(size)


def events_of(plain: bytes) -> list[str]:
    return list(server_events([plain], math.inf))
