"""Searches the files of a folder. It runs inside the sandbox, with the Python of the commands.

There, a pattern that never ends or a path that leads outside is harmless. It needs only the standard library. Its input
is one JSON argument, its output one JSON object.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILES = 20_000
FILE_BYTES = 2 << 20
LINE_CHARS = 2_000
FEW_FILES = 20  # reading this many files takes as long as starting ripgrep
ARGUMENT_BYTES = 500_000
SYSTEM = "/usr/local/bin:/usr/bin:/bin"  # not PATH, because the searched folder may contain its own rg
SKIPPED = frozenset({".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__"})


def search(order: dict[str, Any]) -> dict[str, Any]:
    """Return matches with their surrounding lines, in path order.

    Args:
        order: ``pattern``, ``path``, ``glob``, ``context``, the maximum number of matches (``most``), and ``prefilter``
            for ``candidates``.
    """
    context, most = order["context"], order["most"]
    try:
        pattern = re.compile(order["pattern"])
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        return {"groups": [], "searched": 0, "more": False, "wrong": str(error)}
    names = paths(order["path"]) if Path(order["path"]).is_dir() else [order["path"]]
    selected = [name for name in names if fits(name, order["glob"])]
    groups: list[list[Any]] = []
    count = 0
    for name in candidates(order["prefilter"], selected[:FILES]):
        lines = lines_of(name)
        hits = [number for number, line in enumerate(lines) if pattern.search(line)][: most + 1 - count]
        count += len(hits)
        groups += grouped(name, lines, hits[: len(hits) - (count > most)], context)
        if count > most:
            break
    searched = 0 if groups else sum(head_of(name) is not None for name in selected[:FILES])
    return {"groups": groups, "searched": searched, "more": count > most or len(selected) > FILES}


def grouped(name: str, lines: list[str], hits: list[int], context: int) -> list[list[Any]]:
    """Return runs of neighboring lines: ``[path, [[number, is a match, text], ...]]``."""
    groups: list[list[Any]] = []
    matches, last = set(hits), -1
    for hit in hits:
        first, end = max(0, hit - context, last + 1), min(len(lines), hit + context + 1)
        rows = [[number + 1, number in matches, lines[number][:LINE_CHARS]] for number in range(first, end)]
        if groups and first == last + 1:
            groups[-1][1].extend(rows)
        elif rows:
            groups.append([name, rows])
        last = max(last, end - 1)
    return groups


def candidates(prefilter: str | None, names: list[str]) -> list[str]:
    """Return the files that may match, according to ripgrep if it is available; otherwise all of them.

    ``prefilter`` is an expression for ripgrep that matches every line that the pattern matches; None if there is none.
    """
    program = shutil.which("rg", path=SYSTEM) if prefilter and len(names) > FEW_FILES else None
    if not program:
        return names
    # Search raw bytes: ignore user settings, encodings and binary detection.
    options = [
        "--no-config",
        "--no-messages",
        "--no-unicode",
        "--encoding=none",
        "--text",
        "--no-mmap",
        "--case-sensitive",
    ]
    matching: set[bytes] = set()
    for part in parts(name for name in names if is_regular(name)):
        result = subprocess.run(
            [program, *options, "--files-with-matches", "--null", f"--regexp={prefilter}", "--", *part],
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
        if result.returncode not in (0, 1):
            return names
        matching.update(result.stdout.split(b"\0"))
    return [name for name in names if os.fsencode(name) in matching]


def parts(names: Iterator[str]) -> Iterator[list[str]]:
    """Split the names into lists that fit into a program's arguments."""
    part: list[str] = []
    room = ARGUMENT_BYTES
    for name in names:
        part.append(name)
        room -= len(os.fsencode(name)) + 9
        if room < 0:
            yield part
            part, room = [], ARGUMENT_BYTES
    if part:
        yield part


def is_regular(name: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(name).st_mode)
    except OSError:
        return False


def head_of(name: str, most: int = 8192) -> bytes | None:
    """Return the first bytes of a text file, or None if it is not text or too large."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > FILE_BYTES:
                return None
            raw = file.read(most)
    except OSError:
        return None
    return None if b"\0" in raw[:8192] else raw


def lines_of(name: str) -> list[str]:
    """Return a text file's lines, or an empty list if it is not text or too large."""
    raw = head_of(name, FILE_BYTES)
    if raw is None:
        return []
    return [line.removesuffix("\r") for line in raw.decode("utf-8", "replace").removesuffix("\n").split("\n")]


def fits(name: str, glob: str) -> bool:
    """Match a glob against the file name, or against the path if it has a slash; ``**/`` also matches no folder."""
    if not glob:
        return True
    if "/" not in glob:
        return fnmatch.fnmatchcase(name.rpartition("/")[2], glob)
    return any(fnmatch.fnmatchcase(name, form) for form in (glob, glob.replace("**/", "")))


def paths(folder: str) -> list[str]:
    """Return the files below a folder that git would not ignore, sorted. Without git, return all files."""
    result = _by_git(folder)
    if result is None:
        result = []
        for at, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if name not in SKIPPED]
            result += [os.path.normpath(f"{at}/{name}") for name in names]
    return sorted(name for name in result if not SKIPPED & set(name.split("/")))


def _by_git(folder: str) -> list[str] | None:
    with tempfile.TemporaryDirectory() as scratch:
        calm = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
        at = {**calm, "GIT_DIR": scratch + "/git", "GIT_WORK_TREE": "."}
        try:
            subprocess.run(["git", "init", "-q", "--bare", scratch + "/git"], env=calm, check=True, capture_output=True)
            listed = subprocess.run(
                ["git", "-c", "core.bare=false", "ls-files", "-z", "--others", "--exclude-standard", "--", folder],
                env=at, check=True, capture_output=True,
            )  # fmt: skip
        except (OSError, subprocess.CalledProcessError):
            return None
    return [os.path.normpath(os.fsdecode(name)) for name in listed.stdout.split(b"\0") if name]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(search(json.loads(sys.argv[1]))))
