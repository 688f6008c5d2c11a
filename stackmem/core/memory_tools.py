"""The tools that read and change the machine's own memory, and what their facts change.

Rule 1: Calls of the heap tools have their own facts. The text of a look-up is not in its fact, because it follows from
    the call and the state.
Rule 2: Of the look-ups, only ``add_note`` and ``memory`` change anything.
Rule 3: If an external agent makes the calls, its files change without a call. So the digests of the heap's sources are
    taken before each call. The root frame is that agent's own conversation and never pops.
"""

from __future__ import annotations

from typing import assert_never

from msgspec import UNSET, Struct
from msgspec.structs import replace

from . import heap as heaps
from .conversation import keeping
from .conversation.calls import CompactContext, ConversationSearch, Expand
from .conversation.ranking import FRAME_PREFIX, excerpts, excerpts_of_frames, excerpts_of_popped
from .conversation.recall import recalled, searches_earlier
from .conversation.standing import Changes
from .facts import CallAnswered, ChunkAllocated, ChunkFreed, ChunkRead, ChunkWritten, RunStarted
from .frames import entries_of
from .heap import Heap, index
from .jobs.calls import KeepJob
from .jobs.rules import fault_of_keep, keep_job
from .log import Log
from .memory_directory import Directory, Memory, carry_out
from .requests import DigestSources, SearchForRecall
from .state import Pending, PoppedFrame, Reply, Result, State
from .text import clip_bytes, mark_cut
from .tools import (
    AddNote,
    Call,
    HeapAlloc,
    HeapFree,
    HeapList,
    HeapLoad,
    HeapRead,
    HeapWrite,
    LookupCall,
    PopFrame,
    Recall,
    Refusal,
    Remember,
    StoreEntry,
    tool_name,
)

_MISSING_NAMED = 3
SUMMARY_CHARS = 16_000
"""Maximum summary in ``compact_context``. The tool's description states the same number."""


def first_directory(start: RunStarted) -> Directory:
    """Return the files of the memory tool at the start: none, or those of earlier runs."""
    return Directory() if start.heap is UNSET else Directory(dict(start.heap.files))


def before_client_call(state: State, call: Call, pending: Pending) -> DigestSources | Refusal | None:
    """Return what must happen before a call of an external client: a refusal, or digests to take first.

    Returns None in every other run.
    """
    if state.begun.client is UNSET:
        return None
    if isinstance(call, PopFrame) and state.running.depth == 0:
        return Refusal("pop_refused", "pop_frame refused: no frame is open", "push_frame opens one")
    stored = entries_of(call)
    if isinstance(call, HeapAlloc | HeapWrite):  # for a rewritten chunk, only its new source matters here
        stored = (StoreEntry(call.name, call.content, source=call.source or ""),)
    sources = heaps.sources_with(state.heap, stored)
    return DigestSources(sources) if sources and pending.digests is None else None


def allocate(state: State, call: HeapAlloc, pending: Pending) -> ChunkAllocated | DigestSources | Refusal:
    """Return the new chunk, the digest that it needs first, or the refusal."""
    if call.name in state.heap.chunks:
        return Refusal("chunk_exists", f"heap_alloc refused: {call.name!r} exists", "use heap_write to replace it")
    entry = StoreEntry(call.name, call.content, call.description, call.source)
    obstacle = _entry_obstacle(state, "heap_alloc", entry, pending, source=entry.source)
    return obstacle or ChunkAllocated(call.name, len(call.content))


def rewrite(state: State, call: HeapWrite, pending: Pending) -> ChunkWritten | DigestSources | Refusal:
    """Return the replaced chunk, the digest that it needs first, or the refusal."""
    if call.name not in state.heap.chunks:
        return _no_chunk(state, call)
    entry = _merged_entry(state.heap, call)
    obstacle = _entry_obstacle(state, "heap_write", entry, pending, source=call.source or "")
    return obstacle or ChunkWritten(call.name, len(call.content))


def _merged_entry(heap: Heap, call: HeapWrite) -> StoreEntry:
    """Return the chunk after the call. Fields that the call leaves out keep their values."""
    old = heap.chunks[call.name]
    return StoreEntry(
        call.name,
        call.content,
        old.description if call.description is None else call.description,
        old.source if call.source is None else call.source,
    )


def _entry_obstacle(
    state: State, tool: str, entry: StoreEntry, pending: Pending, *, source: str
) -> DigestSources | Refusal | None:
    """Return what must happen before an entry is stored, or the refusal.

    Args:
        source: The source that the call itself names. A source from an earlier run may be missing; its chunk can still
            be written.
    """
    wrong = heaps.faults(state.heap, (entry,), state.begun.budgets)
    if not wrong and entry.source:
        if pending.digests is None:
            return DigestSources(heaps.sources_with(state.heap, (entry,)))
        wrong = heaps.source_faults((entry,), pending.digests) if source else []
    return Refusal("heap_refused", f"{tool} refused: " + "; ".join(wrong)) if wrong else None


def read(state: State, call: HeapRead, pending: Pending) -> ChunkRead | DigestSources | Refusal:
    if call.name not in state.heap.chunks:
        return _no_chunk(state, call)
    if (sources := _unread_skills(state, (call.name,))) and pending.digests is None:
        return DigestSources(sources)
    text, fault = heaps.read_text(state.heap, call)
    return Refusal("no_lines", f"heap_read refused: {fault}") if fault else ChunkRead(call.name, len(text))


def load(state: State, call: HeapLoad, pending: Pending) -> ChunkRead | DigestSources | Refusal:
    """Return the chunks to read together, or the refusal. Chunks are returned in full, so a total that is too large
    is refused.
    """
    names = tuple(dict.fromkeys(call.names))
    if not names:
        return Refusal("no_chunk", "heap_load refused: names is empty", "name the chunks to load")
    missing = [name for name in names if name not in state.heap.chunks]
    if missing:
        reasons = "; ".join(heaps.no_chunk(state.heap, name) for name in missing[:_MISSING_NAMED])
        return Refusal("no_chunk", f"heap_load refused, nothing was loaded: {reasons}")
    size = len(_chunk_texts(state, names).encode(errors="replace"))
    if size > state.shown_bytes:
        reason = f"heap_load refused: together they have {size:,} bytes, maximum is {state.shown_bytes:,}"
        return Refusal("too_large", reason, "load fewer in one call")
    if (sources := _unread_skills(state, names)) and pending.digests is None:
        return DigestSources(sources)
    return ChunkRead(names[0], sum(len(state.heap.chunks[name].content) for name in names), names[1:] or UNSET)


def free(state: State, call: HeapFree) -> ChunkFreed | Refusal:
    if call.name not in state.heap.chunks:
        return _no_chunk(state, call)
    if (chunk := state.heap.chunks[call.name]).skill:
        return Refusal("heap_refused", f"heap_free refused: {call.name!r} is a {chunk.listed} and stays")
    return ChunkFreed(call.name, len(state.heap.chunks[call.name].content))


def _unread_skills(state: State, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sources to digest before these chunks are read: only a skill that was not read yet needs it."""
    chunks = [state.heap.chunks[name] for name in names]
    unread = {chunk.source for chunk in chunks if chunk.skill and chunk.read is None}
    return tuple(sorted({*state.heap.sources, *unread})) if unread else ()


def _no_chunk(state: State, call: HeapRead | HeapWrite | HeapFree) -> Refusal:
    return Refusal("no_chunk", f"{tool_name(call)} refused: {heaps.no_chunk(state.heap, call.name)}")


def heap_with_stored(state: State, stored: tuple[str, ...]) -> Heap:
    """Return the heap with the chunks that the pending push or pop stores."""
    heap = state.heap
    for entry in entries_of(state.pending.call) if stored and state.pending else ():
        heap = heap.put(entry, state.step, _digest(state, entry.source))
    return heap


def change_heap(state: State, event: ChunkAllocated | ChunkWritten | ChunkRead | ChunkFreed) -> tuple[Heap, str]:
    """Return the heap after the fact, and the text that the model reads."""
    call = state.pending.call if state.pending else None
    most = state.begun.budgets.heap_chars
    match event:
        case ChunkAllocated() if isinstance(call, HeapAlloc):
            entry = StoreEntry(call.name, call.content, call.description, call.source)
            heap = state.heap.put(entry, state.step, _digest(state, call.source))
            return heap, f"stored {event.name!r}, {event.chars:,} characters; {heap.chars:,} of {most:,} used"
        case ChunkWritten() if isinstance(call, HeapWrite):
            entry = _merged_entry(state.heap, call)
            heap = state.heap.put(entry, state.step, _digest(state, entry.source))
            return heap, f"replaced {event.name!r}, now {event.chars:,} characters; {heap.chars:,} of {most:,} used"
        case ChunkRead() if isinstance(call, HeapRead):
            return state.heap.mark_read(event.name, state.step), _chunk_text(state, call)
        case ChunkRead() if isinstance(call, HeapLoad):
            heap = state.heap
            for name in event.names:
                heap = heap.mark_read(name, state.step)
            return heap, _chunk_texts(state, event.names)
        case ChunkFreed():
            heap = state.heap.without(event.name)
            return heap, f"freed {event.name!r}, {event.chars:,} characters; {heap.chars:,} of {most:,} used"
        case ChunkAllocated() | ChunkWritten() | ChunkRead():
            return state.heap, ""
        case _:
            assert_never(event)


def _chunk_text(state: State, call: HeapRead) -> str:
    text, _ = heaps.read_text(state.heap, call)
    return f"{_chunk_head(state, call.name)}\n{clip_bytes(text, state.shown_bytes)}"


def _chunk_texts(state: State, names: tuple[str, ...]) -> str:
    return "\n\n".join(f"{_chunk_head(state, name)}\n{state.heap.chunks[name].content}" for name in names)


def _chunk_head(state: State, name: str) -> str:
    chunk = state.heap.chunks[name]
    head = chunk.heading + ("" if state.heap.brief else f", last read step {state.step}")
    if state.heap.stale(chunk):
        head += f"; STALE: {chunk.source} has changed since this was stored, check it before you rely on it"
    return head


def _digest(state: State, source: str) -> str:
    return (state.pending.digests or {}).get(source, "unknown") if source and state.pending else ""


class LookupAnswer(Struct, frozen=True):
    """The result of a look-up. With a ``fault``, nothing has changed."""

    text: str = ""
    fault: str = ""
    # notes, directory, standing: the new values; None if unchanged
    notes: Log[str] | None = None
    directory: Directory | None = None
    standing: Changes | None = None


def look_up(state: State, call: LookupCall | HeapRead) -> CallAnswered | SearchForRecall | Refusal:
    """Return the fact that the call was answered, the search that it needs first, or the refusal."""
    if isinstance(call, Recall) and call.query.strip() and searches_earlier(state):
        return SearchForRecall(call.query)
    answer, tool = _answer(state, call), tool_name(call)
    if answer.fault:
        return Refusal("lookup_refused", f"{tool} refused: {answer.fault}")
    return CallAnswered(tool, len(answer.text))


def apply_lookup(state: State, call: LookupCall | HeapRead) -> tuple[State, str]:
    """Return the state after the call, and the text that the model reads."""
    if isinstance(call, KeepJob):
        return keep_job(state, call)
    answer = _answer(state, call)
    changed = state if answer.notes is None else replace(state, notes=answer.notes)
    if answer.standing is not None:
        changed = keeping.with_entry(changed, answer.standing)
    return (changed if answer.directory is None else replace(changed, directory=answer.directory)), answer.text


def _answer(state: State, call: LookupCall | HeapRead) -> LookupAnswer:
    match call:
        case HeapList():
            return LookupAnswer(index(state.heap, state.begun.budgets))
        case HeapRead():
            return _read_frame(state, call)
        case AddNote():
            return _add_note(state, call)
        case Expand():
            return _expand(state, call)
        case ConversationSearch():
            return _search(state, call)
        case CompactContext():
            return _compact(call)
        case Memory():
            outcome = carry_out(state.directory, call)
            return LookupAnswer(clip_bytes(outcome.text, state.shown_bytes), outcome.fault, directory=outcome.directory)
        case Remember():
            return _remember(state, call)
        case Recall():
            return _recall(state, call)
        case KeepJob():
            return LookupAnswer(keep_job(state, call)[1], fault_of_keep(state, call))
        case _:
            assert_never(call)


def names_frame(call: HeapRead) -> bool:
    """Return whether the call reads a popped frame instead of a chunk."""
    return call.name.startswith(FRAME_PREFIX)


def _read_frame(state: State, call: HeapRead) -> LookupAnswer:
    name = call.name.removeprefix(FRAME_PREFIX)
    if call.start_line is not None or call.end_line is not None:
        return LookupAnswer(fault="start_line and end_line are for chunks; search a popped frame with query")
    if not name:
        return _search_frames(state, call.query)
    done = _popped_frame(state, name)
    if done is None:
        names = list(dict.fromkeys(done.frame.name for done in reversed(state.popped)))[:5]
        return LookupAnswer(fault=f"no frame {name[:80]!r} has popped; popped: {', '.join(names) or 'none yet'}")
    return LookupAnswer(excerpts_of_popped(done, call.query))


def _search_frames(state: State, query: str) -> LookupAnswer:
    """Search all conversations of the run except the running frame's."""
    if not query.strip():
        return LookupAnswer(fault="query is empty; name words to search for, or a frame as frame:NAME")
    return LookupAnswer(excerpts_of_frames([*(done.frame for done in state.popped), *state.stack[:-1]], query))


def _add_note(state: State, call: AddNote) -> LookupAnswer:
    most = state.begun.budgets.heap_chars
    used = sum(map(len, state.notes))
    if not call.text.strip():
        return LookupAnswer(fault="text is empty; write what to remember")
    if used + len(call.text) > most:
        return LookupAnswer(
            fault=f"the notes have {used:,} of {most:,} characters and this has {len(call.text):,}; shorten it, or "
            "work with what they contain"
        )
    notes = state.notes.append(call.text)
    return LookupAnswer(f"noted; {used + len(call.text):,} of {most:,} characters used", notes=notes)


def _remember(state: State, call: Remember) -> LookupAnswer:
    """Store words of the user. The agent's own words, and those of files and results, are refused."""
    if state.session is None:
        return LookupAnswer(fault="this run has no conversation with a user")
    outcome = keeping.remembered(state.session, call)
    if not outcome.done:
        return LookupAnswer(fault=outcome.message)
    return LookupAnswer(f"{outcome.message}; {outcome.changes[-1].line}", standing=outcome.changes)


def _recall(state: State, call: Recall) -> LookupAnswer:
    if not call.query.strip():
        return LookupAnswer(fault="query is empty; name words to search for")
    return LookupAnswer(recalled(state, call.query))


def _expand(state: State, call: Expand) -> LookupAnswer:
    results = [turn for turn in state.running.turns if isinstance(turn, Result)]
    texts = [turn.text for turn in results if turn.step == call.index]
    if not texts:
        hint = f"numbers go from {results[0].step} to {results[-1].step}" if results else "this frame has none yet"
        return LookupAnswer(fault=f"no result has the number {call.index}; {hint}")
    return LookupAnswer(clip_bytes(f"result {call.index} in full:\n" + "\n".join(texts), state.shown_bytes + 200))


def _search(state: State, call: ConversationSearch) -> LookupAnswer:
    """Search the running conversation without the reply that contains this call."""
    if not call.query.strip():
        return LookupAnswer(fault="query is empty; name words to search for")
    turns = state.running.turns
    last = next(position for position in range(len(turns) - 1, -1, -1) if isinstance(turns[position], Reply))
    head = f"found in this conversation for {mark_cut(call.query, 100)!r}; newer facts count:"
    return LookupAnswer(excerpts(turns[:last], call.query, head))


def _compact(call: CompactContext) -> LookupAnswer:
    """Accept the summary. The strategy that offers the tool leaves out what it replaces."""
    if not call.summary.strip():
        return LookupAnswer(fault="summary is empty; write what later steps need")
    if len(call.summary) > SUMMARY_CHARS:
        fault = f"the summary has {len(call.summary):,} characters, maximum is {SUMMARY_CHARS:,}; shorten it"
        return LookupAnswer(fault=fault)
    return LookupAnswer("compacted; the steps before this call are no longer shown. Continue with the work.")


def _popped_frame(state: State, name: str) -> PoppedFrame | None:
    """Return the popped frame with this id, otherwise the last one with this name."""
    fitting = [done for done in state.popped if done.frame.id == name]
    fitting = fitting or [done for done in state.popped if done.frame.name == name]
    return fitting[-1] if fitting else None
