"""Lets the user choose hunks of a patch for ``/apply -p``, with the keys of ``git add -p``.

Rule 1: A file that is not changed line by line (binary, link, mode, added or deleted) is one hunk.
Rule 2: Other hunks stay in the agent's workspace, and the next apply offers them again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from stackmem.history.history import PathChange

HELP = """y - apply this hunk
n - do not apply this hunk
a - apply this hunk and all later ones of the file
d - apply neither this hunk nor the later ones of the file
q - quit; apply what is chosen so far
? - show this help"""
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@.*\n", re.MULTILINE)

Ask = Callable[[str, str], str | None]
"""Shows a text and asks a question; None if the user left."""


class Hunk(Struct, frozen=True):
    """Lines of the old content that a hunk replaces."""

    start: int
    count: int
    new: bytes
    display: bytes


def hunks_of(section: bytes, before: bytes, after: bytes) -> list[Hunk]:
    """Return the hunks of a file's patch; empty if they do not lead from ``before`` to ``after``."""
    headers = list(_HUNK.finditer(section))
    ends = [*(header.start() for header in headers[1:]), len(section)]
    hunks = []
    for header, end in zip(headers, ends, strict=True):
        count = int(header[2]) if header[2] is not None else 1
        start = int(header[1]) - (1 if count else 0)
        hunks.append(Hunk(start, count, _new_lines(section[header.end() : end]), section[header.start() : end]))
    return hunks if content_with(before, hunks) == after else []


def _new_lines(body: bytes) -> bytes:
    lines: list[bytes] = []
    previous_is_new = False
    for line in re.findall(rb"[^\n]*\n|[^\n]+", body):
        if line.startswith((b"+", b" ")):
            lines.append(line[1:])
            previous_is_new = True
        elif line.startswith(b"\\"):
            if previous_is_new:
                lines[-1] = lines[-1].removesuffix(b"\n")
        else:
            previous_is_new = False
    return b"".join(lines)


def content_with(before: bytes, hunks: Sequence[Hunk]) -> bytes:
    """Return the old content with these hunks applied."""
    lines = re.findall(rb"[^\n]*\n|[^\n]+", before)
    pieces: list[bytes] = []
    at = 0
    for hunk in hunks:
        pieces += [*lines[at : hunk.start], hunk.new]
        at = hunk.start + hunk.count
    return b"".join([*pieces, *lines[at:]])


class Picker:
    """Asks about each hunk in turn."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._quit = False

    def pick(self, change: PathChange, section: bytes, before: bytes | None, after: bytes | None) -> bytes | bool:
        """Return whether to apply the change of a file, or the content with only the chosen hunks."""
        hunks: list[Hunk] = []
        if change.kind == "modified" and change.before_mode == change.after_mode and before is not None:
            hunks = hunks_of(section, before, after or b"")
        if len(hunks) < 2 or before is None:
            return bool(list(self._pick_hunks(change, [Hunk(0, 0, b"", section)])))
        picked = list(self._pick_hunks(change, hunks))
        return content_with(before, picked) if 0 < len(picked) < len(hunks) else bool(picked)

    def _pick_hunks(self, change: PathChange, hunks: list[Hunk]) -> Iterator[Hunk]:
        rest = ""
        for number, hunk in enumerate(hunks, 1):
            key = "q" if self._quit else rest or self._key(change, hunk, f"({number}/{len(hunks)})")
            self._quit = key == "q"
            rest = key if key in ("a", "d") else ""
            if key in ("y", "a"):
                yield hunk

    def _key(self, change: PathChange, hunk: Hunk, location: str) -> str:
        text = f"{change.path} ({change.kind})\n{hunk.display.decode('utf-8', 'replace')}"
        while True:
            answer = self._ask(text, f"{location} apply this hunk [y,n,a,d,q,?]? ")
            key = "q" if answer is None else answer.strip().lower()[:1]
            if key and key in "ynadq":
                return key
            text = HELP
