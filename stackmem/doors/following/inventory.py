"""Lists the files of the user's folder and finds those that changed since the last look, without reading the others.

Hidden files, caches, installed packages and ignored files are not listed.
"""

# Paths are bytes here, since a name need not be text.
# ruff: noqa: PTH118

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from stackmem.core.errors import StackmemError
from stackmem.foreign.files import read_regular
from stackmem.history.ignored import IgnoreRules
from stackmem.history.lower import file_clock_ns
from stackmem.history.origin import Origin
from stackmem.history.selection import DEPENDENCIES, never_copied
from stackmem.history.walk import CACHES, Key, stat_key

_MAX_FILES = 500_000
_TRIES, _QUIET_NS, _SKEW_NS = 3, 100_000_000, 1_000_000_000
_INDEX_ENTRY = re.compile(
    rb"(?:100644|100755) ([0-9a-f]{40}) 0\t([^\0]+)\0  ctime: \d+:\d+\n  mtime: (\d+):(\d+)\n"
    rb"  dev: \d+\tino: \d+\n  uid: \d+\tgid: \d+\n  size: (\d+)\t[^\n]*\n"
)


class Entry(Struct, frozen=True, array_like=True):
    """A file of the folder."""

    key: Key  # identifies its state, see ``stat_key``
    blob: str = ""  # the id of its content, if a blob with it is known; otherwise empty


class Inventory(Struct, frozen=True):
    """The folder at one moment."""

    files: dict[bytes, Entry]  # its files by path
    head: tuple[str, str] = ("", "")  # the branch and the commit of its repository; empty without one


def take_inventory(folder: Path, hidden: Collection[bytes], leave_out: Collection[bytes]) -> dict[bytes, Key]:
    """Return the state of each file of the folder."""
    root = os.fsencode(folder)
    inventory: dict[bytes, Key] = {}
    todo = [b""]
    while todo and len(inventory) < _MAX_FILES:
        at = todo.pop()
        with suppress(OSError), os.scandir(os.path.join(root, at)) as entries:
            for entry in entries:
                path = at + b"/" + entry.name if at else entry.name
                if path in hidden or path in leave_out or never_copied(entry.name):
                    continue
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if not stat.S_ISDIR(status.st_mode):
                        if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                            inventory[path] = stat_key(status)
                    elif entry.name not in CACHES and entry.name not in DEPENDENCIES:
                        todo.append(path)
    return inventory


class Listing(Struct, frozen=True):
    """The states of the folder's files."""

    keys: dict[bytes, Key]
    at_ns: int  # the ``file_clock_ns`` before they were read
    seconds: float  # how long reading them took


def take_settled(folder: Path, hidden: Collection[bytes], leave_out: Collection[bytes], before: Inventory) -> Listing:
    """Return the state of each file once those that changed are quiet.

    A program that saves a file truncates it first, or removes it for a moment. So a file that has just changed or
    vanished is checked again. A file that keeps changing is returned as it was before.
    """
    for tries in range(_TRIES):
        if tries:
            time.sleep(_QUIET_NS / 10**9)
        now, began = file_clock_ns(), time.monotonic()
        keys = take_inventory(folder, hidden, leave_out)
        seconds = time.monotonic() - began
        restless = {
            path for path, key in keys.items()
            if now - _QUIET_NS < key[3] < now + _SKEW_NS and (path not in before.files or before.files[path].key != key)
        }  # fmt: skip
        if not restless and (tries or before.files.keys() <= keys.keys()):
            break
    return Listing(as_before(keys, before, restless) if restless else keys, now, seconds)


def as_before(keys: Mapping[bytes, Key], before: Inventory, paths: Collection[bytes]) -> dict[bytes, Key]:
    """Return the states of the files, with those of ``paths`` as they were before."""
    others = {path: key for path, key in keys.items() if path not in paths}
    return others | {path: before.files[path].key for path in paths if path in before.files}


def without_ignored(paths: Collection[bytes], git_dir: Path, folder: Path) -> list[bytes]:
    """Return the paths that the folder's ``.gitignore`` files do not exclude."""
    if not paths:
        return []
    rules = IgnoreRules(git_dir, folder)
    try:
        ignored = rules.ignored(sorted(paths))
    except (StackmemError, TimeoutError):  # then a file too many is named
        ignored = set()
    finally:
        rules.close()
    return sorted(set(paths) - ignored)


def blobs_in_index(origin: Origin | None, keys: Mapping[bytes, Key]) -> dict[bytes, str]:
    """Return the blobs of the files that are as git's index describes them. As for git, equal times prove it."""
    if origin is None:
        return {}
    try:
        written_ns = (origin.git_dir / "index").stat().st_mtime_ns
        listed = origin.ask_in_work_tree("ls-files", "--stage", "--debug", "-z")
    except (StackmemError, OSError):
        return {}
    blobs = {}
    for entry in _INDEX_ENTRY.finditer(listed):
        name, path, seconds, rest, size = entry.groups()
        changed_ns = int(seconds) * 10**9 + int(rest)
        if changed_ns < written_ns and path in keys and keys[path][1:3] == (int(size), changed_ns):
            blobs[path] = name.decode()
    return blobs


def read_inventory(path: Path) -> Inventory | None:
    """Return a saved inventory, or None if there is none."""
    try:
        return msgspec.msgpack.decode(read_regular(path), type=Inventory)
    except (OSError, msgspec.MsgspecError):
        return None


def write_inventory(path: Path, inventory: Inventory) -> None:
    """Save an inventory. Without it, the next look only names fewer changes."""
    fresh = path.with_suffix(".new")
    with suppress(OSError):
        fresh.unlink(missing_ok=True)
        with fresh.open("xb") as file:
            file.write(msgspec.msgpack.encode(inventory))
        os.replace(fresh, path)  # noqa: PTH105


def changed_lines(before: bytes, after: bytes) -> tuple[int, int] | None:
    """Return the first and the last line of ``after`` that differ, or None if only lines were removed."""
    old, new = before.splitlines(), after.splitlines()
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    tail = 0
    while tail < min(len(old), len(new)) - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return (start + 1, len(new) - tail) if len(new) - tail > start else None
