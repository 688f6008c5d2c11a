"""Serves a gateway on a port in a background thread, and stops it within a bounded time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.doors.listening.token import token_of
from stackmem.foreign.installing import install_command
from stackmem.run.result import RunResult, read_result
from stackmem.run.run_folder import RESULT

from .bounds import GatewaySpending
from .upstream import Upstreams

if TYPE_CHECKING:
    from .proxy import Gateway

TOKEN_VARIABLE = "STACKMEM_GATEWAY_TOKEN"  # noqa: S105 - the name of a variable
_START_SECONDS = 30.0
_STOP_SECONDS = 5


class GatewayTerms(Struct, frozen=True):
    """Configuration of a gateway."""

    upstreams: Upstreams
    runs_dir: Path
    host: str = "127.0.0.1"
    port: int = 0  # 0 for any free port
    token: str = ""  # token that clients must send; empty for a random one
    max_usd: float | None = None
    max_tokens: int | None = None
    strategy: str = "full"
    listener: socket.socket | None = None  # an existing socket to serve on, in place of host and port
    names: tuple[str, ...] = ()  # additional ``Host`` values by which clients reach it
    frame_keys: tuple[bytes, ...] = ()  # the keys of memory servers; empty for those of this user


class ServedGateway(Struct, frozen=True):
    """A running gateway.

    ``url`` is the address for most clients, with the token as the first path segment, before the version.
    """

    gateway: Gateway
    bare: str  # the address for clients that send the token in a header
    port: int
    token: str

    @property
    def url(self) -> str:
        return f"{self.bare}/{self.token}"


@contextmanager
def serving(terms: GatewayTerms, environ: Mapping[str, str]) -> Iterator[ServedGateway]:
    """Run a gateway while the block lasts; all its runs are complete when the block has ended.

    Raise UsageError if the extra is not installed, the address is not available, or the token is too short.
    """
    try:
        import uvicorn

        from stackmem.doors.listening.guard import host_names
        from stackmem.doors.listening.sockets import listening, server_config

        from .proxy import Gateway, guarded
    except ImportError as error:
        raise UsageError(
            f"the gateway needs the extra 'gateway' ({error.name} is missing); install it: {install_command('gateway')}"
        ) from error
    token = token_of(terms.token, TOKEN_VARIABLE)
    spending = GatewaySpending(terms.max_usd, terms.max_tokens)
    gateway = Gateway(
        terms.upstreams, terms.runs_dir, spending, {**environ, TOKEN_VARIABLE: token}, terms.strategy,
        frame_keys=terms.frame_keys,
    )  # fmt: skip
    with nullcontext(terms.listener) if terms.listener else listening(terms.host, terms.port) as listener:
        port = listener.getsockname()[1]
        open_to_others = not is_loopback(terms.host)
        names = (*terms.names, *((f"{socket.gethostname()}:{port}",) if open_to_others else ()))
        app = guarded(gateway.app, token, host_names(port, names), any_address=open_to_others)
        config = server_config(app, date_header=False, timeout_graceful_shutdown=_STOP_SECONDS, lifespan="on")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), name="gateway", daemon=True)
        thread.start()
        began = time.monotonic()
        while not server.started:
            if not thread.is_alive() or time.monotonic() - began > _START_SECONDS:
                raise WorkspaceError("the gateway did not start; try again, or with another --port")
            time.sleep(0.005)
        host = f"[{terms.host}]" if ":" in terms.host else terms.host
        try:
            yield ServedGateway(gateway, f"http://{host}:{port}", port, token)
        finally:
            server.should_exit = True
            thread.join(_STOP_SECONDS * 4)


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class GatewayBill(Struct, frozen=True):
    """The summary of one gateway session."""

    runs: tuple[RunResult, ...]  # result of each run, in the order they began
    usd: float  # cost of the replies, including the known part of incomplete answers
    unpriced: int  # replies of models with unknown prices
    estimated: int  # replies whose tokens are estimated, because the provider reported none
    requests: int  # requests for a reply, including refused ones
    notes: tuple[str, ...]  # internal errors


def bill_of(gateway: Gateway) -> GatewayBill:
    """Return the bill of a gateway that has ended."""
    results = (read_result(folder / RESULT) for folder in gateway.recording.folders)
    spending = gateway.spending
    return GatewayBill(
        tuple(result for result in results if result is not None), round(spending.usd, 6), spending.unpriced,
        spending.estimated, gateway.came, tuple(gateway.notes),
    )  # fmt: skip
