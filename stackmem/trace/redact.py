"""A run with every match of a pattern replaced, in what it was told and in what follows from it.

Rule 1: a match becomes as many characters ``x``, so that lengths and budgets hold.
Rule 2: what came from outside is rewritten, what the rules derive is derived again: prompts, digests, wording. If a
    fact then changes (two names became one), there is no copy.
Rule 3: the copy keeps no files; what a snapshot held is not searched, it is left out.
Rule 4: of a program's run the sources are rewritten too, see ``redact_program``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.facts import (
    RULES,
    Event,
    Redaction,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
    ToolReturned,
    VerifyReturned,
)
from stackmem.core.frames import partial_result
from stackmem.core.machine import advance, evolve
from stackmem.core.program_facts import ProgramStarted, ToolAnswered
from stackmem.core.requests import Effect
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy
from stackmem.errors import RulesDiffer, TraceError, UsageError
from stackmem.languages.program import ProgramDecider
from stackmem.memory import open_strategy

from .program import TextOf, no_sources, program_of
from .record import Record
from .redact_program import (
    ProgramNames,
    SourceOf,
    derived_again,
    is_stop,
    masked_fact,
    outside_answer,
    stopped,
    unchanged,
    with_prompt,
)

Mask = Callable[[str], str]

_OURS = frozenset({
    "strategy", "tools", "isolation", "network", "version", "thinking", "tree", "price", "redacted", "digest", "parent",
    "stop", "prompt_digest", "usage", "kind", "outcome", "frame", "forced", "verified", "code", "ending",
})  # fmt: skip
"""Fields that hold our own words, ids and digests: nothing in them came from a person, a model or a tool."""
_WORDING = ("reason", "text", "result")


def mask_of(patterns: Iterable[str]) -> Mask:
    """Replaces whatever one of the regular expressions matches.

    Raises:
        UsageError: One of them is none.

    """
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(f"the pattern {pattern[:80]!a} is no regular expression ({error}); correct it") from error

    def mask(text: str) -> str:
        for each in compiled:
            text = each.sub(lambda found: "x" * len(found[0]), text)
        return text

    return mask


def masked(value: Any, mask: Mask) -> Any:
    """A value with every text in it masked, keys of mappings too; our own fields of an event are left.

    Raises:
        UsageError: Two keys of a mapping become one.

    """
    match value:
        case str():
            return mask(value)
        case Struct():
            names = [name for name in value.__struct_fields__ if name not in _OURS]
            return replace(value, **{name: masked(getattr(value, name), mask) for name in names})
        case dict():
            found = {masked(name, mask): masked(inner, mask) for name, inner in value.items()}
            if len(found) < len(value):
                raise UsageError(
                    "two names of one object are alike once replaced; use a pattern that leaves them apart"
                )
            return found
        case tuple():
            return tuple(masked(inner, mask) for inner in value)
        case list():
            return [masked(inner, mask) for inner in value]
        case _:
            return value


def touched(records: Iterable[Record], mask: Mask, source_of: SourceOf = unchanged) -> tuple[int, ...]:
    """Sequence numbers of the records that hold a match, or name a source that does."""
    return tuple(record.seq for record in records if _masked_fact(record.event, mask, source_of) != record.event)


def redact(
    records: Iterable[Record],
    mask: Mask,
    redaction: Redaction,
    last_digest: Callable[[], str],
    sources: tuple[SourceOf, TextOf] = (unchanged, no_sources),
) -> Iterator[Record]:
    """The records of the copy.

    Args:
        last_digest: Digest of the copy's record before the one that is asked for.
        sources: Of a program's run: the copy's digest of a source, kept by then, and the copy's text by that digest.

    Raises:
        UsageError: A derived fact changes; names the record.
        RulesDiffer: The run was made under other rules, so that nothing can be derived as it was.

    """
    state, strategy, program, names = State(), None, None, ProgramNames()
    for record in records:
        event = _without_files(_masked_fact(record.event, mask, sources[0]))
        if isinstance(event, RunStarted):
            strategy, event = _begun(event), replace(event, redacted=redaction)
        elif isinstance(event, RunForked):
            strategy = _begun(event.start)
            event = replace(event, digest=last_digest(), start=replace(event.start, redacted=redaction))
        elif isinstance(event, ProgramStarted) and strategy is not None:
            pass
        elif program is not None and not isinstance(event, RunResumed):
            event = _in_program(event, state, program, mask, record.seq)
            names.refuse_alike(record.event, event, record.seq)
        elif strategy is not None and not isinstance(event, RunResumed):
            event = _following(event, state, advance(state, strategy), record.seq)
        yield replace(record, event=event)
        state = evolve(state, event)
        if program is not None:
            program.note(event, state)
        elif isinstance(event, ProgramStarted) and strategy is not None:
            program = _program(event, state, strategy, sources[1])


def _masked_fact(event: Event, mask: Mask, source_of: SourceOf) -> Event:
    return masked_fact(event, lambda value: masked(value, mask), source_of)


def _program(event: ProgramStarted, state: State, strategy: MemoryStrategy, text_of: TextOf) -> ProgramDecider:
    try:
        return program_of(event, state.begun, strategy, text_of)
    except TraceError as error:
        raise UsageError(
            f"with the matches replaced the program is none any more ({error}); use a narrower pattern"
        ) from error


def _begun(start: RunStarted) -> MemoryStrategy:
    if start.rules != RULES:
        raise RulesDiffer(
            f"the run was made under rules {start.rules}, these are rules {RULES}; redact it with the version of then"
        )
    return open_strategy(start.strategy)


def _without_files(event: Event) -> Event:
    match event:
        case RunStarted() | ToolReturned() | VerifyReturned() | ToolAnswered():
            return replace(event, tree="")
        case RunForked():
            return replace(event, start=replace(event.start, tree=""))
        case _:
            return event


def _in_program(event: Event, state: State, program: ProgramDecider, mask: Mask, number: int) -> Event:
    """The event as it follows from the copy's program, or in a frame of the agent from the rules."""
    upcoming = program.decide(state)
    if isinstance(event, RunEnded) and is_stop(event, upcoming, state):
        return stopped(event, upcoming, state)
    if state.end is None and state.stack and state.running.program == "steps":
        if isinstance(upcoming, Effect):
            return outside_answer(event, upcoming, state, number)
        return derived_again(event, upcoming, lambda value: masked(value, mask), number)
    return _following(event, state, upcoming, number)


def _following(event: Event, state: State, derived: Event | Effect | None, number: int) -> Event:
    """The event as it follows from the copy's state."""
    if isinstance(derived, Effect):
        if isinstance(event, RunEnded) and event.ending == "interrupted":
            return replace(event, result=partial_result(state))
        return with_prompt(event, derived)
    if derived is None or _unworded(derived) != _unworded(event):
        told = type(derived).__name__ if derived is not None else "nothing"
        raise UsageError(
            f"record {number}: {type(event).__name__} would become {told} ({_brief(derived)}), as matches that differ "
            "are alike once replaced; use a pattern that leaves names apart"
        )
    return derived


def _unworded(event: Event) -> Event:
    words: dict[str, Any] = {name: "" for name in _WORDING if name in event.__struct_fields__}
    return replace(event, **words)


def _brief(derived: Event | None) -> str:
    text = msgspec.json.encode(derived).decode()
    return text if len(text) <= 160 else text[:159] + "…"
