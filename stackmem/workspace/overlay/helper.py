"""Mounts in namespaces of its own, hands three descriptors over, and ends: a program of its own.

It needs nothing but the standard library, and has one thread, as a user namespace asks for. Its first argument is a
socket. For an overlay a place follows for what hides a part of the folder, the upper folder, its work folder, the
place, and the folders below; it is the last one of which it hides what it reads. Else a folder follows alone: what it
reads are folders, each with the path in that one at which it shows them, read-only.
"""

# Paths are bytes here, since a name need not be text.
# ruff: noqa: PTH101, PTH102, PTH116

from __future__ import annotations

import ctypes
import os
import socket
import stat
import sys

_NEW_USER, _NEW_MOUNTS = 0x1000_0000, 0x0002_0000
_NO_SETUID, _NO_DEVICES, _RECURSIVE, _SLAVE = 2, 4, 0x4000, 1 << 19
_READ_ONLY, _REMOUNT, _BIND = 1, 32, 4096
_STAY, _TOLD_RELATIVE, _RELATIVE = 2 | 4 | 8 | 1 << 10 | 1 << 11, 1 << 12, 1 << 21
"""What nobody takes off another's mount; only of relative access times statvfs(3) and mount(2) speak differently."""
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
_PROBE = ".stackmem-probe"


def main() -> None:
    ours = socket.socket(fileno=int(sys.argv[1]))
    try:
        given, places = sys.stdin.buffer.read().split(b"\0")[:-1], list(map(os.fsencode, sys.argv[2:]))
        fds = shown(given, *places) if len(places) == 1 else mounted(given, *places)
        socket.send_fds(ours, [b"mounted"], fds)
    except OSError as error:
        ours.send(f"{error.filename2 or 'mount'}: {error.strerror}".encode())


def mounted(hidden: list[bytes], hide: bytes, upper: bytes, work: bytes, place: bytes, *below: bytes) -> list[int]:
    """The merged folder, our namespace of mounts, and our user namespace where we have one of our own."""
    own_user = _enter_own()
    # By descriptor: no name has to be escaped, and none can be exchanged for a link on the way.
    *over, lower = (os.open(folder, _FOLDER) for folder in below)
    _mount(b"none", hide, b"tmpfs", _NO_SETUID | _NO_DEVICES, b"mode=0700")
    make_whiteouts(hide, b"/proc/self/fd/%d" % lower, hidden)
    fds = (*over, os.open(hide, _FOLDER), lower, os.open(upper, _FOLDER), os.open(work, _FOLDER))
    *lowers, upper, work = (b"/proc/self/fd/%d" % fd for fd in fds)
    # One device for all: programs that stay on one would pass over files else.
    options = b"lowerdir=%s,upperdir=%s,workdir=%s,userxattr,xino=on" % (b":".join(lowers), upper, work)
    _mount(b"overlay", place, b"overlay", _NO_SETUID | _NO_DEVICES, options)
    merged = os.open(place, _FOLDER)
    os.close(os.open(_PROBE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=merged))
    os.unlink(_PROBE, dir_fd=merged)
    return [merged, *_own(own_user=own_user)]


def shown(pairs: list[bytes], folder: bytes) -> list[int]:
    """A folder in which others are seen, read-only, and our namespaces."""
    own_user = _enter_own()
    root = os.open(folder, _FOLDER)
    for other, path in zip(pairs[::2], pairs[1::2], strict=True):
        source, at = os.open(other, _FOLDER), os.open(path, _FOLDER, dir_fd=root)
        _mount(b"/proc/self/fd/%d" % source, b"/proc/self/fd/%d" % at, None, _BIND, None)
        seen = os.open(path, _FOLDER, dir_fd=root)
        has = os.fstatvfs(seen).f_flag
        stay = has & _STAY | (_RELATIVE if has & _TOLD_RELATIVE else 0)
        _mount(b"none", b"/proc/self/fd/%d" % seen, None, _REMOUNT | _BIND | _READ_ONLY | _NO_SETUID | stay, None)
    return [root, *_own(own_user=own_user)]


def _enter_own() -> bool:
    """Enter a namespace of mounts of our own; whether a user namespace of our own, too."""
    own_user = os.geteuid() != 0 or not _unshare(_NEW_MOUNTS)
    if own_user:
        _new_user()
    _mount(b"none", b"/", None, _RECURSIVE | _SLAVE, None)
    return own_user


def _own(*, own_user: bool) -> list[int]:
    kinds = ("mnt", "user") if own_user else ("mnt",)
    return [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in kinds]


def make_whiteouts(hide: bytes, folder: bytes, hidden: list[bytes]) -> None:
    """A whiteout for each path that is not to be seen, which is the character device 0:0, and one inode for all.

    The folders above one are made as they are in the folder, since it is these that the overlay shows.
    """
    made: list[bytes] = []
    known = {b""}
    first = b""
    for path in hidden:
        missing = []
        above = path.rpartition(b"/")[0]
        while above not in known:
            known.add(above)
            missing.append(above)
            above = above.rpartition(b"/")[0]
        for each in reversed(missing):
            os.mkdir(hide + b"/" + each, 0o700)
        made += reversed(missing)
        if first:
            os.link(first, hide + b"/" + path)
        else:
            first = hide + b"/" + path
            os.mknod(first, stat.S_IFCHR, os.makedev(0, 0))
    for each in reversed(made):
        status = os.stat(folder + b"/" + each)
        os.chmod(hide + b"/" + each, status.st_mode & 0o777 | 0o700)
        os.utime(hide + b"/" + each, ns=(status.st_atime_ns, status.st_mtime_ns))


def _new_user() -> None:
    """A user namespace in which we are who we are, so that files keep their owner."""
    uid, gid = os.geteuid(), os.getegid()
    if not _unshare(_NEW_USER | _NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), None, None, "a user namespace")
    for name, line in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(fd, line.encode())
        os.close(fd)


_libc = ctypes.CDLL(None, use_errno=True)


def _unshare(kinds: int) -> bool:
    return bool(_libc.unshare(kinds) == 0)


def _mount(source: bytes, place: bytes, kind: bytes | None, flags: int, options: bytes | None) -> None:
    if _libc.mount(source, place, kind, ctypes.c_ulong(flags), options) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), None, None, "the overlay" if kind else "a mount of its own")


if __name__ == "__main__":
    main()
