"""The gateway itself: takes a request, sends it on, passes the answer back as it comes, and has both recorded.

Rule 1: recording never stands in the way: what cannot be read, placed or written down is forwarded all the same.
Rule 2: an answer passes chunk by chunk; of one that is recorded a bounded copy is kept until its end.
Rule 3: where the client goes, the upstream's connection is closed. Nothing is retried here: clients do that.
Rule 4: a request is recorded while the upstream thinks, or behind the first piece of an answer that comes at once;
    in any case before the client has the whole answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hmac import compare_digest
from pathlib import Path

import anyio
import httpx2
from msgspec import UNSET, Struct
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.models.event_stream import server_events
from stackmem.models.failures import failed, kind_of_status, sentence

from .bounds import GatewaySpending
from .conversations import Conversations, Placed
from .cutting import ForeignCut
from .exchanges import AnswerPassed, RequestPassed, ToldMessage
from .framing import cutter_of
from .identity import Chains, seed
from .recording import Recording, RunBeingTold
from .rewriting import rewritten
from .upstream import TOKEN_HEADER, Upstreams, decoded, keys_in, open_client, to_client, to_upstream
from .wires import WIRES, wire_of
from .wires.messages import MESSAGES
from .wires.wire import ForeignRequest, WireFormat

MOST_BODY_BYTES = 256 << 20
MOST_ANSWER_BYTES = 1 << 30
_MOST_KEPT_BYTES = 32 << 20
_MOST_TRIES = 3
_SENT_SECONDS = 0.01
"""How long a request is given to be on its way before it is recorded."""
_AGENT_HEADERS = ("x-claude-code-agent-id",)
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class Underway(Struct):
    """A recorded request while its answer comes.

    Attributes:
        body: The digest of the request's bytes.
        began: The reading of a steady clock when it came.
        first: The same for the answer's first byte; 0 before it.
    """

    wire: WireFormat
    asked: ForeignRequest
    placed: Placed
    run: RunBeingTold
    number: int
    keys: tuple[str, ...]
    body: bytes
    began: float
    first: float = 0.0


class _Origin:
    """Who asks: the keys, and the chain of the conversation that begins with them."""

    def __init__(self, chains: Chains, request: Request, wire: WireFormat, asked: ForeignRequest) -> None:
        self.keys = keys_in(request.headers.raw)
        secret = "\0".join(self.keys)
        agent = next((request.headers[name] for name in _AGENT_HEADERS if name in request.headers), "")
        self.group = seed(wire.name, secret, "")
        self.chain = chains.chain(seed(wire.name, secret, agent), asked.messages)


class _Came:
    """A request as it came, and what goes upstream of it.

    Attributes:
        recorded: Whether recording was tried; ``underway`` is what it gave, until the answer is recorded, too.
        first: The reading of a steady clock at the answer's first byte; 0 before it.
    """

    def __init__(self, at: float, began: float, wire: WireFormat | None, request: Request, body: bytes) -> None:
        self.at, self.began, self.wire, self.request = at, began, wire, request
        self.body = self.outgoing = body
        self.asked: ForeignRequest | None = None
        self.cut = ForeignCut(())
        self.underway: Underway | None = None
        self.recorded, self.first = False, 0.0


class Gateway:
    """One gateway: its upstreams, its bounds, and what it has recorded.

    Attributes:
        notes: What went wrong inside, a sentence each, the last hundred.
    """

    def __init__(
        self, upstreams: Upstreams, runs_dir: Path, spending: GatewaySpending, environ: dict[str, str], token: str = "",
        strategy: str = "full", clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.spending = spending
        self.notes: list[str] = []
        self._upstreams, self._token, self._clock = upstreams, token, clock
        self._cutter = cutter_of(strategy)
        self._strategy = "" if self._cutter is None else strategy
        self._conversations, self._chains = Conversations(), Chains()
        self.recording = Recording(runs_dir, environ, clock, self._conversations.forget)
        self._client = open_client()
        self.app = Starlette(routes=[Route("/{path:path}", self._answer, methods=_METHODS)], lifespan=self._life)

    @asynccontextmanager
    async def _life(self, _app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self.recording.close()
            await self._client.aclose()

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        if self._token:
            prefix = f"/{self._token}"
            given = request.headers.get(TOKEN_HEADER.decode(), "")
            if path == prefix or path.startswith(f"{prefix}/"):
                path = path.removeprefix(prefix) or "/"
            elif not compare_digest(given.encode(), self._token.encode()):
                return _refusal(wire_of(path), 401, "authentication_error", "stackmem gateway: the token is missing")
        if path == "/":
            return Response(status_code=200)
        try:
            return await self._take(request, path)
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it

    async def _take(self, request: Request, path: str) -> Response:
        wire = wire_of(path) if request.method == "POST" else None
        body = await _body(request)
        if body is None:
            told = f"stackmem gateway: the request is longer than {MOST_BODY_BYTES >> 20} MiB"
            return _refusal(wire, 413, "request_too_large", told)
        came = _Came(self._clock(), time.monotonic(), wire, request, body)
        if self._cutter is not None or self.spending.is_bounded:
            came.asked = self._read(wire, body) if wire is not None else None
            if came.asked is not None and (why := self.spending.refusal(came.asked)):
                return _refusal(wire, 400, "invalid_request_error", why)
            self._cut(came, path)
        provider = _provider(request, path)
        url = self._upstreams.url(provider, path, request.url.query)
        headers = to_upstream(request.headers.raw, self._upstreams.keys.get(provider))
        sent = httpx2.Request(request.method, url, headers=headers, content=came.outgoing)
        return await self._forward(came, sent)

    async def _forward(self, came: _Came, sent: httpx2.Request) -> Response:
        sending = asyncio.ensure_future(self._client.send(sent, stream=True))
        gone = asyncio.ensure_future(_gone(came.request))
        await asyncio.wait({sending, gone}, timeout=_SENT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            self._recorded(came)  # while the upstream thinks, so that nobody waits for it
        await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not sending.done():
            sending.cancel()
            self._end(self._recorded(came), 0, failed("incomplete", "the client left before the answer began"))
            raise ClientDisconnect
        try:
            answer = sending.result()
        except httpx2.TimeoutException as error:
            return self._unanswered(came, 504, "timeout", "timeout_error", error)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            return self._unanswered(came, 502, "connection", "api_error", error)
        passing = StreamingResponse(self._pass(answer, came), status_code=answer.status_code)
        passing.raw_headers = to_client(answer.headers.raw)
        return passing

    def _unanswered(self, came: _Came, status: int, kind: str, named: str, error: Exception) -> Response:
        """No answer came: told in the provider's form, without the address, which may hold a login."""
        told = f"stackmem gateway: the upstream gave no answer ({type(error).__name__})"
        self._end(self._recorded(came), 0, failed("timeout" if kind == "timeout" else "connection", told))
        return _refusal(came.wire, status, named, told)

    async def _pass(self, answer: httpx2.Response, came: _Came) -> AsyncIterator[bytes]:
        """The answer's bytes as they come; its record when they end, however they do."""
        kept: list[bytes] = []
        size, tries, why = 0, 0, "the client left before the answer's end"
        try:
            async for chunk in answer.aiter_raw():
                size += len(chunk)
                if size > MOST_ANSWER_BYTES:
                    why = f"the answer is longer than {MOST_ANSWER_BYTES >> 20:,} MiB"
                    raise httpx2.RemoteProtocolError(why)
                came.first = came.first or time.monotonic()
                if came.wire is not None and (came.underway is not None or not came.recorded):
                    if size <= _MOST_KEPT_BYTES:
                        kept.append(chunk)
                    # Recorded before the client has all of it: its next request may come before the stream is closed.
                    if tries < _MOST_TRIES and _may_be_over(came.wire, answer, chunk, size):
                        tries += 1
                        came.underway = self._over(self._recorded(came), answer, kept)
                yield chunk
                self._recorded(came)
            why = ""
        except httpx2.HTTPError as error:
            why = why if size > MOST_ANSWER_BYTES else f"the answer broke off ({type(error).__name__})"
            raise
        finally:
            if size > _MOST_KEPT_BYTES:
                kept, why = [], why or "the answer is too long to be recorded"
            self._answered(self._recorded(came), answer, kept, why)
            with anyio.CancelScope(shield=True):
                await answer.aclose()

    def _over(self, underway: Underway | None, answer: httpx2.Response, kept: list[bytes]) -> Underway | None:
        """Record an answer that is whole, though its stream is still open; None once that is done."""
        if underway is None or answer.status_code >= 300 or "content-encoding" in answer.headers:
            return underway
        plain = b"".join(kept)
        reply = underway.wire.reply(_events(plain))
        if not isinstance(reply, ModelReplied):
            return underway
        self._end(underway, answer.status_code, reply, plain)
        return None

    def _read(self, wire: WireFormat, body: bytes) -> ForeignRequest | None:
        try:
            return wire.read(body)
        except ValueError as error:
            self._note(f"a request of {wire.name} was forwarded and not recorded: {error}")
            return None

    def _cut(self, came: _Came, path: str) -> None:
        """Have the strategy cut a request, or one to count its tokens; where that fails, it goes on as it came."""
        counts = came.wire is None and path.endswith("/messages/count_tokens")
        wire = MESSAGES if counts else came.wire
        asked = self._read(MESSAGES, came.body) if counts else came.asked
        if self._cutter is None or wire is None or asked is None:
            return
        try:
            found = _Origin(self._chains, came.request, wire, asked).chain
            cut = self._cutter.cut(asked, found)
            came.outgoing = rewritten(came.body, wire, asked, cut, self._cutter.shorten)
            came.cut = cut
        except Exception as error:  # noqa: BLE001 - a strategy that fails changes nothing
            self._note(f"a request of {wire.name} was forwarded as it came: {type(error).__name__}: {error}")

    def _recorded(self, came: _Came) -> Underway | None:
        """Record a request once; what its answer is recorded to, None where there is nothing or that is done."""
        if not came.recorded:
            came.recorded = True
            came.underway = self._record(came)
        if came.underway is not None:
            came.underway.first = came.first
        return came.underway

    def _record(self, came: _Came) -> Underway | None:
        wire = came.wire
        asked = came.asked or (self._read(wire, came.body) if wire is not None else None)
        if wire is None or asked is None:
            return None
        try:
            own = _Origin(self._chains, came.request, wire, asked)
            keys, digest = own.keys, hashlib.sha256(came.body)
            sent = digest if came.outgoing is came.body else hashlib.sha256(came.outgoing)
            placed = self._conversations.place(asked, own.chain, own.group, digest.digest())
            opens = placed.kind not in ("turn", "edit")
            passed = RequestPassed(
                at=came.at,
                number=0,
                conversation=placed.conversation,
                kind=placed.kind,
                wire=wire.name,
                model=asked.model,
                told=tuple(ToldMessage(one.role, one.parts) for one in placed.told),
                body_sha256=digest.hexdigest(),
                body_bytes=len(came.body),
                sent_sha256=sent.hexdigest(),
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
            )
            run, number = self.recording.asked(placed, passed, keys)
        except Exception as error:  # noqa: BLE001 - whatever is wrong in here, the agent's request goes on
            self._note(f"a request of {wire.name} was forwarded and not recorded: {type(error).__name__}: {error}")
            return None
        return Underway(wire, asked, placed, run, number, keys, digest.digest(), came.began)

    def _answered(self, underway: Underway | None, answer: httpx2.Response, kept: list[bytes], why: str) -> None:
        """Record an answer by its bytes; ``why`` says what cut it off, empty where nothing did."""
        if underway is None:
            return
        try:
            plain = decoded(b"".join(kept), answer.headers.get("content-encoding", "").strip().lower())
        except ValueError as error:
            plain, why = b"", str(error)
        secret = underway.keys[0] if underway.keys else ""
        if answer.status_code >= 300:
            text = plain.decode("utf-8", "replace")
            kind = kind_of_status(answer.status_code, text)
            told = f"HTTP {answer.status_code}: {sentence(text) or 'no text'}"
            self._end(underway, answer.status_code, failed(kind, told, secret, answer.headers))
        elif why:
            reply = underway.wire.reply(_events(plain))  # a client may leave once it has the last event
            lost = failed("incomplete", why, secret)
            self._end(underway, answer.status_code, reply if isinstance(reply, ModelReplied) else lost, plain)
        else:
            self._end(underway, answer.status_code, underway.wire.reply(_events(plain)), plain)

    def _end(
        self, underway: Underway | None, status: int, reply: ModelReplied | ModelFailed, plain: bytes = b""
    ) -> None:
        if underway is None:
            return
        now, begun = time.monotonic(), underway.began
        try:
            lost = underway.wire.begun(_events(plain)) if plain and isinstance(reply, ModelFailed) else None
            used = reply.usage if isinstance(reply, ModelReplied) else lost
            if used is not None:
                self.spending.spend(underway.asked.model, used)
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
            self._note(f"an answer was passed and not recorded: {type(error).__name__}: {error}")

    def _note(self, sentence_: str) -> None:
        self.notes = [*self.notes[-99:], sentence_[:500]]


def _may_be_over(wire: WireFormat, answer: httpx2.Response, chunk: bytes, size: int) -> bool:
    return any(end in chunk for end in wire.ends) or answer.headers.get("content-length") == str(size)


def _events(plain: bytes) -> list[str]:
    return list(server_events([plain], math.inf))


async def _body(request: Request) -> bytes | None:
    """The request's bytes; None where there are too many."""
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > MOST_BODY_BYTES:
            return None
        pieces.append(piece)
    return b"".join(pieces)


async def _gone(request: Request) -> None:
    """Returns when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _provider(request: Request, path: str) -> str:
    """Whose a request is: by its path, else by the header that only one of them asks for."""
    wire = wire_of(path)
    if wire is not None:
        return wire.provider
    named = "anthropic-version" in request.headers or "/messages" in path
    return "anthropic" if named else "openai"


def _refusal(wire: WireFormat | None, status: int, kind: str, text: str) -> Response:
    return JSONResponse((wire or WIRES[0]).error(kind, text), status_code=status)
