"""Verified replay: what the rules derive today from a recorded run, against what the run recorded."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core import facts
from stackmem.core.decider import ProgramUnderWay, Watcher
from stackmem.core.frames import partial_result
from stackmem.core.person_facts import PersonSteppedIn, PersonStopped
from stackmem.core.requests import STOPS, STOPS_WITH_PARTIAL, AskModel, Compact, Effect, answered
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy
from stackmem.errors import RulesDiffer, TraceError

from .difference import equal_facts, explain_difference, prompt_difference
from .imported import refuse_imported
from .program import TextOf, no_sources
from .record import Record
from .walk import RecordWalk, WalkedRecord

Proven = dict[str, tuple[int, int]]
"""Frame id to the last step whose prompt was equal, and how many messages that prompt had."""


class Replay(Struct, frozen=True):
    """What a replay found to hold."""

    state: State  # the state after the last record
    events: int  # records read
    prompts: int  # prompt digests that were compared and are equal
    same_rules: bool  # false where the run was made under other rules: wording and prompts were then not compared
    program: ProgramUnderWay | None = None  # of a program's run, where its interpreter stands


def verify(records: Iterable[Record], text_of: TextOf = no_sources, watch: Watcher | None = None) -> Replay:
    """Fold ``records`` and check each against the rules."""
    walk, prompts, count = RecordWalk(records, text_of, watch), 0, 0
    proven: Proven = {}
    for step in walk:
        event, count = step.record.event, step.record.seq
        if not step.given:
            prompts += _check(step, proven, walk.strategy)
        elif isinstance(event, facts.RunStarted):
            refuse_imported(event, "replayed, resumed or forked")
        elif isinstance(event, facts.RunForked):
            proven = {}
    if walk.state.start is None:
        raise TraceError("the trace holds no record")
    return Replay(walk.state, count, prompts, walk.state.begun.rules == facts.RULES, walk.program)


def _check(step: WalkedRecord, proven: Proven, strategy: MemoryStrategy) -> int:
    """How many prompt digests the record proved equal: 1 or 0; ``proven`` is told of it."""
    record, state, derived = step.record, step.before, step.upcoming
    event = record.event
    same_rules = state.begun.rules == facts.RULES
    if isinstance(derived, Effect) or _may_stop_anywhere(state, event):
        if isinstance(event, facts.RunEnded) and _may_stop(state, event) and state.end is None:
            partial = facts.RunEnded(event.ending, partial_result(state))
            if event.ending in STOPS_WITH_PARTIAL and same_rules and event != partial:
                raise RulesDiffer(explain_difference(record.seq, event, partial))
            return 0
        if isinstance(derived, Effect) and _may_come_meanwhile(state, event):
            return 0
        effect = answered(derived, event) if isinstance(derived, Effect) else None
        if effect is None:
            raise RulesDiffer(explain_difference(record.seq, event, derived))
        return _check_prompt(state, effect, record, proven, strategy) if same_rules else 0
    if derived is None or not (equal_facts(event, derived) if same_rules else _alike(event, derived)):
        raise RulesDiffer(explain_difference(record.seq, event, derived))
    return 0


def _check_prompt(state: State, effect: Effect, record: Record, proven: Proven, strategy: MemoryStrategy) -> int:
    """1 where the effect asked a model, and the record answers the prompt that is rendered today."""
    event = record.event
    if not isinstance(event, facts.ModelReplied | facts.ModelFailed | facts.ContextCompacted):
        return 0
    ask = effect.ask if isinstance(effect, Compact) else effect
    if not isinstance(ask, AskModel):
        return 0
    inside = state.running.program != "steps"  # one conversation; the completions of a program share nothing
    known = proven.get(state.running.id) if inside and strategy.prefix_stable else None
    if event.prompt_digest != ask.view.digest:
        raise RulesDiffer(prompt_difference(record.seq, event.prompt_digest, ask.view, known))
    if isinstance(event, facts.ContextCompacted):
        _check_compaction(effect, event, record.seq)
        proven.pop(state.running.id, None)
    elif ask is effect and inside:
        proven[state.running.id] = (ask.step, len(ask.view.messages))
    return 1


def _may_come_meanwhile(state: State, event: facts.Event) -> bool:
    """What a person says or stops comes before an effect, wherever she likes."""
    return isinstance(event, PersonSteppedIn | PersonStopped) and state.session is not None and state.end is None


def _may_stop(state: State, event: facts.RunEnded) -> bool:
    """Whether a run can have ended so in place of an effect's answer; its seconds only where they were limited."""
    limited = event.ending != "limit:seconds" or state.limits.seconds is not None
    return event.ending in STOPS and limited


def _may_stop_anywhere(state: State, event: facts.Event) -> bool:
    """A program is stopped between two of its facts, too."""
    return state.program is not None and isinstance(event, facts.RunEnded) and event.ending in STOPS


def _check_compaction(derived: Effect, event: facts.ContextCompacted, number: int) -> None:
    """A text that stands for other turns than it was asked for is no answer."""
    if isinstance(derived, Compact):
        asked = replace(event, frame=derived.frame, up_to_step=derived.up_to_step)
        if asked != event:
            raise RulesDiffer(explain_difference(number, event, asked))


def _alike(recorded: facts.Event, derived: facts.Event) -> bool:
    """Equal but for wording, which other rules may phrase otherwise."""
    return equal_facts(_unworded(recorded), _unworded(derived))


def _unworded(event: facts.Event) -> facts.Event:
    match event:
        case facts.CallRejected():
            return replace(event, reason="")
        case facts.ReplyNudged() | facts.NoticeGiven():
            return replace(event, text="")
        case facts.RunEnded() | facts.FramePopped():
            return replace(event, result="")
        case _:
            return event
