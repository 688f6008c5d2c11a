"""``stackmem diff``."""

from __future__ import annotations

from collections.abc import Iterator

import typer

from stackmem.cli.options import Json, argument, flag, run_folder
from stackmem.cli.screen.result import left_out_of_comparison
from stackmem.cli.screen.text import echo_json, one_line, readable, spell_cost
from stackmem.core.text import quantity
from stackmem.review.diff import ChunkDiff, FactPlace, RunDiff, Side, diff_runs
from stackmem.trace.open_run import Run

_FILE_LINES = 60
_CELL = 40


def command(
    a: str = argument("A", "A run: folder, id, id prefix, last six characters of an id, or 'last'."),
    b: str = argument("B", "The run to compare with."),
    runs_dir: str | None = flag("runs_dir"),
    json: Json = False,
) -> None:
    """Show where two runs diverge, and compare their results."""
    difference = diff_runs(Run(run_folder(a, runs_dir)), Run(run_folder(b, runs_dir)))
    if json:
        echo_json(difference)
    else:
        typer.echo(readable("\n".join(_lines(difference))))


def _lines(difference: RunDiff) -> Iterator[str]:
    yield f"A  {difference.a.run}"
    yield f"B  {difference.b.run}"
    for letter, side in (("A", difference.a), ("B", difference.b)):
        if side.forked:
            yield f"{letter} was forked from {one_line(side.forked)}"
    if difference.conditions:
        yield f"\nThey started differently:\n{difference.conditions}"
    yield ""
    yield from _parting(difference)
    yield ""
    rows = [("", "A", "B"), *_rows(difference.a, difference.b)]
    first, second = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
    for name, value_a, value_b in rows:
        yield f"{name:<{first}}  {value_a:<{second}}  {value_b}".rstrip()
    for chunk in difference.heap:
        yield f"heap {chunk.name}: {_chunk(chunk)}"
    yield f"\nfiles that differ at the end: {difference.files_missing or len(difference.files)}"
    for file in difference.files:
        yield f"-- {one_line(file.path)}, {file.kind} from A to B"
        lines = file.diff.splitlines()
        yield from lines[:_FILE_LINES]
        if len(lines) > _FILE_LINES:
            yield f"[... {len(lines) - _FILE_LINES:,} more lines ...]"


def _parting(difference: RunDiff) -> Iterator[str]:
    part = difference.parting
    if difference.differs_only_in:
        yield left_out_of_comparison(difference.differs_only_in)
    if part is None:
        yield f"they do not diverge: all {quantity(difference.same_facts, 'event')} are equal"
        return
    yield f"they diverge after {difference.same_facts:,} equal events:"
    yield from (f"  {letter}: {_position_text(position)}" for letter, position in (("A", part.a), ("B", part.b)))
    if part.fields:
        yield part.fields


def _position_text(position: FactPlace | None) -> str:
    if position is None:
        return "ended earlier"
    frame = f" in {one_line(position.frame)!r}" if position.frame else ""
    return f"step {position.step}{frame}, record {position.seq}: {one_line(position.event)}"


def _rows(a: Side, b: Side) -> Iterator[tuple[str, str, str]]:
    def row(name: str, value_a: object, value_b: object) -> tuple[str, str, str]:
        return name, _cell(value_a), _cell(value_b)

    yield row("task", a.task, b.task)
    yield row("model", a.model, b.model)
    yield row("strategy", a.strategy, b.strategy)
    yield row("outcome", a.outcome, b.outcome)
    yield row("ending", a.ending, b.ending)
    yield row("steps", a.steps, b.steps)
    yield row("frames pushed", a.frames, b.frames)
    yield row("tokens", a.usage.total, b.usage.total)
    yield row("output tokens", a.usage.output, b.usage.output)
    yield row("cached tokens", a.usage.cache_read, b.usage.cache_read)
    yield row("cost", *(spell_cost(side.usd, side.usage.total, "unknown") for side in (a, b)))
    yield row("peak context, tokens", a.peak_context_tokens, b.peak_context_tokens)
    yield row("heap at the end, chars", a.heap_chars, b.heap_chars)
    yield row("heap at the end, chunks", a.heap_chunks, b.heap_chunks)


def _cell(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) else one_line(str(value))
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def _chunk(chunk: ChunkDiff) -> str:
    sides = ["none" if chars is None else f"{chars:,} chars" for chars in (chunk.a_chars, chunk.b_chars)]
    return f"A {sides[0]}, B {sides[1]}" + ("" if None in (chunk.a_chars, chunk.b_chars) else ", other content")
