"""Heap chunks and memory files that persist between the runs of a folder, in a file of lines.

Rule 1: Each change is a line, appended with one call under a lock: neither parallel runs nor kill -9 lose data.
Rule 2: The last write to a name counts. A freed chunk is gone for the next run.
Rule 3: A file of the memory tool is a chunk named ``file:PATH``, which no chunk of the heap can be named.
Rule 4: The size is limited: beyond the limits, the chunks with the oldest writes are dropped.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import get_args

import msgspec
from msgspec import Struct

from stackmem.core.budgets import Budgets
from stackmem.core.conversation.standing import TOTAL_CHARS, Changes, Kind, StandingChange, active, add, block
from stackmem.core.errors import TraceError, UsageError
from stackmem.core.heap import Heap, KeptChunk, KeptHeap, KeptWords, faults
from stackmem.core.memory_directory import FILES, Directory
from stackmem.core.memory_directory import TOTAL_CHARS as DIRECTORY_CHARS
from stackmem.core.strict_json import decode_json
from stackmem.core.tools import StoreEntry
from stackmem.foreign.files import descriptor_of_regular, read_regular
from stackmem.foreign.private import owners
from stackmem.settings.settings_files import user_folder
from stackmem.trace.store import cut_torn_line

from .first_commits import AT_COMMIT, first_commit

KEEP = "keep"
_FILE = "file:"
MAX_CHARS = 1_000_000
MAX_CHUNKS = 1_000
_COMPACTED_BYTES = 8 << 20
_KINDS: tuple[Kind, ...] = get_args(Kind)
_MAX_WORDS, _WORDS_SHARE = 100, 0.75
_encode = msgspec.json.Encoder().encode


class HeapOf(Struct, frozen=True, forbid_unknown_fields=True):
    """The file's first line."""

    folder: str  # the folder that sources refer to; empty if it is not a user folder
    stackmem_heap: int = 1


class HeapChange(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A line: a chunk that was written or freed."""

    name: str
    written: float  # seconds since 1970
    chunk: KeptChunk | None = None
    by: str = ""  # id of the run; empty if the user made the change


class HeapStore:
    """The chunks of one folder.

    Attributes:
        path: The file; its lock is next to it.
        folder: As in ``HeapOf``.
    """

    def __init__(self, path: Path, folder: str) -> None:
        self.path, self.folder = path, folder

    def read(self) -> dict[str, HeapChange]:
        """Return the chunks by name, oldest write first. An incomplete last line from a crash is ignored.

        Raise UsageError if the file cannot be read, or is not a heap file.
        """
        try:
            raw = read_regular(self.path)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise UsageError(
                f"the kept heap {self.path} cannot be read ({error.strerror}); make it readable"
            ) from error
        lines = raw.split(b"\n")[:-1]
        changes: dict[str, HeapChange] = {}
        for number, line in enumerate(lines, 1):
            try:
                if number == 1:
                    self.folder = decode_json(line, HeapOf).folder
                    continue
                change = decode_json(line, HeapChange)
            except (msgspec.DecodeError, RecursionError) as error:
                raise UsageError(
                    f"line {number} of {self.path} is not valid ({error}); fix or remove the file"
                ) from error
            changes.pop(change.name, None)
            if change.chunk is not None:
                changes[change.name] = change
        return _bounded(changes)

    def write(self, changes: list[HeapChange]) -> None:
        """Append lines durably.

        Raise TraceError if the lines cannot be written. Earlier lines are complete. Raise UsageError if the file is not
        a heap file.
        """
        if not changes:
            return
        try:
            with self.locked():
                lines = b"".join(_encode(change) + b"\n" for change in changes)
                if _append(self.path, _encode(HeapOf(self.folder)) + b"\n", lines) > _COMPACTED_BYTES:
                    self._compact()
        except OSError as error:
            raise TraceError(
                f"the kept heap {self.path} cannot be written ({error.strerror}); free space or fix the permissions"
            ) from error

    def remove(self) -> None:
        """Remove the file; raises ``OSError``."""
        with self.locked():
            self.path.unlink(missing_ok=True)
            _words_path(self.path).unlink(missing_ok=True)

    def _compact(self) -> None:
        """Rewrite the file with one line per chunk."""
        changes = self.read()
        fresh = self.path.with_name(f"{self.path.name}.new")
        with open(fresh, "wb", opener=owners) as file:
            file.write(
                _encode(HeapOf(self.folder)) + b"\n" + b"".join(_encode(change) + b"\n" for change in changes.values())
            )
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the file's lock."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = descriptor_of_regular(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _append(path: Path, head: bytes, lines: bytes) -> int:
    """Append lines after the last complete one, with the head if the file is empty. Returns the file's size."""
    file = descriptor_of_regular(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    try:
        size = cut_torn_line(file)
        text = lines if size else head + lines
        done = 0
        while done < len(text):
            try:
                done += os.pwrite(file, text[done:], size + done)
            except OSError:
                os.ftruncate(file, size)
                raise
        os.fdatasync(file)
        return size + len(text)
    finally:
        os.close(file)


def _bounded(changes: dict[str, HeapChange]) -> dict[str, HeapChange]:
    chars = sum(len(change.chunk.content) for change in changes.values() if change.chunk)
    for name in list(changes):
        if len(changes) <= MAX_CHUNKS and chars <= MAX_CHARS:
            break
        chunk = changes.pop(name).chunk
        chars -= len(chunk.content) if chunk else 0
    return changes


class HeapKeeper:
    """Saves a run's changes to its heap as they happen."""

    def __init__(self, store: HeapStore, scrub: Callable[[str], str]) -> None:
        """Save to ``store``; ``scrub`` removes secrets from text."""
        self.store, self._scrub = store, scrub
        self.by = ""
        self._words = HeapStore(_words_path(store.path), store.folder)
        self._seen_words: Changes = ()
        self._seen: tuple[Mapping[str, object], Mapping[str, str]] = ({}, {})
        self._known: dict[str, KeptChunk] = {}

    def taken_over(self, budgets: Budgets, digest: Callable[[str], str]) -> KeptHeap:
        """Return the heap that a run starts with: the most recent chunks that fit its budgets.

        ``digest`` returns the digest of a file of the folder as it is now.
        """
        chunks = [chunk for chunk in self._chunks() if not chunk.name.startswith(_FILE)]
        fitting: list[KeptChunk] = []
        heap = Heap()
        for chunk in reversed(chunks):
            entry = StoreEntry(chunk.name, chunk.content, chunk.description, chunk.source)
            if not faults(heap, (entry,), budgets):
                fitting.insert(0, chunk)
                heap = heap.put(entry, 0, chunk.digest)
        return KeptHeap(
            tuple(fitting), tuple((path, digest(path)) for path in heap.sources), len(chunks) - len(fitting)
        )

    def kept_files(self) -> tuple[tuple[str, str], ...]:
        """Return the most recent files of the memory tool that fit into its directory, oldest write first."""
        files = [(chunk.name.removeprefix(_FILE), chunk.content) for chunk in self._chunks()
                 if chunk.name.startswith(_FILE)]  # fmt: skip
        fitting: list[tuple[str, str]] = []
        room = DIRECTORY_CHARS
        for path, text in reversed(files[-FILES:]):
            room -= len(text)
            if room < 0:
                break
            fitting.insert(0, (path, text))
        return tuple(fitting)

    def _chunks(self) -> list[KeptChunk]:
        return [change.chunk for change in self.store.read().values() if change.chunk is not None]

    def kept_words(self) -> tuple[KeptWords, ...]:
        """Return the standing words of earlier conversations: the most recent ones that fit, oldest first."""
        chunks = [change.chunk for change in self._words.read().values() if change.chunk is not None]
        fitting: list[KeptWords] = []
        changes: Changes = ()
        for chunk in reversed(chunks[-_MAX_WORDS:]):
            kind = next((kind for kind in _KINDS if kind == chunk.description), _KINDS[0])
            outcome = add(changes, StandingChange(0, 0, 0, chunk.content, kind, earlier=True))
            if outcome.done:
                changes = outcome.changes
                fitting.insert(0, KeptWords(chunk.content, kind))
            if len(block(changes)) > _WORDS_SHARE * TOTAL_CHARS:
                break  # leave room for new entries
        return tuple(fitting)

    def begin(self, heap: Heap, directory: Directory, words: Changes, by: str) -> None:
        """Take these as the saved state; later changes are attributed to the run ``by``."""
        self.by, self._seen, self._known = by, (heap.chunks, directory.files), _chunks_of(heap, directory)
        self._seen_words = words

    def follow_words(self, words: Changes) -> None:
        """Save the entries that were added and remove those that no longer apply."""
        if words is self._seen_words:
            return
        before, now = (
            {_name_of(entry.text): entry for entry in active(each).values()} for each in (self._seen_words, words)
        )
        at = round(time.time(), 3)
        changes = [HeapChange(name, at, None, self.by) for name in before if name not in now]
        for name, entry in now.items():
            if name not in before:
                chunk = KeptChunk(name, self._scrub(entry.text), entry.kind)
                changes.append(HeapChange(name, at, chunk, self.by))
        self._words.write(changes)
        self._seen_words = words

    def follow(self, heap: Heap, directory: Directory) -> None:
        """Save the differences from the last heap and directory."""
        if heap.chunks is self._seen[0] and directory.files is self._seen[1]:
            return
        now, before = _chunks_of(heap, directory), self._known
        at = round(time.time(), 3)
        changes = [HeapChange(name, at, None, self.by) for name in before if name not in now]
        for name, chunk in now.items():
            if before.get(name) != chunk:
                changes.append(HeapChange(name, at, self._scrubbed(chunk), self.by))
        self.store.write(changes)
        self._seen, self._known = (heap.chunks, directory.files), now

    def _scrubbed(self, chunk: KeptChunk) -> KeptChunk:
        scrub = self._scrub
        return KeptChunk(chunk.name, scrub(chunk.content), scrub(chunk.description), scrub(chunk.source), chunk.digest)


def _words_path(path: Path) -> Path:
    """Return the file of the standing words next to a heap's file. No chunk is read from it, so no run writes it."""
    return path.with_name(f"{path.name}.words")


def _name_of(words: str) -> str:
    """Return the name of an entry of standing words in its file: equal words have one entry."""
    return hashlib.sha256(" ".join(words.casefold().split()).encode(errors="replace")).hexdigest()[:16]


def _chunks_of(heap: Heap, directory: Directory) -> dict[str, KeptChunk]:
    chunks = {
        name: KeptChunk(name, chunk.content, chunk.description, chunk.source, chunk.digest)
        for name, chunk in heap.chunks.items()
        if not chunk.skill
    }
    return chunks | {_FILE + path: KeptChunk(_FILE + path, text) for path, text in directory.files.items()}


def heap_store(name: str, folder: Path | None, cwd: Path, environ: Mapping[str, str]) -> HeapStore:
    """Return the store that ``--heap`` names. For a task, ``folder`` is None, and ``keep`` is a ``UsageError``."""
    if name != KEEP:
        return HeapStore((cwd / os.path.expanduser(name)).resolve(), str(folder or ""))
    if folder is None:
        raise UsageError("--heap keep needs a folder of your own, but this is a task; use --heap FILE")
    return HeapStore(_path_for(heaps_folder(environ), folder), str(folder))


def _path_for(path: Path, folder: Path) -> Path:
    """Return the heap file of a folder. In a git repository it also depends on the first commit, so that another
    repository at the same path has a different file.

    A heap that was saved for the path only is adopted by the repository that is there now.
    """
    first = first_commit(folder, path / f"{_key(folder)}.first")
    of_path = path / f"{_key(folder)}.jsonl"
    if not first:
        return of_path
    bound = path / f"{_key(folder, first)}.jsonl"
    if not first.startswith(AT_COMMIT) and not _words_path(bound).exists():
        with suppress(OSError):  # there is none yet, or another process adopted it first
            _words_path(of_path).rename(_words_path(bound))
    if not first.startswith(AT_COMMIT) and of_path.exists() and not bound.exists():
        try:
            with HeapStore(of_path, str(folder)).locked():
                os.link(of_path, bound, follow_symlinks=False)
                of_path.unlink()
        except (FileNotFoundError, FileExistsError):
            pass  # another process adopted it first
        except OSError as error:
            raise UsageError(
                f"the kept heap {of_path} cannot be renamed to {bound.name} ({error.strerror}); fix the permissions"
            ) from error
    return bound


def heaps_folder(environ: Mapping[str, str]) -> Path:
    """Return the directory of all heaps. Raises ``UsageError`` if it cannot be determined."""
    path = user_folder(environ, "XDG_STATE_HOME", ".local/state", "heaps")
    if path is None:
        raise UsageError("neither XDG_STATE_HOME nor HOME is set, so heaps have no place; use --heap FILE")
    return path


def all_heaps(environ: Mapping[str, str]) -> list[HeapStore]:
    """Return the heaps of all folders. Raises ``UsageError`` if one cannot be read."""
    stores = [HeapStore(path, "") for path in sorted(heaps_folder(environ).glob("*.jsonl"))]
    for store in stores:
        store.read()
    return sorted(stores, key=lambda store: store.folder)


def _key(folder: Path, first: str = "") -> str:
    """Return a file name for a folder: its readable name, and a hash that makes it unique."""
    path = folder.resolve()
    plain = re.sub(r"[^A-Za-z0-9_.]+", "-", path.name).strip("-.")[:40] or "root"
    digest = hashlib.sha256(os.fsencode(path))
    if first:
        digest.update(b"\0" + first.encode())
    return f"{plain}-{digest.hexdigest()[:16]}"
