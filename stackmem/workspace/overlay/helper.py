"""Mounts in namespaces of its own, hands three descriptors over, and ends: a program of its own.

It needs nothing but the standard library, and has one thread, as a user namespace asks for. Its first arguments are a
socket and an order (JSON). For an overlay a place follows for what hides a part of the folder, the upper folder, its
work folder, the place, and the folders below; it is the last one of which it hides what it reads. Else a folder follows
alone: what it reads are folders, each with the path in that one at which it shows them, read-only.

An order has ``binds`` (each a path of the host, one in the merged folder, and whether it is written), ``pins`` (folders
in the merged one that nobody may move), and ``port`` (where one is wanted, on a loopback of its own; 0 for the loopback
alone; null for the network of the host).
"""

# Paths are bytes here, since a name need not be text.
# ruff: noqa: PTH101, PTH102, PTH114, PTH116

from __future__ import annotations

import ctypes
import json
import os
import socket
import stat
import struct
import sys

_NEW_USER, _NEW_MOUNTS, _NEW_NETWORK = 0x1000_0000, 0x0002_0000, 0x4000_0000
_NO_SETUID, _NO_DEVICES, _RECURSIVE, _SLAVE = 2, 4, 0x4000, 1 << 19
_READ_ONLY, _REMOUNT, _BIND = 1, 32, 4096
_STAY, _TOLD_RELATIVE, _RELATIVE = 2 | 4 | 8 | 1 << 10 | 1 << 11, 1 << 12, 1 << 21
"""What nobody takes off another's mount; only of relative access times statvfs(3) and mount(2) speak differently."""
_MOUNT_SETATTR, _EMPTY_PATH, _BELOW = 442, 0x1000, 0x8000
_READ_ONLY_BELOW = 1 | 2 | 4  # MOUNT_ATTR_RDONLY, _NOSUID, _NODEV
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
_PROBE = ".stackmem-probe"


def main() -> None:
    ours = socket.socket(fileno=int(sys.argv[1]))
    try:
        given, order = sys.stdin.buffer.read().split(b"\0")[:-1], json.loads(sys.argv[2])
        places = list(map(os.fsencode, sys.argv[3:]))
        fds = shown(given, *places) if len(places) == 1 else mounted(given, order, *places)
        socket.send_fds(ours, [b"mounted"], fds)
    except OSError as error:
        ours.send(f"{error.filename2 or 'mount'}: {error.strerror}".encode())


def mounted(
    hidden: list[bytes],
    order: dict,  # type: ignore[type-arg]
    hide: bytes,
    upper: bytes,
    work: bytes,
    place: bytes,
    *below: bytes,
) -> list[int]:
    """The merged folder, our namespace of mounts, our user namespace where we have one of our own; then the network's.

    The last one only where the order asks for a network, and with it what listens at its port.
    """
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
    namespaces = _own(own_user=own_user)
    for path in order["pins"]:
        _bind(os.fsencode(path), merged, os.fsencode(path), writable=True, source_in=merged)
    for source, path, writable in order["binds"]:
        _bind(os.fsencode(source), merged, os.fsencode(path), writable=writable)
    if order["port"] is not None:
        namespaces += _own_network(order["port"])
    return [merged, *namespaces]


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


def _bind(source: bytes, merged: int, path: bytes, *, writable: bool, source_in: int = -1) -> None:
    """Show a file or folder in the merged one; no link on the way there is followed, and what is missing is made.

    Its own files may be anybody's work, so that a link would lead the mount to where it does harm.
    """
    shown = walked(merged, path, True) if source_in >= 0 else os.open(source, os.O_PATH)
    try:
        place = walked(merged, path, stat.S_ISDIR(os.fstat(shown).st_mode))
    except OSError as error:
        raise OSError(error.errno, error.strerror, None, None, os.fsdecode(path)) from error
    flags = _BIND if source_in >= 0 else _BIND | _RECURSIVE
    _mount(b"/proc/self/fd/%d" % shown, b"/proc/self/fd/%d" % place, None, flags, None)
    if not writable:
        top = walked(merged, path, None)
        attributes = struct.pack("QQQQ", _READ_ONLY_BELOW, 0, 0, 0)
        if _libc.syscall(_MOUNT_SETATTR, top, b"", _EMPTY_PATH | _BELOW, attributes, len(attributes)) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), None, None, f"{os.fsdecode(path)} read-only")


def walked(folder: int, path: bytes, makes_folder: bool | None) -> int:
    """A path below an open folder, opened without following a link; ``makes_folder`` says what is made of its end."""
    parts = [part for part in path.split(b"/") if part]
    fd = os.dup(folder)
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        kind = 0 if last and makes_folder is not True else os.O_DIRECTORY
        if makes_folder is not None:
            try:
                if last and not makes_folder:
                    if os.path.islink(b"/proc/self/fd/%d/%s" % (fd, part)):  # as resolv.conf often is
                        os.unlink(part, dir_fd=fd)
                    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=fd))
                else:
                    os.mkdir(part, 0o755, dir_fd=fd)
            except FileExistsError:
                pass
        below = os.open(part, os.O_PATH | os.O_NOFOLLOW | kind, dir_fd=fd)
        if stat.S_ISLNK(os.fstat(below).st_mode):
            raise OSError(40, "it is a link")
        os.close(fd)
        fd = below
    return fd


def _own_network(port: int) -> list[int]:
    """A network with nothing but a loopback, and what listens there, if a port is given."""
    import fcntl

    if not _unshare(_NEW_NETWORK):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), None, None, "a network of its own")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
    try:  # a root without privileges may listen below 1024 there, as in a container
        fd = os.open("/proc/sys/net/ipv4/ip_unprivileged_port_start", os.O_WRONLY)
        os.write(fd, b"0")
        os.close(fd)
    except OSError:
        pass
    fds = [os.open("/proc/self/ns/net", os.O_RDONLY)]
    if port:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", port))
        listener.listen(512)
        fds.append(listener.detach())
    return fds


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
