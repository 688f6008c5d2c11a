"""Connects a command's sandbox to a proxy that runs outside of it, through the sandbox's loopback.

Before the command, a small program inside listens on the loopback, passes the listening socket out through a unix
socket, and then becomes the command. The socket belongs to the sandbox's network, but connections are accepted outside.
So no process of the proxy runs in the sandbox, and no packet leaves it.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import threading
from _thread import start_new_thread
from contextlib import ExitStack, suppress

from msgspec import Struct

from stackmem.core.network import NetworkRequest

from .network_list import NetworkList
from .request_log import OpenRequest, RequestLog

PORT = 3128
_BACKLOG = 512
_FD_BYTES = 4
_END_SECONDS = 15.0
_AROUND = "localhost,127.0.0.1,::1"

# Run by the sandbox's own Python, using only C modules: importing enum and selectors would take longer than all of
# this. It is not trusted: the outside checks the socket that it sends.
_LISTEN = """
import _signal, _socket, os, sys
door = _socket.socket(fileno=int(sys.argv[1]))
listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
listener.bind(("127.0.0.1", int(sys.argv[2])))
listener.listen(int(sys.argv[3]))
proxy = "http://127.0.0.1:"
for name in [name for name, value in os.environ.items() if value == proxy + "0"]:
    os.environ[name] = proxy + str(listener.getsockname()[1])
fd = listener.fileno().to_bytes(4, sys.byteorder)
door.sendmsg([b"listening"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fd)])
door.close()
listener.close()
for ignored in (_signal.SIGPIPE, _signal.SIGXFSZ):
    _signal.signal(ignored, _signal.SIG_DFL)
os.execv(sys.argv[4], sys.argv[4:])
"""


class Door:
    """A proxy connection that is open while the command runs."""

    def __init__(self, network: NetworkList, stack: ExitStack, port: int = PORT) -> None:
        """Open the door. The stack closes it, whatever happens to the command.

        ``port`` is the port in the sandbox; with 0, ``_LISTEN`` takes a free one and changes the variables.
        """
        self.port = port
        proxy = f"http://127.0.0.1:{port}"
        names = ("http_proxy", "https_proxy", "all_proxy")
        # variables that make the command's programs use the proxy
        self.variables = {
            **{spelled: proxy for name in names for spelled in (name, name.upper())},
            "no_proxy": _AROUND, "NO_PROXY": _AROUND, "NODE_USE_ENV_PROXY": "1",
            **network.variables,
        }  # fmt: skip
        self.log = RequestLog()
        self._network = network
        self._ours, self._theirs = socket.socketpair()  # neither is inherited by child processes
        self._stop_read, self._stop_write = os.pipe2(os.O_CLOEXEC)
        self._arrived = self._closed = False
        self._broke = ""
        self._ended = threading.Lock()
        self._ended.acquire()
        start_new_thread(self._work, ())
        stack.callback(self.close)

    def fd_above(self, lowest: int, stack: ExitStack) -> int:
        """Return a descriptor for the sandbox to inherit, with a number above ``lowest``. The stack closes it."""
        fd = fcntl.fcntl(self._theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, lowest + 1)
        stack.callback(os.close, fd)
        return fd

    def hand_over(self, listener: int) -> None:
        """Give the door an existing listening socket, which the caller must close."""
        socket.send_fds(self._theirs, [b"listening"], [listener])

    def close(self) -> tuple[NetworkRequest, ...]:
        """Close all connections and return the recorded requests. Call it once all the command's processes are dead."""
        if not self._closed:
            self._closed = True
            os.close(self._stop_write)
            self._theirs.close()
            if self._ended.acquire(timeout=_END_SECONDS):
                if not self._arrived and (unserved := self._listener()) is not None:
                    self._arrived = True  # so the command did run
                    unserved.close()
                self._ours.close()
                os.close(self._stop_read)
            # Otherwise the thread still uses them: two descriptors leak, rather than closing one that may be reused.
            if self._broke:
                self.log.enter(OpenRequest(why=f"was not served, for the proxy failed ({self._broke})", spoke=True))
        return self.log.requests()

    @property
    def failure(self) -> str:
        """Why the command never started; empty if it did, even if the proxy failed later."""
        return "" if self._arrived else self._broke or "nothing listened in the sandbox"

    def _work(self) -> None:
        import asyncio

        try:
            asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001 - stored for ``close``, because this thread has no caller
            self._broke = type(error).__name__
        finally:
            self._ended.release()

    async def _serve(self) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda *_: None)  # ignore connections that break while they are closed
        stopped, came = asyncio.Event(), asyncio.Event()
        loop.add_reader(self._stop_read, stopped.set)
        loop.add_reader(self._ours.fileno(), came.set)
        stopping = asyncio.create_task(stopped.wait())
        coming = asyncio.create_task(came.wait())
        await asyncio.wait({stopping, coming}, return_when=asyncio.FIRST_COMPLETED)
        loop.remove_reader(self._ours.fileno())
        listener = self._listener() if coming.done() else None
        if listener is not None:
            with listener:
                self._arrived = True
                accepting = asyncio.create_task(self._accept(listener))
                await asyncio.wait({stopping, accepting}, return_when=asyncio.FIRST_COMPLETED)
                if accepting.done() and (error := accepting.exception()) is not None:
                    self._broke = type(error).__name__
                accepting.cancel()
                await asyncio.gather(accepting, return_exceptions=True)

    def _listener(self) -> socket.socket | None:
        """Receive the socket and return it if it listens at the right port. The sandbox is untrusted and may send
        anything.
        """
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC  # socket.recv_fds does not support these flags
        try:
            _, came, _, _ = self._ours.recvmsg(16, socket.CMSG_LEN(_FD_BYTES), flags)
        except OSError:
            return None
        rights = [raw for level, kind, raw in came if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)]
        for fd in [int.from_bytes(raw, sys.byteorder) for raw in rights if len(raw) == _FD_BYTES]:
            try:
                sent = socket.socket(fileno=fd)
            except OSError:  # not a socket
                os.close(fd)
                continue
            if _listens(sent, self.port):
                sent.setblocking(False)
                return sent
            sent.close()
        return None

    async def _accept(self, listener: socket.socket) -> None:
        """Accept and serve connections up to the limit. Further ones wait in the kernel and use no resources here."""
        import asyncio

        from .proxy import PIECE_BYTES, Proxy

        loop = asyncio.get_running_loop()
        proxy = Proxy(self._network, self.log)
        slots = asyncio.Semaphore(self._network.connections)
        tasks: set[asyncio.Task[None]] = set()

        async def serve(connection: socket.socket) -> None:
            try:
                reader, writer = await asyncio.open_connection(sock=connection, limit=PIECE_BYTES)
            except OSError:
                connection.close()
                return
            await proxy.answer(reader, writer)

        def ended(task: asyncio.Task[None]) -> None:
            slots.release()
            tasks.discard(task)

        try:
            while True:
                await slots.acquire()
                try:
                    connection, _ = await loop.sock_accept(listener)
                except OSError:  # out of descriptors for the moment
                    slots.release()
                    await asyncio.sleep(0.1)
                    continue
                task = asyncio.create_task(serve(connection))
                tasks.add(task)
                task.add_done_callback(ended)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _listens(sent: socket.socket, port: int) -> bool:
    with suppress(OSError):
        listening = sent.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        return bool(listening) and sent.family == socket.AF_INET and (not port or sent.getsockname()[1] == port)
    return False


class Start(Struct, frozen=True):
    """How to start a command, with or without a door."""

    argv: tuple[str, ...]
    environ: dict[str, str]
    fds: tuple[int, ...] = ()  # descriptors to inherit
    door: Door | None = None


def start_through(network: NetworkList | None, start: Start, listener: int, stack: ExitStack) -> Start:
    """Start a command with a door on an existing listening socket, in a network that outlives the command.

    The door closes all its connections with the command, so what outlives commands needs a door of its own.
    """
    if network is None:
        return start
    door = Door(network, stack)
    door.hand_over(listener)
    return Start(start.argv, start.environ | door.variables, (), door)


def start_behind(
    network: NetworkList | None, start: Start, python: str, stack: ExitStack, floor: int = 2, port: int = PORT
) -> Start:
    """Start a command with its own door if its network is a list.

    Args:
        python: The interpreter in the sandbox.
        stack: Closes everything that is opened here after the command has ended.
        floor: The inherited descriptor gets a larger number than this.
        port: See ``Door``.
    """
    if network is None:
        return start
    door = Door(network, stack, port)
    fd = door.fd_above(floor, stack)
    argv = (python, "-I", "-S", "-c", _LISTEN, str(fd), str(port), str(_BACKLOG), *start.argv)
    return Start(argv, start.environ | door.variables, (fd,), door)
