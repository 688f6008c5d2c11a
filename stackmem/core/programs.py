"""The facts of programs: their changes to the state, and the frames that programs push.

Rule 1: The state omits what the interpreter derives again, but includes its changes to the machine's memory.
Rule 2: A program's own frame has no conversation. Its completions count as steps of the run.
Rule 3: The agent's frame under a program has the whole task in its first message, and may return a longer result.
"""

from __future__ import annotations

import posixpath
from typing import assert_never

from msgspec import UNSET
from msgspec.structs import replace

from .budgets import PROGRAM_RESULT_CHARS, UNFIT_RESULTS, Budgets
from .facts import FramePopped, FramePushed, ModelReplied
from .log import Log
from .program_facts import (
    ChunkDropped,
    ChunkKept,
    PhaseEnded,
    ProgramCalled,
    ProgramHalted,
    ProgramReturned,
    ProgramStarted,
    ProgramState,
    Said,
    StepEntered,
    StepFailed,
    StepLeft,
    VariableSet,
)
from .schemas.json_schema import first_fault, read_json
from .state import Frame, PoppedFrame, Registers, State
from .tools import Refusal, StoreEntry

Derived = (
    ProgramStarted | StepEntered | StepLeft | StepFailed | VariableSet | PhaseEnded | Said | ChunkKept | ChunkDropped
    | ProgramHalted | ProgramReturned
)  # fmt: skip
"""Facts from the interpreter. The answers to its requests change the state like any other answer."""


def apply_program_event(state: State, event: Derived) -> State:
    """Return the state after a fact from the interpreter."""
    match event:
        case StepEntered() if state.program is not None:
            program = replace(state.program, path=event.path, entered=state.program.entered + 1)
            return replace(state, program=program)
        case StepEntered() | StepLeft() | StepFailed() | VariableSet() | PhaseEnded():
            return state
        case ProgramStarted():
            return replace(state, program=ProgramState(event), stack=(_steps_frame(state.running), *state.stack[1:]))
        case ChunkKept():
            entry = StoreEntry(event.name, event.content, event.description, event.source)
            return replace(state, heap=state.heap.put(entry, state.step, ""))
        case ChunkDropped():
            return replace(state, heap=state.heap.without(event.name)) if event.name in state.heap.chunks else state
        case Said() | ProgramHalted() | ProgramReturned():
            return _keep(state, event)
        case _:
            assert_never(event)


def _keep(state: State, event: Said | ProgramHalted | ProgramReturned) -> State:
    program = state.program
    if program is None:
        return state
    match event:
        case Said():
            return replace(state, program=replace(program, said=program.said + 1))
        case ProgramHalted():
            return replace(state, program=replace(program, halted=event))
        case ProgramReturned():
            return replace(state, program=replace(program, returned=event))
        case _:
            assert_never(event)


def _steps_frame(root: Frame) -> Frame:
    return replace(root, program="steps")


def count_completion(state: State, event: ModelReplied) -> State:
    """Return the state after a completion that the program requested."""
    return replace(state.with_cost(event), step=state.step + 1)


def open_frame(state: State, event: FramePushed, chars: int) -> State:
    """Return the state with a frame that the program pushed. ``chars`` is the size of its prompt before the task."""
    program = event.program
    if program is UNSET:
        return state
    depth = state.running.depth + 1
    frame = Frame(
        id=event.frame,
        name=event.name,
        depth=depth,
        registers=Registers(event.intent, event.return_spec, event.constraint),
        context="",
        opened=state.heap,
        turns=Log(),
        task=program.task,
        parent=state.running.id,
        started_step=state.step,
        started_tokens=state.usage.total,
        started_seconds=state.seconds,
        chars=chars + len(program.task),
        program=program.kind,
        schema=program.schema,
        pushed_at=depth,
        model="" if program.model is UNSET else program.model,
    )
    return replace(state, stack=(*state.stack, frame), pushes=state.pushes + 1, idle=0, failures=())


def open_call(state: State, event: ProgramCalled) -> State:
    """Return the state with the frame of a program that the agent called."""
    depth = state.running.depth + 1
    name = posixpath.basename(event.start.path)
    frame = Frame(
        id=event.frame,
        name=name,
        depth=depth,
        registers=Registers(f"Run the program {name}.", "", ""),
        context="",
        opened=state.heap,
        turns=Log(),
        parent=state.running.id,
        call_id=state.pending.calls[0].id if state.pending else "",
        started_step=state.step,
        started_tokens=state.usage.total,
        started_seconds=state.seconds,
        program="steps",
        pushed_at=depth,
        caller=state.program,
    )
    return replace(
        state,
        stack=(*state.stack, frame),
        pushes=state.pushes + 1,
        pending=None,
        idle=0,
        failures=(),
        program=ProgramState(event.start),
    )


def close_frame(state: State, event: FramePopped) -> State:
    """Return the state without the program's running frame. Its parent is the program, which has no conversation."""
    frame = PoppedFrame(state.running, event.result, state.step, event.forced, event.verified)
    stack = state.stack[:-1]
    return replace(
        state,
        stack=stack,
        popped=state.popped.append(frame),
        pending=None,
        failures=(),
        idle=0,
        result=state.result if stack else event.result,
    )


def result_chars(frame: Frame, budgets: Budgets) -> int:
    """Return the maximum characters of a frame's result."""
    if frame.program:
        return PROGRAM_RESULT_CHARS
    return budgets.result_chars if frame.depth else budgets.root_result_chars


def refuse_misfit(frame: Frame, result: str) -> FramePopped | Refusal | None:
    """Return the refusal of a result that does not fit the schema, or the end of the frame after too many of them."""
    if not frame.schema:
        return None
    value, fault = read_json(result)
    fault = fault or first_fault(value, read_json(frame.schema)[0])
    if not fault:
        return None
    if frame.unfit + 1 >= UNFIT_RESULTS:
        return FramePopped(frame.id, result, forced="misfit")
    return Refusal("misfit", f"pop_frame refused: the result must be one JSON value that fits the schema: {fault}")
