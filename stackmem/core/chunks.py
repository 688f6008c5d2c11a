"""What the heap tools come to, and what their facts change."""

from __future__ import annotations

from typing import assert_never

from . import heap as heaps
from .entries import StoreEntry
from .excerpts import PREFIX
from .facts import CallRejected, ChunkAllocated, ChunkFreed, ChunkRead, ChunkWritten, Event
from .frames import stored_by
from .heap import Heap
from .more_tools import AddNote, Branch, Delegate, Expand, HeapList, HeapReadFrame, Memory, PushContext
from .requests import DigestSources, Effect
from .state import Pending, State
from .text import clip_bytes
from .tools import Call, HeapAlloc, HeapFree, HeapRead, HeapWrite, PopFrame, PushFrame, parse, tool_name

_SAID: tuple[type[Call], ...] = (
    PushFrame, PopFrame, HeapAlloc, HeapReadFrame, HeapWrite, HeapFree, HeapList, AddNote, Expand, Memory, Delegate,
    Branch, PushContext,
)  # fmt: skip
"""Every call that a derived fact can speak of; of tools with one name, those with the most to them."""
_BY_NAME = {name: tuple(kind for kind in _SAID if tool_name(kind) == name) for name in map(tool_name, _SAID)}


def allocate(state: State, call: HeapAlloc, pending: Pending) -> Event | Effect:
    """The new chunk, the digest it needs first, or the refusal."""
    if call.name in state.heap.chunks:
        return CallRejected("chunk_exists", f"heap_alloc refused: {call.name!r} exists; use heap_write to replace it")
    entry = StoreEntry(call.name, call.content, call.description, call.source)
    blocked = blocked_by(state, "heap_alloc", entry, pending, named=entry.source)
    return blocked if blocked is not None else ChunkAllocated(call.name, len(call.content))


def rewrite(state: State, call: HeapWrite, pending: Pending) -> Event | Effect:
    """The replaced chunk, the digest it needs first, or the refusal."""
    if call.name not in state.heap.chunks:
        return CallRejected("no_chunk", f"heap_write refused: {heaps.no_chunk(state.heap, call.name)}")
    blocked = blocked_by(state, "heap_write", rewritten(state.heap, call), pending, named=call.source or "")
    return blocked if blocked is not None else ChunkWritten(call.name, len(call.content))


def rewritten(heap: Heap, call: HeapWrite) -> StoreEntry:
    old = heap.chunks[call.name]
    return StoreEntry(
        call.name,
        call.content,
        old.description if call.description is None else call.description,
        old.source if call.source is None else call.source,
    )


def blocked_by(state: State, tool: str, entry: StoreEntry, pending: Pending, *, named: str) -> Event | Effect | None:
    """What stands between one entry and the heap.

    Args:
        named: The source that the call itself names; one kept from before may be gone, and the chunk stays writable.

    """
    found = heaps.faults(state.heap, (entry,), state.begun.budgets)
    if not found and entry.source:
        if pending.digests is None:
            return DigestSources(heaps.sources_with(state.heap, (entry,)))
        found = heaps.source_faults((entry,), pending.digests) if named else []
    return CallRejected("heap_refused", f"{tool} refused: " + "; ".join(found)) if found else None


def read(state: State, call: HeapRead) -> Event:
    if call.name not in state.heap.chunks:
        return CallRejected("no_chunk", f"heap_read refused: {heaps.no_chunk(state.heap, call.name)}")
    text, fault = heaps.read_text(state.heap, call)
    if fault:
        return CallRejected("no_lines", f"heap_read refused: {fault}")
    return ChunkRead(call.name, len(text))


def free(state: State, call: HeapFree) -> Event:
    if call.name not in state.heap.chunks:
        return CallRejected("no_chunk", f"heap_free refused: {heaps.no_chunk(state.heap, call.name)}")
    return ChunkFreed(call.name, len(state.heap.chunks[call.name].content))


def said(state: State) -> tuple[Call | None, str]:
    """The one pending call that a derived fact speaks of, and its id."""
    if state.pending is None or not state.pending.calls:
        return None, ""
    asked = state.pending.calls[0]
    for kind in _BY_NAME.get(asked.name, ()):
        call = parse(asked, (kind,))
        if not isinstance(call, tuple):
            return (plain(call) if isinstance(call, HeapReadFrame) else call), asked.id
    return None, asked.id


def plain(call: HeapReadFrame) -> HeapRead | HeapReadFrame:
    """The call as an ordinary one, where it names a chunk."""
    return call if call.name.startswith(PREFIX) else HeapRead(call.name, call.start_line, call.end_line)


def changed_heap(state: State, stored: tuple[str, ...]) -> Heap:
    """The heap with what the pending push or pop stores."""
    call, _ = said(state) if stored else (None, "")
    heap = state.heap
    for entry in stored_by(call):
        heap = heap.put(entry, state.step, _digest(state, entry.source))
    return heap


def changed_by(state: State, event: ChunkAllocated | ChunkWritten | ChunkRead | ChunkFreed) -> tuple[Heap, str]:
    """The heap after the fact, and what the model is told."""
    call, _ = said(state)
    most = state.begun.budgets.heap_chars
    match event:
        case ChunkAllocated() if isinstance(call, HeapAlloc):
            entry = StoreEntry(call.name, call.content, call.description, call.source)
            heap = state.heap.put(entry, state.step, _digest(state, call.source))
            return heap, f"stored {event.name!r}, {event.chars:,} characters; {heap.chars:,} of {most:,} used"
        case ChunkWritten() if isinstance(call, HeapWrite):
            entry = rewritten(state.heap, call)
            heap = state.heap.put(entry, state.step, _digest(state, entry.source))
            return heap, f"replaced {event.name!r}, now {event.chars:,} characters; {heap.chars:,} of {most:,} used"
        case ChunkRead() if isinstance(call, HeapRead):
            return state.heap.mark_read(event.name, state.step), _reading(state, call)
        case ChunkFreed():
            heap = state.heap.without(event.name)
            return heap, f"freed {event.name!r}, {event.chars:,} characters; {heap.chars:,} of {most:,} used"
        case ChunkAllocated() | ChunkWritten() | ChunkRead():
            return state.heap, ""
        case _:
            assert_never(event)


def _reading(state: State, call: HeapRead) -> str:
    chunk = state.heap.chunks[call.name]
    text, _ = heaps.read_text(state.heap, call)
    head = f"heap {call.name!r}, {len(chunk.content):,} characters, last read step {state.step}"
    if state.heap.stale(chunk):
        head += f"; STALE: {chunk.source} has changed since this was stored, check it before you rely on it"
    return f"{head}\n{clip_bytes(text, state.shown_bytes)}"


def _digest(state: State, source: str) -> str:
    return (state.pending.digests or {}).get(source, "unknown") if source and state.pending else ""
