"""Compute what a recorded run would have cost under other strategies with the same actions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core.budgets import SmallSize
from stackmem.core.errors import StackmemError, TraceError, UsageError
from stackmem.core.facts import FramePushed, ModelReplied, RunForked, RunStarted
from stackmem.core.messages import PromptText, ToolCall, ToolSpec
from stackmem.core.strategy import PUSHES, MemoryStrategy, budgets_of, clearing_of, has_frames
from stackmem.core.text import fill
from stackmem.core.tool_schemas import prompt_slots, spec
from stackmem.core.tools import OPTIONAL_TOOLS, tool_name
from stackmem.formats.import_ import sessions_of
from stackmem.formats.recordings.facts import TimedFact
from stackmem.lab.strategies.clear_paying import ClearPaying
from stackmem.memory import STRATEGIES, open_strategy
from stackmem.memory.adaptive import Adaptive
from stackmem.memory.small import has_small_size, small_offer
from stackmem.review.kept.cache_bill import moments_of
from stackmem.review.kept.costing import Costing, costing_as, counter_for, own_costing
from stackmem.review.kept.run_list import name_of
from stackmem.review.measure.first_loss import UsedFacts, facts_used
from stackmem.review.measure.moments import Moment, moments
from stackmem.review.measure.phases import PhaseRule
from stackmem.review.measure.speed import learned_speed
from stackmem.run.companion.find import find_run
from stackmem.run.prompts import prompt_text
from stackmem.trace.imported import Stated, imported_from, stated_by_recording
from stackmem.trace.long_work import tracked

from .calibration import calibrated, recorded_life, warm_tokens
from .checkpoints import Answering, answering_under, without_checkpoints
from .hypothetical import REREAD_SHARES, HandOverBand, bands, is_flat, lookup_bands, start_with_frames
from .hypothetical_frames import estimated_outputs
from .lookups import Lookups
from .rendered import Terms, WhatIfOutcome, as_recorded, by_program, memory_tools, outcome

DEFAULT_PRICE = "claude-sonnet-5-5"
"""The model whose prices apply if no server's model made the run, for example a simulated one."""


class WhatIfRow(Struct, frozen=True):
    """A recorded run under one strategy."""

    strategy: str
    recorded: bool  # whether the run was recorded with this strategy
    note: str  # which of its features the recording cannot show, or why it does not apply
    outcome: WhatIfOutcome | None  # None if it does not apply; with hypothetical frames, the middle band
    # Its cost relative to the recorded strategy, in the unit of the run; None if either is unknown.
    ratio: float | None = None
    bands: tuple[HandOverBand, ...] = ()  # for a flat run, from the best case to the worst


class WhatIf(Struct, frozen=True):
    """A recorded run under every requested strategy."""

    run: str
    imported: str
    price: str  # the model whose prices and cache rules apply
    # The unit of the cost. For free servers: newly evaluated "tokens", and seconds.
    unit: Literal["USD", "tokens"]
    counted: str  # how the tokens of texts were counted
    steps: int
    frames: int
    window_tokens: int  # the limit for prompts, which strategies also use
    estimated_replies: int  # replies without recorded usage, whose length is estimated
    latency_seconds: float | None
    rows: tuple[WhatIfRow, ...]  # the recorded strategy first


def parse_strategies(text: str) -> tuple[str, ...]:
    """Parse ``all`` or a list of strategies. Commas within parameters do not separate strategies.

    Raise UsageError if a strategy is unknown.
    """
    if text.strip() == "all":
        return tuple(STRATEGIES)
    spellings = [
        piece.strip() for piece in re.split(rf",(?=\s*(?:{'|'.join(map(re.escape, STRATEGIES))})(?:[:,\s]|$))", text)
    ]
    return tuple(dict.fromkeys(open_strategy(spelling).name for spelling in spellings))


class WhatIfQuestion(Struct, frozen=True):
    """The conditions for re-evaluating a recording."""

    strategies: tuple[str, ...]
    price: str | None = None  # the model whose prices, cache and window apply; None means the recorded one
    latency_seconds: float | None = None  # time between requests; None uses the times of the recording
    window_tokens: int | None = None  # None means that model's window, or the run's for stackmem's own runs
    phases: PhaseRule | None = PhaseRule()  # how a flat run is cut into frames; None does not cut it
    # The shares of lost or handed-over facts that are looked up again, one band each. The row shows the middle one.
    reread_shares: tuple[float, ...] = REREAD_SHARES


def what_if(run_or_file: str, runs_dir: Path, question: WhatIfQuestion) -> Iterator[WhatIf]:
    """Yield the result for each recording of a run or of another agent's file.

    Raise UsageError if the recording does not exist or has no step, or the model is unknown. Raise TraceError if the
    trace is broken.
    """
    for name, begin_moments, strategy_name in _recordings(run_or_file, runs_dir):
        yield tell_again(name, begin_moments, question, strategy_name)


def tell_again(
    name: str, begin_moments: Callable[[], Iterator[Moment]], question: WhatIfQuestion, recorded_strategy: str = ""
) -> WhatIf:
    """Evaluate one recording under each strategy. ``begin_moments`` returns a fresh iterator over its moments."""
    run = tuple(begin_moments())
    if not run:
        raise TraceError(f"the trace of {name} is empty; the run ended before its first record")
    start = run[-1].after.begun
    costing = own_costing(start, DEFAULT_PRICE) if question.price is None else costing_as(question.price, start)
    steps = run[-1].after.step
    if not steps:
        raise UsageError(f"{name} does not contain replies of a model, so there is nothing to evaluate")
    counter, counted = counter_for(begin_moments, costing)
    terms = Terms(
        price=None if costing.free else costing.price,
        minimum_tokens=costing.minimum_tokens,
        count=counter,
        latency_seconds=question.latency_seconds,
        server_cache=costing.free,
        speed=learned_speed(run) if costing.free else None,
    )
    start, run, estimated = _prepared(run, costing, question.window_tokens, terms)
    if imported_from(start) and not costing.free:
        start, counter = calibrated(run, start, counter)
        terms, run = replace(terms, count=counter), _restarted(run, start)
    return WhatIf(
        run=name,
        imported=imported_from(start),
        price=costing.model,
        unit="tokens" if costing.free else "USD",
        counted=counted,
        steps=steps,
        frames=run[-1].after.pushes,
        window_tokens=start.window_tokens,
        estimated_replies=estimated,
        latency_seconds=question.latency_seconds,
        rows=tuple(_rows(run, start, question, terms, recorded_strategy)),
    )


def _prepared(
    run: tuple[Moment, ...], costing: Costing, window_tokens: int | None, terms: Terms
) -> tuple[RunStarted, tuple[Moment, ...], int]:
    """Return the start and the run with the requested window, and with estimated reply lengths for foreign runs."""
    start = run[-1].after.begun
    if not imported_from(start):
        return replace(start, window_tokens=window_tokens or start.window_tokens), run, 0
    start = replace(start, window_tokens=window_tokens or costing.window_tokens, price=costing.price)
    (began, _), *rest = ((moment.at, moment.event) for moment in run)
    events, estimated = estimated_outputs([(began, start), *rest], terms.count)
    return start, tuple(moments(events)), estimated


def _restarted(run: tuple[Moment, ...], start: RunStarted) -> tuple[Moment, ...]:
    """Return the run with another start."""
    (began, _), *rest = ((moment.at, moment.event) for moment in run)
    return tuple(moments([(began, start), *rest]))


def _recordings(run_or_file: str, runs_dir: Path) -> Iterator[tuple[str, Callable[[], Iterator[Moment]], str]]:
    """Yield the name, a factory of moments, and the strategy that the recording states, for each recording."""
    file = Path(run_or_file)
    if not file.is_file() or file.name == "trace.jsonl":
        folder = find_run(run_or_file, runs_dir)
        source = stated_by_recording(folder)
        named_strategy = source.shown_strategy if source is not None and source.strategy else ""
        yield name_of(folder), lambda: moments_of(folder), named_strategy
        return
    recorded_sessions = list(sessions_of(file))
    for session, timed_facts in recorded_sessions:
        name = f"{file}{f' {session.id}' if len(recorded_sessions) > 1 else ''}"
        named_strategy = Stated(session.origin, strategy=session.strategy).shown_strategy if session.strategy else ""
        yield name, partial(_moments, timed_facts), named_strategy


def _moments(timed_facts: tuple[TimedFact, ...]) -> Iterator[Moment]:
    return moments((fact.at, fact.event) for fact in timed_facts)


def _cost(outcome: WhatIfOutcome | None) -> float | None:
    """Return the cost for comparison: dollars, or seconds of a free server."""
    if outcome is None:
        return None
    return outcome.seconds if outcome.usd is None else outcome.usd


def _rows(
    run: tuple[Moment, ...], start: RunStarted, question: WhatIfQuestion, terms: Terms, strategy_name: str
) -> Iterator[WhatIfRow]:
    complete, own = _flat_run(run, question), open_strategy(start.strategy)
    if imported_from(start):
        terms = replace(terms, life=recorded_life(run), warm_tokens=warm_tokens(run))
    recorded = as_recorded(run, complete.facts[not has_frames(own)], terms)
    base = _cost(recorded)
    yield WhatIfRow(strategy_name or own.name, True, _note(run, own), recorded, 1.0 if base else None)
    by_mode: dict[Answering, _FlatRun] = {}
    for spelled in tracked(question.strategies, f"strategies over {run[-1].after.step:,} steps"):
        strategy = _knowing_life(open_strategy(spelled), terms)
        if strategy.name == own.name and not strategy_name:
            continue
        began = _start_under(start, strategy)
        if began.checkpoints not in by_mode:
            shorter = without_checkpoints(run, began.checkpoints)
            by_mode[began.checkpoints] = complete if shorter is run else _flat_run(shorter, question)
        row = _row(by_mode[began.checkpoints], began, strategy, terms)
        cost = _cost(row.outcome)
        yield replace(row, ratio=round(cost / base, 4) if cost is not None and base else None)


def _knowing_life(strategy: MemoryStrategy, terms: Terms) -> MemoryStrategy:
    """Return a strategy that decides by the life of cache entries with the life that the recorded agent chose."""
    if terms.life is not None and isinstance(strategy, Adaptive | ClearPaying):
        return replace(strategy, life=terms.life)
    return strategy


class _FlatRun(Struct, frozen=True):
    """A recorded run and what all strategies share about it."""

    run: tuple[Moment, ...]
    facts: dict[bool, UsedFacts]  # whether its frames become one conversation, to the facts that it used
    rule: PhaseRule | None  # how it is cut into frames; None if it is not cut
    shares: tuple[float, ...]  # of lost facts that are looked up again
    lookups: Lookups | None  # None if nothing is looked up again


def _flat_run(run: tuple[Moment, ...], question: WhatIfQuestion) -> _FlatRun:
    facts = {flat: facts_used(run, flat=flat) for flat in (False, True)}
    rule = question.phases if is_flat(run) else None
    return _FlatRun(run, facts, rule, question.reread_shares, Lookups(run) if rule is not None else None)


def _row(flat: _FlatRun, start: RunStarted, strategy: MemoryStrategy, terms: Terms) -> WhatIfRow:
    run, facts = flat.run, flat.facts[not has_frames(strategy)]
    if run[-1].after.program is not None and not has_frames(strategy):
        return WhatIfRow(strategy.name, False, "does not apply: frames of a program have separate tasks", None)
    try:
        if flat.rule is not None and has_frames(strategy):
            start = start_with_frames(start, strategy)
            cut = tuple(bands(run, strategy, start, flat.rule, terms, flat.shares, flat.lookups))
            if cut:
                return _row_of_bands(strategy, cut, _note_of_bands(cut))
        if flat.lookups is not None:
            looked = tuple(lookup_bands(run, strategy, start, facts, terms, flat.lookups, flat.shares))
            notes = (_note_of_bands(looked) if looked[-1].handed.rereads else "", _note(run, strategy))
            return _row_of_bands(strategy, looked, "; ".join(filter(None, notes)))
        result = outcome(run, strategy, start, facts, terms)
    except StackmemError as error:
        return WhatIfRow(strategy.name, False, f"does not apply: {error}", None)
    return WhatIfRow(strategy.name, False, _note(run, strategy), result)


def _row_of_bands(strategy: MemoryStrategy, cut: tuple[HandOverBand, ...], note: str) -> WhatIfRow:
    return WhatIfRow(strategy.name, False, note, cut[len(cut) // 2].outcome, bands=cut)


def _note_of_bands(cut: Sequence[HandOverBand]) -> str:
    low, high, middle = cut[0], cut[-1], cut[len(cut) // 2]
    frames, notes = middle.handed.frames, list[str]()
    if frames:
        notes.append(f"{frames} hypothetical {'frame' if frames == 1 else 'frames'}")
    if low.outcome.usd is not None and high.outcome.usd is not None:
        notes.append(f"${low.outcome.usd:,.4f} to ${high.outcome.usd:,.4f}")
    elif low.outcome.seconds is not None and high.outcome.seconds is not None:
        notes.append(f"{low.outcome.seconds:,.1f} to {high.outcome.seconds:,.1f} s")
    across = f"{middle.handed.facts:,} facts across frames, " if frames else ""
    notes.append(f"{across}{middle.handed.rereads:,} results looked up again")
    return "; ".join(notes)


def _start_under(start: RunStarted, strategy: MemoryStrategy) -> RunStarted:
    """Return the start under this strategy. The prompt and tools of another agent stay unchanged.

    Thinking is sent back as the recording did, whatever the strategy: it is the provider's rule, not the strategy's.
    """
    texts = tuple(PromptText(name, prompt_text(name)) for name in getattr(strategy, "texts", ()))
    clearing = start.clearing if strategy.name == start.strategy else clearing_of(strategy)
    answering = answering_under(start, strategy)
    start = replace(start, strategy=strategy.name, texts=texts or UNSET, checkpoints=answering, clearing=clearing)
    if imported_from(start):
        return start
    budgets = budgets_of(strategy, start.budgets)
    slots = prompt_slots(budgets, start.command_seconds)
    optional = (tool for tool in start.tools if tool.name in OPTIONAL_TOOLS and tool.name not in start.registered)
    if start.small is not UNSET and has_small_size(strategy):
        return _small_start(replace(start, budgets=budgets), strategy, tuple(optional), slots)
    tools = (*(spec(tool, slots) for tool in strategy.tools), *optional)
    system = fill(prompt_text(strategy.prompt), slots)
    return replace(start, budgets=budgets, system=system, tools=tools, small=UNSET)


def _small_start(
    start: RunStarted, strategy: MemoryStrategy, optional: tuple[ToolSpec, ...], slots: dict[str, str]
) -> RunStarted:
    """Return the start of a small-size run under another strategy. Optional tools stay as recorded."""
    offer = small_offer(strategy, tuple(OPTIONAL_TOOLS[tool.name] for tool in optional))
    recorded = {tool.name: tool for tool in start.tools}
    tools = tuple(recorded.get(tool_name(tool)) or spec(tool, slots) for tool in offer.tools)
    later = tuple(spec(tool, slots) for tool in offer.later)
    system = fill(prompt_text(offer.prompt), slots)
    look = UNSET if start.small is UNSET else start.small.look
    return replace(start, system=system, tools=tools, small=SmallSize(later=later, look=look))


def _note(run: tuple[Moment, ...], strategy: MemoryStrategy) -> str:
    """Describe the features of a strategy that cannot show in actions taken under another one."""
    called = Counter(
        part.name
        for moment in run
        if isinstance(moment.event, ModelReplied)
        for part in moment.event.parts
        if isinstance(part, ToolCall)
    )
    pushed = sum(isinstance(moment.event, FramePushed) for moment in run)
    memory_names = memory_tools([tool_name(tool) for tool in strategy.tools]) - PUSHES
    notes = []
    if has_frames(strategy) and not pushed:
        notes.append("as recorded: nothing was pushed")
    elif pushed and not has_frames(strategy):
        notes.append(f"{pushed} {'frame' if pushed == 1 else 'frames'} as one conversation")
    if memory_names and not called.keys() & memory_names:
        notes.append(f"as recorded: {_tool_names(memory_names)} not used")
    foreign = memory_tools(list(called)) & {tool.name for tool in run[0].after.begun.tools} - memory_names - PUSHES
    if foreign and has_frames(strategy):
        notes.append(f"{_tool_names(foreign)} as plain calls")
    if any(isinstance(moment.event, RunForked) for moment in run):
        notes.append("the parts before and after a fork are one run")
    views = [moment.view for moment in run if isinstance(moment.event, ModelReplied) and by_program(moment)]
    known_views = sum(view is not None for view in views)
    if known_views:
        notes.append(f"{known_views:,} {'step' if known_views == 1 else 'steps'} of the program with its own prompts")
    if known_views < len(views):
        notes.append(f"{len(views) - known_views:,} steps of the program are left out: their prompts are unknown")
    return "; ".join(notes)


def _tool_names(tools: Iterable[str]) -> str:
    return ", ".join(sorted({"the heap" if name.startswith("heap_") else name for name in tools}))
