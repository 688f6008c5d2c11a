"""Searches the files of a folder: a program that commands' own Python runs in the sandbox, where a pattern that never
ends and a path that leads away do no harm. It needs nothing but the standard library.

Its order is one JSON argument; it prints one JSON object.
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
FEW_FILES = 20  # are read as quickly as ripgrep starts
ARGUMENT_BYTES = 500_000
SYSTEM = "/usr/local/bin:/usr/bin:/bin"  # the folder that is searched may bring an rg of its own
SKIPPED = frozenset({".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__"})


def search(order: dict[str, Any]) -> dict[str, Any]:
    """Matches with the lines around them, in the order of paths."""
    context, most = order["context"], order["most"]
    try:
        pattern = re.compile(order["pattern"])
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        return {"groups": [], "searched": 0, "more": False, "wrong": str(error)}
    names = paths(order["path"]) if Path(order["path"]).is_dir() else [order["path"]]
    chosen = [name for name in names if fits(name, order["glob"])]
    groups: list[list[Any]] = []
    found = 0
    for name in candidates(order["prefilter"], chosen[:FILES]):
        lines = lines_of(name)
        hits = [number for number, line in enumerate(lines) if pattern.search(line)][: most + 1 - found]
        found += len(hits)
        groups += grouped(name, lines, hits[: len(hits) - (found > most)], context)
        if found > most:
            break
    searched = 0 if groups else sum(head_of(name) is not None for name in chosen[:FILES])
    return {"groups": groups, "searched": searched, "more": found > most or len(chosen) > FILES}


def grouped(name: str, lines: list[str], hits: list[int], context: int) -> list[list[Any]]:
    """Runs of neighboring lines: ``[path, [[number, is a match, text], ...]]``."""
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
    """Those of the files that may match: as ripgrep says, where it is there; all of them where it cannot say."""
    program = shutil.which("rg", path=SYSTEM) if prefilter and len(names) > FEW_FILES else None
    if not program:
        return names
    # Bytes, as they stand: no settings of anybody's, no other encoding, no file left out for what it holds.
    given = [
        "--no-config",
        "--no-messages",
        "--no-unicode",
        "--encoding=none",
        "--text",
        "--no-mmap",
        "--case-sensitive",
    ]
    kept: set[bytes] = set()
    for part in parts(name for name in names if is_regular(name)):
        told = subprocess.run(
            [program, *given, "--files-with-matches", "--null", f"--regexp={prefilter}", "--", *part],
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
        if told.returncode not in (0, 1):
            return names
        kept.update(told.stdout.split(b"\0"))
    return [name for name in names if os.fsencode(name) in kept]


def parts(names: Iterator[str]) -> Iterator[list[str]]:
    """The names in lists that fit into the arguments of a program."""
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
    """The first bytes of a text file; None where it is none, or too long."""
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
    """A text file's lines; none where it is none, or too long."""
    raw = head_of(name, FILE_BYTES)
    if raw is None:
        return []
    return [line.removesuffix("\r") for line in raw.decode("utf-8", "replace").removesuffix("\n").split("\n")]


def fits(name: str, glob: str) -> bool:
    """A glob without a slash is of the file's name, one with a slash of its path; ``**/`` may stand for no folder."""
    if not glob:
        return True
    if "/" not in glob:
        return fnmatch.fnmatchcase(name.rpartition("/")[2], glob)
    return any(fnmatch.fnmatchcase(name, one) for one in (glob, glob.replace("**/", "")))


def paths(folder: str) -> list[str]:
    """The files below a folder that git would not ignore, sorted; where there is no git, all of them."""
    found = _by_git(folder)
    if found is None:
        found = []
        for at, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if name not in SKIPPED]
            found += [os.path.normpath(f"{at}/{name}") for name in names]
    return sorted(name for name in found if not SKIPPED & set(name.split("/")))


def _by_git(folder: str) -> list[str] | None:
    with tempfile.TemporaryDirectory() as place:
        calm = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
        at = {**calm, "GIT_DIR": place + "/git", "GIT_WORK_TREE": "."}
        try:
            subprocess.run(["git", "init", "-q", "--bare", place + "/git"], env=calm, check=True, capture_output=True)
            listed = subprocess.run(
                ["git", "-c", "core.bare=false", "ls-files", "-z", "--others", "--exclude-standard", "--", folder],
                env=at, check=True, capture_output=True,
            )  # fmt: skip
        except (OSError, subprocess.CalledProcessError):
            return None
    return [os.path.normpath(os.fsdecode(name)) for name in listed.stdout.split(b"\0") if name]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(search(json.loads(sys.argv[1]))))
