"""The gateway application: forwards requests, streams the answers back, and records both.

- Recording never blocks forwarding: requests that cannot be parsed, assigned or recorded are forwarded anyway. Only
  a spending limit refuses unreadable requests and unrecorded paths that cost money, because they cannot be counted.
- WebSocket handshakes are refused with 426, so that clients send plain requests.
- Answers are streamed chunk by chunk; for recorded answers a bounded copy is kept until the end.
- When the client disconnects, the upstream connection is closed. The gateway never retries; clients do.
- A request is recorded while the upstream works, or after the first chunk of a fast answer, but always before the
  client has the complete answer.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import anyio
import httpx2
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from stackmem.doors.gateway.wires.messages import MESSAGES
from stackmem.doors.gateway.wires.wire import ForeignRequest, WireFormat
from stackmem.doors.listening.guard import TOKEN_WAY, Guard
from stackmem.providers.failures import failed

from .bounds import UNREADABLE, GatewaySpending
from .conversations import Conversations
from .cutting import Cutter, SummaryWanted
from .framing import FrameCutter, SealedMarks, cutter_of
from .identity import PrefixChain
from .ledger import CameRequest, GatewayLedger, RequestOrigin, may_be_over
from .providers import Misdirected, counts_tokens, may_use_own_key, provider_of
from .recorder import Recorder
from .recording import Recording
from .rewriting import Rewriter
from .summaries import Summaries
from .upstream import Headers, Upstreams, client_left, open_client, to_client, to_upstream, uncoded
from .wires import WIRES, model_in, wire_of
from .workers import SMALL_BYTES, Workers

MAX_BODY_BYTES = 256 << 20
MAX_ANSWER_BYTES = 1 << 30
_MAX_KEPT_BYTES = 32 << 20
_MAX_TRIES = 3
_SENT_SECONDS = 0.01
"""Time for a request to get on its way before recording starts."""
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class Gateway:
    """One gateway: its upstreams, its spending limits, and its record."""

    def __init__(
        self, upstreams: Upstreams, runs_dir: Path, spending: GatewaySpending, environ: dict[str, str],
        strategy: str = "full", clock: Callable[[], float] = time.time, client: httpx2.AsyncClient | None = None,
        frame_keys: tuple[bytes, ...] = (),
    ) -> None:  # fmt: skip
        self.spending = spending
        self._upstreams, self._clock = upstreams, clock
        self._marks = SealedMarks(environ, frame_keys)
        self._cutter = cutter_of(strategy, self._marks)
        conversations = Conversations()
        self.recording = Recording(runs_dir, environ, clock, conversations.forget)
        name = "" if self._cutter is None else strategy
        self.came = 0  # requests for a reply, including refused ones
        self.ledger = GatewayLedger(self.recording, conversations, spending, name, clock, self._marks)
        self._rewriter, self._client = Rewriter(), client or open_client()
        self._workers = Workers()
        self._recorder = Recorder(self.ledger, self._workers)
        self._summaries = Summaries(self.ledger, self._client, self._workers)
        self.app = Starlette(routes=[Route("/{path:path}", self._answer, methods=_METHODS)], lifespan=self._life)

    @property
    def notes(self) -> list[str]:
        """The last hundred internal errors, one sentence each."""
        problem = f"frames that programs push are not applied: {self._marks.problem}" if self._marks.problem else ""
        return [*self.ledger.notes, *filter(None, (problem,))]

    @asynccontextmanager
    async def _life(self, _app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self._recorder.close()
            self._workers.close()
            self.recording.close()
            await self._client.aclose()

    async def _answer(self, request: Request) -> Response:
        # keep the raw path, so that escaped characters stay escaped upstream
        raw = request.scope["raw_path"].decode("ascii")
        if raw == "/":
            return Response(status_code=200)
        if "websocket" in request.headers.get("upgrade", "").lower():
            return Response(status_code=426, headers={"upgrade": "HTTP/1.1"})  # clients then send a plain request
        try:
            return await self._take(request, raw)
        except ClientDisconnect:
            return Response(status_code=499)  # the client is gone

    async def _take(self, request: Request, raw: str) -> Response:
        path = unquote(raw)
        wire = wire_of(path) if request.method == "POST" else None
        self.came += wire is not None
        body = await self._receive(request)
        if isinstance(body, Refused):
            return _refusal(wire, *body)
        came = CameRequest(self._clock(), time.monotonic(), wire, request, body)
        came.model = model_in(path)
        sizes = [len(body)]
        came.release = release = weakref.finalize(came, lambda: self._workers.release(sum(sizes)))
        # At exit the whole memory is released anyway, and the workers may be gone already.
        release.atexit = False
        passing = False
        try:
            if "content-encoding" in request.headers and (wire is not None or counts_tokens(path)):
                await self._workers.run(SMALL_BYTES, partial(self.ledger.decode, came))
                # Small compressed bodies may unpack to 64 MiB each, so both forms count against the memory.
                if not self._workers.hold(len(came.plain)):
                    return _refusal(wire, *_TOO_MANY)
                sizes.append(len(came.plain))
            answer = await self._answer_to(came, raw, path)
            passing = isinstance(answer, StreamingResponse)  # a stream releases the request when it ends
            return answer
        finally:
            if not passing:
                came.release()

    async def _receive(self, request: Request) -> bytes | Refused:
        """Read the request's body; its bytes count against the memory limit until the request is released."""
        pieces: list[bytes] = []
        size, complete = 0, False
        try:
            async for piece in request.stream():
                # Counted while it arrives: the length in the headers may be missing or wrong.
                if size + len(piece) > MAX_BODY_BYTES:
                    message = f"stackmem gateway: the request is longer than {MAX_BODY_BYTES >> 20} MiB"
                    return Refused(413, "request_too_large", message)
                if not self._workers.hold(len(piece)):
                    return _TOO_MANY
                size += len(piece)
                pieces.append(piece)
            complete = True
        finally:
            if not complete:
                self._workers.release(size)
        return b"".join(pieces)

    async def _answer_to(self, came: CameRequest, raw: str, path: str) -> Response:
        wire, request = came.wire, came.request
        if self._cutter is not None or self.spending.is_bounded:
            reason = await self._workers.run(len(came.plain), partial(self._bounded, came, path))
            if reason:
                return _refusal(wire, 400, "invalid_request_error", reason)
        try:
            url, headers = self._address(request, raw, path)
        except Misdirected as error:
            return _refusal(wire, 400, "invalid_request_error", f"stackmem gateway: {error}")
        except (httpx2.InvalidURL, UnicodeDecodeError) as error:
            return _refusal(wire, 400, "invalid_request_error", f"stackmem gateway: the request's address: {error}")
        await self._cut(came, path, (str(url), headers))
        # A changed body is sent as plain text, so its headers must not promise a compression.
        headers = headers if came.rewritten is came.plain else uncoded(headers)
        sent = httpx2.Request(request.method, url, headers=headers, content=came.outgoing)
        return await self._forward(came, sent)

    def _bounded(self, came: CameRequest, path: str) -> str:
        """Parse a request; return why it must not be sent, or an empty string."""
        if came.wire is None:
            return self.spending.unrecorded(came.request.method, path)
        came.content = self.ledger.read(came.wire, came.plain, came.model)
        if came.content is not None:
            return self.spending.refusal(came.content)
        return UNREADABLE if self.spending.is_bounded else ""

    def _address(self, request: Request, raw: str, path: str) -> tuple[httpx2.URL, Headers]:
        """Return the upstream address of a request and the headers to send.

        Raise Misdirected if the provider is ambiguous, or its key is missing.
        """
        upstreams, query = self._upstreams, request.scope["query_string"].decode("ascii")
        provider = provider_of(path, query, request.headers.raw, upstreams)
        own = None
        if upstreams.replaces or request.scope.get(TOKEN_WAY) == "key":
            own = upstreams.keys.get(provider)
            if own is None and not upstreams.replaces:
                raise Misdirected(f"no key to send in place of the token; set {provider.upper()}_API_KEY")
            # A client with only the token must not manage the account of the user, for example its files or keys.
            if own is not None and not may_use_own_key(request.method, path):
                raise Misdirected(f"the path {path[:80]!r} is not forwarded with the key of the gateway")
        return httpx2.URL(upstreams.url(provider, raw, query)), to_upstream(request.headers.raw, own)

    async def _forward(self, came: CameRequest, sent: httpx2.Request) -> Response:
        sending = asyncio.ensure_future(self._client.send(sent, stream=True))
        disconnect = asyncio.ensure_future(client_left(came.request))
        await asyncio.wait({sending, disconnect}, timeout=_SENT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            self._recorder.begin(came)  # record while the upstream works, so that recording costs no time
        await asyncio.wait({sending, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        # Otherwise it would take the disconnect event that the streaming response waits for.
        disconnect.cancel()
        if not sending.done():
            sending.cancel()
            failure = failed("incomplete", "the client left before the answer began")
            await self._recorder.end(came, 0, failure)
            raise ClientDisconnect
        try:
            answer = sending.result()
        except httpx2.TimeoutException as error:
            return await self._unanswered(came, 504, "timeout", "timeout_error", error)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            return await self._unanswered(came, 502, "connection", "api_error", error)
        if answer.is_redirect:
            return await self._redirected(came, answer)
        passing = StreamingResponse(self._pass(answer, came), status_code=answer.status_code)
        passing.raw_headers = to_client(answer.headers.raw)
        return passing

    async def _redirected(self, came: CameRequest, answer: httpx2.Response) -> Response:
        """Refuse to pass on a redirect, because clients would follow it with their keys."""
        await answer.aclose()
        message = "stackmem gateway: the upstream redirects to another address; name that address with --upstream"
        await self._recorder.end(came, answer.status_code, failed("rejected", message))
        return _refusal(came.wire, 502, "api_error", message)

    async def _unanswered(self, came: CameRequest, status: int, kind: str, name: str, error: Exception) -> Response:
        """Report a missing answer in the provider's format, without the address, which may contain a password."""
        message = f"stackmem gateway: the upstream gave no answer ({type(error).__name__})"
        await self._recorder.end(came, 0, failed("timeout" if kind == "timeout" else "connection", message))
        return _refusal(came.wire, status, name, message)

    async def _pass(self, answer: httpx2.Response, came: CameRequest) -> AsyncIterator[bytes]:
        """Stream the answer's bytes, and record the answer when it ends for any reason."""
        chunks: list[bytes] = []
        size, tries, reason = 0, 0, "the client left before the answer's end"
        try:
            async for chunk in answer.aiter_raw():
                # Raw bytes, not decompressed: the client gets them unchanged.
                size += len(chunk)
                if size > MAX_ANSWER_BYTES:
                    reason = f"the answer is longer than {MAX_ANSWER_BYTES >> 20:,} MiB"
                    raise httpx2.RemoteProtocolError(reason)
                came.first = came.first or time.monotonic()
                if came.wire is not None and not came.is_over:
                    if size <= _MAX_KEPT_BYTES:
                        chunks.append(chunk)
                    # Record before the client has everything, because its next request may arrive before the stream
                    # closes.
                    if tries < _MAX_TRIES and may_be_over(came.wire, answer, chunk, size):
                        tries += 1
                        await self._recorder.record_complete(came, answer, chunks)
                yield chunk
                self._recorder.begin(came)
            reason = ""
        except httpx2.HTTPError as error:
            reason = reason if size > MAX_ANSWER_BYTES else f"the answer broke off ({type(error).__name__})"
            raise
        finally:
            if size > _MAX_KEPT_BYTES:
                chunks, reason = [], reason or "the answer is too long to be recorded"
            # A client that disconnects cancels this task, but its answer was paid for and must be recorded.
            with anyio.CancelScope(shield=True):
                await answer.aclose()
                await self._recorder.record_answer(came, answer, chunks, reason)
            came.release()

    async def _cut(self, came: CameRequest, path: str, to: tuple[str, Headers]) -> None:
        """Apply the strategy to a request, or to a token count for it; after an error, forward the request unchanged.

        A request for a reply waits here for a summary, if the strategy wants one.
        """
        cutter = self._cutter
        if cutter is None:
            return
        counts = came.wire is None and counts_tokens(path)
        # Token counts are cut like the request that they announce; otherwise the agent would compact too early.
        wire, size = MESSAGES if counts else came.wire, len(came.plain)
        read = partial(self.ledger.read, MESSAGES, came.plain)
        request = await self._workers.run(size, read) if counts else came.content
        if wire is None or request is None:
            return
        try:
            chain, due = await self._workers.run(size, partial(self._decide, came, wire, request, cutter))
            if due is None or counts or not isinstance(cutter, Cutter):
                return
            take = partial(cutter.summarize, request, chain, due)
            stayed = await self._summaries.bring(came, wire, due, chain.tip, to, take)
            await self._workers.run(size, partial(self._show, came, wire, request, cutter, chain))
        except Exception as error:  # noqa: BLE001 - a strategy that fails must not stop the request
            self.ledger.note(f"a request of {wire.name} was forwarded unchanged: {type(error).__name__}: {error}")
            return
        await self._recorder.recorded(came)  # first write the paid summary to disk
        if not stayed:
            await self._recorder.end(came, 0, failed("incomplete", "the client left before its summary was written"))
            raise ClientDisconnect

    def _decide(
        self, came: CameRequest, wire: WireFormat, request: ForeignRequest, cutter: Cutter | FrameCutter
    ) -> tuple[PrefixChain, SummaryWanted | None]:
        """Cut a request; return its chain and the summary that the strategy wants, if any."""
        chain = RequestOrigin(self.ledger.chains, came.request, wire, request).chain
        self._show(came, wire, request, cutter, chain)
        return chain, cutter.due_summary(request, chain) if isinstance(cutter, Cutter) else None

    def _show(
        self,
        came: CameRequest,
        wire: WireFormat,
        request: ForeignRequest,
        cutter: Cutter | FrameCutter,
        chain: PrefixChain,
    ) -> None:
        cut = cutter.cut(request, chain)
        came.rewritten = self._rewriter.rewrite(came.plain, wire, request, cut, cutter.shorten)
        came.cut = cut


class Refused(NamedTuple):
    """A refused request: HTTP status, error kind and message."""

    status: int
    kind: str
    text: str


_TOO_MANY = Refused(503, "overloaded_error", "stackmem gateway: too many large requests in progress; try again later")


def guarded(app: ASGIApp, token: str, hosts: frozenset[str], *, any_address: bool = False) -> Guard:
    """Put the gateway behind the guard, with refusals in the provider's format."""
    return Guard(app, token, hosts, any_address=any_address, refuse=_refused)


def _refused(scope: Scope, status: int, sentence: str) -> ASGIApp:
    kind = "authentication_error" if status == 401 else "invalid_request_error"
    return _refusal(wire_of(scope["path"]), status, kind, f"stackmem gateway: {sentence}")


def _refusal(wire: WireFormat | None, status: int, kind: str, text: str) -> Response:
    return JSONResponse((wire or WIRES[0]).error(kind, text), status_code=status)
