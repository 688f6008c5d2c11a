"""The file changes of each step, from the trees of a run's history."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import StackmemError
from stackmem.history.git import git, store_environment
from stackmem.history.patching import sections
from stackmem.run.run_folder import HISTORY

SHOWN_CHARS = 60_000  # per step
_HEADER = re.compile(rb"^([0-9a-f]{40,64}) ([0-9a-f]{40,64})$", re.M)
_AT_ONCE = 200

Pair = tuple[str, str]


class PageFileChange(Struct, array_like=True, frozen=True):
    """One path that a step changed."""

    heading: str  # the path and its change
    patch: str  # without the heading; cut if the step changed too much to show
    # added, removed: lines
    added: int
    removed: int


class TreeChanges(Struct):
    """The changes between pairs of trees; ``missing`` says why changes are unavailable."""

    between: dict[Pair, list[PageFileChange]]
    missing: str = ""


def changes(stores: Sequence[Path], pairs: Sequence[Pair]) -> TreeChanges:
    """Return the differences between the trees of each pair."""
    places = [folder / HISTORY for folder in stores if (folder / HISTORY / "objects").is_dir()]
    if not pairs:
        return TreeChanges({})
    if not places:
        return TreeChanges({}, "the run's file history is missing")
    try:
        environment = store_environment(places[0])
    except StackmemError as error:
        return TreeChanges({}, f"the run's file history cannot be read: {error}")
    environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = os.pathsep.join(
        str((path / "objects").absolute()) for path in places[1:]
    )
    changes_by_pair: dict[Pair, list[PageFileChange]] = {}
    form = ("--stdin", "-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
    for start in range(0, len(pairs), _AT_ONCE):
        stdin = b"".join(b"%s %s\n" % (a.encode(), b.encode()) for a, b in pairs[start : start + _AT_ONCE])
        try:
            answer = git("diff-tree", *form, cwd=places[0], environment=environment, stdin=stdin)
        except StackmemError as error:
            return TreeChanges(changes_by_pair, f"the run's file history cannot be read: {error}")
        changes_by_pair.update(_read(answer))
    return TreeChanges(changes_by_pair)


def _read(answer: bytes) -> Iterator[tuple[Pair, list[PageFileChange]]]:
    """Split the answer by pair. File content cannot look like a header, because its lines begin with a sign."""
    headers = list(_HEADER.finditer(answer))
    ends = [header.start() for header in headers[1:]] + [len(answer)]
    for header, end in zip(headers, ends, strict=True):
        pair = header[1].decode(), header[2].decode()
        remaining = SHOWN_CHARS
        file_changes = []
        for section in sections(answer[header.end() + 1 : end]):
            change = _change(section, remaining)
            remaining = max(0, remaining - len(change.patch))
            file_changes.append(change)
        yield pair, file_changes


def _change(section: bytes, most: int) -> PageFileChange:
    head, _, rest = section.partition(b"\n@@")
    lines = rest.split(b"\n")[1:] if rest else []
    text = ("@@" + rest.decode("utf-8", "replace")) if rest else head.partition(b"\n")[2].decode("utf-8", "replace")
    if len(text) > most:
        text = f"{text[:most]}\n[{len(text) - most:,} more characters]"
    return PageFileChange(
        heading=_path(head),
        patch=text,
        added=sum(line.startswith(b"+") for line in lines),
        removed=sum(line.startswith(b"-") for line in lines),
    )


def _path(head: bytes) -> str:
    """Return the path from a section's header, marked as new or deleted."""
    first, *more = head.decode("utf-8", "replace").split("\n")
    name = next((line[6:] for line in more if line.startswith(("+++ b/", "--- a/"))), "")
    quoted = next((line[4:] for line in more if line.startswith(('+++ "', '--- "'))), "")
    path = name.rstrip("\t") or quoted.strip("\t") or first.removeprefix("diff --git ")
    if any(line.startswith("new file") for line in more):
        return f"{path} (new)"
    return f"{path} (deleted)" if any(line.startswith("deleted file") for line in more) else path
