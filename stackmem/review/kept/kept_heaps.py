"""Lets the user list, write, free and prune chunks that outlive runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from stackmem.core.budgets import Budgets
from stackmem.core.errors import TraceError, UsageError, WorkspaceError
from stackmem.core.heap import UNKNOWN, Heap, KeptChunk, KeptHeap, faults, no_chunk, source_faults, taken_over
from stackmem.core.tools import StoreEntry
from stackmem.run.companion.kept_heap import MAX_CHARS, MAX_CHUNKS, HeapChange, HeapStore, all_heaps
from stackmem.workspace.workspace import WatchedFolder

_BUDGETS = Budgets(heap_chars=MAX_CHARS, heap_chunks=MAX_CHUNKS)


class KeptRow(Struct, frozen=True):
    """A stored chunk."""

    folder: str  # the folder that the chunk belongs to
    name: str
    chars: int
    description: str
    source: str
    state: str  # ``fresh``, ``STALE``, ``missing`` if its source was deleted, or empty if this is not known
    written: float  # seconds since 1970
    by: str  # id of the run that wrote it; empty if a user did


def kept_rows(store: HeapStore) -> list[KeptRow]:
    """Return every chunk, the oldest write first. Raise UsageError if the heap cannot be read."""
    entries = [(entry, entry.chunk) for entry in store.read().values() if entry.chunk is not None]
    with _digests(store.folder) as digest:
        return [
            KeptRow(
                store.folder, chunk.name, len(chunk.content), chunk.description, chunk.source, _state(chunk, digest),
                entry.written, entry.by,
            )
            for entry, chunk in entries
        ]  # fmt: skip


def kept_content(store: HeapStore, name: str) -> str:
    """Return a chunk's content. Raise UsageError if the chunk does not exist."""
    chunk = store.read().get(name)
    if chunk is None or chunk.chunk is None:
        heap = _heap(store)
        raise UsageError(
            no_chunk(heap, name) if heap.chunks else "the kept heap is empty; stackmem heap write adds a chunk"
        )
    return chunk.chunk.content


def write_kept(store: HeapStore, entry: StoreEntry) -> None:
    """Write a chunk, replacing one of the same name.

    Raise UsageError if the chunk has faults, such as a size above the budget.
    """
    with _digests(store.folder) as digest:
        digests = {entry.source: digest(entry.source)} if entry.source else {}
    wrong = faults(_heap(store), (entry,), _BUDGETS) or source_faults((entry,), digests)
    if wrong:
        raise UsageError("; ".join(wrong))
    chunk = KeptChunk(entry.name, entry.content, entry.description, entry.source, digests.get(entry.source, ""))
    store.write([HeapChange(entry.name, round(time.time(), 3), chunk)])


def free_kept(store: HeapStore, names: list[str]) -> None:
    """Free chunks, all or none. Raise UsageError if one of them does not exist."""
    for name in names:
        kept_content(store, name)
    store.write([HeapChange(name, round(time.time(), 3)) for name in names])


def prune_kept(store: HeapStore, older_seconds: float | None, *, stale: bool, dry_run: bool) -> list[KeptRow]:
    """Free chunks of at least this age, and if ``stale`` also those whose source has changed or was deleted."""
    before = None if older_seconds is None else time.time() - older_seconds
    pruned = [
        row
        for row in kept_rows(store)
        if (before is not None and row.written <= before) or (stale and row.state in ("STALE", "missing"))
    ]
    if not dry_run:
        free_kept(store, [row.name for row in pruned])
    return pruned


def prune_gone(environ: Mapping[str, str], *, dry_run: bool) -> list[HeapStore]:
    """Remove the heaps of folders that no longer exist.

    Raise UsageError if a heap cannot be read, and TraceError if a heap cannot be removed.
    """
    orphans = [store for store in all_heaps(environ) if store.folder and not Path(store.folder).is_dir()]
    for store in [] if dry_run else orphans:
        try:
            store.remove()
        except OSError as error:
            raise TraceError(f"the kept heap {store.path} cannot be removed ({error.strerror})") from error
    return orphans


def _heap(store: HeapStore) -> Heap:
    return taken_over(KeptHeap(tuple(entry.chunk for entry in store.read().values() if entry.chunk is not None)))


def _state(chunk: KeptChunk, digest: Callable[[str], str]) -> str:
    if not chunk.source or chunk.digest in ("", *UNKNOWN):
        return ""
    now = digest(chunk.source)
    if now in UNKNOWN:
        return "missing" if now == "missing" else ""
    return "fresh" if now == chunk.digest else "STALE"


@contextmanager
def _digests(folder: str) -> Iterator[Callable[[str], str]]:
    """Yield a function that returns digests of the folder's files, or ``unknown`` if the folder does not exist."""
    try:
        watched = WatchedFolder(Path(folder)) if folder else None
    except WorkspaceError:
        watched = None
    try:
        yield watched.digest if watched is not None else lambda _: "unknown"
    finally:
        if watched is not None:
            watched.close()
