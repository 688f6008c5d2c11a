"""The limits of a run or a frame, and what happens when one is reached.

Rule 1: A limit of the run ends it and keeps everything. The model gets a notice before.
Rule 2: A spent constraint (R3) or a nearly full window closes the frame: it may only use the heap and pop.
Rule 3: A closed frame that has three more calls refused is popped by the harness.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from msgspec import UNSET, Struct

from .budgets import Limits
from .facts import Ending, NoticeGiven
from .jobs.calls import MAX_JOB_SECONDS, MAX_WAIT_SECONDS, JobCall, ReadJob
from .jobs.offers import MAX_COMMAND_SECONDS
from .state import Frame, State
from .tool_schemas import offers_long_commands
from .tools import Refusal, RunCommand, WorkspaceCall, tool_name

TOLD_AT = 0.85  # used share of a limit at which the model gets a notice
WINDOW_TOLD_AT = 0.75  # used share of the window at which it gets a notice
WINDOW_CLOSES_AT = 0.85  # used share at which the frame is closed; the rest is for storing and popping
REFUSALS_BEFORE_POP = 3
_TimedCall = RunCommand | ReadJob

# Finds limits anywhere in free text. A number such as 1,000 is not read as 1.
_CONSTRAINT = re.compile(r"(?:^|(?<=[\s,;]))(steps|tokens|seconds)=(\d{1,12})([kKmM]?)(?=$|[\s;]|,(?!\d))")
_UNLIMITED = Limits(steps=None)
_TIMES = {"": 1, "k": 1_000, "m": 1_000_000}


class RunLimit(Struct, frozen=True):
    """One limit of a run. Prompts, notices, endings, flags, task files and messages are derived from `RUN_LIMITS`."""

    field: str  # the field of `Limits`. The setting has the same name after ``max_``
    ending: Ending
    unit: str  # as the model reads it
    used: Callable[[State], float]  # returns how much of it a run has used
    increase: str  # a reasonable increase, for error messages
    integer: bool = False  # whether it is a whole number
    priced: bool = False  # whether it applies only to a run whose costs are known
    near: int = 0  # the remaining amount at which the model gets a notice; 0 for a share of the limit, `TOLD_AT`

    @property
    def setting(self) -> str:
        return f"max_{self.field}"

    def allowed(self, limits: Limits, *, priced: bool) -> float | None:
        """Return the limit, or None if there is none or it does not apply."""
        amount: float | None = getattr(limits, self.field)
        return amount if priced or not self.priced else None

    def notice(self, used: float, allowed: float) -> str:
        """Return what is left, if the model must be told; otherwise an empty string."""
        rest = allowed - used
        if rest > self.near if self.near else used < TOLD_AT * allowed:
            return ""
        return (
            f"{rest:.2f} of {allowed:.2f} {self.unit}" if self.priced else f"{rest:.0f} of {allowed:,.0f} {self.unit}"
        )


RUN_LIMITS = (
    RunLimit(
        "steps", "limit:steps", "steps", lambda state: state.step + state.parallel.steps, "+50", integer=True, near=3
    ),
    RunLimit("tokens", "limit:tokens", "tokens", lambda state: state.usage.total, "+100_000", integer=True),
    RunLimit("usd", "limit:usd", "USD", lambda state: state.usd, "+1", priced=True),
    RunLimit("seconds", "limit:seconds", "seconds", lambda state: state.seconds, "+600"),
)


@lru_cache(maxsize=256)
def constraint(text: str) -> Limits:
    """Return the limits that a constraint enforces. The model sees the rest of its text, but it is not enforced."""
    values = {name: int(digits) * _TIMES[times.lower()] for name, digits, times in _CONSTRAINT.findall(text)}
    return Limits(steps=values.get("steps"), tokens=values.get("tokens"), seconds=values.get("seconds"))


def remaining(state: State) -> str:
    """Return R3 for a frame without a constraint: the steps and tokens left, never time.

    Empty if an external client makes the calls: its steps and tokens are its own, and stackmem does not limit them.
    """
    if state.begun.client is not UNSET:
        return ""
    limits = state.limits
    steps, tokens = [], []
    if limits.steps is not None:
        steps.append(limits.steps - state.step - state.parallel.steps)
    if limits.tokens is not None:
        tokens.append(limits.tokens - state.usage.total)
    for frame in state.stack:
        own = constraint(frame.registers.constraint)
        if own.steps is not None:
            steps.append(own.steps - (state.step - frame.started_step))
        if own.tokens is not None:
            tokens.append(own.tokens - (state.usage.total - frame.started_tokens))
    parts = [
        f"{name} left: {max(0, min(amounts)):,}" if amounts else f"{name} left: no limit"
        for name, amounts in (("steps", steps), ("tokens", tokens))
    ]
    return ", ".join(parts)


def needs_clock(state: State) -> bool:
    """Return whether any limit in seconds applies."""
    if state.limits.seconds is not None:
        return True
    return any(constraint(frame.registers.constraint).seconds is not None for frame in state.stack)


def _used(state: State) -> Iterator[tuple[RunLimit, float, float]]:
    """Yield each limit of the run that applies, how much of it is used, and how much is allowed."""
    for limit, allowed in _applicable(state.limits, priced=bool(state.begun.price or state.usd)):
        yield limit, limit.used(state), allowed


@lru_cache(maxsize=64)
def _applicable(limits: Limits, *, priced: bool) -> tuple[tuple[RunLimit, float], ...]:
    amounts = ((limit, limit.allowed(limits, priced=priced)) for limit in RUN_LIMITS)
    return tuple((limit, amount) for limit, amount in amounts if amount is not None)


def left_seconds(state: State) -> float | None:
    """Return the seconds left for the run, or None without a limit in seconds."""
    return None if state.limits.seconds is None else max(0.0, state.limits.seconds - state.seconds)


def spent_limit(state: State, wait_seconds: float = 0.0) -> Ending | None:
    """Return the first limit of the run that is reached. A wait that would exceed the seconds counts as reaching
    them.
    """
    seconds = state.limits.seconds
    if wait_seconds and seconds is not None and state.seconds + wait_seconds >= seconds:
        return "limit:seconds"
    return next((limit.ending for limit, used, allowed in _used(state) if used >= allowed), None)


def notice(state: State) -> NoticeGiven | None:
    """Return a notice that the running frame has not had yet and must read before its next prompt."""
    for limit, used, allowed in _used(state):
        rest = limit.notice(used, allowed)
        # once per frame, because a frame does not see the notices in other frames
        if rest and limit.ending not in state.running.told:
            return NoticeGiven(limit.ending, f"Only {rest} are left in this run. Finish, then {_pop_now(state)}")
    frame = state.running
    if "window" not in frame.told and frame.context_tokens >= WINDOW_TOLD_AT * state.window_tokens:
        return NoticeGiven(
            "window",
            f"This frame's conversation fills {WINDOW_TOLD_AT:.0%} of the model's window. "
            f"At {WINDOW_CLOSES_AT:.0%}, {_way_out(state)}",
        )
    return None


def closing_refusal(state: State) -> Refusal | None:
    """Return why the running frame may only use the heap and pop, or None if it is not closed."""
    for frame in reversed(state.stack):
        usage = _exhausted_limits(state, frame)
        if usage:
            whose = "this frame" if frame is state.running else f"frame {frame.name!r}, which waits for this one,"
            return Refusal("constraint", f"the constraint of {whose} is spent ({usage})", _way_out(state))
    if state.running.context_tokens >= WINDOW_CLOSES_AT * state.window_tokens:
        reason = f"this frame's conversation fills {WINDOW_CLOSES_AT:.0%} of the model's window"
        return Refusal("window", reason, _way_out(state))
    return None


def _way_out(state: State) -> str:
    """Describe what a closed frame may still do, according to the tools of the run."""
    keeper = _keeper(state)
    allowed = f"{ending_tool(state)} and {keeper} work" if keeper else f"{ending_tool(state)} works"
    return f"only {allowed}: {_pop_now(state)}"


def _pop_now(state: State) -> str:
    end = "pop" if ending_tool(state) == "pop_frame" else ending_tool(state)
    return ("store what a later frame needs and " if _keeper(state) else "") + f"{end} with what you have."


def ending_tool(state: State) -> str:
    """Return the name of the tool that ends a frame."""
    return "return" if any(tool.name == "return" for tool in state.begun.tools) else "pop_frame"


def _keeper(state: State) -> str:
    """Return a name for the tools that store something beyond the frame. Empty if there are none."""
    offered = {tool.name for tool in state.begun.tools}
    tools = (("heap_alloc", "the heap tools"), ("memory", "memory"), ("add_note", "add_note"))
    return next((words for name, words in tools if name in offered), "")


def _exhausted_limits(state: State, frame: Frame) -> str:
    own = constraint(frame.registers.constraint)
    if own == _UNLIMITED:
        return ""
    steps = state.step - (state.pending is not None)  # with a limit of 20 steps, step 20 still runs
    rows = (
        ("steps", steps - frame.started_step, own.steps),
        ("tokens", state.usage.total - frame.started_tokens, own.tokens),
        ("seconds", state.seconds - frame.started_seconds, own.seconds),
    )
    return ", ".join(
        f"{used:,.0f} of {allowed:,.0f} {word}"
        for word, used, allowed in rows
        if allowed is not None and used >= allowed
    )


def longest_command(state: State) -> int:
    """Return the maximum number of seconds that the agent may request for a command; 0 if it may not request any."""
    start = state.begun
    return MAX_COMMAND_SECONDS if offers_long_commands(start.tools, start.registered) else 0


def refused_seconds(call: WorkspaceCall | JobCall) -> Refusal | None:
    """Refuse a call whose number of seconds is out of range."""
    if not isinstance(call, _TimedCall) or call.seconds is None:
        return None
    least, most, advice = 1, MAX_COMMAND_SECONDS, ", or split the command into shorter ones"
    if isinstance(call, ReadJob):
        least, most, advice = 0, MAX_WAIT_SECONDS, ""
    elif call.background:
        most, advice = MAX_JOB_SECONDS, ", or leave it out"
    if least <= call.seconds <= most:
        return None
    return Refusal(
        "bad_arguments",
        f"{tool_name(call)} refused: seconds is {str(call.seconds)[:20]}",
        f"use {least} to {most}{advice}",
    )
