"""What a program's words about the heap come to: a fact, or an answer at once."""

from __future__ import annotations

import re

from stackmem.core import heap as heaps
from stackmem.core.program_facts import ChunkDropped, ChunkKept
from stackmem.core.state import State
from stackmem.core.text import whole
from stackmem.core.tools import StoreEntry

from .operations import ChunkAnswer, DropChunk, KeepChunk, ListChunks, ReadChunk

_STRANGE = re.compile(r"[^A-Za-z0-9_./-]")


def chunk_name(name: str) -> str:
    """The name of the chunk for what a program calls ``name``."""
    return _STRANGE.sub("_", name)


def settle(
    effect: KeepChunk | ReadChunk | DropChunk | ListChunks, state: State, called: dict[str, str]
) -> ChunkKept | ChunkDropped | ChunkAnswer | tuple[tuple[str, int, str], ...]:
    """The fact that the effect comes to, or its answer.

    Args:
        called: Name of a chunk to what the program called it.

    """
    heap = state.heap
    if isinstance(effect, ListChunks):
        return tuple((chunk.name, len(chunk.content), chunk.description) for chunk in heap.chunks.values())
    name = chunk_name(effect.name)
    if isinstance(effect, KeepChunk):
        if called.get(name, effect.name) != effect.name:
            return ChunkAnswer(failed=f"{effect.name[:80]!r} and {called[name][:80]!r} would be one chunk; rename one")
        entry = StoreEntry(name, whole(effect.content), whole(effect.description), whole(effect.source))
        found = heaps.faults(heap, (entry,), state.begun.budgets)
        return ChunkAnswer(failed="; ".join(found)) if found else ChunkKept(*_fields(entry))
    if name not in heap.chunks:
        return ChunkAnswer(failed=heaps.no_chunk(heap, name))
    return ChunkAnswer(heap.chunks[name].content) if isinstance(effect, ReadChunk) else ChunkDropped(name)


def _fields(entry: StoreEntry) -> tuple[str, str, str, str]:
    return entry.name, entry.content, entry.description, entry.source
