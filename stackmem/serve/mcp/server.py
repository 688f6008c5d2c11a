"""Serves an agent's memory over stdio, or over HTTP on loopback, and plays the run that its calls are.

Rule 1: a run begins with the first call; a client that makes none leaves none behind.
Rule 2: a client that goes, Ctrl-C and SIGTERM end the run in good order.
Rule 3: over HTTP every request brings the token, and names this machine as its host.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from stackmem.core.state import State
from stackmem.errors import StackmemError, UsageError
from stackmem.run.interrupts import Interrupts
from stackmem.run.play import play
from stackmem.run.result import RunResult
from stackmem.serve.mcp.client_run import ClientCalls, ClientPlan, open_client_run

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN_VARIABLE = "STACKMEM_MCP_TOKEN"  # noqa: S105 - the name of a variable
SHORTEST_TOKEN = 16
_HOST = "127.0.0.1"
_MOST_BODY_BYTES = 4 << 20
_STOP_SECONDS = 5.0


def serve_memory(
    plan: ClientPlan, environ: Mapping[str, str], http: tuple[int, str] | None, ready: Callable[[str], object]
) -> RunResult | None:
    """Serve until the client goes, or a signal ends it; the run's result, None where no call was made.

    Args:
        http: Port (0 for any that is free) and token; None speaks over stdin and stdout.
        ready: Given the address, once it listens over HTTP.

    Raises:
        UsageError: The extra is not installed, the port cannot be had, or the run's folder cannot be made.
        TraceError: The trace cannot be written.
        WorkspaceError: The folder is gone.
    """
    try:
        from .protocol import memory_server
    except ModuleNotFoundError as error:
        raise UsageError(
            f"stackmem mcp needs the extra 'mcp' ({error.name} is missing); pip install 'stackmem[mcp]'"
        ) from error
    quiet = logging.getLogger("mcp")  # it prints a traceback for each line of a client that talks nonsense
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    calls = ClientCalls()
    ended: SimpleQueue[RunResult | BaseException | None] = SimpleQueue()
    threading.Thread(target=_play, args=(plan, environ, calls, ended), name="run", daemon=True).start()
    with _signals(calls.leave):
        if http is None:
            threading.Thread(target=_stdio, args=(memory_server(plan, calls), calls), daemon=True).start()
            return _result(ended)
        with _listening(http[0]) as listener:
            ready(f"http://{_HOST}:{listener.getsockname()[1]}/mcp")
            with _served(memory_server(plan, calls), http[1], listener, calls):
                return _result(ended)


def _result(ended: SimpleQueue[RunResult | BaseException | None]) -> RunResult | None:
    came = ended.get()
    if isinstance(came, BaseException):
        raise came
    return came


def _play(
    plan: ClientPlan,
    environ: Mapping[str, str],
    calls: ClientCalls,
    ended: SimpleQueue[RunResult | BaseException | None],
) -> None:
    """The run, from the first call on, in a thread of its own; what it came to is put into ``ended``."""
    try:
        if not calls.wait():
            ended.put(None)
            return
        with Interrupts() as interrupts, open_client_run(plan, calls, environ, interrupts) as opened:
            result = play(opened.parts.start, State(), opened)
        calls.close(f"the memory of this session has ended: {result.failure or result.outcome}")
        ended.put(result)
    except BaseException as error:  # noqa: BLE001 - it is raised where the end is waited for
        told = str(error) if isinstance(error, StackmemError | OSError) else type(error).__name__
        calls.close(f"the memory of this session has failed: {told}")
        ended.put(error)


@contextmanager
def _signals(leave: Callable[[], object]) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the run in good order; a second one is as it was before."""
    before: dict[int, Any] = {}

    def came(number: int, _: object) -> None:
        signal.signal(number, before[number])
        leave()

    for number in (int(signal.SIGINT), int(signal.SIGTERM)):
        before[number] = signal.signal(number, came)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stdio(server: Any, calls: ClientCalls) -> None:
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    try:
        with suppress(Exception):  # a client that breaks off in mid line has gone
            asyncio.run(serve())
    finally:
        calls.leave()


class TokenGuard:
    """Lets through what brings the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._wanted = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import PlainTextResponse

        if scope["type"] == "http":
            given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
            if len(given) != 1 or not hmac.compare_digest(given[0], self._wanted):
                await PlainTextResponse("bring the token: Authorization: Bearer TOKEN\n", 401)(scope, receive, send)
                return
        await self._app(scope, receive, send)


@contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, port))
        except (OSError, OverflowError) as error:
            raise UsageError(f"port {port} on {_HOST} cannot be had ({error}); choose another with --http") from error
        listener.listen(128)
        yield listener


@contextmanager
def _served(server: Any, token: str, listener: socket.socket, calls: ClientCalls) -> Iterator[None]:
    """The server on the listener, in a thread, for as long as the block lasts."""
    import uvicorn

    app = TokenGuard(server.streamable_http_app(host=_HOST, max_request_body_size=_MOST_BODY_BYTES), token)
    config = uvicorn.Config(
        app, ws="none", lifespan="on", log_config=None, log_level="critical", access_log=False, server_header=False,
        proxy_headers=False, timeout_graceful_shutdown=2,
    )  # fmt: skip
    running = uvicorn.Server(config)

    def serve() -> None:
        try:
            running.run([listener])
        finally:
            calls.leave()

    thread = threading.Thread(target=serve, name="http", daemon=True)
    thread.start()
    try:
        yield
    finally:
        running.should_exit = True
        thread.join(_STOP_SECONDS)
