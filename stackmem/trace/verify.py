"""Verified replay: compares what today's rules derive from a recorded run with what the run recorded."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from stackmem.core import facts
from stackmem.core.decider import AgentDecider, ProgramUnderWay, Watcher
from stackmem.core.errors import RulesDiffer, TraceError
from stackmem.core.frames import partial_result
from stackmem.core.parallel.facts import FrameReturned, FramesPushed
from stackmem.core.person_facts import (
    PersonAccepted,
    PersonAttached,
    PersonCompacted,
    PersonPlanned,
    PersonRan,
    PersonSteppedIn,
    PersonStopped,
    WordsAsked,
)
from stackmem.core.program_facts import ProgramHalted, StepFailed
from stackmem.core.requests import STOPS, STOPS_WITH_PARTIAL, AskModel, AskWords, Compact, Effect, match_effect
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy

from .difference import equal_facts, explain_difference, prompt_difference
from .imported import refuse_imported
from .program import TextOf, no_sources
from .record import Record
from .walk import RecordWalk, WalkedRecord

_UNPROMPTED = (
    PersonSteppedIn, PersonStopped, PersonRan, PersonAttached, PersonPlanned, PersonAccepted, PersonCompacted,
    facts.FolderChanged,
)  # fmt: skip
_FromModel = facts.ModelReplied | facts.ModelFailed | facts.ContextCompacted | WordsAsked
Proven = dict[str, tuple[int, int]]
"""Maps a frame id to the last step whose prompt was equal, and the number of messages in that prompt."""


class Replay(Struct, frozen=True):
    """The result of a replay."""

    state: State  # the state after the last record
    events: int  # number of records
    prompts: int  # number of prompt digests that were compared and are equal
    same_rules: bool  # False if the run was made under other rules; wording and prompts were then not compared
    program: ProgramUnderWay | None = None  # the state of its interpreter, for a program's run
    agent: AgentDecider | None = None  # the agent with the programs that it called, in every other run
    groups: list[FrameGroup] = field(default_factory=list)  # in the order of their pushes


class FrameGroup(Struct):
    """Parallel frames that were pushed together."""

    at: int  # the number of the record that pushed them
    state: State | None = None  # the state after it, from which each of their runs continues
    returned: dict[str, FrameReturned] = field(default_factory=dict)  # what each frame returned last, by its id


def verify(
    records: Iterable[Record], text_of: TextOf = no_sources, watch: Watcher | None = None, since: State | None = None
) -> Replay:
    """Fold ``records`` and check each of them against the rules.

    Args:
        text_of, watch, since: As for ``RecordWalk``.

    Raises:
        RulesDiffer: The rules derive something else today. The message names the record and both versions.
        TraceError: The first record is not ``RunStarted``, or its strategy is not installed.
        UsageError: The run was imported, so our rules did not create it.
    """
    walk, prompts, count = RecordWalk(records, text_of, watch, since), 0, 0
    proven: Proven = {}
    groups: list[FrameGroup] = []
    for step in walk:
        event, count = step.record.event, step.record.seq
        _note_group(groups, step)
        if not step.is_input:
            prompts += _check(step, proven, walk.strategy)
        elif isinstance(event, facts.RunStarted):
            refuse_imported(event, "replayed, resumed or forked")
        elif isinstance(event, facts.RunForked):
            proven = {}
    if walk.state.start is None:
        raise TraceError("the trace contains no records")
    return Replay(walk.state, count, prompts, walk.state.begun.rules == facts.RULES, walk.program, walk.agent, groups)


def _note_group(groups: list[FrameGroup], step: WalkedRecord) -> None:
    """Add a step's record to the group that it belongs to."""
    event = step.record.event
    if groups and groups[-1].state is None:
        groups[-1].state = step.before
    if isinstance(event, FramesPushed):
        groups.append(FrameGroup(step.record.seq))
    elif groups and isinstance(event, FrameReturned):
        groups[-1].returned[event.frame] = event


def _check(step: WalkedRecord, proven: Proven, strategy: MemoryStrategy) -> int:
    """Check a record and update ``proven``. Returns the number of prompt digests that it proved equal: 1 or 0.

    Raise RulesDiffer if the record does not follow from the state before it.
    """
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
        effect = match_effect(derived, event) if isinstance(derived, Effect) else None
        if effect is None:
            raise RulesDiffer(explain_difference(record.seq, event, derived))
        return _check_prompt(state, effect, record, proven, strategy) if same_rules else 0
    if derived is None or not (equal_facts(event, derived) if same_rules else _alike(event, derived)):
        raise RulesDiffer(explain_difference(record.seq, event, derived))
    return 0


def _check_prompt(state: State, effect: Effect, record: Record, proven: Proven, strategy: MemoryStrategy) -> int:
    """Return 1 if the effect called a model and the record answers the prompt that is rendered today, otherwise 0."""
    event = record.event
    if not isinstance(event, _FromModel):
        return 0
    ask = effect.ask if isinstance(effect, Compact | AskWords) else effect
    if not isinstance(ask, AskModel):
        return 0
    inside = state.running.program != "steps"  # one conversation; the completions of a program share no messages
    prefix = proven.get(state.running.id) if inside and strategy.prefix_stable else None
    if event.prompt_digest != ask.view.digest:
        raise RulesDiffer(prompt_difference(record.seq, event.prompt_digest, ask.view, prefix))
    if isinstance(event, facts.ContextCompacted):
        _check_compaction(effect, event, record.seq)
        proven.pop(state.running.id, None)
    elif ask is effect and inside:
        proven[state.running.id] = (ask.step, len(ask.view.messages))
    return 1


def _may_come_meanwhile(state: State, event: facts.Event) -> bool:
    """Return whether the event comes from the user or from a job, and so may come before any effect."""
    if state.end is not None:
        return False
    if isinstance(event, facts.JobsEnded):
        return bool(state.jobs.running)
    return state.session is not None and isinstance(event, _UNPROMPTED)


def _may_stop(state: State, event: facts.RunEnded) -> bool:
    """Return whether a run may end this way instead of an answer. Its seconds can only run out if they were limited."""
    limited = event.ending != "limit:seconds" or state.limits.seconds is not None
    return event.ending in STOPS and limited


def _may_stop_anywhere(state: State, event: facts.Event) -> bool:
    """Return whether the event stops a program, which may also happen between two of its facts."""
    return state.program is not None and isinstance(event, facts.RunEnded) and event.ending in STOPS


def _check_compaction(derived: Effect, event: facts.ContextCompacted, number: int) -> None:
    """Check that a summary covers the turns that it was requested for."""
    if isinstance(derived, Compact):
        expected = replace(event, frame=derived.frame, up_to_step=derived.up_to_step)
        if expected != event:
            raise RulesDiffer(explain_difference(number, event, expected))


def _alike(recorded: facts.Event, derived: facts.Event) -> bool:
    """Compare two facts without their wording, which other rules may change."""
    return equal_facts(_unworded(recorded), _unworded(derived))


def _unworded(event: facts.Event) -> facts.Event:
    match event:
        case facts.CallRejected():
            return replace(event, reason="")
        case facts.ReplyNudged() | facts.NoticeGiven():
            return replace(event, text="")
        case facts.RunEnded() | facts.FramePopped():
            return replace(event, result="")
        case StepFailed():
            return replace(event, reason="")
        case ProgramHalted():
            return replace(event, report="")
        case _:
            return event
