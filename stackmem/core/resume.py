"""What it changes when a run goes on after its end, or where another run stood.

Rule 1: nothing that a prompt was made of changes, so the next prompt is the one that the stopped run would have sent.
Rule 2: what led to the end is forgotten: it must not end the run again by itself.
"""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from .budgets import Limits
from .facts import RunForked, RunResumed
from .heap import Heap
from .log import Log
from .state import Frame, Reply, State
from .tools import StoreEntry


def resumed(state: State, event: RunResumed) -> State:
    going_on = _going_on(state, event.limits)
    found = event.answerer
    if found is UNSET:
        return going_on
    window = found.window_tokens or state.begun.window_tokens
    start = replace(state.begun, model=found.model, price=found.price, window_tokens=window)
    return replace(going_on, start=start)


def forked(state: State, event: RunForked) -> State:
    heap = state.heap
    for name in event.dropped:
        heap = heap.without(name) if name in heap.chunks else heap
    for chunk in event.chunks:
        heap = heap.put(StoreEntry(chunk.name, chunk.content, chunk.description), state.step, "")
    going_on = replace(_going_on(state, event.start.limits), start=event.start, heap=heap)
    if heap is state.heap or not going_on.stack:
        return going_on
    return replace(going_on, stack=(*going_on.stack[:-1], _told_of(going_on.running, heap)))


def _told_of(frame: Frame, heap: Heap) -> Frame:
    """With the heap as it is now in what the next prompt says last: nobody has been sent that yet."""
    if not len(frame.turns):
        return replace(frame, opened=heap)
    last = frame.turns[-1]
    if isinstance(last, Reply):  # its call is still to be answered, and the answer tells of the heap
        return frame
    return replace(frame, turns=Log([*frame.turns[:-1], replace(last, heap=heap)]))


def _going_on(state: State, limits: Limits) -> State:
    """Without the end; with other limits the model is told anew when they run short."""
    stack = state.stack if limits == state.limits else tuple(_untold(frame) for frame in state.stack)
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


def _untold(frame: Frame) -> Frame:
    return replace(frame, told=frozenset(code for code in frame.told if not code.startswith("limit:")))
