"""``stackmem export``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from stackmem.cli.options import flag
from stackmem.cli.places import run_folder, runs_folder
from stackmem.errors import UsageError
from stackmem.kept.export import SWEBENCH, export_predictions, export_run


def command(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A run's folder, id, unique prefix of one, or 'last'; swebench: also a folder of runs."
        ),
    ],
    spelled: Annotated[
        str,
        typer.Option(
            "--format", metavar="FORMAT", help="One of atif, chrome, csv, inspect, mini, otel, sft, swebench."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Where to write; stdout without it.")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", metavar="URL", help="otel: send the spans to this collector.")
    ] = None,
    content: Annotated[
        bool, typer.Option("--content", help="otel: with prompts, replies, arguments and results.")
    ] = False,
    runs_dir: str | None = flag("runs_dir"),
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
        typer.echo(f"stackmem: its last {done.torn_bytes:,} bytes were cut short and are not exported", err=True)
    if done.spans is not None:
        typer.echo(f"{folder.name}: {done.spans:,} spans sent to {endpoint}")
    elif out is not None:
        typer.echo(f"{folder.name}: written to {out}")
