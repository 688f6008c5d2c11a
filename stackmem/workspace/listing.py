"""Lists a directory two levels deep without following links."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from .clip import cut, shown_name

ENTRIES = 1_000  # maximum entries in one answer
EMPTY = "[empty directory]"
_MAX_NAMES = 10
_NOTE_BYTES = 1_000  # maximum size of the line that names ignored entries
_BELOW_ONE = 200  # maximum entries of one subdirectory, so that none crowds out the others


class DirectoryEntry(Struct, frozen=True):
    """An entry of a directory."""

    name: bytes
    kind: int  # file type as returned by stat.S_IFMT; 0 if unknown
    size: int = 0
    target: bytes = b""


class IgnoreAnswers(Protocol):
    """A running query of which paths are ignored."""

    def ignored(self, paths: list[bytes]) -> set[bytes]:
        """Return which of the paths are ignored. Paths of folders end in ``/``."""

    def close(self) -> None: ...


def listing(fd: int, prefixes: tuple[bytes, bytes], shown_bytes: int, rules: IgnoreAnswers | None = None) -> str:
    """Return one line per entry, in a form the file tools accept: directories end in ``/``, files have their size.

    ``fd`` must be open for reading. The prefixes are put before each name and are empty or end in ``/``: the first is
    relative to the root, for the rules; the second is displayed. Entries that ``rules`` ignore are omitted and named at
    the end. If the listed folder itself is ignored, the rules do not apply, because it was requested explicitly.
    """
    prefix, display = prefixes
    if rules is None or (prefix and rules.ignored([prefix])):
        return arranged(_entries(fd, ENTRIES), lambda name, most: _children(fd, name, most), display, shown_bytes)
    omitted: list[bytes] = []

    def seen(entries: list[DirectoryEntry], at: bytes) -> list[DirectoryEntry]:
        paths = {entry.name: at + entry.name + b"/" * (entry.kind == stat.S_IFDIR) for entry in entries}
        ignored = rules.ignored(list(paths.values())) if paths else set()
        omitted.extend(display + path[len(prefix) :] for path in paths.values() if path in ignored)
        return [entry for entry in entries if paths[entry.name] not in ignored]

    def children(name: bytes, most: int) -> tuple[list[DirectoryEntry], str, bool]:
        entries, reason, more = _children(fd, name, most)
        return seen(entries, prefix + name + b"/"), reason, more

    entries, more = _entries(fd, ENTRIES)
    text = arranged((seen(entries, prefix), more), children, display, shown_bytes - _NOTE_BYTES)
    if not omitted:
        return text
    names = ", ".join(shown_name(path) for path in omitted[:_MAX_NAMES])
    rest = f" and {len(omitted) - _MAX_NAMES} more" if len(omitted) > _MAX_NAMES else ""
    note = cut(f"[left out, as .gitignore says: {names}{rest}", _NOTE_BYTES - 2)
    return f"{note}]" if text == EMPTY else f"{text}\n{note}]"


def arranged(
    first_level: tuple[list[DirectoryEntry], bool],
    below_one: Callable[[bytes, int], tuple[list[DirectoryEntry], str, bool]],
    prefix: bytes,
    shown_bytes: int,
) -> str:
    """Return the listing of these entries, sorted by name. The flag says that there are more.

    ``below_one`` returns at most this many entries of a directory, why they are not available, and whether there are
    more.
    """
    lines: list[str] = []
    top, cut_short = first_level
    remaining = ENTRIES - len(top)
    for entry in top:
        at = prefix + entry.name
        if entry.kind != stat.S_IFDIR:
            lines.append(_line(at, entry))
            continue
        children, reason, more = below_one(entry.name, min(remaining, _BELOW_ONE))
        remaining -= len(children)
        cut_short |= more
        lines.append(_line(at, entry) + (reason or ("  (not all is listed)" if more else "")))
        lines += [_line(at + b"/" + child.name, child) for child in children]
    return _fitting(lines, shown_bytes, cut_short=cut_short)


def _entries(fd: int, most: int) -> tuple[list[DirectoryEntry], bool]:
    """Return at most ``most`` entries, sorted, and whether there are more. Which ones depends on the file system's
    order.
    """
    rows: list[DirectoryEntry] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            if len(rows) == most:
                return sorted(rows, key=_by_name), True
            rows.append(_entry(fd, os.fsencode(entry.name)))
    return sorted(rows, key=_by_name), False


def _by_name(entry: DirectoryEntry) -> bytes:
    return entry.name


def _entry(fd: int, name: bytes) -> DirectoryEntry:
    try:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        kind = stat.S_IFMT(status.st_mode)
        target = os.readlink(name, dir_fd=fd) if kind == stat.S_IFLNK else b""
    except OSError:  # removed or replaced since the directory was read
        return DirectoryEntry(name, 0)
    return DirectoryEntry(name, kind, status.st_size, target)


def _children(fd: int, name: bytes, most: int) -> tuple[list[DirectoryEntry], str, bool]:
    """Return a directory's entries, why it is unreadable, and whether there are more. ``.git`` counts as empty."""
    if name == b".git":
        return [], "", False
    try:
        child = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=fd)
    except OSError as error:
        return [], f"  (not readable: {error.strerror})", False
    try:
        entries, more = _entries(child, most)
    except OSError as error:
        return [], f"  (not readable: {error.strerror})", False
    finally:
        os.close(child)
    return entries, "", more


def _line(path: bytes, entry: DirectoryEntry) -> str:
    name = shown_name(path)
    match entry.kind:
        case stat.S_IFDIR:
            return f"{name}/"
        case stat.S_IFREG:
            return f"{name}  ({entry.size} bytes)"
        case stat.S_IFLNK:
            return f"{name}  (link to {shown_name(entry.target)}, not followed)"
        case stat.S_IFIFO:
            return f"{name}  (FIFO)"
        case stat.S_IFSOCK:
            return f"{name}  (socket)"
        case stat.S_IFCHR | stat.S_IFBLK:
            return f"{name}  (device)"
        case _:
            return f"{name}  (not readable)"


def _fitting(lines: list[str], shown_bytes: int, *, cut_short: bool) -> str:
    """Return the lines that fit. If some are missing, a first line says so."""
    room = shown_bytes - 200  # reserved for that line
    count, used = 0, 0
    for line in lines:
        used += len(line.encode()) + 1
        if used > room:
            break
        count += 1
    if not lines:
        return cut(EMPTY, shown_bytes)
    body = "\n".join(lines[:count])
    if count == len(lines) and not cut_short:
        return body
    advice = "list a directory further down, or use run_command"
    note = f"[{count} entries shown, how many more there are is unknown; {advice}]"
    return cut(f"{note}\n{body}", shown_bytes)
