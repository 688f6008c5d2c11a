"""Program that renames folders of an overlay for commands, with the rights and the view of files of a command.

The kernel refuses to rename a folder that an overlay shows from a lower layer (EXDEV). This program links its files
into a new folder, renames that in one step, and then removes the old one. Until that step, nothing has changed.

It uses only the standard library and has one thread, as user namespaces require. Its arguments are: a socket, the
descriptors of the user namespace and of the mount namespace to enter, the capabilities to keep, and the numbers of the
system calls capset and renameat2. Each message on the socket is one rename; the answer is its error
number. The program ends when the socket closes.
"""

# Paths are bytes here, since a name need not be text.

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import stat
import struct
import sys

_NO_NEW_PRIVILEGES = 38
_NO_REPLACE = 1
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PARENT = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_CLOEXEC
_MESSAGE_BYTES = 16_384

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    orders = socket.socket(fileno=int(sys.argv[1]))
    enter(int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    os.umask(0)
    mover = Mover(orders, int(sys.argv[6]))
    while True:
        message, fds, _, _ = socket.recv_fds(orders, _MESSAGE_BYTES, 2)
        if not message:
            return
        flags, length = struct.unpack_from("II", message)
        old, new = message[8 : 8 + length], message[8 + length :]
        number = mover.rename(fds[0], old, fds[1], new, flags)
        for fd in fds:
            os.close(fd)
        orders.send(struct.pack("i", number))


def enter(user: int, mounts: int, capabilities: int, capset: int) -> None:
    """Enter the namespaces of a command and give up all other rights."""
    for fd in (user, mounts):
        if _libc.setns(fd, 0) != 0:
            raise _error("cannot enter a namespace")
        os.close(fd)
    if _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise _error("no_new_privs")
    header, low = struct.pack("Ii", 0x20080522, 0), capabilities & 0xFFFF_FFFF
    if _libc.syscall(capset, header, struct.pack("6I", low, low, 0, 0, 0, 0)) != 0:
        raise _error("capset")


class Mover:
    """Renames folders until the socket ``orders`` closes."""

    def __init__(self, orders: socket.socket, renameat2: int) -> None:
        self._poll = select.poll()
        self._poll.register(orders, select.POLLIN)
        self._renameat2 = renameat2

    def rename(self, old_at: int, old: bytes, new_at: int, new: bytes, flags: int) -> int:
        """Rename like ``renameat2(2)``. Returns the error number, or 0."""
        number = self._kernel(old_at, old, new_at, new, flags)
        if number != errno.EXDEV or flags & ~_NO_REPLACE:
            return number
        parents: list[int] = []
        try:
            for at, path in ((old_at, old), (new_at, new)):
                split = path.rstrip(b"/").rpartition(b"/")
                parents.append(os.open(split[0] or split[1] or b".", _PARENT, dir_fd=at))
            source, target = (path.rstrip(b"/").rpartition(b"/")[2] for path in (old, new))
            return self._move(parents[0], source, parents[1], target, flags)
        except OSError as error:
            return error.errno or errno.EIO
        except RecursionError:
            return errno.EXDEV
        finally:
            for fd in parents:
                os.close(fd)

    def _kernel(self, old_at: int, old: bytes, new_at: int, new: bytes, flags: int) -> int:
        if _libc.syscall(self._renameat2, old_at, old, new_at, new, flags) == 0:
            return 0
        return ctypes.get_errno()

    def _move(self, source_in: int, source: bytes, target_in: int, target: bytes, flags: int) -> int:
        if not stat.S_ISDIR(os.lstat(source, dir_fd=source_in).st_mode):
            return errno.EXDEV
        if _is_filled(target_in, target):
            return errno.ENOTEMPTY
        draft = b".stackmem-rename-%s" % os.urandom(8).hex().encode()
        try:
            self._link_tree(source_in, source, target_in, draft)
        except (OSError, RecursionError):
            remove_tree(target_in, draft)
            return errno.EXDEV
        number = self._kernel(target_in, draft, target_in, target, flags)
        if number:
            remove_tree(target_in, draft)
            return number
        remove_tree(source_in, source)
        return 0

    def _link_tree(self, source_in: int, source: bytes, target_in: int, target: bytes) -> None:
        """Make a folder with the same attributes, whose files are links to those of the source."""
        if self._poll.poll(0):
            raise OSError(errno.EINTR, "stopped")
        with _Opened(source_in, source) as old:
            status = os.fstat(old)
            # Otherwise the source could not be removed afterwards.
            if status.st_uid != os.geteuid() and not os.access(b".", os.W_OK | os.X_OK, dir_fd=old, effective_ids=True):
                raise OSError(errno.EACCES, "not writable")
            os.mkdir(target, 0o700, dir_fd=target_in)
            with _Opened(target_in, target) as new:
                with os.scandir(old) as entries:
                    children = [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in entries]
                for name, is_folder in children:
                    if is_folder:
                        self._link_tree(old, name, new, name)
                    else:
                        os.link(name, name, src_dir_fd=old, dst_dir_fd=new, follow_symlinks=False)
                for attribute in os.listxattr(old):
                    os.setxattr(new, attribute, os.getxattr(old, attribute))
                os.fchmod(new, stat.S_IMODE(status.st_mode))
                os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))


class _Opened:
    """A folder that is open inside ``with``."""

    def __init__(self, parent: int, name: bytes) -> None:
        self._fd = os.open(name, _FOLDER, dir_fd=parent)

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _is_filled(parent: int, name: bytes) -> bool:
    try:
        with _Opened(parent, name) as fd:
            return bool(os.listdir(fd))
    except OSError:
        return False


def remove_tree(parent: int, name: bytes) -> None:
    """Remove a folder, also if its own mode forbids that."""
    try:
        with _Opened(parent, name) as fd:
            with os.scandir(fd) as entries:
                children = [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in entries]
            if not os.access(b".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=True):
                os.fchmod(fd, 0o700)
            for each, is_folder in children:
                if is_folder:
                    remove_tree(fd, each)
                else:
                    os.unlink(each, dir_fd=fd)
    except FileNotFoundError:
        return
    os.rmdir(name, dir_fd=parent)


def _error(label: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{label}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
