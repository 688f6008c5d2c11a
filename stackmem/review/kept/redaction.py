"""Makes a copy of a run in which every match of a pattern is replaced, in its inputs and in everything derived.

Rule 1: A match is replaced by the same number of ``x`` characters, so that lengths and budgets stay the same.
Rule 2: Facts from outside are rewritten, and all others derived again: prompts, digests, wording. If a derived fact
    changes in another way (two names became equal), the copy fails.
Rule 3: The copy contains no files. Snapshots are left out without being searched.
Rule 4: The sources of a program's run are masked too, except those packaged with stackmem. The interpreter derives its
    facts again from the masked sources. Its texts may be cut in other places, so only kinds, frames and sizes must stay
    the same. If a derived text still contains a match, it was composed of parts without one, and the copy fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core import facts
from stackmem.core.decider import AgentDecider, Decider, ProgramUnderWay
from stackmem.core.errors import RulesDiffer, TraceError, UsageError
from stackmem.core.frames import partial_result
from stackmem.core.neighbors import neighbor
from stackmem.core.person_facts import WordsAsked
from stackmem.core.program_facts import (
    ChunkKept,
    PhaseEnded,
    ProgramCalled,
    ProgramStarted,
    SourceLoaded,
    ToolAnswered,
    VariableSet,
)
from stackmem.core.requests import STOPS_WITH_PARTIAL, AskModel, AskUser, AskWords, Compact, Effect, match_effect
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy
from stackmem.core.text import mark_cut
from stackmem.memory import open_strategy
from stackmem.trace.difference import equal_facts
from stackmem.trace.program import TextOf, called_programs, no_sources, program_of
from stackmem.trace.record import Record
from stackmem.trace.walk import state_after

Mask = Callable[[str], str]

_ANSWERS = facts.ModelReplied | facts.ModelFailed | facts.ContextCompacted | WordsAsked

_OURS = frozenset({
    "strategy", "tools", "isolation", "network", "version", "thinking", "tree", "price", "redacted", "digest", "parent",
    "stop", "prompt_digest", "usage", "kind", "outcome", "frame", "forced", "verified", "code", "ending", "session",
    "questions", "scope", "index", "circles", "text_calls", "checkpoint", "checkpoints", "vision", "images",
    "read_calls", "guards", "parallel",
})  # fmt: skip
"""Fields with only our own words, ids and digests, never text from a user, a model or a tool."""
_WORDING = ("reason", "text", "result")
SourceOf = Callable[[str, bool], str]
"""Returns the digest of a source in the copy for its original digest. True means that its text is not changed."""

PACKAGED = "stackmem:"
# Fields of a derived fact that must have equal values in the copy.
_UNCHANGED = frozenset({"frame", "forced", "verified", "kind", "ending"})
_QUESTION_CHARS = 4_000
_LABELS = ("HINTS", "RETURN")


def same_digest(digest: str, packaged: bool) -> str:
    """Return the digest unchanged, for records without sources."""
    return digest


def mask_of(patterns: Iterable[str]) -> Mask:
    """Return a function that masks every match of the regular expressions.

    Raise UsageError if a pattern is not valid.
    """
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(
                f"the pattern {pattern[:80]!a} is not a valid regular expression ({error}); correct it"
            ) from error

    def mask(text: str) -> str:
        for each in compiled:
            text = each.sub(lambda match: "x" * len(match[0]), text)
        return text

    return mask


def mask_value(value: Any, mask: Mask) -> Any:
    """Mask every text in a value, including keys of mappings, except an event's fields with our own words.

    Raise UsageError if two keys of a mapping become equal.
    """
    match value:
        case str():
            return mask(value)
        case Struct():
            names = [name for name in value.__struct_fields__ if name not in _OURS]
            return replace(value, **{name: mask_value(getattr(value, name), mask) for name in names})
        case dict():
            masked = {mask_value(name, mask): mask_value(inner, mask) for name, inner in value.items()}
            if len(masked) < len(value):
                raise UsageError("two names of one object become equal; use a pattern that keeps them different")
            return masked
        case tuple():
            return tuple(mask_value(inner, mask) for inner in value)
        case list():
            return [mask_value(inner, mask) for inner in value]
        case _:
            return value


def matching_records(records: Iterable[Record], mask: Mask, source_of: SourceOf = same_digest) -> tuple[int, ...]:
    """Return the sequence numbers of records that contain a match or name a source that does."""
    return tuple(
        record.seq for record in records if not equal_facts(mask_fact(record.event, mask, source_of), record.event)
    )


def redact(
    records: Iterable[Record],
    mask: Mask,
    redaction: facts.Redaction,
    last_digest: Callable[[], str],  # returns the digest of the copy's previous record
    sources: tuple[SourceOf, TextOf] = (same_digest, no_sources),
) -> Iterator[Record]:
    """Yield the records of the copy.

    Raise UsageError if the copy is not possible with these patterns. Raise RulesDiffer if the run was made under other
    rules, so its facts cannot be derived again.

    Args:
        sources: For a program's run: the digest of a source in the copy, and the copy's text for that digest.
    """
    state, strategy, program, names = State(), None, None, ProgramNames()
    agent: AgentDecider | None = None
    for record in records:
        event = _without_files(mask_fact(record.event, mask, sources[0]))
        if isinstance(event, facts.RunStarted):
            strategy, event = _strategy_of(event), replace(event, redacted=redaction)
        elif isinstance(event, facts.RunForked):
            strategy = _strategy_of(event.start)
            event = replace(event, digest=last_digest(), start=replace(event.start, redacted=redaction))
        elif isinstance(event, ProgramStarted) and strategy is not None:
            pass
        elif program is not None and not isinstance(event, facts.RunResumed):
            event = _in_program(event, state, program, mask, record.seq)
            names.refuse_alike(record.event, event, record.seq)
        elif strategy is not None and not isinstance(event, facts.RunResumed):
            if agent is None:
                agent = AgentDecider(strategy, called_programs(sources[1]))
            agent.strategy = strategy
            if agent.in_call:
                event = _in_program(event, state, agent, mask, record.seq)
                names.refuse_alike(record.event, event, record.seq)
            else:
                event = _rederive(event, state, agent.decide(state), record.seq)
        yield (record := replace(record, event=event))
        state = state_after(state, record)
        if program is not None:
            program.note(event, state)
        elif isinstance(event, ProgramStarted) and strategy is not None:
            program = _program(event, state, strategy, sources[1])
        elif agent is not None:
            agent.note(event, state)


def _program(event: ProgramStarted, state: State, strategy: MemoryStrategy, text_of: TextOf) -> ProgramUnderWay:
    try:
        return program_of(event, state.begun, strategy, text_of)
    except TraceError as error:
        raise UsageError(
            f"with the matches replaced the program is not valid any more ({error}); use a narrower pattern"
        ) from error


def _strategy_of(start: facts.RunStarted) -> MemoryStrategy:
    if start.rules != facts.RULES:
        raise RulesDiffer(
            f"the run was made under rules {start.rules}, this version has rules {facts.RULES}; "
            "redact it with the version that made it"
        )
    return open_strategy(start.strategy)


def _without_files(event: facts.Event) -> facts.Event:
    match event:
        case facts.RunStarted() | facts.ToolReturned() | facts.VerifyReturned() | ToolAnswered():
            return replace(event, tree="")
        case facts.RunForked():
            return replace(event, start=replace(event.start, tree=""))
        case _:
            return event


def _in_program(event: facts.Event, state: State, program: Decider, mask: Mask, number: int) -> facts.Event:
    """Return the event as the copy's program derives it, or the rules if it belongs to a frame of the agent."""
    upcoming = program.decide(state)
    if isinstance(event, facts.RunEnded) and is_stop(event, upcoming, state):
        return rewrite_stop(event, upcoming, state)
    if state.end is None and state.stack and state.running.program == "steps":
        if isinstance(upcoming, Effect):
            return outside_answer(event, upcoming, state, number)
        return rederive_in_program(event, upcoming, mask, number)
    return _rederive(event, state, upcoming, number)


def _rederive(event: facts.Event, state: State, derived: facts.Event | Effect | None, number: int) -> facts.Event:
    """Return the event as it follows from the copy's state."""
    if isinstance(derived, Effect):
        if isinstance(event, facts.RunEnded) and event.ending in STOPS_WITH_PARTIAL:
            return replace(event, result=partial_result(state))
        return with_prompt(event, derived)
    if derived is None or not equal_facts(_without_wording(derived), _without_wording(event)):
        kind = type(derived).__name__ if derived is not None else "nothing"
        raise UsageError(
            f"record {number}: {type(event).__name__} would become {kind} ({_brief(derived)}), because different "
            "matches become equal; use a pattern that keeps names different"
        )
    return derived


def _without_wording(event: facts.Event) -> facts.Event:
    words: dict[str, Any] = {name: "" for name in _WORDING if name in event.__struct_fields__}
    return replace(event, **words)


def _brief(derived: facts.Event | None) -> str:
    text = msgspec.json.encode(derived).decode()
    return text if len(text) <= 160 else text[:159] + "…"


def mask_fact(event: facts.Event, mask: Mask, source_of: SourceOf) -> facts.Event:
    """Mask every text of a fact, except our own words in facts of programs."""
    if isinstance(event, ProgramCalled):
        return replace(event, start=mask_fact(event.start, mask, source_of))
    if isinstance(event, SourceLoaded) and event.path.startswith(PACKAGED):
        return replace(event, digest=source_of(event.digest, True)) if event.digest else event
    masked: facts.Event = mask_value(event, mask)
    match masked, event:
        case ProgramStarted(), ProgramStarted():
            options = {name: mask_value(value, mask) for name, value in event.options.items()}
            digest = source_of(event.digest, False)
            return replace(masked, language=event.language, options=options, digest=digest)
        case facts.RunStarted(), facts.RunStarted(programs=offered) if offered is not UNSET:
            pairs = zip(masked.programs or (), offered, strict=True)
            programs = (replace(a, language=b.language, digest=source_of(b.digest, False)) for a, b in pairs)
            return replace(masked, programs=tuple(programs))
        case SourceLoaded(), SourceLoaded(digest=digest) if digest:
            return replace(masked, digest=source_of(digest, False))
        case ToolAnswered(), ToolAnswered():
            return replace(masked, failed=event.failed)
        case _:
            return masked


def outside_answer(event: facts.Event, effect: Effect, state: State, number: int) -> facts.Event:
    """Return the answer from outside for the prompt that the copy's program requests.

    Raise UsageError if the program makes a different request after masking.
    """
    if isinstance(event, facts.RunEnded):
        return rewrite_stop(event, effect, state)
    answered_effect = match_effect(effect, event)
    if answered_effect is None:
        raise UsageError(
            f"record {number}: with the matches replaced the program makes a request that "
            f"{type(event).__name__} does not answer; use a narrower pattern"
        )
    return with_prompt(event, answered_effect)


def with_prompt(event: facts.Event, effect: object) -> facts.Event:
    """Return a model's answer with the digest of the copy's prompt. Other answers stay unchanged."""
    ask = effect.ask if isinstance(effect, Compact | AskWords) else effect
    if isinstance(event, _ANSWERS) and isinstance(ask, AskModel):
        return replace(event, prompt_digest=ask.view.digest)
    return event


def rewrite_stop(event: facts.RunEnded, upcoming: facts.Event | Effect | None, state: State) -> facts.RunEnded:
    """Return the ending in the copy of a run that was stopped from outside."""
    if event.ending in STOPS_WITH_PARTIAL:
        return replace(event, result=partial_result(state))
    if event.ending == "input_needed" and isinstance(upcoming, AskUser):
        return replace(event, result=mark_cut(upcoming.question, _QUESTION_CHARS))
    return event


def rederive_in_program(event: facts.Event, derived: facts.Event | None, mask: Mask, number: int) -> facts.Event:
    """Return the fact that the program derives in the copy in place of the recorded one.

    Raise UsageError if the fact differs, or still contains a match.
    """
    if derived is None or _shape(derived) != _shape(event):
        kind = "nothing" if derived is None else type(derived).__name__
        raise UsageError(
            f"record {number}: with the matches replaced the program behaves differently ({type(event).__name__} would "
            f"become {kind}); use a pattern that keeps its words and names different"
        )
    searched = _searched(derived)
    if mask_value(searched, mask) != searched:
        raise UsageError(
            f"record {number}: {type(event).__name__} still contains a match, in words of the language or composed "
            "of parts without one; use a narrower --pattern, or one for the parts"
        )
    return derived


def _searched(derived: facts.Event) -> facts.Event:
    """Return the fact without its digests, and without the text that stackmem itself adds to a task."""
    if isinstance(derived, PhaseEnded):
        return replace(derived, digests=dict.fromkeys(derived.digests, ""))
    if isinstance(derived, facts.FramePushed) and derived.program is not UNSET:
        own = neighbor("languages: words after a task")()
        lines = [line for line in derived.program.task.splitlines() if line not in _LABELS and not line.startswith(own)]
        text = "\n".join(line.removeprefix("INPUT ") for line in lines)
        return replace(derived, program=replace(derived.program, task=text))
    return derived


class ProgramNames:
    """The names of a program's chunks and variables, which must stay distinct in the copy."""

    def __init__(self) -> None:
        self._was: dict[tuple[type, str], str] = {}

    def refuse_alike(self, event: facts.Event, now: facts.Event, number: int) -> None:
        """Register a name, and refuse it if a different original name already became the same.

        Raise UsageError if two names have become equal.
        """
        if not isinstance(event, ChunkKept | VariableSet) or not isinstance(now, ChunkKept | VariableSet):
            return
        if self._was.setdefault((type(now), now.name), event.name) != event.name:
            raise UsageError(
                f"record {number}: {type(event).__name__} would have the same name {now.name[:80]!a} as another one, "
                "because different matches become equal; use a pattern that keeps names different"
            )


def is_stop(event: facts.Event, upcoming: facts.Event | Effect | None, state: State) -> bool:
    """Return whether the fact ends a run from outside, between two facts of its program."""
    if not isinstance(event, facts.RunEnded) or state.end is not None or isinstance(upcoming, Effect):
        return False
    return event.ending in ("interrupted", "workspace_error") and not isinstance(upcoming, facts.RunEnded)


def _shape(value: Any) -> Any:
    """Return what must stay the same in a derived fact: kinds, ids and sizes, but no text or digest."""
    match value:
        case str():
            return ""
        case Struct():
            names = value.__struct_fields__
            inner = {name: getattr(value, name) for name in names}
            return type(value), {
                name: member if name in _UNCHANGED else _shape(member) for name, member in inner.items()
            }
        case dict() | tuple():
            return len(value)
        case _:
            return value
