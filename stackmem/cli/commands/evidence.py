"""``stackmem evidence``."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from stackmem.bench.evidence import RecordingEntry, study
from stackmem.cli.options import argument, option
from stackmem.cli.screen.text import one_line
from stackmem.report.evidence import summary, write_evidence


def command(
    folder: Path = argument("DIR", "Recordings of other agents; in a folder MODEL@SUITE they are that model's."),
    output: Path = option("--output -o", "FILE.html, .md or .csv.", "FILE", default=Path("evidence.html")),
    rows: Path | None = option("--rows", "Where each recording's figures are kept, and found again.", "FILE.jsonl"),
    jobs: int = option("--jobs -j", "Recordings at once; as many as processors without it.", "N", min=0, default=0),
) -> None:
    """Say what recordings of real agents would have cost under memory strategies, with intervals over tasks."""
    kept = rows or output.with_suffix(".jsonl")
    counted = [0]

    def done(entry: RecordingEntry) -> None:
        counted[0] += 1
        if entry.unread:
            typer.echo(one_line(f"not read: {entry.file}: {entry.unread}"), err=True)
        if counted[0] % 50 == 0:
            typer.echo(f"{counted[0]:,} recordings", err=True)

    entries = study(folder, kept, jobs or os.cpu_count() or 1, done)
    write_evidence(entries, output)
    typer.echo("\n".join(summary(entries)))
    typer.echo(f"wrote {output}; the figures of each recording are in {kept}")
