"""Changes of the state when a run is resumed or forked.

Rule 1: Everything that prompts are made of stays, so the next prompt is the one that the stopped run would have sent.
Rule 2: The causes of the ending are cleared, or they would end the run again immediately.
"""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from .budgets import Limits
from .facts import RunForked, RunResumed
from .frames import tell
from .heap import Heap
from .jobs.rules import after_stop
from .log import Log
from .messages import ToolCall
from .parallel import rules as parallel
from .state import Frame, Reply, Result, State
from .tools import AskQuestion, StoreEntry


def apply_resume(state: State, event: RunResumed) -> State:
    """Return the state after a resume, with the limits and the model that it sets."""
    reopened = _reopen(state, event.limits)
    if event.said is not UNSET:
        reopened = _hear(reopened, event.said)
    answerer = event.answerer
    if answerer is UNSET:
        return reopened
    window = answerer.window_tokens or state.begun.window_tokens
    start = replace(state.begun, model=answerer.model, price=answerer.price, window_tokens=window)
    return replace(reopened, start=start)


def apply_fork(state: State, event: RunForked) -> State:
    """Return the state after a fork, with the fork's start and its changes to the heap."""
    heap = state.heap
    for name in event.dropped:
        heap = heap.without(name) if name in heap.chunks else heap
    for chunk in event.chunks:
        heap = heap.put(StoreEntry(chunk.name, chunk.content, chunk.description), state.step, "")
    reopened = replace(_reopen(state, event.start.limits), start=event.start, heap=heap)
    if event.frame is not UNSET:
        return parallel.fork(reopened, event.frame)
    if heap is state.heap or not reopened.stack:
        return reopened
    return replace(reopened, stack=(*reopened.stack[:-1], _show_heap(reopened.running, heap)))


def _hear(state: State, text: str) -> State:
    """Apply what the user says on resuming: the answer to an open question, or text for the model to read first.

    If the root had popped, it is running again.
    """
    if not state.stack and len(state.popped):
        root = state.popped[-1].frame
        state = replace(state, stack=(root,), popped=state.popped.without_last(), result="", pending=None)
        for call in _unanswered(root):
            state = tell(state, Result(call.id, "The user has the result.", False, state.heap, state.step))
    pending = state.pending
    if pending is not None and isinstance(pending.call, AskQuestion):
        answer = Result(pending.calls[0].id, text, False, state.heap, state.step)
        return tell(replace(state, pending=None), answer)
    return replace(state, heard=(*state.heard, text))


def _unanswered(frame: Frame) -> tuple[ToolCall, ...]:
    """Return the calls of the frame's last turn, which ended the run."""
    last = frame.turns[-1] if len(frame.turns) else None
    return tuple(part for part in last.parts if isinstance(part, ToolCall)) if isinstance(last, Reply) else ()


def _show_heap(frame: Frame, heap: Heap) -> Frame:
    """Update the heap that the next prompt shows last. No request with it was sent yet, so no cached prefix changes."""
    if not len(frame.turns):
        return replace(frame, opened=heap)
    last = frame.turns[-1]
    if isinstance(last, Reply):  # its call is still unanswered, and the answer will show the heap
        return frame
    return replace(frame, turns=Log([*frame.turns[:-1], replace(last, heap=heap)]))


def _reopen(state: State, limits: Limits) -> State:
    """Return the state without its ending. With new limits, the model is warned again when they run short."""
    state = parallel.reopen(state)
    stack = state.stack if limits == state.limits else tuple(_forget_limits(frame) for frame in state.stack)
    program = replace(state.program, halted=None) if state.program else None
    session = replace(state.session, compacting=False) if state.session else None  # its request may have failed
    return replace(
        after_stop(state),
        stack=stack,
        limits=limits,
        end=None,
        checks=None,
        failures=(),
        idle=0,
        clock_fresh=False,
        program=program,
        session=session,
    )


def _forget_limits(frame: Frame) -> Frame:
    return replace(frame, told=frozenset(code for code in frame.told if not code.startswith("limit:")))
