"""``stackmem export``."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from stackmem.cli.options import argument, flag, option, run_folder, runs_folder, switch
from stackmem.core.errors import UsageError
from stackmem.formats.export import SWEBENCH, export_predictions, export_run


def command(
    run: str = argument(
        "RUN",
        "A run (folder, id, prefix, 'last'); for swebench also a folder of runs.",
    ),
    spelled: str = option(
        "--format", "One of atif, chrome, csv, inspect, mini, otel, sft, swebench.", "FORMAT", default=...
    ),
    out: Path | None = option("-o --out", "The file to write; by default stdout.", "FILE"),
    endpoint: str | None = option("--endpoint", "otel: send the spans to this collector.", "URL"),
    content: bool = switch("--content", "otel: include prompts, replies, arguments and results."),
    runs_dir: str | None = flag("runs_dir", short=False),
) -> None:
    """Write a run in another tool's format: a trajectory, spans, a timeline, training samples, or a table."""
    if spelled == SWEBENCH:
        if endpoint is not None or content:
            raise UsageError("--endpoint and --content are for --format otel, not swebench; leave them out")
        count = export_predictions(run, runs_folder(runs_dir), sys.stdout.buffer.write, out)
        sys.stdout.flush()
        if out is not None:
            typer.echo(f"{count:,} {'prediction' if count == 1 else 'predictions'} written to {out}")
        return
    folder = run_folder(run, runs_dir)
    done = export_run(folder, spelled, sys.stdout.buffer.write, out=out, endpoint=endpoint, content=content)
    sys.stdout.flush()
    if done.torn_bytes:
        typer.echo(
            f"stackmem: the last {done.torn_bytes:,} bytes of the trace are incomplete and not exported", err=True
        )
    if done.spans is not None:
        typer.echo(f"{folder.name}: {done.spans:,} spans sent to {endpoint}")
    elif out is not None:
        typer.echo(f"{folder.name}: written to {out}")
