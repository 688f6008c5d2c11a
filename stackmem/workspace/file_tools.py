"""The file tools: read, write, edit and list files, with the same checks and answers on disk and in memory.

Rule 1: Every failure is an answer that says what to do; no path, content or file raises an exception.
Rule 2: Memory and time are bounded by the constants here, not by the size of a file or directory.
"""

from __future__ import annotations

import errno
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager

from msgspec import Struct

from .answers import PARSED_BYTES, answer, encoded, first_line, parted, relative, unchanged, written
from .clip import meant_name, shown_name
from .editing import EDITED_BYTES, edited
from .lines import scan
from .outcome import ToolOutcome
from .refusals import Action, ToolRefused, quote, refusal

DIGESTED_BYTES = 8 * 1024 * 1024  # maximum size of a file with a digest
LISTING_BYTES = 32 * 1024
PROTECTED_IN_ROOT = frozenset({".git", "stackmem.toml"})

Read = Callable[[int], bytes]
"""Returns the next bytes of a file, at most this many; none at its end."""


class WriteTarget(Struct, frozen=True):
    """The target of a write: a regular file, or a name that does not exist yet."""

    size: int | None  # the file's size; None if the file does not exist
    is_plain: bool  # whether a write of the same content would change nothing
    start: Callable[
        [int], bytes | None
    ]  # returns the file's first bytes, at most this many; None if it has none to read
    replace: Callable[[bytes], object]


class FileTools(ABC):
    """The file tools of one workspace. A subclass finds and opens the files.

    ``inside`` is the workspace's absolute path as commands and the model see it. ``scrub`` removes secrets from a line
    before it is cut, because half a secret is no longer recognizable. Other text is scrubbed by the caller.
    """

    def __init__(self, inside: str, scrub: Callable[[str], str] = str) -> None:
        self._inside = inside
        self._scrub = scrub

    def read(self, path: str, start_line: int | None, end_line: int | None, shown_bytes: int) -> ToolOutcome:
        """Return lines ``start_line`` (None: first) to ``end_line`` (None: last), both 1-based and inclusive."""
        return self._answer("read", path, lambda: self._read(path, start_line, end_line, shown_bytes))

    def write(self, path: str, content: str) -> ToolOutcome:
        """Create or replace a regular file, creating parent directories."""
        return self._answer("write", path, lambda: self._write(path, content))

    def edit(self, path: str, old: str, new: str, *, every: bool) -> ToolOutcome:
        """Replace text in a regular file, keeping its mode and line endings."""
        return self._answer("write", path, lambda: self._edit(path, old, new, every=every))

    def list(self, path: str, shown_bytes: int = LISTING_BYTES) -> ToolOutcome:
        """List a directory two levels deep, with at most 1,000 entries."""
        return self._answer(
            "list", path, lambda: ToolOutcome(self._listing(self._spelled(self._relative(path)), shown_bytes))
        )

    def read_whole(self, path: str, most_bytes: int) -> bytes:
        """Return at most ``most_bytes`` + 1 bytes of a regular file; the extra byte reveals that it is larger."""
        try:
            with self._opened(path, self._spelled(self._relative(path))) as (read, _):
                return _all_of(read, most_bytes + 1)
        except OSError as error:
            raise self._refused(error, "read", path) from error

    def digest(self, path: str) -> str:
        """Return the file's SHA-256 in hex, or ``unknown``, ``missing`` or ``outside`` if there is none."""
        try:
            raw = self._spelled(self._relative(path))
        except ToolRefused:
            return "missing"  # no file can have such a name
        except OSError as error:
            return _no_digest(error)
        try:
            with self._opened(path, raw) as (read, _):
                return _sha256(read)
        except ToolRefused:
            return "unknown"  # not a regular file
        except OSError as error:
            return _no_digest(error)

    def _answer(self, action: Action, path: str, work: Callable[[], ToolOutcome]) -> ToolOutcome:
        try:
            return work()
        except ToolRefused as refused:
            return ToolOutcome(str(refused), failed=True)
        except OSError as error:
            return ToolOutcome(str(self._refused(error, action, path)), failed=True)

    def _refused(self, error: OSError, action: Action, path: str) -> ToolRefused:
        return ToolRefused(refusal(error, action, quote(path), shown_name(self._inside)))

    def _read(self, path: str, start_line: int | None, end_line: int | None, shown_bytes: int) -> ToolOutcome:
        start = first_line(start_line, end_line)
        with self._opened(path, self._spelled(self._relative(path))) as (read, size):
            span = scan(read, start, end_line, keep_bytes=max(4096, 2 * shown_bytes))
        size = max(size, span.read_bytes)
        ranged = start_line is not None or end_line is not None
        return answer(path, span, size, start, ranged=ranged, shown_bytes=shown_bytes, scrub=self._scrub)

    def _write(self, path: str, content: str) -> ToolOutcome:
        raw = encoded(content)
        directory, last = parted(path, self._relative(path))
        with self._target(path, directory, last, make=True) as file:
            old = file.start(max(len(raw), PARSED_BYTES) + 1)
            if file.is_plain and old == raw:
                return unchanged(path)
            file.replace(raw)
        return written(path, raw, file.size, old or b"")

    def _edit(self, path: str, old: str, new: str, *, every: bool) -> ToolOutcome:
        raw = self.read_whole(path, EDITED_BYTES)
        content, outcome = edited(path, raw, old, new, every=every, scrub=self._scrub)
        directory, last = parted(path, self._relative(path))
        with self._target(path, directory, last, make=False) as file:
            file.replace(content)
        return outcome

    def _spelled(self, path: bytes) -> bytes:
        """Return the path, or the name that a listing would display this way if only that one exists."""
        meant = meant_name(path.decode("utf-8", "surrogateescape"))
        return meant if meant and not self._exists(path) and self._exists(meant) else path

    def _relative(self, path: str) -> bytes:
        """Return a path from the model relative to the root. Raises as ``answers.relative``."""
        return relative(path, self._inside)

    @abstractmethod
    def _exists(self, path: bytes) -> bool:
        """Return whether the path leads to something, or out of the workspace."""

    @abstractmethod
    def _opened(self, path: str, raw: bytes) -> AbstractContextManager[tuple[Read, int]]:
        """Open the regular file at ``raw``. Provides what reads it, and its size.

        Raise ToolRefused if it is not a regular file; the message names ``path``. Raise OSError if it cannot be opened.
        """

    @abstractmethod
    def _target(self, path: str, directory: bytes, last: bytes, *, make: bool) -> AbstractContextManager[WriteTarget]:
        """Open what a write to ``last`` replaces. ``make`` creates a directory that is missing.

        Raise ToolRefused if it is not a regular file, or protected; the message names ``path``. Raise OSError if the
        directory cannot be opened or created.
        """

    @abstractmethod
    def _listing(self, raw: bytes, shown_bytes: int) -> str:
        """Return the text that lists a directory. Raises OSError as ``os.open`` does."""


def _no_digest(error: OSError) -> str:
    absent = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL}
    return "outside" if error.errno == errno.EXDEV else "missing" if error.errno in absent else "unknown"


def _all_of(read: Read, most_bytes: int) -> bytes:
    pieces, room = [], most_bytes
    while room and (piece := read(min(room, 1024 * 1024))):
        pieces.append(piece)
        room -= len(piece)
    return b"".join(pieces)


def _sha256(read: Read) -> str:
    digest, seen = hashlib.sha256(), 0
    while chunk := read(1024 * 1024):
        seen += len(chunk)
        if seen > DIGESTED_BYTES:
            return "unknown"
        digest.update(chunk)
    return digest.hexdigest()
