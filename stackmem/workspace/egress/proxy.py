"""The proxy on a command's loopback: handles one request per connection, checks it against the list, and forwards it.

Rule 1: Requests are parsed completely and written again, so that no two parsers can disagree about them.
Rule 2: A host is checked by name, then by its addresses; the connection uses the address that was checked.
Rule 3: Everything is limited: heads, connections, bytes and waiting times.
Rule 4: Refusals are reported in one sentence, to the command and in the log. Paths, headers and bodies are not stored.

Source: RFC 9110 (7.6, hop-by-hop fields; 9.3.6, CONNECT), RFC 9112 (6.3, framing; 11.2, smuggling).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import h11

from stackmem.foreign.framing import AmbiguousLength, StrictConnection

from .addresses import look_up, public_ones, system_addresses
from .hosts import AllowedHost, entry_for, entry_for_request, joined, read_authority, why_refused
from .network_list import NetworkList
from .request_log import OpenRequest, RequestLog
from .tls_name import TunnelName

HEAD_BYTES = 16 * 1024
_ANSWER_HEAD_BYTES = 64 * 1024
PIECE_BYTES = 64 * 1024
_REASON_CHARS = 200
_LINGER_BYTES = 256 * 1024
_HOP_BY_HOP = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
    b"upgrade", b"expect", b"host",
})  # fmt: skip
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Turned(Exception):  # noqa: N818 - a refusal, not a program error
    """Raised to refuse a request. The command receives a status and one sentence.

    Attributes:
        why: Predicate of the sentence, whose subject is the host, or the request if it has no host.
        allowed: Whether the list allowed the request and something else failed.
    """

    def __init__(self, status: int, reason: str, *, allowed: bool = False) -> None:
        super().__init__(f"{status} {reason}")
        self.status, self.why, self.allowed = status, reason, allowed


class Proxy:
    """Serves the connections of one command."""

    def __init__(self, network: NetworkList, log: RequestLog) -> None:
        self.network = network
        self._log = log
        self._tls: ssl.SSLContext | None = None
        self.sent = self.received = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends. Errors are recorded in the log."""
        request = OpenRequest()
        try:
            await _Connection(self, reader, writer, request).serve()
        except Turned as turned:
            request.allowed, request.why = turned.allowed, turned.why
            if not request.answered:  # otherwise it would look like the host's answer
                await _tell(reader, writer, turned.status, f"stackmem: {request.subject} {turned.why}")
        except TimeoutError:
            request.why = "nothing moved for too long"
        except (OSError, EOFError, h11.ProtocolError):
            request.why = "the connection broke"
        except Exception:
            request.why = "the proxy failed"
            raise
        finally:
            self._log.enter(request)
            await _close(writer, complete=not request.why or not request.answered)

    def count(self, request: OpenRequest, *, sent: int = 0, received: int = 0) -> None:
        """Count transferred bytes. Raises ``Turned`` above the limit."""
        request.sent += sent
        request.received += received
        self.sent += sent
        self.received += received
        if reason := self.overrun():
            raise Turned(403, reason, allowed=request.allowed)

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context with the machine's trusted certificates. Cached, because loading it is slow."""
        self._tls = self._tls or ssl.create_default_context()
        return self._tls

    def overrun(self) -> str:
        """Return the message about an exceeded byte limit, or an empty string."""
        for done, most, verb in (
            (self.sent, self.network.up_bytes, "sent"), (self.received, self.network.down_bytes, "received"),
        ):  # fmt: skip
            if done > most:
                return f"was ended: the command has {verb} more than {most / (1 << 20):,.10g} MiB"
        return ""


class _Connection:
    """A connection from a command, with its connection to the host."""

    def __init__(
        self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: OpenRequest
    ) -> None:
        self._proxy, self._network = proxy, proxy.network
        self._reader, self._writer, self._asked = reader, writer, request
        self._peer = StrictConnection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._moved = 0.0

    async def serve(self) -> None:
        request = await self._head()
        if request is None:
            return
        self._asked.method = request.method.decode()
        if reason := self._proxy.overrun():
            raise Turned(403, reason)
        if request.method == b"CONNECT":
            await self._tunnel(request)
        else:
            await self._pass_on(request)

    async def _head(self) -> h11.Request | None:
        try:
            async with asyncio.timeout(self._network.head_seconds):
                while (event := self._peer.next_event()) is h11.NEED_DATA:
                    piece = await self._reader.read(PIECE_BYTES)
                    self._asked.spoke = self._asked.spoke or bool(piece)
                    self._peer.receive_data(piece)
        except TimeoutError as error:
            raise Turned(408, "did not come whole in time") from error
        except AmbiguousLength as error:
            raise Turned(400, "has two headers that say how long it is") from error
        except h11.RemoteProtocolError as error:
            status = 431 if error.error_status_hint == 431 else 400
            reason = f"has a head of more than {HEAD_BYTES:,} bytes" if status == 431 else "is none of HTTP"
            raise Turned(status, reason) from error
        if not isinstance(event, h11.Request):
            return None
        return event

    async def _tunnel(self, request: h11.Request) -> None:
        host, port = self._name(*read_authority(request.target.decode("ascii", "replace")))
        if any(name in _FRAMING for name, _ in request.headers):
            raise Turned(400, "cannot be sent a body with CONNECT")
        # before any lookup: a lookup of an invented name already carries data to that domain's name server
        entry = entry_for(self._network.hosts, "tunnel", host, port)
        if entry is None:
            raise Turned(403, why_refused(self._network.hosts, host))
        reader, writer = await self._connect(entry, host, port)
        try:
            self._writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            self._asked.answered = True
            name = TunnelName(host, port)
            self._pass(self._peer.trailing_data[0], name, writer)  # sent early, before the command saw our answer
            await self._both_ways(reader, writer, name)
        finally:
            writer.transport.abort()

    def _pass(self, piece: bytes, name: TunnelName, writer: asyncio.StreamWriter) -> None:
        """Forward what the command sends, once the target host is known."""
        piece = name.let_through(piece) if piece else b""
        if name.why:
            raise Turned(403, name.why)
        self._proxy.count(self._asked, sent=len(piece))
        writer.write(piece)

    async def _both_ways(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: TunnelName) -> None:
        """Forward bytes until both sides have ended or the connection is idle for too long."""
        self._moved = asyncio.get_running_loop().time()
        tasks = {
            asyncio.create_task(self._pump(self._reader, writer, partial(self._pass, name=name, writer=writer))),
            asyncio.create_task(self._pump(reader, self._writer, partial(self._write, self._writer, up=False))),
        }
        try:
            # not FIRST_COMPLETED: after one side has ended its half, the other may still send an answer
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        except TimeoutError:
            raise
        except OSError:  # clients often end this way; abort closes the other side too
            self._writer.transport.abort()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, give: Callable[[bytes], None]
    ) -> None:
        while piece := await self._read(source):
            give(piece)
            await self._drained(sink)
        if sink.can_write_eof():
            sink.write_eof()

    async def _pass_on(self, request: h11.Request) -> None:
        scheme, mark, rest = _target(request).partition("://")
        authority, slash, path = rest.partition("/")
        if not mark or scheme not in _DEFAULT_PORTS or "?" in authority or "#" in rest:
            raise Turned(400, "names no whole address, as a proxy needs it: http://HOST/PATH")
        host, port = self._name(*read_authority(authority, _DEFAULT_PORTS[scheme]))
        entry = entry_for_request(self._network.hosts, scheme, host, port)
        if entry is None:
            raise Turned(403, why_refused(self._network.hosts, host))
        method = request.method.decode()
        if method not in entry.methods:
            raise Turned(403, f"may not be asked with {method[:20]}; allowed: {', '.join(entry.methods)}")
        reader, writer = await self._connect(entry, host, entry.port)
        try:
            upstream = h11.Connection(h11.CLIENT, max_incomplete_event_size=_ANSWER_HEAD_BYTES)
            standard = entry.port == _DEFAULT_PORTS[entry.way]
            name = host if standard and ":" not in host else joined(host, entry.port)
            head = h11.Request(
                method=request.method, target=f"{slash or '/'}{path}",
                headers=[(b"Host", name.encode()), *self._headers(request, host), (b"Connection", b"close")],
            )  # fmt: skip
            self._write(writer, upstream.send(head), up=True)
            with suppress(ConnectionError):  # the host may answer before reading everything
                await self._send_body(upstream, writer)
            await self._answer_of(upstream, reader)
        finally:
            writer.transport.abort()

    def _headers(self, request: h11.Request, host: str) -> list[tuple[bytes, bytes]]:
        """Return the command's end-to-end headers, with added credentials replacing its own."""
        names = [value.lower() for name, value in request.headers if name == b"connection"]
        # "Connection: content-length" must not remove the framing: the body would be read as a second request
        dropped = _HOP_BY_HOP | {each.strip() for value in names for each in value.split(b",")} - _FRAMING
        put_in = [(name.encode(), value.encode()) for name, value in self._network.headers.get(host, ())]
        dropped |= {name.lower() for name, _ in put_in}
        return [*((name, value) for name, value in request.headers if name not in dropped), *put_in]

    async def _send_body(self, upstream: h11.Connection, writer: asyncio.StreamWriter) -> None:
        while True:
            if self._peer.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                self._writer.write(self._peer.send(go_on) or b"")
            event = await self._next(self._peer, self._reader)
            if isinstance(event, h11.Data):
                self._write(writer, upstream.send(event), up=True)
                await self._drained(writer)
            elif isinstance(event, h11.EndOfMessage):
                # drop trailers, because they would be unchecked headers
                self._write(writer, upstream.send(h11.EndOfMessage()), up=True)
                return
            else:
                raise EOFError

    async def _answer_of(self, upstream: h11.Connection, reader: asyncio.StreamReader) -> None:
        while True:
            try:
                event = await self._next(upstream, reader)
            except (h11.RemoteProtocolError, ConnectionError) as error:
                if not self._asked.answered:
                    raise Turned(502, "did not answer in HTTP", allowed=True) from error
                raise
            if isinstance(event, h11.Response):
                dropped = _HOP_BY_HOP | {b"transfer-encoding"}
                headers = [pair for pair in event.headers if pair[0] not in dropped]
                answer = h11.Response(
                    status_code=event.status_code, reason=event.reason, headers=[*headers, (b"Connection", b"close")]
                )
                self._asked.answered = True
                self._write(self._writer, self._peer.send(answer), up=False)
            elif isinstance(event, h11.Data):
                self._write(self._writer, self._peer.send(event), up=False)
                await self._drained(self._writer)
            elif isinstance(event, h11.EndOfMessage):
                self._write(self._writer, self._peer.send(h11.EndOfMessage()), up=False)
                return
            # h11 does not report an end after an informational response
            elif not isinstance(event, h11.InformationalResponse):
                raise Turned(502, "ended the connection without an answer", allowed=True)

    def _write(self, sink: asyncio.StreamWriter, piece: bytes | None, *, up: bool) -> None:
        piece = piece or b""
        self._proxy.count(self._asked, sent=len(piece) * up, received=len(piece) * (not up))
        sink.write(piece)

    def _name(self, host: str, port: int, spelled: str) -> tuple[str, int]:
        """Log the requested host as it was spelled, so that secrets in it can be found."""
        self._asked.host, self._asked.port = spelled, port
        if not host or not port:
            raise Turned(400, "names no host and port")
        return host, port

    async def _connect(
        self, entry: AllowedHost, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a permitted address of the host."""
        self._asked.allowed, self._asked.host = True, host
        if entry.address is not None:
            addresses, port = [entry.address], entry.address_port
        else:
            addresses = await self._addresses(host, port)
        tls = self._proxy.tls() if entry.way == "https" else None
        failure: Exception | None = None
        for address in addresses[:4]:  # not all of them: each may take connect_seconds
            try:
                async with asyncio.timeout(self._network.connect_seconds):
                    return await asyncio.open_connection(
                        address, port, ssl=tls, server_hostname=host if tls else None, limit=PIECE_BYTES
                    )
            except (OSError, TimeoutError) as error:
                failure = error
        reason = "its certificate is not to be trusted" if isinstance(failure, ssl.SSLCertVerificationError) else ""
        reason = reason or (
            "it gave no answer in time" if isinstance(failure, TimeoutError) else "it cannot be connected to"
        )
        raise Turned(502, f"is allowed, but {reason}", allowed=True)

    async def _addresses(self, host: str, port: int) -> list[str]:
        try:
            texts = await look_up(self._network.resolve or system_addresses, host, port, self._network.connect_seconds)
        except (OSError, TimeoutError, ValueError) as error:
            raise Turned(502, "is allowed, but no address of it was found", allowed=True) from error
        public = public_ones(texts)
        if not public:
            raise Turned(403, "leads to an address that is private or this machine's own")
        return public

    async def _read(self, source: asyncio.StreamReader) -> bytes:
        """Read the next piece. Activity in either direction resets the idle time."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(self._network.idle_seconds):
                    piece = await source.read(PIECE_BYTES)
            except TimeoutError:
                if loop.time() - self._moved >= self._network.idle_seconds:
                    raise
            else:
                self._moved = loop.time()
                return piece

    async def _next(self, connection: h11.Connection, source: asyncio.StreamReader) -> object:
        while (event := connection.next_event()) is h11.NEED_DATA:
            connection.receive_data(await self._read(source))
        return event

    async def _drained(self, sink: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(self._network.idle_seconds):
            await sink.drain()


def _target(request: h11.Request) -> str:
    """Return the absolute URL of a request.

    A client that treats the proxy as the host itself sends only a path, with the host in a header. Source: RFC 9112,
    3.3.
    """
    target = request.target.decode("ascii", "replace")
    if not target.startswith("/"):
        return target
    return next(
        (f"http://{value.decode('ascii', 'replace')}{target}" for name, value in request.headers if name == b"host"),
        target,
    )


async def _tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, status: int, sentence: str) -> None:
    """Send a refusal, and read some of the remaining request: otherwise the connection could be reset before it
    arrives.
    """
    body = f"{sentence}\n".encode()
    head = (
        f"HTTP/1.1 {status} {sentence[:_REASON_CHARS]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(2):
            writer.write(head.encode("ascii", "replace") + body)
            await writer.drain()
            writer.write_eof()
            remaining = _LINGER_BYTES
            while remaining > 0 and (piece := await reader.read(PIECE_BYTES)):
                remaining -= len(piece)


async def _close(writer: asyncio.StreamWriter, *, complete: bool) -> None:
    """Close a connection. If an answer is incomplete, abort it, so that it is not mistaken for a complete one."""
    if not complete:
        writer.transport.abort()
        return
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(5):
            writer.close()
            await writer.wait_closed()
    writer.transport.abort()
