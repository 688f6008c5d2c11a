"""``stackmem evidence``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from stackmem.cli.options import argument, option
from stackmem.cli.screen.text import one_line, readable
from stackmem.core.text import quantity
from stackmem.errors import UsageError
from stackmem.lab.bench.evidence import STRATEGIES, RecordingEntry, study
from stackmem.lab.comparison.evidence import summary, write_evidence
from stackmem.lab.comparison.evidence_archive import (
    EvidenceArchive,
    differences,
    read_archive,
    refuse_unlike,
    write_archive,
)
from stackmem.lab.whatif.recorded import parse_strategies
from stackmem.tools.plugins import load_plugins


def command(
    folder: Path = argument("DIR", "Recordings of other agents; a folder MODEL@SUITE sets their model."),
    output: Path = option("--output -o", "FILE.html, .md or .csv.", "FILE", default=Path("evidence.html")),
    rows: Path | None = option("--rows", "The file with the figures of each recording, which is reused.", "FILE.jsonl"),
    strategies: str = option(
        "--strategies", "Strategies, separated by commas, or 'all'.", "LIST", default=",".join(STRATEGIES)
    ),
    jobs: int = option("--jobs -j", "Parallel recordings; by default one per processor.", "N", min=0, default=0),
    archive: Path | None = option("--archive", "Save the study as one citable file.", "FILE"),
    repeat: Path | None = option("--repeat", "Repeat an archived study and compare.", "ARCHIVE"),
) -> None:
    """Compute what recordings of real agents would have cost under memory strategies, with intervals over tasks."""
    load_plugins()
    rows_file = rows or output.with_suffix(".jsonl")
    held = _held(repeat, folder, rows_file) if repeat else None
    counted = [0]

    def done(entry: RecordingEntry) -> None:
        counted[0] += 1
        if entry.unread:
            typer.echo(one_line(f"not read: {entry.file}: {entry.unread}"), err=True)
        if counted[0] % 50 == 0:
            typer.echo(f"{counted[0]:,} recordings", err=True)

    chosen = held.plan.strategies if held else parse_strategies(strategies)
    entries = study(folder, rows_file, jobs or os.cpu_count() or 1, done, chosen)
    write_evidence(entries, output)
    typer.echo("\n".join(summary(entries)))
    typer.echo(f"wrote {output}; the figures of each recording are in {rows_file}")
    if archive is not None:
        write_archive(entries, folder, archive, ["stackmem", *sys.argv[1:]])
        typer.echo(f"archive: {archive}")
    if held is not None:
        _compare(held, entries)


def _held(path: Path, folder: Path, rows: Path) -> EvidenceArchive:
    """Return the archive to repeat, if the recordings are the same and no figures exist yet."""
    held = read_archive(path)
    refuse_unlike(held, folder)
    if rows.exists():
        raise UsageError(
            f"{rows} already contains figures, but --repeat computes all of them; name another -o or --rows"
        )
    return held


def _compare(held: EvidenceArchive, entries: tuple[RecordingEntry, ...]) -> None:
    """Report whether the study is equal. Exits with 1 if it is not."""
    unlike = differences(held, entries)
    for sentence in unlike:
        typer.echo(readable(sentence))
    typer.echo("not equal to the archive" if unlike else f"equal: {quantity(len(entries), 'recording')}")
    if unlike:
        sys.exit(1)
