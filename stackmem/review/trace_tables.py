"""Formats a run for ``stackmem trace`` and ``replay --step``: frames, steps, metrics, the cache bill, one step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from stackmem.cli.screen.text import align, one_line
from stackmem.core.pricing import Price, cost_usd
from stackmem.core.text import quantity
from stackmem.review.kept.cache_bill import CacheBill
from stackmem.review.measure.frames import FrameRow, ParallelRow
from stackmem.review.measure.metrics import METRICS, Value
from stackmem.review.measure.requests import RequestUse
from stackmem.review.measure.timeline import TimelineStep

_FRAME_HEADINGS = ("frame", "steps", "own", "peak context", "tokens", "cost", "seconds", "outcome")
_PARALLEL_HEADINGS = ("parallel frame", "steps", "tokens", "cost", "ending", "run")
_REQUEST_HEADINGS = ("request", "steps", "peak context", "looks repeated", "read", "written", "output", "cost")
_STEP_HEADINGS = ("step", "frame", "context", "output", "cost", "seconds", "heap", "outcome")


def frame_tree(rows: tuple[FrameRow, ...], width: int | None = None) -> list[str]:
    """Format one line per frame under a heading."""
    cells = [_FRAME_HEADINGS, *(_frame_cells(row, lead) for row, lead in _with_branches(rows))]
    return align(cells, left=(0,), outcomes=len(_FRAME_HEADINGS) - 1, width=width)


def _frame_cells(row: FrameRow, lead: str) -> tuple[str, ...]:
    verified = f" ({one_line(row.verified)})" if row.verified else ""
    outcome = f"{one_line(row.outcome)}{verified}"
    return (
        lead + one_line(row.name),
        f"{row.first_step}-{row.last_step}" if row.last_step >= row.first_step else "-",
        f"{row.steps:,}",
        f"{row.peak_context_tokens:,}",
        ("~" if row.usage.estimated else "") + f"{row.usage.total:,}",
        "unknown" if row.usd is None else f"${row.usd:.4f}",
        f"{row.seconds:,.1f}",
        f"{outcome}: {one_line(row.result)}" if row.result else outcome,
    )


def _with_branches(rows: tuple[FrameRow, ...]) -> Iterator[tuple[FrameRow, str]]:
    """Yield each frame after its parent, with the tree branches in front of it."""
    by_parent: dict[str, list[FrameRow]] = {}
    for row in rows:
        by_parent.setdefault(row.parent, []).append(row)
    waiting = [(row, "", "") for row in reversed(by_parent.get("", []))]
    while waiting:
        row, lead, trunk = waiting.pop()
        yield row, lead
        children = by_parent.get(row.id, [])
        last = len(children) - 1
        waiting += [
            (child, f"{trunk}{'└─ ' if position == last else '├─ '}", f"{trunk}{'   ' if position == last else '│  '}")
            for position, child in reversed(list(enumerate(children)))
        ]


def parallel_lines(rows: tuple[ParallelRow, ...]) -> list[str]:
    """Format one line per parallel frame under a heading; no lines if there are none."""
    cells = [
        (
            row.name,
            f"{row.steps:,}" if row.ending else "-",
            f"{row.tokens:,}" if row.ending else "-",
            "unknown" if row.usd is None else f"${row.usd:.4f}",
            (row.ending or "open") + (f", conflict in {one_line(', '.join(row.conflicts))}" if row.conflicts else ""),
            one_line(row.run),
        )
        for row in rows
    ]
    return ["", *align([_PARALLEL_HEADINGS, *cells], left=(0, 4, 5), outcomes=4)] if cells else []


def step_table(steps: Iterable[TimelineStep], width: int | None = None) -> list[str]:
    """Format one line per step under a heading; the frame's name is indented by depth."""
    return align([_STEP_HEADINGS, *map(_step_cells, steps)], left=(1,), outcomes=len(_STEP_HEADINGS) - 1, width=width)


def _step_cells(step: TimelineStep) -> tuple[str, ...]:
    call = " ".join(filter(None, (one_line(step.tool)[:30], one_line(step.about)))) or "no call"
    detail = f" ({one_line(step.detail)})" if step.detail else ""
    guessed = "~" if step.usage.estimated else ""
    return (
        f"{step.step:,}",
        "  " * step.depth + one_line(step.name),
        f"{guessed}{step.context_tokens:,}",
        f"{guessed}{step.usage.output:,}",
        "unknown" if step.usd is None else f"${step.usd:.4f}",
        f"{step.model_seconds + step.tools_seconds + step.harness_seconds:,.1f}",
        f"{step.heap_chars:,}",
        f"{step.outcome}{detail}: {call}",
    )


def metric_table(values: Mapping[str, Value]) -> list[str]:
    """Format one line per metric: name, value, and the unit if the name does not contain it."""
    rows = []
    for name, metric in METRICS.items():
        tells_unit = name.endswith(("_tokens", "_seconds", "_usd")) or name == metric.unit
        rows.append((name, _metric_text(values[name], metric.unit), "" if tells_unit else metric.unit))
    return align(rows, left=(0,))


def _metric_text(value: Value, unit: str) -> str:
    if value is None:
        return "unknown" if unit == "USD" else "-"
    if unit == "USD":
        return f"{value:,.4f}"
    if unit.startswith("share"):
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def cache_lines(cache: CacheBill) -> list[str]:
    """Format the tokens by class, the cost, and how often the prefix broke and why."""
    usage, bill = cache.bill.usage, cache.bill
    lines = [
        f"simulated cache of {cache.model}, which stores prefixes of at least {cache.minimum_tokens:,} tokens; "
        f"tokens counted as {cache.counted}",
        f"  read {usage.cache_read:,}, written {usage.cache_write_5m:,} for 5 minutes and {usage.cache_write_1h:,} "
        f"for 1 hour, uncached {usage.uncached:,}, output {usage.output:,}",
    ]
    if bill.usd is None or bill.usd_without_cache is None:
        lines.append("  cost unknown: no price known for this model")
    else:
        lines.append(f"  cost ${bill.usd:,.4f}; without a cache ${bill.usd_without_cache:,.4f}")
    if bill.not_sent:
        lines.append(
            f"  {bill.not_sent:,} of {bill.requests:,} prompts differ from those that were sent: the run was imported, "
            "or recorded under different rules"
        )
    unbroken = bill.requests - sum(bill.broken.values())
    lines.append(f"  {unbroken:,} of {quantity(bill.requests, 'request')} continued at the end of their conversation")
    lines += [
        f"  {times:,} did not: {reason}" for reason, times in sorted(bill.broken.items(), key=lambda pair: -pair[1])
    ]
    return lines


def request_table(uses: Iterable[RequestUse], price: Price | None) -> list[str]:
    """Format one line per request of a conversation, by the simulated cache; empty without requests."""
    rows = [
        (
            f"{number:,}",
            f"{use.steps:,}",
            f"{use.peak_tokens:,}",
            f"{use.repeated_looks:,}",
            f"{use.usage.cache_read:,}",
            f"{use.usage.cache_write_5m + use.usage.cache_write_1h:,}",
            f"{use.usage.output:,}",
            "unknown" if price is None else f"${cost_usd(use.usage, price):.4f}",
        )
        for number, use in enumerate(uses, 1)
    ]
    return align([_REQUEST_HEADINGS, *rows], left=()) if rows else []
