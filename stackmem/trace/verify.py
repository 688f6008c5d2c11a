"""Verified replay: what the rules derive today from a recorded run, against what the run recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.facts import (
    RULES,
    CallRejected,
    ChecksReturned,
    ClockRead,
    ContextCompacted,
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
)
from stackmem.core.frames import so_far
from stackmem.core.machine import advance, evolve
from stackmem.core.program_facts import ProgramStarted
from stackmem.core.requests import (
    AskModel,
    Compact,
    DigestSources,
    Effect,
    ReadClock,
    RunChecks,
    UseOwnTool,
    UseTool,
    Verify,
)
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy
from stackmem.errors import RulesDiffer, TraceError, UsageError
from stackmem.languages.course import Course, Outside, Upcoming
from stackmem.memory import open_strategy

from .difference import differing, prompt_difference
from .imported import refuse_imported
from .program import TextOf, course_of, no_sources
from .program_replay import answered
from .record import Record

_ANSWERS: dict[type, tuple[type, ...]] = {
    AskModel: (ModelReplied, ModelFailed),
    Compact: (ContextCompacted, ModelFailed),
    UseTool: (ToolReturned,),
    UseOwnTool: (ToolReturned,),
    Verify: (VerifyReturned,),
    DigestSources: (SourcesDigested,),
    ReadClock: (ClockRead,),
    RunChecks: (ChecksReturned,),
}
_FROM_OUTSIDE = ("interrupted", "workspace_error", "input_needed")
Proven = dict[str, tuple[int, int]]
"""Frame id to the last step whose prompt was equal, and how many messages that prompt had."""


class Replay(Struct, frozen=True):
    """What a replay found to hold.

    Attributes:
        state: The state after the last record.
        events: Records read.
        prompts: Prompt digests that were compared and are equal.
        same_rules: False where the run was made under other rules: wording and prompts were then not compared.
        course: Of a program's run, where its interpreter stands.

    """

    state: State
    events: int
    prompts: int
    same_rules: bool
    course: Course | None = None


def verify(records: Iterable[Record], text_of: TextOf = no_sources, tell: Callable[[object], object] = id) -> Replay:
    """Fold ``records`` and check each against the rules.

    Args:
        text_of: The text of a program's source, by its digest.
        tell: Told of what happens in a program, as its interpreter runs again.

    Raises:
        RulesDiffer: A record that the rules do not derive, named by sequence number, with both versions.
        TraceError: The first record is no ``RunStarted``, or its strategy is unknown here.
        UsageError: The run was imported: no rules of ours made it.

    """
    state, strategy, prompts, count = State(), None, 0, 0
    proven: Proven = {}
    course: Course | None = None
    for record in records:
        count = record.seq
        event = record.event
        if isinstance(event, ProgramStarted) and strategy is not None and course is None:
            course = course_of(event, state.begun, strategy, text_of, tell)
            state = evolve(state, event)
            continue
        if strategy is None:
            if not isinstance(record.event, RunStarted):
                raise TraceError("the first record is not RunStarted; this is no trace of a run")
            refuse_imported(record.event, "replayed, resumed or forked")
            strategy = _strategy(record.event)
        elif isinstance(record.event, RunForked):
            strategy = _strategy(record.event.start)
            proven = {}
        elif not isinstance(record.event, RunResumed):
            upcoming = course.upcoming(state) if course else advance(state, strategy)
            prompts += _check(state, strategy, record, proven, upcoming)
        state = evolve(state, event)
        if course is not None:
            course.saw(event, state)
    if strategy is None:
        raise TraceError("the trace holds no record")
    return Replay(state, count, prompts, state.begun.rules == RULES, course)


def _strategy(start: RunStarted) -> MemoryStrategy:
    try:
        return open_strategy(start.strategy)
    except UsageError as error:
        told = f"the run used a strategy that is not here ({error}); install the package that brings it"
        raise TraceError(told) from error


def _check(state: State, strategy: MemoryStrategy, record: Record, proven: Proven, derived: Upcoming) -> int:
    """How many prompt digests the record proved equal: 1 or 0; ``proven`` is told of it.

    Raises:
        RulesDiffer: The record is not what follows from ``state``.

    """
    event = record.event
    same_rules = state.begun.rules == RULES
    if isinstance(derived, Effect | Outside) or _may_stop_anywhere(state, event):
        if isinstance(event, RunEnded) and event.ending in _FROM_OUTSIDE and state.end is None:
            if event.ending == "interrupted" and same_rules and event.result != so_far(state):
                raise RulesDiffer(differing(record.seq, event, RunEnded("interrupted", so_far(state))))
            return 0
        if isinstance(derived, Outside):
            return answered(derived, record, same_rules=same_rules)
        if not isinstance(derived, Effect) or not isinstance(event, _ANSWERS[type(derived)]):
            raise RulesDiffer(differing(record.seq, event, derived))
        ask = derived.ask if isinstance(derived, Compact) else derived
        if (
            isinstance(ask, AskModel)
            and isinstance(event, ModelReplied | ModelFailed | ContextCompacted)
            and same_rules
        ):
            known = proven.get(state.running.id) if strategy.prefix_stable else None
            if event.prompt_digest != ask.view.digest:
                raise RulesDiffer(prompt_difference(record.seq, event.prompt_digest, ask.view, known))
            if isinstance(event, ContextCompacted):
                _check_compaction(derived, event, record.seq)
                proven.pop(state.running.id, None)
            elif ask is derived:
                proven[state.running.id] = (ask.step, len(ask.view.messages))
            return 1
        return 0
    if derived is None or not (event == derived if same_rules else _alike(event, derived)):
        raise RulesDiffer(differing(record.seq, event, derived))
    return 0


def answers_machine(effect: Effect, event: Event) -> bool:
    """Whether the fact is of a kind that answers the effect."""
    return isinstance(event, _ANSWERS[type(effect)])


def _may_stop_anywhere(state: State, event: Event) -> bool:
    """A program is stopped between two of its facts, too."""
    return state.program is not None and isinstance(event, RunEnded) and event.ending in _FROM_OUTSIDE


def _check_compaction(derived: Effect, event: ContextCompacted, number: int) -> None:
    """A text that stands for other turns than it was asked for is no answer."""
    if isinstance(derived, Compact):
        asked = replace(event, frame=derived.frame, up_to_step=derived.up_to_step)
        if asked != event:
            raise RulesDiffer(differing(number, event, asked))


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
