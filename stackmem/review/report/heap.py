"""The history of each chunk over the steps of a run."""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.heap import Chunk, Heap

from .texts import Ref, Texts


class Version(Struct, array_like=True):
    """One version of a chunk, from a step until it was replaced or freed."""

    start: int  # step that stored it
    end: int | None  # step that replaced or freed it; None while it exists
    chars: int
    content: Ref
    description: Ref
    source: str
    again: bool  # whether it replaced another version


class Lane(Struct):
    """The history of one name on the heap."""

    name: str
    versions: list[Version] = []
    reads: list[int] = []  # steps
    stale: list[list[int | None]] = []  # ``[from, to]`` steps; ``to`` is None while it is stale


class Lanes:
    """All lanes of one run, updated with each heap."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._heap = Heap()
        self._lanes: dict[str, Lane] = {}
        self.ordered: list[Lane] = []  # in order of first allocation
        self.touched: set[str] = set()  # names whose lane changed; the reader clears it

    def see(self, heap: Heap, step: int) -> None:
        """Record the changes up to ``step``."""
        if heap is self._heap:
            return
        before, self._heap = self._heap, heap
        if heap.chunks is not before.chunks:
            for name in before.chunks.keys() - heap.chunks.keys():
                self._ended(self._lanes[name], step)
            for name, chunk in heap.chunks.items():
                old = before.chunks.get(name)
                if chunk is not old:
                    self._changed(old, chunk, step)
        for name, chunk in heap.chunks.items():
            if chunk.source:
                self._aged(self._lanes[name], stale=heap.stale(chunk), step=step)

    def _changed(self, old: Chunk | None, chunk: Chunk, step: int) -> None:
        lane = self._lane(chunk.name)
        if old is not None and chunk.read != old.read and chunk.read is not None:
            lane.reads.append(chunk.read)
        if old is not None and (old.content, old.description, old.source, old.written) == (
            chunk.content, chunk.description, chunk.source, chunk.written,
        ):  # fmt: skip
            return
        if old is not None:
            self._ended(lane, step)
        lane.versions.append(
            Version(
                start=step,
                end=None,
                chars=len(chunk.content),
                content=self._texts.ref(chunk.content),
                description=self._texts.ref(chunk.description),
                source=chunk.source,
                again=old is not None,
            )
        )

    def _lane(self, name: str) -> Lane:
        self.touched.add(name)
        if name not in self._lanes:
            self._lanes[name] = Lane(name, [], [], [])
            self.ordered.append(self._lanes[name])
        return self._lanes[name]

    def _ended(self, lane: Lane, step: int) -> None:
        self.touched.add(lane.name)
        lane.versions[-1].end = step
        self._aged(lane, stale=False, step=step)

    def _aged(self, lane: Lane, *, stale: bool, step: int) -> None:
        open_now = bool(lane.stale) and lane.stale[-1][1] is None
        if stale != open_now:
            self.touched.add(lane.name)
        if stale and not open_now:
            lane.stale.append([step, None])
        elif open_now and not stale:
            lane.stale[-1][1] = step
