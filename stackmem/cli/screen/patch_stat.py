"""A patch as a table of its files with the lines added and removed, like ``git diff --stat``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stackmem.core.text import quantity

_FILES_SHOWN = 40
_MAX_BAR = 40
_NARROWEST_PATH = 20
_MARKS = (
    (b"new file", "new"), (b"deleted file", "deleted"), (b"GIT binary patch", "binary"), (b"Binary files", "binary"),
)  # fmt: skip
_AROUND = len("  |  + deleted")


class FileStat(NamedTuple):
    """The change of one file."""

    path: str
    added: int
    removed: int
    mark: str  # "new", "deleted", "binary" or empty


def patch_stat(lines: Iterable[bytes]) -> list[FileStat]:
    """Count the changed lines of each file of a git patch."""
    stats: list[FileStat] = []
    old = new = 0  # lines of the current hunk that are still to come
    for line in lines:
        if old > 0 or new > 0:
            last = stats[-1]
            if line.startswith(b"+"):
                new -= 1
                stats[-1] = last._replace(added=last.added + 1)
            elif line.startswith(b"-"):
                old -= 1
                stats[-1] = last._replace(removed=last.removed + 1)
            elif not line.startswith(b"\\"):
                old, new = old - 1, new - 1
        elif line.startswith(b"diff --git "):
            stats.append(FileStat(_path(line), 0, 0, ""))
        elif stats and line.startswith(b"@@ "):
            old, new = _lengths(line)
        elif stats:
            stats[-1] = _marked(stats[-1], line)
    return stats


def stat_lines(stats: list[FileStat], width: int) -> list[str]:
    """Format the table for a terminal of this width: one line per file, and a line with the totals."""
    rows = stats[:_FILES_SHOWN]
    changes = [f"{stat.added + stat.removed:,}" for stat in rows]
    numbers = max(map(len, changes), default=0)
    bar = max(5, min(_MAX_BAR, width // 3))
    room = max(_NARROWEST_PATH, width - numbers - bar - _AROUND)
    paths = [_fitted(stat.path, room) for stat in rows]
    longest = max(map(len, paths), default=0)
    most = max((stat.added + stat.removed for stat in rows), default=0)
    lines = [
        f" {path:{longest}} | {change:>{numbers}} {_bar(stat, most, bar)}".rstrip()
        for path, change, stat in zip(paths, changes, rows, strict=True)
    ]
    if len(stats) > len(rows):
        lines.append(f" and {len(stats) - len(rows):,} more files")
    added, removed = sum(stat.added for stat in stats), sum(stat.removed for stat in stats)
    files = "1 file" if len(stats) == 1 else f"{len(stats):,} files"
    return [*lines, f" {files} changed, {quantity(added, 'line')} added, {removed:,} removed"]


def _bar(stat: FileStat, most: int, width: int) -> str:
    if stat.mark == "binary":
        return "binary"
    scale = min(1.0, width / max(1, most))
    signs = [max(bool(number), round(number * scale)) for number in (stat.added, stat.removed)]
    return "+" * signs[0] + "-" * signs[1] + (f" {stat.mark}" if stat.mark else "")


def _fitted(path: str, room: int) -> str:
    """Cut the start of a long path, because names that start alike differ at their ends."""
    return path if len(path) <= room else f"…{path[1 - room :]}"


def _path(header: bytes) -> str:
    """Return the path of ``diff --git a/PATH b/PATH``, or both names if they differ or are quoted."""
    name = header.removeprefix(b"diff --git ").rstrip(b"\r\n").decode("utf-8", "replace")
    half = len(name) // 2
    first, second = name[:half], name[half + 1 :]
    return first[2:] if first.startswith("a/") and second == f"b/{first[2:]}" else name


def _lengths(header: bytes) -> tuple[int, int]:
    """Return the numbers of old and new lines of ``@@ -1,2 +3,4 @@``."""
    parts = header.split(b" ", 3)[1:3]
    old, new = (int(length) if comma else 1 for _, comma, length in (part.partition(b",") for part in parts))
    return old, new


def _marked(stat: FileStat, line: bytes) -> FileStat:
    for start, mark in _MARKS:
        if line.startswith(start):
            return stat._replace(mark=mark)
    return stat
