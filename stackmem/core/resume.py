"""What it changes when a run goes on after its end, or where another run stood.

Rule 1: nothing that a prompt was made of changes, so the next prompt is the one that the stopped run would have sent.
Rule 2: what led to the end is forgotten: it must not end the run again by itself.
"""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from .budgets import Limits
from .facts import RunForked, RunResumed
from .frames import tell
from .heap import Heap
from .log import Log
from .messages import ToolCall
from .state import Frame, Reply, Result, State
from .tools import AskQuestion, StoreEntry


def apply_resume(state: State, event: RunResumed) -> State:
    """The state that goes on, with other limits or another model where the resume names them."""
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
    """The state that goes on from there under the fork's start, with its changes of the heap."""
    heap = state.heap
    for name in event.dropped:
        heap = heap.without(name) if name in heap.chunks else heap
    for chunk in event.chunks:
        heap = heap.put(StoreEntry(chunk.name, chunk.content, chunk.description), state.step, "")
    reopened = replace(_reopen(state, event.start.limits), start=event.start, heap=heap)
    if heap is state.heap or not reopened.stack:
        return reopened
    return replace(reopened, stack=(*reopened.stack[:-1], _show_heap(reopened.running, heap)))


def _hear(state: State, text: str) -> State:
    """With what the person says: the answer to an open question, else words that the model is told before it goes on.

    The root works on, even where it had popped.
    """
    if not state.stack and len(state.popped):
        root = state.popped[-1].frame
        state = replace(state, stack=(root,), popped=state.popped.without_last(), result="", pending=None)
        for call in _unanswered(root):
            state = tell(state, Result(call.id, "The person has the result.", False, state.heap, state.step))
    pending = state.pending
    if pending is not None and isinstance(pending.call, AskQuestion):
        answered = Result(pending.calls[0].id, text, False, state.heap, state.step)
        return tell(replace(state, pending=None), answered)
    return replace(state, heard=(*state.heard, text))


def _unanswered(frame: Frame) -> tuple[ToolCall, ...]:
    """The calls that the frame's last turn made: it ended the run by them."""
    last = frame.turns[-1] if len(frame.turns) else None
    return tuple(part for part in last.parts if isinstance(part, ToolCall)) if isinstance(last, Reply) else ()


def _show_heap(frame: Frame, heap: Heap) -> Frame:
    """With the heap as it is now in what the next prompt says last: nobody has been sent that yet."""
    if not len(frame.turns):
        return replace(frame, opened=heap)
    last = frame.turns[-1]
    if isinstance(last, Reply):  # its call is still to be answered, and the answer tells of the heap
        return frame
    return replace(frame, turns=Log([*frame.turns[:-1], replace(last, heap=heap)]))


def _reopen(state: State, limits: Limits) -> State:
    """Without the end; with other limits the model is told anew when they run short."""
    stack = state.stack if limits == state.limits else tuple(_forget_limits(frame) for frame in state.stack)
    program = replace(state.program, halted=None) if state.program else None
    return replace(
        state,
        stack=stack,
        limits=limits,
        end=None,
        checks=None,
        failures=(),
        idle=0,
        clock_fresh=False,
        program=program,
    )


def _forget_limits(frame: Frame) -> Frame:
    return replace(frame, told=frozenset(code for code in frame.told if not code.startswith("limit:")))
