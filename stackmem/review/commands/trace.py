"""``stackmem trace``: show, measure, pack, recover and redact a run's trace."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import typer
from msgspec import UNSET

from stackmem.cli.options import Json, RunName, flag, option, run_folder, switch
from stackmem.cli.screen.text import echo_json, one_line, readable, say, terminal_width
from stackmem.core.errors import TraceError
from stackmem.core.state import State
from stackmem.core.text import quantity
from stackmem.models.catalog import lookup
from stackmem.review.kept.cache_bill import cache_bill, moments_of
from stackmem.review.kept.pack import pack
from stackmem.review.kept.recover import recover_run
from stackmem.review.kept.redact import redact_run
from stackmem.review.kept.run_list import name_of
from stackmem.review.measure.frames import ParallelRow, frames, parallel_rows
from stackmem.review.measure.metrics import measure
from stackmem.review.measure.moments import Moment
from stackmem.review.measure.timeline import timeline
from stackmem.review.trace_tables import (
    cache_lines,
    frame_tree,
    metric_table,
    parallel_lines,
    request_table,
    step_table,
)
from stackmem.run.run_folder import TRACE
from stackmem.trace.imported import shown_strategy, stated_by_recording
from stackmem.trace.lineage import RunReader, begun_by, came_from
from stackmem.trace.lock import current_outcome

app = typer.Typer(help="Show, measure, pack or redact the trace of a run.", no_args_is_help=True)


@app.command("show", short_help="Show a run's frames as a tree, or its steps.")
def show_command(
    run: RunName,
    steps: bool = switch("--steps", "Show every step instead of every frame."),
    runs_dir: str | None = flag("runs_dir"),
    json: Json = False,
) -> None:
    """Show a run's frames as a tree, or its steps, with their cost and outcome."""
    folder = run_folder(run, runs_dir)
    last: list[Moment] = []
    run_moments = _note_last(moments_of(folder), last)
    by_step = tuple(timeline(run_moments)) if steps else ()
    by_frame = () if steps else frames(run_moments)
    if json:
        rows = {"steps": by_step} if steps else {"frames": by_frame}
        head = {
            "run": name_of(folder),
            "outcome": _outcome(folder, last[0].after),
            "parent": came_from(folder),
            "parallel": _parallel(folder),
        }
        echo_json(head | rows)
        return
    width = terminal_width()
    lines = step_table(by_step, width) if steps else frame_tree(by_frame, width)
    typer.echo("\n".join([_title(folder, last[0]), "", *lines, *parallel_lines(_parallel(folder))]))


@app.command("stats", short_help="Measure a run.")
def stats_command(
    run: RunName,
    simulate: str | None = option("--simulate", "Also simulate the prompt cache of this model.", "MODEL"),
    runs_dir: str | None = flag("runs_dir"),
    json: Json = False,
) -> None:
    """Measure a run: its cost, its use of memory, and what it forgot."""
    folder = run_folder(run, runs_dir)
    billed = cache_bill(folder, simulate) if simulate is not None else None
    last: list[Moment] = []
    metrics = measure(_note_last(moments_of(folder), last))
    if json:
        parallel = _parallel(folder)
        head = {"run": name_of(folder), "outcome": _outcome(folder, last[0].after), "parallel": parallel}
        echo_json(head | {"metrics": metrics, "cache": billed})
        return
    lines = [_title(folder, last[0]), "", *metric_table(metrics), *parallel_lines(_parallel(folder))]
    if billed is not None:
        row = lookup(billed.model)
        request_lines = request_table(billed.requests, row.price if row else None)
        lines += ["", *cache_lines(billed), *([""] if request_lines else []), *request_lines]
    typer.echo("\n".join(lines))


@app.command("pack", short_help="Write a run as one self-contained archive.")
def pack_command(
    run: RunName,
    output: str | None = option("-o --output", "The archive. Default: RUN.zip in the current folder.", "FILE"),
    runs_dir: str | None = flag("runs_dir", short=False),
    json: Json = False,
) -> None:
    """Write a run as one self-contained archive, with its parents' records, its parallel frames and all its files."""
    folder = run_folder(run, runs_dir)
    out = Path(os.path.expanduser(output)) if output is not None else Path.cwd() / f"{folder.resolve().name}.zip"
    packed = pack(folder, out)
    if packed.missing:
        say(
            f"{packed.missing:,} files or folders are missing from the history, which can happen in a power cut; "
            "the archive lacks them too"
        )
    if packed.missing_frames:
        say(f"the archive lacks parallel frames whose runs are missing: {', '.join(packed.missing_frames)}")
    if json:
        echo_json(packed)
        return
    parents = f", including {len(packed.parents)} parents" if packed.parents else ""
    frames = f", {quantity(len(packed.frames), 'parallel frame')}" if packed.frames else ""
    typer.echo(
        f"{readable(packed.file)}: {packed.records:,} records{parents}{frames}, "
        f"{packed.objects:,} objects of its history, {packed.bytes / (1 << 20):,.1f} MiB"
    )


@app.command("recover", short_help="Save the intact part of a broken run.")
def recover_command(
    run: RunName,
    runs_dir: str | None = flag("runs_dir"),
    json: Json = False,
) -> None:
    """Save the intact beginning of a run with a broken trace as a new run."""
    saved = recover_run(run_folder(run, runs_dir))
    if json:
        echo_json(saved)
        return
    typer.echo(f"saved {saved.records:,} records, up to step {saved.step:,}, as {saved.run}")
    typer.echo(f"lost {saved.lost_bytes:,} bytes: {saved.reason}")
    typer.echo(f"it cannot be resumed: {saved.not_resumable}" if saved.not_resumable else "it can be resumed")


@app.command("redact", short_help="Copy a run with secrets replaced.")
def redact_command(
    run: RunName,
    pattern: list[str] = option("--pattern", "Text to replace; repeatable.", "REGEX", default=...),
    runs_dir: str | None = flag("runs_dir"),
    json: Json = False,
) -> None:
    """Copy a run with each match replaced by the same number of x. The copy can be verified, viewed and measured."""
    redacted = redact_run(run_folder(run, runs_dir), pattern)
    if json:
        echo_json(redacted)
        return
    count = len(redacted.records)
    typer.echo(
        f"{redacted.run} is a redacted copy of {redacted.of}: {count:,} {'record' if count == 1 else 'records'} changed"
    )
    typer.echo("it has no files and no patch, and cannot be resumed or forked")


def _note_last(run: Iterable[Moment], last: list[Moment]) -> Iterator[Moment]:
    for moment in run:
        last[:] = [moment]
        yield moment
    if not last:
        raise TraceError("the trace is empty; the run ended before its first record")


def _outcome(folder: Path, state: State) -> str:
    return current_outcome(folder / TRACE, state.outcome)


def _parallel(folder: Path) -> tuple[ParallelRow, ...]:
    return parallel_rows((record.event for record in RunReader(folder)), folder.resolve().name)


def _title(folder: Path, last: Moment) -> str:
    state = last.after
    start = state.begun
    estimated = "; the model reported no tokens, so they are estimated (~)" if state.usage.estimated else ""
    return (
        f"{one_line(name_of(folder))}: {_outcome(folder, state)} after {quantity(state.step, 'step')}, "
        f"model {one_line(start.model)}, "
        f"strategy {one_line(shown_strategy(start, stated_by_recording(folder)))}{estimated}{_origin(folder, last)}"
    )


def _origin(folder: Path, last: Moment) -> str:
    """Return the run that this one started from, on a separate line."""
    fork, program = begun_by(folder), last.after.program
    if fork is not None and fork.frame:
        return f"\nparallel {fork.frame} of {one_line(fork.parent)}, from record {fork.at:,}"
    if fork is not None:
        return f"\nforked from {one_line(fork.parent)} at record {fork.at:,}"
    if program is None or program.start.continued is UNSET:
        return ""
    edited = program.start.continued
    changed = f"; reloaded: {', '.join(map(one_line, edited.changed))}" if edited.changed else ""
    return (
        f"\ncontinued from {one_line(edited.parent)} with an edited program: {edited.answers:,} of {edited.recorded:,} "
        f"answers reused{changed}"
    )
