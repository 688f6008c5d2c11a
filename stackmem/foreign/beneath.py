"""Opens paths that cannot leave their root through ``..``, symlinks or races.

Rule 1: A path is resolved against an open directory, never against a name that may change in the meantime.
Rule 2: Leaving the root fails with EXDEV, as does every absolute symlink, wherever it points.
Rule 3: Both openers behave alike. If the kernel refuses ``openat2`` (before 5.6, or in a filtered container), the walk
    is used. In a race the walk may return ENOTDIR or ELOOP where the kernel retries; neither ever opens a path outside.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Callable
from functools import lru_cache

Opener = Callable[[int, bytes, int], int]
"""``(root, path, flags) -> fd``: opens a path relative to a directory; flags as in ``os.open``, without O_CREAT.

Raises OSError: EXDEV if the path leads outside, EINVAL if it contains a NUL, otherwise as ``open(2)``.
"""

PATH_BYTES = 4096  # PATH_MAX of the kernel, including the final NUL
_LINKS = 40  # maximum symlinks in one path, as in the kernel
_TRIES = 128  # any rename in the system can interrupt ``..`` resolution: openat2(2), EAGAIN

_SYS_OPENAT2 = 437  # the same on all architectures that Python supports, except alpha
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_RESOLVE_IN_ROOT = 0x10


def opener_for(root: int) -> Opener:
    """Return the kernel's opener if it is available, otherwise the walk."""
    try:
        os.close(open_by_kernel(root, b".", os.O_PATH | os.O_DIRECTORY))
    except OSError:
        return open_by_walk
    return open_by_kernel


def open_by_kernel(root: int, path: bytes, flags: int) -> int:
    """Resolve with ``openat2(2)`` and RESOLVE_BENEATH: one system call, checked at every step."""
    return _open_by_kernel(root, path, flags, _RESOLVE_BENEATH)


def open_in_root(root: int, path: bytes, flags: int) -> int:
    """Resolve like a process whose root is this directory: absolute links and ``..`` stay inside.

    Raises:
        OSError: As ``open(2)``; ENOSYS if the kernel does not have ``openat2``.
    """
    return _open_by_kernel(root, path, flags, _RESOLVE_IN_ROOT)


def open_without_links(root: int, path: bytes, flags: int) -> int:
    """Resolve a relative path that passes no symlink; one at its end is opened with O_NOFOLLOW. Otherwise it fails with
    ELOOP. ``..`` may leave the directory.
    """
    return _open_by_kernel(root, path, flags, _RESOLVE_NO_SYMLINKS)


def _open_by_kernel(root: int, path: bytes, flags: int, scope: int) -> int:
    import ctypes  # imported here, because it is only needed when something is opened

    _refuse_malformed(path)
    how = struct.pack("QQQ", flags | os.O_CLOEXEC, 0, scope | _RESOLVE_NO_MAGICLINKS)
    for _ in range(_TRIES):
        fd: int = _system_call()(_SYS_OPENAT2, root, path, how, len(how))
        if fd >= 0:
            return fd
        if ctypes.get_errno() not in {errno.EAGAIN, errno.EINTR}:
            break
    raise _failure(ctypes.get_errno())


@lru_cache(maxsize=1)
def _system_call() -> Callable[[int, int, bytes, bytes, int], int]:
    import ctypes

    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    return call


def open_by_walk(root: int, path: bytes, flags: int) -> int:
    """Resolve one component at a time. All directories on the way stay open, and ``..`` returns to them.

    Needs one descriptor per level, so a path with a thousand levels may fail with EMFILE.
    """
    _refuse_malformed(path)
    todo = _components(path)
    fds = [os.dup(root)]
    links = 0
    try:
        while True:
            name = todo.pop()
            if name in {b".", b".."}:
                os.stat(b".", dir_fd=fds[-1])  # raises EACCES if the directory is not searchable, like the kernel
                if name == b"..":
                    if len(fds) == 1:
                        raise _failure(errno.EXDEV)
                    os.close(fds.pop())
                if todo:
                    continue
                name = b"."
            target = b"" if not todo and flags & os.O_NOFOLLOW else _link_target(fds[-1], name)
            if target:
                links += 1
                if links > _LINKS:
                    raise _failure(errno.ELOOP)
                todo += _components(target)
            elif todo:
                fds.append(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fds[-1]))
            else:
                return os.open(name, flags | os.O_NOFOLLOW, dir_fd=fds[-1])
    finally:
        for fd in fds:
            os.close(fd)


def passes_link(root: int, path: bytes) -> bool:
    """Return whether an existing path contains or is a symlink."""
    at = b""
    for name in path.split(b"/"):
        at += b"/" * bool(at) + name
        try:
            if name and stat.S_ISLNK(os.stat(at, dir_fd=root, follow_symlinks=False).st_mode):
                return True
        except (OSError, ValueError):  # missing paths and NULs are refused by the opener
            return False
    return False


def _components(path: bytes) -> list[bytes]:
    """Return the parts of a relative path in reverse. A trailing slash requires a directory, like ``.``."""
    if path.startswith(b"/"):
        raise _failure(errno.EXDEV)
    parts = [part for part in path.split(b"/") if part]
    if path.endswith(b"/"):
        parts.append(b".")
    return parts[::-1]


def _link_target(directory: int, name: bytes) -> bytes:
    """Return the target of a symlink, or an empty value if it is not a symlink."""
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return b""
        raise


def _refuse_malformed(path: bytes) -> None:
    if b"\0" in path:
        raise _failure(errno.EINVAL)  # C would cut the path here and open another file
    if not path:
        raise _failure(errno.ENOENT)
    if len(path) >= PATH_BYTES:
        raise _failure(errno.ENAMETOOLONG)


def _failure(code: int) -> OSError:
    return OSError(code, os.strerror(code))
