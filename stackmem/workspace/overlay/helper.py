"""Helper program that mounts in its own namespaces, passes the descriptors back, and ends.

It uses only the standard library and has one thread, as user namespaces require. Its first arguments are a socket and
an order (JSON). For an overlay, these follow: a folder for whiteouts, the upper folder, its work folder, the mount
point, and the lower folders. Standard input lists the paths to hide in the last lower folder. Otherwise only one folder
follows; standard input then lists pairs of a folder and the path in the first folder at which to mount it read-only.

An order has ``binds`` (a host path, a path in the merged folder, and whether it is writable), ``pins`` (folders in the
merged folder that cannot be moved), and ``port`` (to listen on in its own network namespace; 0 for only a loopback;
null for the host's network). An order for a network may have ``hide``: paths to cover with the null device in a mount
namespace that comes first. They stay covered, because a second user namespace owns the network.
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
"""Mount flags that must be kept when remounting. For relative access times, statvfs(3) and mount(2) use different
flags.
"""
_MOUNT_SETATTR, _EMPTY_PATH, _AT_RECURSIVE = 442, 0x1000, 0x8000
_READ_ONLY_BELOW = 1 | 2 | 4  # MOUNT_ATTR_RDONLY, _NOSUID, _NODEV
_FOLDER = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW
_PROBE = ".stackmem-probe"


def main() -> None:
    ours = socket.socket(fileno=int(sys.argv[1]))
    try:
        items, order = sys.stdin.buffer.read().split(b"\0")[:-1], json.loads(sys.argv[2])
        places = list(map(os.fsencode, sys.argv[3:]))
        if not places:
            fds = network(order)
        else:
            fds = mount_others(items, *places) if len(places) == 1 else mounted(items, order, *places)
        socket.send_fds(ours, [b"mounted"], fds)
    except OSError as error:
        ours.send(f"{error.filename2 or 'mount'}: {error.strerror}".encode())


def mounted(
    hidden: list[bytes],
    order: dict,  # type: ignore[type-arg]
    hide: bytes,
    upper: bytes,
    work: bytes,
    target: bytes,
    *layers: bytes,
) -> list[int]:
    """Mount an overlay. Return descriptors of the merged folder, the mount namespace and, if created, the user
    namespace.

    If the order asks for a network, its namespace follows, and the listening socket if it has a port.
    """
    own_user = _enter_own()
    # Use descriptors: names need no escaping, and cannot be replaced by a link in the meantime.
    *others, lower = (os.open(folder, _FOLDER) for folder in layers)
    _mount(b"none", hide, b"tmpfs", _NO_SETUID | _NO_DEVICES, b"mode=0700")
    make_whiteouts(hide, b"/proc/self/fd/%d" % lower, hidden)
    fds = (*others, os.open(hide, _FOLDER), lower, os.open(upper, _FOLDER), os.open(work, _FOLDER))
    *lowers, upper, work = (b"/proc/self/fd/%d" % fd for fd in fds)
    # A single device number for all files; otherwise programs that stay on one file system would skip files.
    options = b"lowerdir=%s,upperdir=%s,workdir=%s,userxattr,xino=on" % (b":".join(lowers), upper, work)
    _mount(b"overlay", target, b"overlay", _NO_SETUID | _NO_DEVICES, options)
    merged = os.open(target, _FOLDER)
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


def mount_others(pairs: list[bytes], folder: bytes) -> list[int]:
    """Mount other folders read-only in a folder. Return descriptors of the folder and the namespaces."""
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


def network(order: dict) -> list[int]:  # type: ignore[type-arg]
    """Create a network namespace. Return a descriptor of the user namespace that owns it if that had to be created too,
    and the descriptors of ``_own_network``.
    """
    if "hide" in order:
        _new_user()
        for path in map(os.fsencode, order["hide"]):
            try:
                _mount(b"/dev/null", path, None, _BIND, None)
            except OSError:  # removed meanwhile
                if os.path.lexists(path):
                    raise
        _new_user()
        mounts, user = _own(own_user=True)
        return [mounts, user, *_own_network(order["port"])]
    if order["user"] >= 0:
        if _libc.setns(order["user"], _NEW_USER) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), None, None, "the user namespace")
        return _own_network(order["port"])
    if os.geteuid() == 0:
        try:
            return _own_network(order["port"])
        except PermissionError:
            pass
    _new_user()
    return [_own(own_user=True)[1], *_own_network(order["port"])]


def _enter_own() -> bool:
    """Enter a new mount namespace. Return whether this also needed a new user namespace."""
    own_user = os.geteuid() != 0 or not _unshare(_NEW_MOUNTS)
    if own_user:
        _new_user()
    _mount(b"none", b"/", None, _RECURSIVE | _SLAVE, None)
    return own_user


def _own(*, own_user: bool) -> list[int]:
    kinds = ("mnt", "user") if own_user else ("mnt",)
    return [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in kinds]


def _bind(source: bytes, merged: int, path: bytes, *, writable: bool, source_in: int = -1) -> None:
    """Bind a file or folder into the merged folder, creating the mount point. No link on the way is followed.

    The files there are untrusted: a link could redirect the mount to a harmful place.
    """
    source_fd = walked(merged, path, True) if source_in >= 0 else os.open(source, os.O_PATH)
    try:
        target = walked(merged, path, stat.S_ISDIR(os.fstat(source_fd).st_mode))
    except OSError as error:
        raise OSError(error.errno, error.strerror, None, None, os.fsdecode(path)) from error
    flags = _BIND if source_in >= 0 else _BIND | _RECURSIVE
    _mount(b"/proc/self/fd/%d" % source_fd, b"/proc/self/fd/%d" % target, None, flags, None)
    if not writable:
        top = walked(merged, path, None)
        attributes = struct.pack("QQQQ", _READ_ONLY_BELOW, 0, 0, 0)
        if _libc.syscall(_MOUNT_SETATTR, top, b"", _EMPTY_PATH | _AT_RECURSIVE, attributes, len(attributes)) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), None, None, f"{os.fsdecode(path)} read-only")


def walked(folder: int, path: bytes, makes_folder: bool | None) -> int:
    """Open a path below an open folder without following links. ``makes_folder`` says what to create at its end, if
    anything.
    """
    parts = [part for part in path.split(b"/") if part]
    fd = os.dup(folder)
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        kind = 0 if last and makes_folder is not True else os.O_DIRECTORY
        if makes_folder is not None:
            try:
                if last and not makes_folder:
                    if os.path.islink(b"/proc/self/fd/%d/%s" % (fd, part)):  # for example resolv.conf
                        os.unlink(part, dir_fd=fd)
                    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=fd))
                else:
                    os.mkdir(part, 0o755, dir_fd=fd)
            except FileExistsError:
                pass
        child = os.open(part, os.O_PATH | os.O_NOFOLLOW | kind, dir_fd=fd)
        if stat.S_ISLNK(os.fstat(child).st_mode):
            raise OSError(40, "it is a link")
        os.close(fd)
        fd = child
    return fd


def _own_network(port: int) -> list[int]:
    """Create a network namespace with only a loopback. Return its descriptor, and a listening socket if a port is
    given.
    """
    import fcntl

    if not _unshare(_NEW_NETWORK):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), None, None, "a network namespace")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
    try:  # allow ports below 1024 without privileges, as in a container
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
    """Create a whiteout, the character device 0:0, for each hidden path; all are hard links to one inode.

    Their parent folders copy the modes and times of the originals, because the overlay displays these.
    """
    parents: list[bytes] = []
    existing = {b""}
    first = b""
    for path in hidden:
        missing = []
        parent = path.rpartition(b"/")[0]
        while parent not in existing:
            existing.add(parent)
            missing.append(parent)
            parent = parent.rpartition(b"/")[0]
        for each in reversed(missing):
            os.mkdir(hide + b"/" + each, 0o700)
        parents += reversed(missing)
        if first:
            os.link(first, hide + b"/" + path)
        else:
            first = hide + b"/" + path
            os.mknod(first, stat.S_IFCHR, os.makedev(0, 0))
    for each in reversed(parents):
        status = os.stat(folder + b"/" + each)
        os.chmod(hide + b"/" + each, status.st_mode & 0o777 | 0o700)
        os.utime(hide + b"/" + each, ns=(status.st_atime_ns, status.st_mtime_ns))


def _new_user() -> None:
    """Enter a user namespace that maps our own user, so that files keep their owner."""
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


def _mount(source: bytes, target: bytes, kind: bytes | None, flags: int, options: bytes | None) -> None:
    if _libc.mount(source, target, kind, ctypes.c_ulong(flags), options) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), None, None, "the overlay" if kind else "a bind mount")


if __name__ == "__main__":
    main()
