"""Describe a study of the user's own sessions: one sentence with the answer, then the figures behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf

from stackmem.core.text import quantity
from stackmem.lab.bench.evidence import PRICED_AS, READS, RecordingEntry
from stackmem.lab.bench.evidence_figures import (
    MIN_DIFFERING_ALIKE,
    MIN_TASKS_OF_SUM,
    EvidenceLine,
    EvidenceTable,
    in_one_sum,
    table,
)
from stackmem.lab.bench.intervals import Interval

_AS_GOOD = 0.995
"""A bill above this multiple of ``full`` is not a saving that anyone would notice."""
_HEAD = ("strategy", *(f"reads at {read:g}" for read in READS), "facts out of sight", "full costs less above", "")


def answer(entries: Sequence[RecordingEntry]) -> Iterator[str]:
    """Yield the answer, what it depends on, and how the sessions were read. Nothing if no session has figures."""
    usable = [entry for entry in entries if entry.bills]
    if not usable:
        yield f"none of your {quantity(len(entries), 'session')} could be costed; the reasons are above"
        return
    pooled = table("All sessions", [in_one_sum(entry) for entry in usable])
    lines = [line for line in pooled.lines if line.name.endswith(" middle") and line.bills[0]]
    best = min(lines, key=lambda line: line.bills[0].value if line.bills[0] else 1.0)
    yield _answer(best, pooled)
    yield _dial(best, pooled)
    yield from _other_sessions(best, pooled)
    agents = ", ".join(f"{agent} {count:,}" for agent, count in Counter(entry.agent for entry in usable).most_common())
    timed, steps = sum(entry.timed for entry in usable), sum(entry.steps for entry in usable)
    yield f"{quantity(len(usable), 'session')} ({agents}), {steps:,} replies; {timed:,} with recorded times"
    with_usage = [entry for entry in usable if entry.recorded_bill]
    if with_usage:
        ratio = sum(entry.bills["full"].usd[0] for entry in with_usage) / sum(
            entry.recorded_bill[0] for entry in with_usage
        )
        of = quantity(len(with_usage), "session")
        yield f"check: the simulated bill of full is {ratio:.2f} of that of the recorded usage, over {of}"


def rows(entries: Sequence[RecordingEntry]) -> list[tuple[str, ...]]:
    """Return a table with a line per strategy in the middle case, cheapest first; empty without figures."""
    usable = [in_one_sum(entry) for entry in entries if entry.bills]
    if not usable:
        return []
    lines = [line for line in table("", usable).lines if line.name == "full" or line.name.endswith(" middle")]
    lines.sort(key=lambda line: line.bills[0].value if line.bills[0] else 1.0)
    return [_HEAD, *(_cells(line) for line in lines)]


def _answer(best: EvidenceLine, pooled: EvidenceTable) -> str:
    bill, sessions = best.bills[0], quantity(pooled.runs, "session")
    if bill is None or bill.value > _AS_GOOD:
        return f"No strategy would have been cheaper than the whole history for your {sessions}."
    name = best.name.removesuffix(" middle")
    if bill.high is not None and bill.high >= 1:
        return (
            f"No strategy is clearly cheaper than the whole history for your {sessions}; {name} comes closest, at "
            f"{_figure(bill)}."
        )
    lost = f"{100 * best.lost.value:.0f} %" if best.lost else "none"
    return (
        f"Cheapest for your {sessions}: {name}, at {_figure(bill)} of the whole history; {lost} of the facts used "
        "later would have left the prompt."
    )


def _dial(best: EvidenceLine, pooled: EvidenceTable) -> str:
    name = best.name.removesuffix(" middle")
    ends = {
        case: line.bills[0].value
        for line in pooled.lines for case in ("best", "worst")
        if line.name == f"{name} {case}" and line.bills[0]
    }  # fmt: skip
    turn = best.turns[0] if best.turns else None
    parent = "in no case" if turn is None else f"above {100 * turn:.0f} %" if turn else "in any case"
    priced = f"Prices of {PRICED_AS}, cached reads at {READS[0]:g}."
    if not best.bills[0] or best.bills[0].value > _AS_GOOD:
        return f"This assumes that half of the lost facts are looked up again. {priced}"
    return (
        f"This assumes that half of the lost facts are looked up again: {name} is at {ends['best']:.2f} if none are, "
        f"at {ends['worst']:.2f} if all are; full costs less {parent}. {priced}"
    )


def _other_sessions(best: EvidenceLine, pooled: EvidenceTable) -> Iterator[str]:
    """Yield what the sessions say about others, if the sum has no interval or each session counts alike."""
    bill, alike, sessions = best.bills[0], best.alike[0], quantity(pooled.runs, "session")
    if not bill or not alike or bill.value > _AS_GOOD:
        return
    mean = f" The mean of the sessions' own ratios is {_figure(alike)}." if alike.low is not None else ""
    if best.differing < MIN_DIFFERING_ALIKE or (bill.low is None and pooled.tasks >= MIN_TASKS_OF_SUM):
        yield f"The bills differ in {best.differing:,} of {sessions}: too few for an interval of the sum.{mean}"
    elif bill.low is None:
        yield f"A few of {sessions} decide this sum; an interval needs {MIN_TASKS_OF_SUM}.{mean}"
    else:
        yield mean.strip()


def _cells(line: EvidenceLine) -> tuple[str, ...]:
    turn = line.turns[0] if line.turns else None
    parent = "" if not line.turns else "never" if turn is None else f"{100 * turn:.0f} %" if turn else "always"
    lost = f"{100 * line.lost.value:.0f} %" if line.lost else ""
    return (line.name.removesuffix(" middle"), *(_figure(bill) for bill in line.bills), lost, parent, "")


def _figure(figure: Interval | None) -> str:
    if figure is None:
        return ""
    if figure.low is None or figure.high is None or figure.low == figure.high:
        return f"{figure.value:.2f}"
    return f"{figure.value:.2f} [{figure.low:.2f}, {figure.high:.2f}]" if figure.high < inf else f"{figure.value:.2f}"
