"""The memory machine: what happens next, and what a fact changes.

Rule 1: everything that changes the state is reached from ``evolve``, and only from there; it never refuses.
Rule 2: everything that refuses is reached from ``settle``, and only from there; ``advance`` never raises.
Rule 3: the state and the strategy decide what happens next; there is no clock, file or random number here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import assert_never

from msgspec import UNSET
from msgspec.structs import replace

from . import frames, limits, programs
from .compaction import asking, compacted, due, reply_chars
from .facts import (
    CallAnswered,
    CallRejected,
    ChecksReturned,
    ChunkAllocated,
    ChunkFreed,
    ChunkRead,
    ChunkWritten,
    ClockRead,
    ContextCompacted,
    Event,
    FramePopped,
    FramePushed,
    ModelFailed,
    ModelReplied,
    NoticeGiven,
    ReplyNudged,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
    SourcesDigested,
    ToolReturned,
    VerifyReturned,
)
from .memory_tools import allocate, answered, changed_by, changed_heap, free, look_up, plain, read, rewrite, said
from .messages import ToolCall
from .program_facts import ProgramEvent
from .requests import Effect, ReadClock, RunChecks, UseOwnTool, UseTool
from .resume import forked, resumed
from .retries import CUT_SHORT, after_failure, unusable, wait_seconds
from .state import Notice, Pending, Reply, Result, State
from .strategy import MemoryStrategy
from .text import clip_chars
from .tool_schemas import parse
from .tools import (
    AddNote,
    Branch,
    Call,
    Delegate,
    EndRun,
    Expand,
    HeapAlloc,
    HeapFree,
    HeapList,
    HeapRead,
    HeapReadFrame,
    HeapWrite,
    ListFiles,
    Memory,
    PopClean,
    PopFrame,
    PopUnstored,
    PushBare,
    PushClean,
    PushContext,
    PushFork,
    PushFrame,
    PushUnstored,
    ReadFile,
    Return,
    RunCommand,
    WorkspaceCall,
    WriteFile,
)

IDLE_REPLIES = 3
REASON_CHARS = 8_000
_WHILE_CLOSING = (
    PopFrame, EndRun, PopClean, PopUnstored, Return, HeapAlloc, HeapRead, HeapReadFrame, HeapWrite, HeapFree, HeapList,
    AddNote, Memory,
)  # fmt: skip
"""What a frame that is told to close may still do: store, and end."""
_UNCHECKED = ("model_error", "workspace_error", "interrupted")


def fold(events: Iterable[Event]) -> State:
    """The state after ``events``."""
    return reduce(evolve, events, State())


def advance(state: State, strategy: MemoryStrategy) -> Event | Effect | None:
    """What happens next: a fact that follows, something to ask of the world, or None when the run is over."""
    if state.start is None:
        return None
    if state.end is not None:
        wanted = state.start.checked and state.checks is None and state.end.ending not in _UNCHECKED
        return RunChecks() if wanted else None
    if not state.stack:
        forced = bool(state.popped[-1].forced)  # nobody said that the work is done
        return RunEnded("stalled" if forced else "popped", state.result)
    if state.running.program == "steps":
        return None  # its interpreter says
    if state.pending is not None:
        return _bounded(settle(state, strategy, state.pending))
    if state.failures:
        followed = after_failure(state)
        if followed is not None:
            return followed
    return _before_asking(state) or due(state, strategy.upkeep(state)) or asking(state, strategy.render(state))


def _before_asking(state: State) -> Event | Effect | None:
    """What must be settled before the model is asked again."""
    if state.idle >= IDLE_REPLIES:
        if state.program is not None:
            return frames.forced_pop(state, "stalled")  # the program decides what follows
        return RunEnded("stalled", frames.so_far(state))
    closed = limits.closing(state)
    if closed is not None and state.running.refused >= limits.REFUSALS_BEFORE_POP:
        return frames.forced_pop(state, closed[0])
    if limits.needs_clock(state) and not state.clock_fresh:
        return ReadClock()
    spent = limits.ending(state, wait_seconds(state.failures))
    if spent is not None:
        return RunEnded(spent, frames.so_far(state))
    return None if state.failures else limits.notice(state)  # a request that is asked again keeps its bytes


def settle(state: State, strategy: MemoryStrategy, pending: Pending) -> Event | Effect:
    """What the last reply comes to: its fact, its effect, or its refusal."""
    if pending.stop == "window":
        return frames.forced_pop(state, "window")
    refusal = unusable(state, pending)
    if refusal is not None:
        return refusal
    if pending.calls[0].name in state.begun.registered:
        return _own(state, pending.calls[0])
    call = parse(pending.calls[0], strategy.tools)
    if isinstance(call, tuple):
        code, reason = call
        more = frames.unmeasured(pending.calls[0], state.begun.budgets, strategy.tools)
        return CallRejected(code, reason + more)
    if not isinstance(call, _WHILE_CLOSING):
        closed = limits.closing(state)
        if closed is not None:
            return CallRejected(*closed)
    return _settled(state, call, pending)


def _own(state: State, call: ToolCall) -> Event | Effect:
    """A tool of the person's own; what its arguments must be, it knows itself."""
    if call.malformed is not None or not isinstance(call.arguments, dict):
        return CallRejected("bad_arguments", f"the arguments of {call.name} must be one JSON object")
    closed = limits.closing(state)
    if closed is not None:
        return CallRejected(*closed)
    return UseOwnTool(call.name, call.arguments, state.shown_bytes, state.heap.sources)


def _settled(state: State, call: Call, pending: Pending) -> Event | Effect:
    match call:
        case ReadFile() | WriteFile() | ListFiles() | RunCommand():
            return _use(state, call)
        case PushFrame() | PushClean() | PushUnstored() | PushContext() | PushBare() | PushFork():
            return frames.push(state, call, pending)
        case Delegate() | Branch():
            return frames.start_prompted(state, call)
        case PopFrame() | EndRun() | PopClean() | PopUnstored() | Return():
            return frames.pop(state, call, pending)
        case HeapAlloc():
            return allocate(state, call, pending)
        case HeapRead():
            return read(state, call)
        case HeapWrite():
            return rewrite(state, call, pending)
        case HeapFree():
            return free(state, call)
        case HeapReadFrame():
            asked = plain(call)
            return read(state, asked) if isinstance(asked, HeapRead) else look_up(state, asked)
        case HeapList() | AddNote() | Expand() | Memory():
            return look_up(state, call)
        case _:
            assert_never(call)


def _bounded(settled: Event | Effect) -> Event | Effect:
    """A refusal with thousands of faults is shortened: what refuses must not fill the window itself."""
    if isinstance(settled, CallRejected) and len(settled.reason) > REASON_CHARS:
        return replace(settled, reason=clip_chars(settled.reason, REASON_CHARS))
    return settled


def _use(state: State, call: WorkspaceCall) -> Event | Effect:
    size = len(call.content.encode(errors="replace")) if isinstance(call, WriteFile) else 0
    if size > state.shown_bytes:
        return CallRejected(
            "too_large",
            f"write_file refused: content is {size:,} bytes, maximum is {state.shown_bytes:,}; "
            "write it in parts with run_command",
        )
    return UseTool(call, state.shown_bytes, state.heap.sources)


def evolve(state: State, event: Event) -> State:
    """The state once ``event`` is true."""
    match event:
        case RunStarted():
            return State(start=event, stack=(frames.root(event),), limits=event.limits, tree=event.tree)
        case RunResumed():
            return resumed(state, event)
        case RunForked():
            return forked(state, event)
        case ModelReplied():
            return _replied(state, event)
        case ModelFailed():
            return replace(state, facts=state.facts + 1, failures=(*state.failures, event), clock_fresh=False)
        case ContextCompacted():
            return compacted(state, event)
        case ToolReturned():
            seen = replace(state, tree=event.tree or state.tree)
            return _answer(seen, event.text, event.digests, failed=event.failed)
        case VerifyReturned():
            heap = state.heap.seen(event.digests)
            pending = replace(state.pending, verified=event) if state.pending else None
            return replace(state, heap=heap, pending=pending, tree=event.tree or state.tree)
        case SourcesDigested():
            pending = replace(state.pending, digests=event.digests) if state.pending else None
            return replace(state, heap=state.heap.seen(event.digests), pending=pending)
        case ClockRead():
            return replace(state, seconds=max(state.seconds, event.elapsed_seconds), clock_fresh=True)
        case ChecksReturned():
            return replace(state, checks=event)
        case RunEnded():
            return replace(state, end=event)
        case _ if isinstance(event, ProgramEvent):
            return programs.programmed(state, event)
        case _:
            return _derived(state, event)


def _derived(
    state: State,
    event: FramePushed | FramePopped | ChunkAllocated | ChunkRead | ChunkWritten | ChunkFreed
    | CallAnswered | CallRejected | ReplyNudged | NoticeGiven,
) -> State:  # fmt: skip
    match event:
        case FramePushed() if event.program is not UNSET:
            return programs.opened(state, event, frames.standing_chars(state.begun))
        case FramePushed():
            call, call_id = said(state)
            heap = changed_heap(state, event.stored)
            if not isinstance(call, PushFrame | PushContext | Delegate | Branch):
                return state
            return frames.pushed(state, event, call, call_id, heap)
        case FramePopped():
            return frames.popped(state, event, changed_heap(state, event.stored))
        case ChunkAllocated() | ChunkWritten() | ChunkRead() | ChunkFreed():
            return _heap_changed(state, event)
        case CallAnswered():
            return _looked_up(state)
        case CallRejected():
            return _rejected(state, event)
        case ReplyNudged():
            return replace(frames.tell(state, Notice(event.text, state.heap)), idle=state.idle + 1, pending=None)
        case NoticeGiven():
            return _noticed(state, event)
        case _:
            assert_never(event)


def _replied(state: State, event: ModelReplied) -> State:
    if state.running.program == "steps":
        return programs.completed(state, event)
    frame = state.running
    step = state.step + 1
    grown = replace(
        frame,
        turns=frame.turns.append(Reply(event.parts, event.stop, step)),
        prompt_tokens=event.usage.prompt or frame.context_tokens,
        chars=reply_chars(event.parts),
        window_tokens=0 if event.answerer is UNSET else event.answerer.window_tokens,
    )
    return replace(
        state.paid(event),
        stack=(*state.stack[:-1], grown),
        step=step,
        pending=Pending(tuple(part for part in event.parts if isinstance(part, ToolCall)), event.stop),
    )


def _answer(state: State, text: str, digests: dict[str, str], *, failed: bool = False, read: str = "") -> State:
    """The state with the one pending call answered."""
    heap = state.heap.seen(digests)
    call_id = state.pending.calls[0].id if state.pending and state.pending.calls else ""
    answered = replace(state, heap=heap, pending=None, idle=0)
    return frames.tell(answered, Result(call_id, text, failed, heap, state.step, read))


def _heap_changed(state: State, event: ChunkAllocated | ChunkWritten | ChunkRead | ChunkFreed) -> State:
    heap, text = changed_by(state, event)
    return _answer(replace(state, heap=heap), text, {}, read=event.name if isinstance(event, ChunkRead) else "")


def _looked_up(state: State) -> State:
    call, _ = said(state)
    if not isinstance(call, HeapList | HeapReadFrame | AddNote | Expand | Memory):
        return _answer(state, "", {})
    changed, text = answered(state, call)
    return _answer(changed, text, {})


def _rejected(state: State, event: CallRejected) -> State:
    calls = state.pending.calls if state.pending else ()
    told = state
    for call in calls:
        told = frames.tell(told, Result(call.id, event.reason, failed=True, heap=state.heap, step=state.step))
    frame = replace(
        told.running,
        refused=told.running.refused + (limits.closing(state) is not None),
        unfit=told.running.unfit + (event.code == "misfit"),
    )
    idle = state.idle + 1 if state.pending and state.pending.stop in CUT_SHORT else 0
    return replace(told, stack=(*told.stack[:-1], frame), pending=None, idle=idle)


def _noticed(state: State, event: NoticeGiven) -> State:
    told = frames.tell(state, Notice(event.text, state.heap))
    frame = replace(told.running, told=told.running.told | {event.code})
    return replace(told, stack=(*told.stack[:-1], frame))
