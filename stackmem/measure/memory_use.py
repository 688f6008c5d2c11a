"""How a run used its memory: frames and the heap."""

from __future__ import annotations

from stackmem.core import facts
from stackmem.core.messages import ToolCall
from stackmem.core.tools import tools_that

from .moments import Moment

_ENDING = tools_that(lambda behavior: behavior.frame == "ends")
_MEMORY = tools_that(lambda behavior: not (behavior.reads_files or behavior.changes_files))


class MemoryCallShare:
    """Share of calls that manage memory: pushes, pops, and tools for a heap or notes; the call that ends the root is
    none of them.

    It is the price of memory in steps. None in a run without calls.
    """

    def __init__(self) -> None:
        self._memory, self._all = 0, 0

    def add(self, moment: Moment) -> None:
        if not isinstance(moment.event, facts.ModelReplied):
            return
        root = moment.before.running.depth == 0
        for part in moment.event.parts:
            if isinstance(part, ToolCall):
                self._all += 1
                self._memory += part.name in _MEMORY and not (root and part.name in _ENDING)

    @property
    def value(self) -> float | None:
        return round(self._memory / self._all, 4) if self._all else None


class ReadsPerWrite:
    """Reads of chunks for each time one was stored or rewritten; ``store`` of a push or pop counts each chunk.

    Below 1, more was kept than was ever wanted. None where nothing was stored.
    """

    def __init__(self) -> None:
        self._reads, self._writes = 0, 0

    def add(self, moment: Moment) -> None:
        match moment.event:
            case facts.ChunkRead():
                self._reads += 1
            case facts.ChunkAllocated() | facts.ChunkWritten():
                self._writes += 1
            case facts.FramePushed(stored=stored) | facts.FramePopped(stored=stored):
                self._writes += len(stored)

    @property
    def value(self) -> float | None:
        return round(self._reads / self._writes, 4) if self._writes else None


class NeverReadShare:
    """Share of the stored chunks that no heap_read ever asked for. A name that was freed and used again is two chunks.

    They cost a line of every index, and helped nobody. None where nothing was stored.
    """

    def __init__(self) -> None:
        self._stored = 0
        self._unread: set[str] = set()
        self._lost = 0

    def add(self, moment: Moment) -> None:
        match moment.event:
            case facts.ChunkAllocated(name=name):
                self._store(name)
            case facts.FramePushed(stored=stored) | facts.FramePopped(stored=stored):
                for name in stored:
                    if name not in moment.before.heap.chunks:
                        self._store(name)
            case facts.ChunkRead(name=name):
                self._unread.discard(name)
            case facts.ChunkFreed(name=name):
                self._lost += name in self._unread
                self._unread.discard(name)

    def _store(self, name: str) -> None:
        self._stored += 1
        self._unread.add(name)

    @property
    def value(self) -> float | None:
        return round((self._lost + len(self._unread)) / self._stored, 4) if self._stored else None


def stale_reads(moment: Moment) -> int:
    """Reads of chunks whose source had changed since they were stored. The model was told, and may still have erred."""
    if not isinstance(moment.event, facts.ChunkRead):
        return 0
    heap = moment.before.heap
    chunk = heap.chunks.get(moment.event.name)
    return int(chunk is not None and heap.stale(chunk))
