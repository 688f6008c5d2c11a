"""The socket that a server listens on, and the settings with which uvicorn serves on it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from stackmem.core.errors import UsageError
from stackmem.foreign.framing import StrictConnection

LOOPBACK = "127.0.0.1"
_BACKLOG = 512
_HEAD_BYTES = 64 * 1024


@contextmanager
def listening(host: str, port: int, option: str = "--port") -> Iterator[socket.socket]:
    """Listen for as long as the block lasts; ``option`` is the flag by which the user chooses the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY on what is accepted; else small pieces wait 40 ms for an ACK.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(_BACKLOG)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UsageError(
                f"cannot listen on {host}, port {port} ({reason}); choose another port with {option}"
            ) from error
        yield listener


def server_config(app: ASGIApp, **more: Any) -> uvicorn.Config:
    """Settings of a server that reads requests strictly, logs nothing, and says nothing about itself."""
    return uvicorn.Config(
        app, http=StrictProtocol, ws="none", log_config=None, log_level="critical", access_log=False,
        server_header=False, proxy_headers=False, **more,
    )  # fmt: skip


class StrictProtocol(H11Protocol):
    """uvicorn's reader of HTTP/1.1, which refuses requests of ambiguous length."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = StrictConnection(self.conn.our_role, _HEAD_BYTES)
