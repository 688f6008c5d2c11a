"""Estimate what a recorded flat run would have cost under a frame-based strategy, as a low/middle/high band."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.facts import FramePushed, ModelReplied, RunForked, RunStarted
from stackmem.core.strategy import MemoryStrategy, budgets_of
from stackmem.core.text import fill
from stackmem.core.tool_schemas import prompt_slots, spec
from stackmem.core.tools import tool_name
from stackmem.memory.adaptive import Adaptive
from stackmem.review.measure.first_loss import UsedFacts, facts_used
from stackmem.review.measure.moments import Moment, moments
from stackmem.review.measure.phases import PhaseRule, Rule, phases, steps_of
from stackmem.run.prompts import prompt_text
from stackmem.trace.imported import imported_from

from .hypothetical_frames import Handing, HandOver, framed, handing
from .lookups import Lookups
from .rendered import OtherStrategy, Terms, WhatIfOutcome, memory_tools, outcome

REREAD_SHARES = (0.0, 0.5, 1.0)
"""Shares of lost or handed-over facts that are looked up again: the best case, the middle, and the worst."""

_RULES: tuple[Rule, ...] = ("boundaries", "sub-goals", "green")


class HandOverBand(Struct, frozen=True):
    """The outcome of a strategy if it looks up a given share of the facts that it lost or handed over."""

    reread_share: float = field(name="missed")
    outcome: WhatIfOutcome
    handed: HandOver


def phase_rule(text: str) -> PhaseRule | None:
    """Parse ``--phases``. Returns None for ``none``. Raise UsageError if the rule is unknown."""
    name = text.strip()
    if name == "none":
        return None
    for rule in _RULES:
        if name == rule:
            return PhaseRule(rule)
    if name.isdecimal() and 2 <= int(name[:9]) <= 1_000:
        return PhaseRule("fixed", int(name), int(name))
    raise UsageError(
        f"unknown --phases {name[:40]!r}; use {', '.join(_RULES)}, none, or a number of steps from 2 to 1000"
    )


def is_flat(run: Sequence[Moment]) -> bool:
    """Return whether the run has no pushes, by the model or a program, and no forks."""
    return run[-1].after.program is None and not any(
        isinstance(moment.event, FramePushed | RunForked) for moment in run
    )


def lookup_bands(
    run: Sequence[Moment], strategy: MemoryStrategy, start: RunStarted, facts: UsedFacts, terms: Terms,
    lookups: Lookups, shares: Sequence[float] = REREAD_SHARES,
) -> Iterator[HandOverBand]:  # fmt: skip
    """Yield the run under a strategy without frames, once per share of lost facts that are looked up again."""
    bare = outcome(run, strategy, start, facts, terms)
    for share in shares:
        looked = outcome(run, strategy, start, facts, terms, lookups, share) if share and bare.loss.lost else bare
        yield HandOverBand(share, looked, HandOver(0, bare.loss.lost, looked.lookups))


def bands(
    run: Sequence[Moment], strategy: MemoryStrategy, start: RunStarted, rule: PhaseRule, terms: Terms,
    shares: Sequence[float] = REREAD_SHARES, lookups: Lookups | None = None,
) -> Iterator[HandOverBand]:  # fmt: skip
    """Yield the run cut into frames, once per share. Yields nothing if the strategy has no frames or would not push."""
    how = handing(strategy, start.budgets)
    spans = _spans(run, strategy, start, rule) if how else []
    if how is None or not spans:
        return
    for missed_share in shares:
        yield _band(run, strategy, start, spans, how, missed_share, terms, lookups)


def _band(
    run: Sequence[Moment], strategy: MemoryStrategy, start: RunStarted, spans: Sequence[range], how: Handing,
    missed_share: float, terms: Terms, lookups: Lookups | None,
) -> HandOverBand:  # fmt: skip
    events, handed = framed(run, spans, how, start.budgets, missed_share, terms.count)
    (began, _), *rest = events
    cut = tuple(moments([(began, start), *rest]))
    result = outcome(cut, strategy, start, facts_used(cut), terms, lookups, missed_share)
    return HandOverBand(missed_share, result, replace(handed, rereads=handed.rereads + result.lookups))


def _spans(run: Sequence[Moment], strategy: MemoryStrategy, start: RunStarted, rule: PhaseRule) -> list[range]:
    """Return the steps of each frame. ``adaptive`` uses frames when and as long as it advises."""
    _, steps = steps_of(run)
    if not isinstance(strategy, Adaptive):
        return phases(steps, rule)
    other, number = OtherStrategy(start, framed=False), 0
    for moment in run:
        if isinstance(moment.event, ModelReplied):
            advice = strategy.told(other.state)
            if advice is not None:
                size = advice.phase
                least, most = (size, size) if rule.rule == "fixed" else (max(3, size * 3 // 4), size * 5 // 4)
                return phases(steps, replace(rule, least=least, most=most), number)
            number += 1
        other.take(moment)
    return []


def _prompt_for_foreign_agent(strategy: MemoryStrategy) -> str:
    """Return the strategy's prompt without the part for coding agents, because another agent has its own."""
    return strategy.prompt if ":" in strategy.prompt else f"{strategy.prompt}+beside"


def start_with_frames(start: RunStarted, strategy: MemoryStrategy) -> RunStarted:
    """Return another agent's start with the strategy's prompt appended, and its memory tools added."""
    if not imported_from(start):
        return start
    budgets = budgets_of(strategy, start.budgets)
    slots = prompt_slots(budgets, start.command_seconds)
    memory_names = memory_tools([tool_name(tool) for tool in strategy.tools]) | {"pop_frame", "return"}
    memory_specs = tuple(spec(tool, slots) for tool in strategy.tools if tool_name(tool) in memory_names)
    system = "\n\n".join(filter(None, (start.system, fill(prompt_text(_prompt_for_foreign_agent(strategy)), slots))))
    return replace(
        start, budgets=budgets, system=system, tools=(*start.tools, *memory_specs), texts=start.texts or UNSET
    )
