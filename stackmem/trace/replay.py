"""Verified replay: what the rules derive today from a recorded run, against what the run recorded."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.effects import AskModel, DigestSources, Effect, ReadClock, RunChecks, UseTool, Verify
from stackmem.core.events import (
    RULES,
    CallRejected,
    ChecksReturned,
    ClockRead,
    Event,
    FramePopped,
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
from stackmem.core.frames import so_far
from stackmem.core.machine import advance, evolve
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy
from stackmem.errors import RulesDiffer, TraceError, UsageError
from stackmem.memory import open_strategy

from .record import Record

_ANSWERS: dict[type, tuple[type, ...]] = {
    AskModel: (ModelReplied, ModelFailed),
    UseTool: (ToolReturned,),
    Verify: (VerifyReturned,),
    DigestSources: (SourcesDigested,),
    ReadClock: (ClockRead,),
    RunChecks: (ChecksReturned,),
}
_FROM_OUTSIDE = ("interrupted", "workspace_error")


class Replay(Struct, frozen=True):
    """What a replay found to hold.

    Attributes:
        state: The state after the last record.
        events: Records read.
        prompts: Prompt digests that were compared and are equal.
        same_rules: False where the run was made under other rules: wording and prompts were then not compared.

    """

    state: State
    events: int
    prompts: int
    same_rules: bool


def verify(records: Iterable[Record]) -> Replay:
    """Fold ``records`` and check each against the rules.

    Raises:
        RulesDiffer: A record that the rules do not derive, named by sequence number, with both versions.
        TraceError: The first record is no ``RunStarted``, or its strategy is unknown here.

    """
    state, strategy, prompts, count = State(), None, 0, 0
    for record in records:
        count = record.seq
        if strategy is None:
            if not isinstance(record.event, RunStarted):
                raise TraceError("the first record is not RunStarted; this is no trace of a run")
            strategy = _strategy(record.event)
        elif isinstance(record.event, RunForked):
            strategy = _strategy(record.event.start)
        elif not isinstance(record.event, RunResumed):
            prompts += _check(state, strategy, record)
        state = evolve(state, record.event)
    if strategy is None:
        raise TraceError("the trace holds no record")
    return Replay(state, count, prompts, state.begun.rules == RULES)


def _strategy(start: RunStarted) -> MemoryStrategy:
    try:
        return open_strategy(start.strategy)
    except UsageError as error:
        raise TraceError(f"the run used a strategy that is not installed: {error}") from error


def _check(state: State, strategy: MemoryStrategy, record: Record) -> int:
    """How many prompt digests the record proved equal: 1 or 0.

    Raises:
        RulesDiffer: The record is not what follows from ``state``.

    """
    event = record.event
    derived = advance(state, strategy)
    same_rules = state.begun.rules == RULES
    if isinstance(derived, Effect):
        if isinstance(event, RunEnded) and event.ending in _FROM_OUTSIDE and state.end is None:
            if event.ending == "interrupted" and same_rules and event.result != so_far(state):
                raise _differs(record, RunEnded("interrupted", so_far(state)))
            return 0
        if not isinstance(event, _ANSWERS[type(derived)]):
            raise _differs(record, derived)
        if isinstance(derived, AskModel) and isinstance(event, ModelReplied | ModelFailed) and same_rules:
            if event.prompt_digest != derived.view.digest:
                raise RulesDiffer(
                    f"record {record.seq}: the prompt differs; recorded digest {event.prompt_digest[:16]}…, "
                    f"derived today {derived.view.digest[:16]}…"
                )
            return 1
        return 0
    if derived is None or not (event == derived if same_rules else _alike(event, derived)):
        raise _differs(record, derived)
    return 0


def _alike(recorded: Event, derived: Event) -> bool:
    """Equal but for wording, which other rules may phrase otherwise."""
    return _unworded(recorded) == _unworded(derived)


def _unworded(event: Event) -> Event:
    match event:
        case CallRejected():
            return replace(event, reason="")
        case ReplyNudged() | NoticeGiven():
            return replace(event, text="")
        case RunEnded() | FramePopped():
            return replace(event, result="")
        case _:
            return event


def _differs(record: Record, derived: Event | Effect | None) -> RulesDiffer:
    return RulesDiffer(
        f"record {record.seq}: recorded {_brief(record.event)}, the rules derive {_brief(derived)} today"
    )


def _brief(what: Event | Effect | None) -> str:
    if what is None:
        return "that the run is over"
    if isinstance(what, AskModel):
        return f"a request for step {what.step}"
    text = f"{type(what).__name__} {msgspec.json.encode(what).decode()}"
    return text if len(text) <= 300 else text[:299] + "…"
