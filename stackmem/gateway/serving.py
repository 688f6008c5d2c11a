"""A gateway on a port: started in a thread, told where it listens, stopped in bounded time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from stackmem.errors import UsageError, WorkspaceError
from stackmem.run.result import RunResult, read_result
from stackmem.run.run_folder import RESULT

from .bounds import GatewaySpending
from .upstream import Upstreams

if TYPE_CHECKING:
    from .proxy import Gateway

TOKEN_VARIABLE = "STACKMEM_GATEWAY_TOKEN"  # noqa: S105 - the name of a variable
_SHORTEST_TOKEN = 16
_START_SECONDS = 30.0
_STOP_SECONDS = 5


class GatewayTerms(Struct, frozen=True):
    """What a gateway is started with.

    Attributes:
        port: 0 for any that is free.
        token: What clients must bring; empty on loopback alone.
    """

    upstreams: Upstreams
    runs_dir: Path
    host: str = "127.0.0.1"
    port: int = 0
    token: str = ""
    max_usd: float | None = None
    max_tokens: int | None = None
    strategy: str = "full"


class ServedGateway(Struct, frozen=True):
    """A gateway that listens.

    Attributes:
        url: Where clients go, without the version.
    """

    gateway: Gateway
    url: str


@contextmanager
def serving(terms: GatewayTerms, environ: Mapping[str, str]) -> Iterator[ServedGateway]:
    """The gateway, for as long as the block lasts; every run of it is whole when the block has ended.

    Raises:
        UsageError: The extra is not installed, the address cannot be listened at, or is not loopback and has no token.
    """
    try:
        import uvicorn

        from .proxy import Gateway
    except ImportError as error:
        raise UsageError(
            f"the gateway needs the extra 'gateway' ({error.name} is missing); pip install 'stackmem[gateway]'"
        ) from error
    refuse_open(terms.host, terms.token)
    spending = GatewaySpending(terms.max_usd, terms.max_tokens)
    gateway = Gateway(terms.upstreams, terms.runs_dir, spending, dict(environ), terms.token, terms.strategy)
    with listening(terms.host, terms.port) as listener:
        config = uvicorn.Config(
            gateway.app, log_config=None, log_level="critical", access_log=False, server_header=False,
            date_header=False, timeout_graceful_shutdown=_STOP_SECONDS, lifespan="on", ws="none", proxy_headers=False,
        )  # fmt: skip
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), name="gateway", daemon=True)
        thread.start()
        begun = time.monotonic()
        while not server.started:
            if not thread.is_alive() or time.monotonic() - begun > _START_SECONDS:
                raise WorkspaceError("the gateway did not start; try again, or with another --port")
            time.sleep(0.005)
        host = f"[{terms.host}]" if ":" in terms.host else terms.host
        token = f"/{terms.token}" if terms.token else ""
        try:
            yield ServedGateway(gateway, f"http://{host}:{listener.getsockname()[1]}{token}")
        finally:
            server.should_exit = True
            thread.join(_STOP_SECONDS * 4)


def refuse_open(host: str, token: str) -> None:
    """Raises ``UsageError`` where others can reach the address and nothing keeps them out."""
    if not is_loopback(host) and len(token) < _SHORTEST_TOKEN:
        raise UsageError(
            f"--host {host} can be reached by others; set {TOKEN_VARIABLE} to a token of at least {_SHORTEST_TOKEN} "
            "characters, which clients bring in the path, or listen at 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens. Raises ``UsageError`` where nothing can listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY on what is accepted; else small pieces wait 40 ms for an ACK.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise UsageError(
                f"nothing can listen at {host}, port {port} ({error.strerror}); choose another with --port"
            ) from error
        listener.listen(512)
        yield listener


class GatewayBill(Struct, frozen=True):
    """What one gateway recorded.

    Attributes:
        runs: Each run's result, in the order in which they began.
        usd: What the replies cost, those of unfinished answers included as far as they are known.
        unpriced: Replies of models whose price is not known.
        notes: What went wrong inside.
    """

    runs: tuple[RunResult, ...]
    usd: float
    unpriced: int
    notes: tuple[str, ...]


def bill_of(gateway: Gateway) -> GatewayBill:
    """The bill of a gateway that has ended."""
    results = (read_result(folder / RESULT) for folder in gateway.recording.folders)
    spending = gateway.spending
    return GatewayBill(
        tuple(one for one in results if one is not None), round(spending.usd, 6), spending.unpriced,
        tuple(gateway.notes),
    )  # fmt: skip
