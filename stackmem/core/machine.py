"""The memory machine: what happens next, and what a fact changes.

Rule 1: Every change of the state happens in a function called from ``evolve``, which never refuses anything.
Rule 2: Every refusal comes from a function called from ``settle``; ``advance`` never raises.
Rule 3: What happens next depends only on the state and the strategy, never on a clock, a file or a random number.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import assert_never

from msgspec import UNSET
from msgspec.structs import replace

from . import frames, limits, memory_tools, programs, retries
from .compaction import apply_compaction, model_request, reply_chars, requested_summary, upkeep_effect
from .conversation import hooks, keeping, planning, session
from .conversation.hook_facts import HookRan
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
    FolderChanged,
    FramePopped,
    FramePushed,
    JobsEnded,
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
)  # fmt: skip
from .guidance import lessons, program_calls, reading, repetition, sizing
from .images import Images
from .jobs import rules as jobs
from .jobs.calls import JobCall
from .messages import ToolCall
from .network import SearchBill, search_usd
from .parallel import rules as parallel
from .parallel.facts import FrameReturned, FramesMerged, FramesPushed
from .person_facts import PersonEvent, RecallFound, TurnEnded
from .program_facts import ProgramCalled, SourceLoaded, ToolAnswered, UserAnswered, Waited
from .requests import AskPerson, Effect, ReadClock, RunChecks, UseOwnTool
from .resume import apply_fork, apply_resume
from .state import Notice, Pending, Reply, Result, State
from .strategy import MemoryStrategy
from .text import clip_chars
from .tool_schemas import parameters, parse, read, tool_named, unreadable
from .tools import (
    AskQuestion,
    Branch,
    Call,
    Delegate,
    HeapAlloc,
    HeapFree,
    HeapLoad,
    HeapRead,
    HeapWrite,
    LookupCall,
    PopFrame,
    PushFrame,
    PushFrames,
    Refusal,
    Return,
    Tool,
    WorkspaceCall,
    tool_name,
)

IDLE_REPLIES = 3  # replies in a row without a usable call, after which the frame is stalled
REASON_CHARS = 8_000
# Endings caused from outside, after which checks would judge unfinished work.
_UNCHECKED = ("model_error", "workspace_error", "interrupted", "input_needed")


def fold(events: Iterable[Event]) -> State:
    """Return the state after ``events``."""
    return reduce(evolve, events, State())


def advance(state: State, strategy: MemoryStrategy) -> Event | Effect | None:
    """Return what happens next: a derived fact, a request to the outside world, or None when the run is over."""
    if state.start is None:
        return None
    if state.end is not None:
        needs_checks = state.start.checked and state.checks is None and state.end.ending not in _UNCHECKED
        return RunChecks() if needs_checks else None
    if state.due is not None:
        return hooks.next_due(state, state.due)
    if state.parallel.child and (ended := parallel.child_end(state)) is not None:
        return ended
    if not state.stack:
        forced = bool(state.popped[-1].forced)  # the agent never said that the work was done
        return RunEnded("stalled" if forced else "popped", state.result)
    stopped = state.session is not None and state.session.stopped
    if state.running.program == "steps" and not stopped:
        return None  # the interpreter decides
    summary = None
    if state.session is not None:
        turn, summary = session.next_turn(state, state.session), requested_summary(state, strategy)
        if turn is not None and not (summary and isinstance(turn, AskPerson)):
            return turn
    if state.parallel.group is not None:
        return parallel.next_of_group(state, state.parallel.group)
    if state.pending is not None:
        return _as_fact(hooks.guarded(state, state.pending, settle(state, strategy, state.pending)))
    if state.failures:
        followed = retries.after_failure(state)
        if followed is not None:
            return followed
    return (
        _before_request(state)
        or summary
        or upkeep_effect(state, strategy.upkeep(state))
        or model_request(state, strategy.render(state))
    )


def _before_request(state: State) -> Event | Effect | None:
    """Return what must happen before the next request to the model, or None."""
    if state.heard and not state.failures:
        return session.words_given(state)
    repeats = repetition.repeats(state)
    if state.idle >= IDLE_REPLIES or repeats >= repetition.STALLED_AFTER:
        return _stalled(state)
    if state.running.refused >= limits.REFUSALS_BEFORE_POP and (closing := limits.closing_refusal(state)) is not None:
        return frames.forced_pop(state, closing.code)
    if limits.needs_clock(state) and not state.clock_fresh:
        return ReadClock()
    if (ending := limits.spent_limit(state, retries.wait_seconds(state.failures))) is not None:
        return RunEnded(ending, frames.partial_result(state))
    if state.failures:
        return None  # a repeated request keeps its bytes
    noticed = jobs.notice(state) or limits.notice(state) or planning.notice(state)
    return noticed or repetition.notice(state, repeats) or sizing.notice(state)


def _stalled(state: State) -> Event:
    """Return what follows when the model makes no usable calls any more.

    The frame is popped if a program or a user's request pushed it. Otherwise the turn or the run ends.
    """
    if state.program is not None or state.running.request or state.parallel.child:
        return frames.forced_pop(state, "stalled")
    if state.session is not None:
        return TurnEnded(frames.partial_result(state), forced="stalled")
    question = session.open_question(state)
    return RunEnded("input_needed", question) if question else RunEnded("stalled", frames.partial_result(state))


def settle(state: State, strategy: MemoryStrategy, pending: Pending) -> Event | Effect | Refusal:
    """Return what the last reply leads to: a fact, an effect, or a refusal."""
    if pending.stop == "window":
        return frames.forced_pop(state, "window")
    outcome = session.without_call(state, pending) if state.session is not None and not pending.calls else None
    unusable = outcome or retries.unusable(state, pending)
    if unusable is not None:
        return unusable
    tool_call = pending.calls[0]
    if tool_call.name in state.begun.registered:
        return _use_own(state, tool_call, pending)
    if tool_call.name == program_calls.TOOL and state.begun.programs is not UNSET:
        return program_calls.settle_call(state, tool_call, pending)
    offered = sizing.offered(state, strategy.tools)
    call = parse(tool_call, offered, pending.call)
    if isinstance(call, Refusal):
        refused = repetition.refusal(state) or frames.with_budget_faults(call, tool_call, state.begun.budgets, offered)
        return refused if refused.code == "repeated" else lessons.with_lesson(refused, tool_call, offered)
    closing = None if call.behavior.while_closing else limits.closing_refusal(state)
    first = closing or repetition.refusal(state) or memory_tools.before_client_call(state, call, pending)
    first = first or planning.refusal(state, call) or parallel.refusal(state, call)
    return first or _settle_call(state, call, pending, offered)


def _use_own(state: State, call: ToolCall, pending: Pending) -> Effect | Refusal:
    """Call one of the user's own tools, which checks its arguments itself."""
    if call.malformed is not None or not isinstance(call.arguments, dict):
        return Refusal("bad_arguments", f"{unreadable(call)} one JSON object")
    closed = limits.closing_refusal(state) or planning.refusal(state, call)
    obstacle = closed or session.permission(state, pending, call)
    return obstacle or UseOwnTool(call.name, call.arguments, state.shown_bytes, state.heap.sources)


def _settle_call(state: State, call: Call, pending: Pending, offered: tuple[Tool, ...]) -> Event | Effect | Refusal:
    if isinstance(call, WorkspaceCall):
        return session.permission(state, pending, call) or sizing.use_tool(state, call)
    if isinstance(call, JobCall):
        return sizing.use_tool(state, call)
    if isinstance(call, LookupCall):
        return memory_tools.look_up(state, call)
    fields = parameters(tool) if (tool := tool_named(tool_name(call), offered)) is not None else ()
    match call:
        case PushFrame() | PushFrames():
            return parallel.push_any(state, call, offered, pending)
        case Delegate() | Branch():
            return frames.start_prompted(state, call)
        case PopFrame() | Return():
            return session.end_frame(state, frames.pop(state, call, pending))
        case AskQuestion():
            return session.ask(call)
        case HeapAlloc():
            return memory_tools.allocate(state, call, pending)
        case HeapRead() if "query" in fields and memory_tools.names_frame(call):
            return memory_tools.look_up(state, call)
        case HeapRead():
            return memory_tools.read(state, call, pending)
        case HeapLoad():
            return memory_tools.load(state, call, pending)
        case HeapWrite():
            return memory_tools.rewrite(state, call, pending)
        case HeapFree():
            return memory_tools.free(state, call)
        case _:
            assert_never(call)


def _as_fact(outcome: Event | Effect | Refusal) -> Event | Effect:
    """Turn a refusal into its fact. One with thousands of faults is shortened, or it would fill the window."""
    if isinstance(outcome, Refusal):
        return CallRejected(outcome.code, clip_chars(outcome.text, REASON_CHARS))
    return outcome


def evolve(state: State, event: Event) -> State:  # noqa: C901, PLR0912 - one match, every fact
    """Return the state after ``event``."""
    match event:
        case ModelReplied():  # this and the next are most of a run
            return _take_reply(state, event)
        case ToolReturned():
            after = state if event.search is UNSET else _with_search(state, event.search)
            after = after if event.jobs is UNSET else jobs.after_tool(after, event.jobs)
            return _answer(after, event.text, event.digests, failed=event.failed, images=event.images, tree=event.tree)
        case _ if isinstance(event, programs.Derived):
            return programs.apply_program_event(state, event)
        case RunStarted():
            root, conversation = frames.root(event), session.opened(event)
            return State(
                start=event, stack=(root,), heap=root.opened, limits=event.limits, tree=event.tree,
                session=conversation, directory=memory_tools.first_directory(event),
            )  # fmt: skip
        case RunResumed():
            return apply_resume(state, event)
        case RunForked():
            return apply_fork(state, event)
        case ModelFailed():
            return state.with_failure(event)
        case ContextCompacted():
            return apply_compaction(state, event)
        case VerifyReturned():
            heap = state.heap.with_digests(event.digests)
            pending = replace(state.pending, verified=event) if state.pending else None
            return replace(state, heap=heap, pending=pending, tree=event.tree or state.tree)
        case SourcesDigested():
            pending = replace(state.pending, digests=event.digests) if state.pending else None
            return replace(state, heap=state.heap.with_digests(event.digests), pending=pending)
        case ToolAnswered() | SourceLoaded() | UserAnswered() | Waited():
            return _take_answer(state, event)
        case ClockRead():
            return replace(state, seconds=max(state.seconds, event.elapsed_seconds), clock_fresh=True)
        case ChecksReturned():
            return replace(state, checks=event)
        case RunEnded():
            return replace(state, end=event)
        case JobsEnded():
            return jobs.after_end(state, event)
        case _:
            if isinstance(event, PersonEvent):
                after = session.apply_person_event(state, event)
                return hooks.after_request(after, event) if isinstance(event, TurnEnded) else after
            return _evolve_derived(state, event)


def _evolve_derived(  # noqa: C901 - one match, every fact
    state: State,
    event: FramePushed | FramePopped | ChunkAllocated | ChunkRead | ChunkWritten | ChunkFreed
    | CallAnswered | CallRejected | ReplyNudged | NoticeGiven | FolderChanged | RecallFound
    | ProgramCalled | HookRan | FramesPushed | FrameReturned | FramesMerged,
) -> State:  # fmt: skip
    match event:
        case FramePushed() if event.program is not UNSET:
            return programs.open_frame(state, event, frames.standing_chars(state.begun))
        case FramePushed() if state.session is not None and event.request is not UNSET:
            return session.open_request(state, state.session, event)
        case FramePushed():
            stored = memory_tools.heap_with_stored(state, event.stored)
            return parallel.pushed(frames.open_child(retries.without_others(state, state), event, stored))
        case FramesPushed() | FrameReturned() | FramesMerged():
            return parallel.apply_group(state, event)
        case ProgramCalled():
            return programs.open_call(retries.without_others(state, state), event)
        case FramePopped():
            closed = frames.close_running(state, event, memory_tools.heap_with_stored(state, event.stored))
            later = session.after_request(closed, event.forced) if state.running.request else closed
            return hooks.after_request(later, event) if state.running.request or not later.stack else later
        case ChunkAllocated() | ChunkWritten() | ChunkRead() | ChunkFreed():
            return _change_heap(state, event)
        case CallAnswered():
            return _look_up(state)
        case CallRejected():
            return retries.reject(state, event)
        case ReplyNudged():
            return replace(frames.tell(state, Notice(event.text, state.heap)), idle=state.idle + 1, pending=None)
        case NoticeGiven():
            return _give_notice(state, event)
        case RecallFound():
            return replace(state, pending=replace(state.pending, earlier=event) if state.pending else None)
        case HookRan():
            return hooks.apply_hook(state, event)
        case FolderChanged():
            heap = state.heap.with_digests(event.digests)
            after = replace(state, heap=heap, tree=event.tree or state.tree, folder=event.number)
            return frames.tell(after, Notice(event.text, heap)) if event.changes else after
        case _:
            assert_never(event)


def _with_search(state: State, search: SearchBill) -> State:
    """Return the state with the tokens and the cost of a web search."""
    usd, usage = search_usd(search, state.begun.price), state.usage + search.usage
    return replace(state, usage=usage, usd=state.usd + (usd or 0.0), unpriced=state.unpriced + (usd is None))


def _take_reply(state: State, event: ModelReplied) -> State:
    frame = state.running
    if frame.program == "steps":
        return programs.count_completion(state, event)
    step = state.step + 1
    grown = replace(
        frame, turns=frame.turns.append(Reply(event.parts, event.stop, step, state.seconds)),
        prompt_tokens=event.usage.prompt or frame.context_tokens, chars=reply_chars(event.parts),
        window_tokens=0 if event.answerer is UNSET else event.answerer.window_tokens,
    )  # fmt: skip
    calls = tuple([part for part in event.parts if isinstance(part, ToolCall)])
    together = len(calls) > 1 and reading.are_together(state.begun, calls, event.stop)
    first = read(calls[0]) if calls else None
    pending = Pending(calls, event.stop, first, first=event.repairs is not UNSET, together=together)
    return replace(
        state.with_cost(event), stack=(*state.stack[:-1], grown), step=step, pending=pending,
        several=state.several + 1 if len(calls) > 1 and not together else 0,
    )  # fmt: skip


def _answer(
    state: State, text: str, digests: dict[str, str], *, failed: bool = False, read: tuple[str, ...] = (),
    images: Images = UNSET, tree: str = "",
) -> State:  # fmt: skip
    """Return the state with the pending call answered."""
    heap, pending = state.heap.with_digests(digests), state.pending
    call_id = pending.calls[0].id if pending and pending.calls else ""
    rest = reading.remaining(pending, text) if pending and pending.together else None
    frame = frames.with_turn(state.running, Result(call_id, text, failed, heap, state.step, read, images))
    after = replace(state, stack=(*state.stack[:-1], frame), heap=heap, pending=rest, idle=0, tree=tree or state.tree)
    after = retries.without_others(state, after) if state.several else after
    after = retries.with_words(pending, after) if pending and pending.words else after
    return after if state.begun.hooks is UNSET else hooks.after_tool(state, after, text, failed=failed)


def _take_answer(state: State, event: ToolAnswered | SourceLoaded | UserAnswered | Waited) -> State:
    """Apply an answer to a program, or the user's answer to an agent, which may have asked with or without a call."""
    if not isinstance(event, UserAnswered) or state.pending is None:
        return replace(state, tree=getattr(event, "tree", "") or state.tree, clock_fresh=False)  # only a tool has one
    after = keeping.listen(state, event.text)
    if state.pending.calls:
        return _answer(after, event.text, {})
    return replace(frames.tell(after, Notice(session.text_for_model(event.text), state.heap)), idle=0, pending=None)


def _change_heap(state: State, event: ChunkAllocated | ChunkWritten | ChunkRead | ChunkFreed) -> State:
    heap, text = memory_tools.change_heap(state, event)
    return _answer(replace(state, heap=heap), text, {}, read=event.names if isinstance(event, ChunkRead) else ())


def _look_up(state: State) -> State:
    call = state.pending.call if state.pending else None
    if not isinstance(call, LookupCall | HeapRead):
        return _answer(state, "", {})
    changed, text = memory_tools.apply_lookup(state, call)
    return _answer(changed, text, {})


def _give_notice(state: State, event: NoticeGiven) -> State:
    after = frames.tell(state, Notice(event.text, state.heap, event.images))
    frame = replace(after.running, told=after.running.told | {event.code})
    next_state = replace(after, stack=(*after.stack[:-1], frame))
    return session.after_notice(jobs.after_notice(next_state, event.code), event.code)
