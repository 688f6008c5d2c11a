"""The rules of parallel frames: what a push of several frames results in, their shares of the limits, and the merge.

Rule 1: Each frame of a group is a run forked from the parent's at the push, with its own files and heap. Its trace
    has the frame. The parent's trace has what the frames returned, in push order, and the merge.
Rule 2: What is left of a limit is divided equally between the frames and the parent. Seconds pass for all of them
    at the same time, so each frame has all of them but the parent's part.
Rule 3: A chunk that two frames wrote differently is stored twice. The later frame's gets another name.
Rule 4: If a frame ends for a reason that a resume may remove, the parent's run ends for the same reason once all
    frames have ended. A resume continues only those frames.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import assert_never

from msgspec import UNSET
from msgspec.structs import asdict, replace

from .. import frames, limits
from ..budgets import Limits
from ..conversation import permissions
from ..facts import Ending, FramePushed, RunEnded
from ..guidance.repetition import handed_on
from ..heap import Heap, faults, sources_with
from ..jobs.calls import KeepJob
from ..memory_directory import Memory
from ..memory_tools import heap_with_stored
from ..requests import Effect, MergeFrames, ReadClock, ReturnedFiles, RunFrames
from ..retries import without_others
from ..state import Pending, Result, State
from ..text import mark_cut
from ..tool_schemas import parameters, tool_named
from ..tools import AddNote, Call, PushFrame, PushFrames, Refusal, Remember, StoreEntry, Tool, tool_name
from .facts import FrameReturned, FramesMerged, FramesPushed, MergedFile, ParallelEvent, ParallelFrame, ParallelGroup

RESUMABLE: tuple[Ending, ...] = ("model_error", "workspace_error", "interrupted", "input_needed", "left")
"""Endings of a parallel frame after which the parent's run ends too and can be resumed."""
_NAME_CHARS = 64
_STANDING = (Remember, Memory, AddNote)


def push_any(
    state: State, call: PushFrame | PushFrames, offered: tuple[Tool, ...], pending: Pending
) -> FramePushed | FramesPushed | Effect | Refusal:
    """Return what a push of one frame or of several results in."""
    fields = parameters(tool_named(tool_name(PushFrame), offered) or PushFrame)
    if isinstance(call, PushFrames):
        return push(state, call, fields, pending)
    return permissions.verify_refusal(state, call) or frames.push(state, call, fields, pending)


def push(state: State, call: PushFrames, fields: Collection[str], pending: Pending) -> FramesPushed | Effect | Refusal:
    """Return the new frames, the effect that they need first, or the refusal with every fault."""
    most = 0 if state.begun.parallel is UNSET else state.begun.parallel
    if obstacle := _impossible(state, call, most):
        return Refusal("push_refused", f"push_frames refused: {obstacle}", "use push_frame")
    budgets, wrong = state.begun.budgets, faults(state.heap, call.store, state.begun.budgets)
    share = share_of(state, len(call.frames))
    for order in orders(call):
        problems = frames.order_faults(state, order, fields)
        problems += [fault for fault in (handed_on(state, order),) if fault]
        if denied := permissions.verify_refusal(state, order):
            problems.append(denied.reason.removeprefix("push_frame refused: "))
        if state.session is not None and state.session.planning and order.verify.strip():
            problems.append("verify runs a command, and this is plan mode; omit verify")
        wrong += [f"frame {order.name[:_NAME_CHARS]!r}: {fault}" for fault in problems]
    if wrong:
        return Refusal("push_refused", "push_frames refused: " + "; ".join(wrong))
    obstacle_of_store = frames.source_obstacle(state, "push_frames", call.store, pending)
    if obstacle_of_store is not None:
        return obstacle_of_store
    timed = any(limits.constraint(order.constraint).seconds is not None for order in call.frames)
    if (timed or state.limits.seconds is not None) and not state.clock_fresh:
        return ReadClock()  # the seconds of the frames count from now
    rest = limits.remaining(replace(state, limits=share))
    return FramesPushed(
        tuple(
            ParallelFrame(
                frame=f"frame-{state.pushes + number}",
                name=order.name,
                intent=order.objective or mark_cut(" ".join(order.context.split()), budgets.intent_chars),
                return_spec=order.return_spec,
                constraint=order.constraint if order.constraint.strip() else rest,
                context=order.context,
                missing=frames.missing_chunks(state, order),
            )
            for number, order in enumerate(orders(call), 1)
        ),
        stored=tuple(entry.name for entry in call.store),
    )


def orders(call: PushFrames) -> Iterable[PushFrame]:
    """Return the frames as calls of ``push_frame``. The chunks of the call belong to each of them."""
    return [PushFrame(**asdict(order), store=call.store) for order in call.frames]


def _impossible(state: State, call: PushFrames, most: int) -> str:
    """Return why no frames can run in parallel here, or an empty string."""
    names, budgets = [order.name for order in call.frames], state.begun.budgets
    if state.parallel.child:
        return "this frame already runs in parallel with others"
    if state.program is not None:
        return "a program runs here"
    if state.running.depth - state.running.pushed_at >= budgets.depth:
        return f"this frame is at depth {state.running.depth}, the deepest allowed"
    if not 2 <= len(names) <= most:
        return f"frames has {len(names)} entries; between 2 and {most} frames may run in parallel"
    if len(set(names)) < len(names):
        return "two frames have the same name"
    steps = _remaining(state, "steps")
    if steps is not None and steps < len(names) + 1:
        return f"only {max(0, steps):.0f} steps are left, too few for {len(names)} frames and you"
    return ""


def share_of(state: State, count: int) -> Limits:
    """Return the limits of each of ``count`` frames, counted from the start of the run."""
    parts, used = count + 1, state.step + state.parallel.steps
    steps, tokens = _remaining(state, "steps"), _remaining(state, "tokens")
    usd, seconds = state.limits.usd, state.limits.seconds
    return Limits(
        steps=None if steps is None else used + int(max(0, steps)) // parts,
        tokens=None if tokens is None else state.usage.total + int(max(0, tokens)) // parts,
        usd=None if usd is None else state.usd + max(0.0, usd - state.usd) / parts,
        seconds=None if seconds is None else state.seconds + max(0.0, seconds - state.seconds) * count / parts,
    )


def _remaining(state: State, word: str) -> float | None:
    """Return what is left of the steps or tokens, by the run's limits and the constraints of the open frames."""
    used: dict[str, Callable[[State], float]] = {
        "steps": lambda state: state.step + state.parallel.steps,
        "tokens": lambda state: state.usage.total,
    }
    limit: float | None = getattr(state.limits, word)
    amounts = [] if limit is None else [limit - used[word](state)]
    for frame in state.stack:
        allowed: float | None = getattr(limits.constraint(frame.registers.constraint), word)
        if allowed is not None:
            began = frame.started_step if word == "steps" else frame.started_tokens
            amounts.append(allowed - ((state.step if word == "steps" else state.usage.total) - began))
    return min(amounts, default=None)


def refusal(state: State, call: Call) -> Refusal | None:
    """Return the refusal of a call that a parallel frame cannot make, because its effect would not come back."""
    child = state.parallel.child
    if not child:
        return None
    hands_job_on = isinstance(call, KeepJob) and state.running.id == child
    if not (isinstance(call, _STANDING) or hands_job_on):
        return None
    reason = f"{tool_name(call)} refused: this frame runs in parallel with others, and what it keeps would be lost"
    return Refusal("parallel", reason, "say in the result of the frame what must be kept")


def next_of_group(state: State, group: ParallelGroup) -> FramePushed | Effect | RunEnded:
    """Return what comes next for the group that the running frame waits for."""
    if group.opening:
        own = next(each for each in group.frames if each.frame == group.opening)
        return FramePushed(
            own.frame, own.name, own.intent, own.return_spec, own.constraint, own.context, missing=own.missing
        )
    waiting = group.frames[len(group.returned) :]
    if waiting:
        return RunFrames(tuple(each.frame for each in waiting))
    for each in group.returned:
        for ending in RESUMABLE:
            if each.ending == ending:
                partial = each.text if ending == "input_needed" else frames.partial_result(state)
                return RunEnded(ending, partial)
    entries = [StoreEntry(chunk.name, "", source=chunk.source) for each in group.returned for chunk in each.chunks]
    names = {each.frame: each.name for each in group.frames}
    returned = tuple(ReturnedFiles(names[each.frame], each.run, each.tree) for each in group.returned)
    return MergeFrames(returned, group.tree, sources_with(state.heap, tuple(entries)))


def child_end(state: State) -> RunEnded | None:
    """Return the end of a run that is a parallel frame, once this frame has popped."""
    last = state.popped[-1] if len(state.popped) else None
    return RunEnded("popped", last.result) if last is not None and last.frame.id == state.parallel.child else None


def is_over(state: State) -> bool:
    """Return whether a run has done all that it can: its root popped, or the parallel frame that it is."""
    return not state.stack or child_end(state) is not None


def apply_group(state: State, event: ParallelEvent) -> State:
    """Return the state after a fact about a group."""
    match event:
        case FramesPushed():
            return _begin(without_others(state, state), event, heap_with_stored(state, event.stored))
        case FrameReturned():
            return _add_returned(state, event)
        case FramesMerged():
            return _merge(state, event)
        case _:
            assert_never(event)


def _begin(state: State, event: FramesPushed, heap: Heap) -> State:
    """Return the state that waits for a group. ``heap`` includes what the push stored."""
    parallel = replace(state.parallel, group=ParallelGroup(event.frames, state.tree))
    return replace(state, parallel=parallel, heap=heap, pushes=state.pushes + len(event.frames), idle=0)


def _add_returned(state: State, event: FrameReturned) -> State:
    """Return the state with what a frame returned. What it used counts for the run and for every open frame."""
    group = state.parallel.group
    if group is None:
        return state
    parallel = replace(
        state.parallel, group=replace(group, returned=(*group.returned, event)),
        steps=state.parallel.steps + event.steps,
    )  # fmt: skip
    stack = tuple(replace(frame, started_step=frame.started_step - event.steps) for frame in state.stack)
    return replace(
        state, parallel=parallel, stack=stack, usage=state.usage + event.usage, usd=state.usd + event.usd,
        unpriced=state.unpriced + event.unpriced, clock_fresh=False,
    )  # fmt: skip


def fork(state: State, frame: str) -> State:
    """Return the state of a run that is one frame of the group, before this frame is pushed."""
    group, pending = state.parallel.group, state.pending
    call = pending.call if pending is not None else None
    own = next((each for each in group.frames if each.frame == frame), None) if group is not None else None
    if group is None or own is None or pending is None or not isinstance(call, PushFrames):
        return state
    order = next(order for order in orders(call) if order.name == own.name)
    session = state.session
    if session is not None:
        session = replace(session, unasked="", ran=(), images=(), compacting=False, steps=())
    return replace(
        state,
        pending=replace(pending, calls=pending.calls[:1], call=replace(order, store=())),
        parallel=replace(
            state.parallel, group=replace(group, returned=(), opening=frame), child=frame, name=own.name,
            facts=state.facts,
        ),
        pushes=state.pushes - 1,  # counted when the frame is pushed
        heard=(),
        session=session,
    )  # fmt: skip


def pushed(state: State) -> State:
    """Return the state after a push. If the frame is the one that this run is, the group is not waited for."""
    if state.parallel.group is None:
        return state
    return replace(state, parallel=replace(state.parallel, group=None))


def reopen(state: State) -> State:
    """Return the state after a resume or a fork, which continues the frames that a resume may continue."""
    group = state.parallel.group
    if group is None or not group.returned:
        return state
    finished = []
    for each in group.returned:  # only the first frames may have returned, because the order is that of the push
        if each.ending in RESUMABLE:
            break
        finished.append(each)
    dropped = group.returned[len(finished) :]
    steps = sum(each.steps for each in dropped)
    usage = state.usage
    for each in dropped:
        usage = usage.without(each.usage)
    return replace(
        state,
        parallel=replace(
            state.parallel, group=replace(group, returned=tuple(finished)), steps=state.parallel.steps - steps
        ),
        stack=tuple(replace(frame, started_step=frame.started_step + steps) for frame in state.stack),
        usage=usage, usd=state.usd - sum(each.usd for each in dropped),
        unpriced=state.unpriced - sum(each.unpriced for each in dropped),
    )  # fmt: skip


def cancel(state: State) -> State:
    """Return the state without the group, because the user stopped the request."""
    return replace(state, parallel=replace(state.parallel, group=None)) if state.parallel.group else state


def _merge(state: State, event: FramesMerged) -> State:
    """Return the state after the merge, with the call of the group answered."""
    group, pending = state.parallel.group, state.pending
    if group is None or pending is None:
        return state
    heap, notes = _merged_heap(state, group)
    heap = heap.with_digests(event.digests)
    lines = []
    for number, (frame, each) in enumerate(zip(group.frames, group.returned, strict=False), 1):
        lines.append(f"{number}. {each.text}")
        lines += [f"[{note}]" for name, note in notes if name == frame.name]
    lines += [_file_line(file) for file in event.files]
    text = f"{len(group.returned)} frames returned, and their changes are merged:\n\n" + "\n\n".join(lines)
    if heap.chars > state.begun.budgets.heap_chars:
        text += f"\n\nThe heap has {heap.chars:,} of {state.begun.budgets.heap_chars:,} characters now; free some."
    after = replace(state, heap=heap, pending=None, parallel=replace(state.parallel, group=None), tree=event.tree)
    return frames.tell(after, Result(pending.calls[0].id, text, False, heap, state.step))


def _file_line(file: MergedFile) -> str:
    match file.kind:
        case "merged":
            return f"[{file.path}: the changes of several frames are merged line by line]"
        case "marked":
            return (
                f"CONFLICT in {file.path}: frame {file.frame!r} and an earlier one changed the same lines. The file "
                "has both versions between <<<<<<< and >>>>>>>; edit it so that one correct version is left"
            )
        case "beside":
            return (
                f"CONFLICT in {file.path}: it has the earlier version, and that of frame {file.frame!r} is in "
                f"{file.other}. Combine them and delete {file.other}"
            )
        case "kept":
            return f"CONFLICT in {file.path}: frame {file.frame!r} deleted it, but it was changed; it is still there"
        case "restored":
            return f"CONFLICT in {file.path}: it was deleted, but frame {file.frame!r} changed it; its version is there"


def _merged_heap(state: State, group: ParallelGroup) -> tuple[Heap, list[tuple[str, str]]]:
    """Return the heap with the changes of all frames, and notes about chunks that differ, with the frame's name."""
    heap, writers, notes = state.heap, dict[str, str](), list[tuple[str, str]]()
    for frame, each in zip(group.frames, group.returned, strict=False):
        for name in each.freed:
            if name in writers:
                notes.append((frame.name, f"it freed {name!r}, which frame {writers[name]!r} wrote; the chunk stays"))
            elif name in heap.chunks:
                heap = heap.without(name)
        own: set[str] = set()
        for chunk in each.chunks:
            name = chunk.name
            if name in writers:
                if name in heap.chunks and heap.chunks[name].content == chunk.content:
                    continue
                occupied = heap.chunks.keys() | own | {other.name for other in each.chunks}
                name = _free_name(name, occupied)
                notes.append(
                    (frame.name, f"its chunk {chunk.name!r} is {name!r} now, because {writers[chunk.name]!r} wrote one")
                )
            entry = StoreEntry(name, chunk.content, chunk.description, chunk.source)
            heap, writers[name] = heap.put(entry, state.step, chunk.digest), frame.name
            own.add(name)
    return heap, notes


def _free_name(name: str, occupied: Collection[str]) -> str:
    number = 2
    while (candidate := f"{name[: _NAME_CHARS - len(str(number)) - 1]}-{number}") in occupied:
        number += 1
    return candidate
