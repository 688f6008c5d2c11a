"""Calls that the machine answers from its state, without the world.

Rule 1: what the model is told is no part of the fact: it follows from the call and the state.
Rule 2: only ``add_note`` and ``memory`` change anything.
"""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from .directory import Directory, carry_out
from .excerpts import PREFIX, excerpts, popped_named
from .facts import CallAnswered, CallRejected
from .heap import index
from .log import Log
from .more_tools import AddNote, Expand, HeapList, HeapReadFrame, LookupCall, Memory
from .state import Result, State
from .text import clip_bytes
from .tools import tool_name


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
