"""Serves an agent's memory over stdio, or over HTTP on loopback, and plays the run of its calls.

A run begins with the first call, so a client that makes none leaves no run behind. A client's exit, Ctrl-C and
SIGTERM end the run in order. Over HTTP the shared guard checks every request.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from stackmem.core.errors import StackmemError, UsageError
from stackmem.core.state import State
from stackmem.foreign.installing import install_command
from stackmem.run.interrupts import Interrupts
from stackmem.run.play import play
from stackmem.run.result import RunResult

from .client_run import ClientCalls, ClientPlan, open_client_run

if TYPE_CHECKING:
    import socket

TOKEN_VARIABLE = "STACKMEM_MCP_TOKEN"  # noqa: S105 - the name of a variable
_MAX_BODY_BYTES = 4 << 20
_STOP_SECONDS = 5.0


def load_library() -> None:
    """Import the library of the protocol and silence its log.

    Raise UsageError if the extra ``mcp`` is not installed.
    """
    try:
        import mcp.server.lowlevel  # noqa: F401 - the extra
    except ModuleNotFoundError as error:
        raise UsageError(
            f"stackmem mcp needs the extra 'mcp' ({error.name} is missing); install it: {install_command('mcp')}"
        ) from error
    quiet = logging.getLogger("mcp")  # it logs a traceback for every malformed line
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False


def serve_memory(
    plan: ClientPlan,
    environ: Mapping[str, str],
    http: tuple[int, str] | None,
    ready: Callable[[str], object],
    warn: Callable[[str], object],
) -> RunResult | None:
    """Serve until the client leaves or a signal arrives; return the run's result, or None without a call.

    Args:
        http: Port (0 for any free port) and token. None serves over stdin and stdout.
        ready: Receives the address once the server listens over HTTP.
        warn: Receives what the user should know about the run.

    Raises:
        UsageError: The extra is not installed, the port is not available, or the run's folder cannot be created.
        TraceError: The trace cannot be written.
        WorkspaceError: The folder is gone.
    """
    load_library()
    from .protocol import memory_server

    calls = ClientCalls(warn)
    ended: SimpleQueue[RunResult | BaseException | None] = SimpleQueue()
    threading.Thread(target=_play, args=(plan, environ, calls, ended), name="run", daemon=True).start()
    with _signals(calls.leave):
        if http is None:
            threading.Thread(target=_stdio, args=(memory_server(plan, calls), calls), daemon=True).start()
            return _result(ended)
        from stackmem.doors.listening.sockets import LOOPBACK, listening

        with listening(LOOPBACK, http[0], "--http") as listener:
            ready(f"http://{LOOPBACK}:{listener.getsockname()[1]}/mcp")
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
    """Play the run in its own thread, from the first call on; put the result or the error into ``ended``."""
    try:
        if not calls.wait():
            ended.put(None)
            return
        with Interrupts() as interrupts, open_client_run(plan, calls, environ, interrupts) as opened:
            result = play(opened.start, State(), opened)
        calls.close(f"the memory of this session has ended: {result.failure or result.outcome}")
        ended.put(result)
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for the end
        reason = str(error) if isinstance(error, StackmemError | OSError) else type(error).__name__
        calls.close(f"the memory of this session has failed: {reason}")
        ended.put(error)


@contextmanager
def _signals(leave: Callable[[], object]) -> Iterator[None]:
    """End the run in order on the first Ctrl-C or SIGTERM; then restore the previous handlers."""
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

    from .protocol import AnsweredLines

    async def serve() -> None:
        async with stdio_server() as (read, write):
            await server.run(AnsweredLines(read, write), write, server.create_initialization_options())

    try:
        with suppress(Exception):  # a client may disconnect in the middle of a line
            asyncio.run(serve())
    finally:
        calls.leave()


@contextmanager
def _served(server: Any, token: str, listener: socket.socket, calls: ClientCalls) -> Iterator[None]:
    """Run the server in a thread while the block lasts."""
    import uvicorn

    from stackmem.doors.listening.guard import Guard, host_names
    from stackmem.doors.listening.sockets import LOOPBACK, server_config

    inner = server.streamable_http_app(host=LOOPBACK, max_request_body_size=_MAX_BODY_BYTES)
    app = Guard(inner, token, host_names(listener.getsockname()[1]))
    config = server_config(app, lifespan="on", timeout_graceful_shutdown=2)
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
