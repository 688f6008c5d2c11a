"""Whole requests, as bytes of a connection, passed to the applications of our servers by uvicorn's own protocol.

There is no socket: a connection is an object, and an exception in an application is raised here. The client cuts
endless streams once no more data arrives.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from h11 import LocalProtocolError
from uvicorn.server import ServerState

from stackmem.doors.gateway.bounds import GatewaySpending
from stackmem.doors.gateway.proxy import Gateway, guarded
from stackmem.doors.gateway.upstream import Upstreams
from stackmem.doors.gateway.wires import WIRES
from stackmem.doors.listening.guard import Guard
from stackmem.doors.listening.sockets import StrictProtocol
from stackmem.doors.mcp.client_run import ClientCalls, plan_client_run
from stackmem.doors.mcp.protocol import memory_server
from stackmem.doors.ui.app import Studio
from stackmem.doors.ui.places import Places
from tests.fuzz.seeds import chained, requests_of, stories

TOKEN = "t" * 20
RUN = chained(stories()[0])
HOST = "127.0.0.1:8765"
WORDS = (
    b"Host: ", b"\r\n", b"\r\n\r\n", b"%00", b"%ff", b"%2e%2e", b"/../", b"?", b"HTTP/1.1", b"HTTP/1.0", b"OPTIONS ",
    b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Content-Encoding: gzip\r\n",
    b"Expect: 100-continue\r\n", TOKEN.encode(),
)  # fmt: skip
_MAX_TURNS = 400
_QUIET_TURNS = 25
_PIECE_BYTES = 700


class Connection(asyncio.Transport):
    """The client's side: receives the response and reports the peer's address."""

    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 8765), "peername": ("127.0.0.1", 50_000)})
        self.written = bytearray()
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        """Does nothing, because there is no transport to pause."""

    def resume_reading(self) -> None:
        """Does nothing, like ``pause_reading``."""


async def _converse(app: Any, data: bytes) -> bytes:
    raised: list[BaseException] = []

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        try:
            await app(scope, receive, send)
        except (LocalProtocolError, httpx2.HTTPError):
            raise  # the client broke the protocol and uvicorn has already answered; or the upstream did
        except Exception as error:
            raised.append(error)
            raise

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, told: raised.append(told.get("exception") or RuntimeError(told["message"])))
    config = uvicorn.Config(watched, log_config=None, log_level="critical", lifespan="off", ws="none")
    config.load()
    state = ServerState()
    protocol, client = StrictProtocol(config, state, {}, loop), Connection()
    protocol.connection_made(client)
    for start in range(0, len(data), _PIECE_BYTES):
        if not client.closed:
            with suppress(LocalProtocolError):  # raised by uvicorn if bytes that are not HTTP follow a request
                protocol.data_received(data[start : start + _PIECE_BYTES])
        await asyncio.sleep(0)
    quiet = 0
    for _ in range(_MAX_TURNS):
        before = len(client.written)
        await asyncio.sleep(0 if quiet < _QUIET_TURNS - 5 else 0.002)
        quiet = quiet + 1 if len(client.written) == before else 0
        if quiet > _QUIET_TURNS or (quiet > 5 and not state.tasks):
            break
    protocol.connection_lost(None)
    for task in list(state.tasks):
        with suppress(TimeoutError, Exception):
            await asyncio.wait_for(task, 1.0)
    if raised:
        raise raised[0]
    return bytes(client.written)


async def _answer(request: httpx2.Request) -> httpx2.Response:
    """An upstream that echoes the end of its request, as a stream if one was requested."""
    body = await request.aread()
    stream = b'"stream": true' in body
    kind = "text/event-stream" if stream else "application/json"
    said = b"data: " + body[-300:] + b"\n\ndata: [DONE]\n\n" if stream else body[-300:]

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(said), 150):
            yield said[start : start + 150]

    return httpx2.Response(200 if len(body) % 5 else 429, headers={"content-type": kind}, content=pieces())


async def _gateways(data: bytes, place: Path) -> None:
    for strategy, most in (("full", None), ("mask:2,poll=1", None), ("summary", 1)):
        runs = place / f"runs-{strategy[:4]}"
        runs.mkdir()
        spending = GatewaySpending(None, most)
        to = Upstreams("http://anthropic.example", "http://openai.example/v1", "http://google.example")
        client = httpx2.AsyncClient(transport=httpx2.MockTransport(_answer))
        gateway = Gateway(to, runs, spending, {}, strategy, client=client)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(gateway.app.router.lifespan_context(gateway.app))
            await _converse(guarded(gateway.app, TOKEN, frozenset({HOST})), data)


def gateway(data: bytes, place: Path) -> None:
    asyncio.run(_gateways(data, place))


def pages(data: bytes, place: Path) -> None:
    (place / "runs" / "a").mkdir(parents=True)
    (place / "runs" / "a" / "trace.jsonl").write_bytes(RUN)
    studio = Studio(Places([place / "runs"]))
    studio.places.refresh()
    try:
        asyncio.run(_converse(studio.app(TOKEN, frozenset({HOST})), data))
    finally:
        studio.stop()
        studio.close()


async def _memory(data: bytes, place: Path) -> None:
    calls = ClientCalls()
    calls.close("the run has ended")
    server = memory_server(plan_client_run(".", {}, {"XDG_STATE_HOME": str(place / "state")}, place), calls)
    inner = server.streamable_http_app(host="127.0.0.1")
    async with inner.router.lifespan_context(inner):
        await _converse(Guard(inner, TOKEN, frozenset({HOST})), data)


def memory(data: bytes, place: Path) -> None:
    asyncio.run(_memory(data, place))


def _request(line: str, body: bytes = b"", **headers: str) -> bytes:
    named = {"Host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
    if body:
        named |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"{line} HTTP/1.1\r\n{head}\r\n".encode() + body


def to_gateway() -> list[bytes]:
    bodies = {wire.name: requests_of(wire.name)[0] for wire in WIRES}
    chat, messages = bodies["openai-chat"], bodies["anthropic-messages"]
    responses = next(body for name, body in bodies.items() if body not in (chat, messages))
    return [
        _request("POST /v1/messages", messages, anthropic_version="2023-06-01", x_api_key="k", x_stackmem_token=TOKEN),
        _request(f"POST /{TOKEN}/v1/chat/completions", chat, Authorization="Bearer k"),
        _request("POST /v1/chat/completions", chat.replace(b"{", b'{"stream": true, ', 1)),
        _request("POST /v1/responses?a=b", responses) + _request("GET /v1/models"),
        _request("POST /v1beta/models/m:streamGenerateContent?alt=sse", bodies["gemini"], x_goog_api_key="k"),
        _request("POST /v1/messages/count_tokens", messages, Connection="close") + _request("DELETE /v1/files/%2e%2e"),
        b'POST /v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{"a": 1}\r\n0\r\n\r\n',
    ]


def to_pages() -> list[bytes]:
    here = {"Origin": f"http://{HOST}", "Sec_Fetch_Site": "same-origin"}
    asked = b'{"action": "fork", "run": "0/a", "values": {"at": "3"}, "dry_run": true, "start": false}'
    return [
        _request(f"GET /{TOKEN}/rows?q=a&sort=-started&limit=20&filter=outcome%3Dsolved"),
        _request(f"GET /{TOKEN}/run?id=0/a") + _request(f"GET /{TOKEN}/benches"),
        _request(f"GET /{TOKEN}/facts?id=0/a&after=3", Last_Event_ID="3"),
        _request(f"POST /{TOKEN}/command", asked, **here),
        _request(f"GET /{TOKEN}/bench/0/runs/a/view.html") + _request(f"GET /{TOKEN}/jobs/1"),
        _request(f"GET /{TOKEN}/changes"),
        _request(f"GET /{TOKEN}/"),
    ]


def to_memory() -> list[bytes]:
    told = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}
    hello = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", '
    hello += b'"capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}}'
    call = b'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "heap_list", "arguments": {}}}'
    return [
        _request("POST /mcp", hello, **told) + _request("POST /mcp", call, **told),
        _request("GET /mcp", **told) + _request("DELETE /mcp", Mcp_Session_Id="a", **told),
        _request("POST /mcp", b'{"jsonrpc": "2.0", "id": 3, "method": "tools/list"}', **told),
        _request("POST /mcp", call),
    ]
