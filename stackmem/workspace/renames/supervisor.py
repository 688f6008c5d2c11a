"""Lets commands in an overlay rename folders of its lower layers, which the kernel refuses (EXDEV).

A system call filter reports each rename of a command to a thread of stackmem before the kernel performs it. If it names
a folder in the overlay, a helper program performs it, with the command's rights and view of files. The kernel performs
all others as usual. See seccomp_unotify(2).

Rule 1: If anything fails here, the kernel performs the rename as usual.
Rule 2: Paths of a command are resolved here only to find out whether they name a folder, and never outside its mount.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import queue
import select
import socket
import stat
import struct
import subprocess
import threading
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from stackmem.foreign.beneath import PATH_BYTES, open_in_root, open_without_links
from stackmem.workspace.isolation.seccomp import CURRENT_FOLDER, RenameCalls, build_rename_filter, rename_calls
from stackmem.workspace.overlay.mount import usable_python
from stackmem.workspace.overlay.view import WorkspaceView

from . import mover

# passed as text, because the file may not be readable for the user who runs it
_MOVER = Path(mover.__file__).read_text("utf-8")
_SET_FILTER, _NEW_LISTENER, _UNTIL_KILLED = 1, 1 << 3, 1 << 5
_NO_NEW_PRIVILEGES = 38
_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_REQUEST_BYTES = 80  # struct seccomp_notif
_CONTINUE = 1
_OWNER = 0xB701  # NS_GET_USERNS
_CAPABILITIES = 1 << 1 | 1 << 3  # CAP_DAC_OVERRIDE, CAP_FOWNER
_PAGE_BYTES = 4096
_LOOK = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW
_END_SECONDS = 10.0


class RenameSupervisor:
    """Supervises the renames of one command. Create it in a thread without a filter."""

    def __init__(self, view: WorkspaceView, stack: ExitStack) -> None:
        """Begin to supervise. The stack ends it, after the command."""
        self._device = os.fstat(view.fd).st_dev
        self._stop_read, self._stop_write = os.pipe2(os.O_CLOEXEC)
        self._handed: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._over, self._served = threading.Lock(), threading.Lock()
        self._over.acquire()
        self._served.acquire()
        self._helper: _Helper | None = None
        self._calls = rename_calls()
        stack.callback(self._close)
        start_new_thread(self._serve, ())

    def spawn(self, start: Callable[[], None]) -> None:
        """Start a process from a new thread with the filter. The thread lives as long as the command, because a sandbox
        dies with the thread that started it.
        """
        start_new_thread(self._supervised, (start,))

    def _supervised(self, start: Callable[[], None]) -> None:
        listener = -1 if self._calls is None else _listen(self._calls)
        # Handed over before the start, so that the first rename is already answered.
        self._handed.put(listener)
        start()
        # Only after the server has ended: otherwise the number could be reused while it still polls.
        with self._over, self._served:
            if listener >= 0:
                os.close(listener)

    def _close(self) -> None:
        os.close(self._stop_write)
        self._handed.put(-1)
        self._over.release()
        if self._served.acquire(timeout=_END_SECONDS):
            self._served.release()
            os.close(self._stop_read)

    def _serve(self) -> None:
        listener = self._handed.get()
        try:
            if listener >= 0:
                self._answer_all(listener)
        finally:
            if self._helper is not None:
                self._helper.close()
            self._served.release()

    def _answer_all(self, listener: int) -> None:
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        # No events: the end of the pipe is reported anyway, as POLLHUP.
        poll.register(self._stop_read, 0)
        while True:
            ready = dict(poll.poll())
            if self._stop_read in ready or ready[listener] & (select.POLLHUP | select.POLLERR):
                return
            request = bytearray(_REQUEST_BYTES)
            try:
                fcntl.ioctl(listener, _RECEIVE, request)
            except OSError:  # the command was killed meanwhile
                continue
            name, number = struct.unpack_from("Q", request)[0], None
            with suppress(OSError, ValueError):
                number = self._renamed(listener, request)
            answer = struct.pack("QqiI", name, 0, -(number or 0), _CONTINUE if number is None else 0)
            with suppress(OSError):
                fcntl.ioctl(listener, _SEND, answer)

    def _renamed(self, listener: int, request: bytearray) -> int | None:
        """Return the error number of a rename that the helper performed, or None if the kernel shall perform it."""
        name, task, _, call, _, _, *arguments = struct.unpack("QIIiIQ6Q", request)
        assert self._calls is not None  # noqa: S101 - there is a listener
        old_in, old_at, new_in, new_at, flags = self._calls.arguments(call, arguments)
        with ExitStack() as stack:
            # Opened before the check: after it, this descriptor still refers to the right process.
            memory = _open(f"/proc/{task}/mem", os.O_RDONLY, stack)
            fcntl.ioctl(listener, _IS_VALID, struct.pack("Q", name))  # otherwise the task may be another one
            old = _text(memory, old_at)
            folder = _open(_folder(task, old_in), os.O_PATH, stack)
            if not self._is_folder_of_overlay(task, folder, old):
                return None
            new, new_folder = _text(memory, new_at), _open(_folder(task, new_in), os.O_PATH, stack)
            if self._helper is None:
                self._helper = _Helper(task, self._stop_read)
            return self._helper.rename([folder, new_folder], old, new, flags)

    def _is_folder_of_overlay(self, task: int, folder: int, path: bytes) -> bool:
        try:
            if path.startswith(b"/"):
                with _fd(os.open(f"/proc/{task}/root", os.O_PATH | os.O_CLOEXEC)) as root:
                    fd = open_in_root(root, path.rstrip(b"/"), _LOOK)
            else:
                fd = open_without_links(folder, path.rstrip(b"/"), _LOOK)
        except OSError as error:
            return error.errno == errno.ELOOP  # it passes a link, so only the helper can tell
        with _fd(fd):
            status = os.fstat(fd)
        return stat.S_ISDIR(status.st_mode) and status.st_dev == self._device


class _Helper:
    """The program that renames folders, in the namespaces of a command. It is started for the first folder."""

    def __init__(self, task: int, stop: int) -> None:
        self._stop = stop
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, ExitStack() as stack:
            mounts = os.open(f"/proc/{task}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, mounts)
            user = fcntl.ioctl(mounts, _OWNER)
            stack.callback(os.close, user)
            calls = rename_calls()
            assert calls is not None  # noqa: S101 - there is a listener
            numbers = (
                theirs.fileno(),
                user,
                mounts,
                _capabilities(task) & _CAPABILITIES,
                calls.capset,
                calls.renameat2,
            )
            # -I and -S: the helper must not load anything from folders that the command can write.
            command = (usable_python(), "-I", "-S", "-c", _MOVER, *map(str, numbers))
            self._process = subprocess.Popen(
                command, pass_fds=(theirs.fileno(), user, mounts), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", env={}, process_group=0,
            )  # fmt: skip

    def rename(self, folders: list[int], old: bytes, new: bytes, flags: int) -> int | None:
        """Rename, and return the error number; None if the helper cannot."""
        socket.send_fds(self._ours, [struct.pack("II", flags, len(old)) + old + new], folders)
        poll = select.poll()
        poll.register(self._ours, select.POLLIN)
        poll.register(self._stop, 0)
        poll.poll()
        # Without waiting, because the stop may have ended the poll and then there is no answer.
        answer = self._ours.recv(4, socket.MSG_DONTWAIT)
        return struct.unpack("i", answer)[0] if answer else None

    def close(self) -> None:
        """End the helper. It removes what it has only half done."""
        # The helper reads the end of the socket and then cleans up, which a kill would prevent.
        self._ours.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _listen(calls: RenameCalls) -> int:
    """Install the filter in this thread. Returns the descriptor of its listener, or -1 if that is impossible."""
    libc = ctypes.CDLL(None, use_errno=True)
    program = build_rename_filter(calls)
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return -1
    for flags in (_NEW_LISTENER | _UNTIL_KILLED, _NEW_LISTENER):  # the second before Linux 5.19
        listener = libc.syscall(calls.seccomp, _SET_FILTER, flags, ctypes.c_char_p(header))
        if listener >= 0:
            return int(listener)
    return -1


@contextmanager
def _fd(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def _open(path: str, flags: int, stack: ExitStack) -> int:
    fd = os.open(path, flags | os.O_CLOEXEC)
    stack.callback(os.close, fd)
    return fd


def _folder(task: int, number: int) -> str:
    """Return the path of a folder that a task refers to by a descriptor, or of its current one."""
    return f"/proc/{task}/cwd" if number == CURRENT_FOLDER else f"/proc/{task}/fd/{number}"


def _text(memory: int, at: int) -> bytes:
    """Read a path from the memory of a task, up to its NUL."""
    path = b""
    while len(path) < PATH_BYTES:
        # Page by page, because a path may end right before a page that is not mapped.
        piece = os.pread(memory, _PAGE_BYTES - (at + len(path)) % _PAGE_BYTES, at + len(path))
        text, nul, _ = piece.partition(b"\0")
        path += text
        if nul or not piece:
            break
    return path[:PATH_BYTES]


def _capabilities(task: int) -> int:
    """Return the effective capabilities of a task."""
    for line in Path(f"/proc/{task}/status").read_bytes().splitlines():
        if line.startswith(b"CapEff:"):
            return int(line.split()[1], 16)
    return 0
