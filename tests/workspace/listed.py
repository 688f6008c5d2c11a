"""Servers on loopback behind a proxy, for tests of listed hosts."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from stackmem.workspace.egress.network_list import NetworkList, read_hosts
from stackmem.workspace.egress.proxy import PIECE_BYTES, Proxy
from stackmem.workspace.egress.request_log import RequestLog

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class Host:
    """A server that stores its input.

    Attributes:
        seen: The received bytes of each connection so far.
    """

    def __init__(self, answer: bytes | Callable[[socket.socket], None], tls: Any = None) -> None:
        self._answer, self._tls = answer, tls
        self.seen: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            if callable(self._answer):
                self._answer(connection)
                return
            self.seen.append(b"")
            at = len(self.seen) - 1
            while not _is_whole(self.seen[at]):
                piece = connection.recv(65536)
                if not piece:
                    return
                self.seen[at] += piece
            connection.sendall(self._answer)
            connection.close()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes up the accept
        self._listener.close()


def _is_whole(message: bytes) -> bool:
    head, end, body = message.partition(b"\r\n\r\n")
    if b"transfer-encoding" in head.lower():
        return body.endswith(b"0\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    return bool(end) and len(body) >= length


@contextmanager
def serving(answer: bytes | Callable[[socket.socket], None] = OK, tls: Any = None) -> Iterator[Host]:
    host = Host(answer, tls)
    try:
        yield host
    finally:
        host.close()


def network(*entries: str, **more: Any) -> NetworkList:
    """A list of these entries whose names are never looked up by the machine's resolver."""
    return NetworkList(**{"hosts": read_hosts(entries), "resolve": _nowhere, **more})


def _nowhere(host: str, port: int) -> list[str]:
    raise OSError(f"no address for {host}")


class Asking:
    """A proxy on loopback in this process.

    Attributes:
        log: Its log of requests.
    """

    def __init__(self, port: int, log: RequestLog) -> None:
        self._port, self.log = port, log

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), timeout=100)

    def ask(self, sent: bytes) -> bytes:
        """Return everything received until the proxy closes the connection."""
        with self.connect() as connection:
            with suppress(OSError):  # it may answer before reading everything
                connection.sendall(sent)
            return rest_of(connection)

    def get(self, address: str, *headers: str) -> bytes:
        return self.ask("\r\n".join((f"GET {address} HTTP/1.1", "Host: whatever", *headers, "", "")).encode())


def rest_of(connection: socket.socket) -> bytes:
    came = b""
    with suppress(ConnectionError):
        while piece := connection.recv(65536):
            came += piece
    return came


@contextmanager
def proxied(listed: NetworkList) -> Iterator[Asking]:
    """Run only the proxy, without a sandbox; its log is complete after the block."""
    log = RequestLog()
    started, port, loops = threading.Event(), [0], []
    stopped: list[asyncio.Event] = []

    async def serve() -> None:
        server = await asyncio.start_server(Proxy(listed, log).answer, "127.0.0.1", 0, limit=PIECE_BYTES)
        port[0] = server.sockets[0].getsockname()[1]
        loops.append(asyncio.get_running_loop())
        stopped.append(asyncio.Event())
        started.set()
        await stopped[0].wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=asyncio.run, args=(_quietly(serve()),), daemon=True)
    thread.start()
    started.wait()
    try:
        yield Asking(port[0], log)
    finally:
        loops[0].call_soon_threadsafe(stopped[0].set)
        thread.join()


async def _quietly(work: Awaitable[None]) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    await work
