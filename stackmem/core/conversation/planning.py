"""Plan mode: the agent looks and changes nothing, and its answer is a plan that the user accepts, edits or rejects.

Rule 1: In plan mode, a call that may change files or leave the sandbox is refused. The tools stay in the list.
Rule 2: Each step of an accepted plan becomes a request, one after another, without a question to the user in between.
Rule 3: A step that the harness or the user ends also ends the steps after it.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from ..facts import NoticeGiven
from ..messages import ToolCall
from ..person_facts import PersonAccepted, PersonCompacted, PersonPlanned
from ..state import Session, State
from ..text import mark_cut
from ..tools import Call, PushFrame, Refusal, WorkspaceCall, tool_name

MAX_STEPS = 20
_PLAN_CHARS = 4_000
_ON, _OFF = "plan mode", "plan ended"
_STEP = re.compile(r"^( {0,3})\d{1,2}[.)][ \t]+", re.MULTILINE)
_WAY_OUT = "look at what you need, then answer with the plan"

TEXT = (
    "Plan mode: look, but change nothing. You can read, list and search files, use the heap and ask the user. Calls "
    "that run commands or change files are refused. Answer with a plan: numbered steps (1. 2. 3.), each of them work "
    "that can be done and checked separately, with the files that it concerns. The user accepts, edits or rejects the "
    "plan. Each step of an accepted plan then becomes a request."
)


def planning(state: State) -> bool:
    """Return whether the conversation is in plan mode."""
    return state.session is not None and state.session.planning


def refusal(state: State, call: Call | ToolCall) -> Refusal | None:
    """Return the refusal of a call that plan mode does not allow, or None."""
    if not planning(state):
        return None
    name = call.name if isinstance(call, ToolCall) else tool_name(call)
    if isinstance(call, PushFrame) and call.verify.strip():
        return Refusal("plan_mode", "push_frame refused: verify runs a command, and this is plan mode", "omit verify")
    if isinstance(call, ToolCall) or (isinstance(call, WorkspaceCall) and call.behavior.changes_files):
        return Refusal("plan_mode", f"{name} refused: in plan mode nothing is changed and no command runs", _WAY_OUT)
    return None


def choose(state: State, session: Session, event: PersonPlanned | PersonAccepted | PersonCompacted) -> State:
    """Return the state after the user turned plan mode on or off, accepted a plan, or asked for a summary."""
    if isinstance(event, PersonCompacted):
        return replace(state, session=replace(session, compacting=True))
    if isinstance(event, PersonPlanned):
        return replace(state, session=replace(session, planning=event.on))
    plan = event.plan or state.result
    steps = steps_of(plan) if plan.strip() else ()
    return replace(state, session=replace(session, planning=False, steps=steps))


def notice(state: State) -> NoticeGiven | None:
    """Return the notice about plan mode for the frame of a request, or that it is over."""
    frame, session = state.running, state.session
    if session is None or not (frame.request or not frame.depth):
        return None
    last = max((int(code.rpartition(" ")[2]) for code in frame.told if code.startswith(f"{_ON} ")), default=0)
    if session.planning:
        return NoticeGiven(f"{_ON} {session.requests}", TEXT) if last < session.requests else None
    off = f"{_OFF} {last}"
    if not last or off in frame.told:
        return None
    return NoticeGiven(off, "Plan mode is over: commands and changes are possible again.")


def steps_of(plan: str) -> tuple[str, ...]:
    """Return the requests for the steps of a plan: its numbered items, or the whole plan if there are none."""
    items = list(_STEP.finditer(plan))
    starts = [each.start() for each in items if each[1] == items[0][1]][:MAX_STEPS]  # the others are parts of steps
    ends = [*starts[1:], len(plan)]
    steps = [_STEP.sub("", plan[start:end], count=1).strip() for start, end in zip(starts, ends, strict=False)]
    steps = [step for step in steps if step] or [plan.strip()]
    text = mark_cut(plan.strip(), _PLAN_CHARS)
    if len(steps) == 1:
        return (f"Carry out the accepted plan:\n\n{text}",)
    return tuple(
        f"Step {number} of {len(steps)} of the accepted plan: {step}\n\nDo only this step. The whole plan:\n\n{text}"
        for number, step in enumerate(steps, 1)
    )
