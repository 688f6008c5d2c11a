"""What the calls come to that read and change the machine's own memory, and what their facts change.

Rule 1: the heap's tools are facts of their own; what a look-up tells is no part of its fact: it follows from the call
        and the state.
Rule 2: of the look-ups only ``add_note`` and ``memory`` change anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from . import heap as heaps
from .facts import CallAnswered, CallRejected, ChunkAllocated, ChunkFreed, ChunkRead, ChunkWritten, Event
from .frames import stored_by
from .heap import Heap, index
from .log import Log
from .memory_directory import Directory, carry_out
from .messages import Text, ToolCall
from .ranking import best, counted
from .requests import DigestSources, Effect
from .state import Compaction, Notice, Pending, PoppedFrame, Reply, Result, State, Turn
from .text import clip_bytes, mark_cut
from .tool_schemas import parse
from .tools import (
    AddNote,
    Branch,
    Call,
    Delegate,
    Expand,
    HeapAlloc,
    HeapFree,
    HeapList,
    HeapRead,
    HeapReadFrame,
    HeapWrite,
    LookupCall,
    Memory,
    PopFrame,
    PushContext,
    PushFrame,
    StoreEntry,
    tool_name,
)

EXCERPT_CHARS = 4_000
_PASSAGE_CHARS = 400
PREFIX = "frame:"


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


class Answer(Struct, frozen=True):
    """What a call comes to; with a ``fault`` nothing has changed.

    Attributes:
        notes, directory: As they are then; None where they are as before.

    """

    text: str = ""
    fault: str = ""
    notes: Log[str] | None = None
    directory: Directory | None = None


def look_up(state: State, call: LookupCall) -> CallAnswered | CallRejected:
    """The fact that the call was answered, or the refusal."""
    answer = _answer(state, call)
    tool = tool_name(call)
    if answer.fault:
        return CallRejected("lookup_refused", f"{tool} refused: {answer.fault}")
    return CallAnswered(tool, len(answer.text))


def answered(state: State, call: LookupCall) -> tuple[State, str]:
    """The state after the call, and what the model is told."""
    answer = _answer(state, call)
    changed = state if answer.notes is None else replace(state, notes=answer.notes)
    return (changed if answer.directory is None else replace(changed, directory=answer.directory)), answer.text


def _answer(state: State, call: LookupCall) -> Answer:
    match call:
        case HeapList():
            return Answer(index(state.heap, state.begun.budgets))
        case HeapReadFrame():
            return _frame_read(state, call)
        case AddNote():
            return _noted(state, call)
        case Expand():
            return _expanded(state, call)
        case Memory():
            outcome = carry_out(state.directory, call)
            return Answer(clip_bytes(outcome.text, state.shown_bytes), outcome.fault, directory=outcome.directory)
        case _:
            assert_never(call)


def _frame_read(state: State, call: HeapReadFrame) -> Answer:
    name = call.name.removeprefix(PREFIX)
    if call.start_line is not None or call.end_line is not None:
        return Answer(fault="start_line and end_line are for chunks; ask a popped frame with query")
    done = popped_named(state, name)
    if done is None:
        known = list(dict.fromkeys(done.frame.name for done in reversed(state.popped)))[:5]
        return Answer(fault=f"no frame {name[:80]!r} has popped; popped: {', '.join(known) or 'none yet'}")
    return Answer(excerpts(done, call.query))


def _noted(state: State, call: AddNote) -> Answer:
    most = state.begun.budgets.heap_chars
    used = sum(map(len, state.notes))
    if not call.text.strip():
        return Answer(fault="text is empty; write what to remember")
    if used + len(call.text) > most:
        return Answer(
            fault=f"the notes hold {used:,} of {most:,} characters and this has {len(call.text):,}; shorten it, or "
            "work with what they hold"
        )
    notes = state.notes.append(call.text)
    return Answer(f"noted; {used + len(call.text):,} of {most:,} characters used", notes=notes)


def _expanded(state: State, call: Expand) -> Answer:
    results = [turn for turn in state.running.turns if isinstance(turn, Result)]
    found = [turn.text for turn in results if turn.step == call.index]
    if not found:
        known = f"numbers go from {results[0].step} to {results[-1].step}" if results else "there is no result yet"
        return Answer(fault=f"no result has the number {call.index}; {known}")
    return Answer(clip_bytes(f"result {call.index} again, whole:\n" + "\n".join(found), state.shown_bytes + 200))


class _Passage(Struct, frozen=True):
    source: str
    text: str


def popped_named(state: State, name: str) -> PoppedFrame | None:
    """The popped frame with this id, else the last one with this name."""
    found = [done for done in state.popped if done.frame.id == name]
    found = found or [done for done in state.popped if done.frame.name == name]
    return found[-1] if found else None


def excerpts(done: PoppedFrame, query: str, most: int = EXCERPT_CHARS) -> str:
    """In at most ``most`` characters: its result, and the passages that fit ``query``; without one, the last ones."""
    passages = [passage for turn in done.frame.turns for passage in _passages(turn)]
    ranked: Iterable[int] = range(len(passages) - 1, -1, -1)
    if query.strip():
        ranked = best(query, [counted(passage.text) for passage in passages], len(passages))
    head = f"frame {done.frame.name!r} ({done.frame.id}) returned: {mark_cut(done.result, _PASSAGE_CHARS)}"
    left = most - len(head) - 100
    chosen = []
    for place in ranked:
        length = len(_line(passages[place]))
        if length > left:
            break
        chosen.append(place)
        left -= length
    lines = [_line(passages[place]) for place in sorted(chosen)]
    told = f"[{len(chosen):,} of {len(passages):,} passages]" if chosen else "[no passage fits; try other words]"
    return "\n".join([head, told, *lines])[:most]


def _line(passage: _Passage) -> str:
    return f"--- {passage.source}\n{passage.text}"


def _passages(turn: Turn) -> Iterator[_Passage]:
    match turn:
        case Reply():
            for part in turn.parts:
                if isinstance(part, Text):
                    yield from _cut(f"step {turn.step}, said", part.text)
                elif isinstance(part, ToolCall):
                    yield from _cut(f"step {turn.step}, called {part.name[:80]}", _given(part))
        case Result():
            yield from _cut(f"step {turn.step}, result", turn.text)
        case Notice():
            yield from _cut("told", turn.text)
        case Compaction():
            yield from _cut(f"step {turn.step}, summary", turn.text)


def _given(call: ToolCall) -> str:
    if isinstance(call.arguments, dict):
        return "\n".join(f"{name}: {value}" for name, value in call.arguments.items())
    return call.malformed or str(call.arguments)


def _cut(source: str, text: str) -> Iterator[_Passage]:
    """Whole lines together as far as they fit; a longer line is cut up."""
    held = ""
    for line in text.splitlines():
        for start in range(0, max(1, len(line)), _PASSAGE_CHARS):
            piece = line[start : start + _PASSAGE_CHARS]
            if held and len(held) + len(piece) >= _PASSAGE_CHARS:
                yield _Passage(source, held)
                held = ""
            held = f"{held}\n{piece}" if held else piece
    if held.strip():
        yield _Passage(source, held)
