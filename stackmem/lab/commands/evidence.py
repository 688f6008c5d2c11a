"""``stackmem evidence``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from stackmem.cli.options import argument, option
from stackmem.cli.screen.text import align, one_line, readable, terminal_width
from stackmem.core.errors import UsageError
from stackmem.core.text import quantity
from stackmem.lab.bench.evidence import READS, STRATEGIES, RecordingEntry, each_entry, study
from stackmem.lab.bench.own_sessions import STRATEGIES as OWN_STRATEGIES
from stackmem.lab.bench.own_sessions import own_sessions
from stackmem.lab.comparison.evidence import summary, write_evidence
from stackmem.lab.comparison.evidence_archive import (
    EvidenceArchive,
    differences,
    read_archive,
    refuse_unlike,
    write_archive,
)
from stackmem.lab.comparison.own_sessions import answer
from stackmem.lab.comparison.own_sessions import rows as rows_of_own
from stackmem.lab.whatif.recorded import parse_strategies
from stackmem.review.shown_work import shown_work
from stackmem.run.plugins.loading import load_plugins
from stackmem.trace.long_work import report_work

OWN_RECORDINGS = "mine"


def command(
    folder: Path = argument(
        "DIR", "Recordings of other agents; a folder MODEL@SUITE sets their model. 'mine' studies your own sessions."
    ),
    output: Path | None = option(
        "--output -o", "FILE.html, .md, .csv or .parquet; default evidence.html, with 'mine' none.", "FILE"
    ),
    rows: Path | None = option("--rows", "The file with the figures of each recording, which is reused.", "FILE.jsonl"),
    strategies: str | None = option("--strategies", "Strategies, separated by commas, or 'all'.", "LIST"),
    newest: int = option("--newest", "With 'mine', how many of the newest sessions.", "N", min=1, default=50),
    jobs: int = option("--jobs -j", "Parallel recordings; by default one per processor.", "N", min=0, default=0),
    archive: Path | None = option("--archive", "Save the study as one citable file.", "FILE"),
    repeat: Path | None = option("--repeat", "Repeat an archived study and compare.", "ARCHIVE"),
) -> None:
    """Compute what recordings of real agents would have cost under memory strategies, with intervals over tasks."""
    load_plugins()
    jobs = jobs or os.cpu_count() or 1
    selected = parse_strategies(strategies) if strategies else ()
    if str(folder) == OWN_RECORDINGS:
        if rows or archive or repeat:
            raise UsageError("evidence mine stores no figures; leave out --rows, --archive and --repeat")
        _study_own(newest, jobs, selected or OWN_STRATEGIES, output)
        return
    output = output or Path("evidence.html")
    rows_file = rows or output.with_suffix(".jsonl")
    archived = _archive_to_repeat(repeat, folder, rows_file) if repeat else None
    selected = archived.plan.strategies if archived else selected or STRATEGIES
    with shown_work():
        entries = study(folder, rows_file, jobs, _say_unread, selected)
        write_evidence(entries, output)
    typer.echo("\n".join(summary(entries)))
    typer.echo(f"wrote {output}; the figures of each recording are in {rows_file}")
    if archive is not None:
        write_archive(entries, folder, archive, ["stackmem", *sys.argv[1:]])
        typer.echo(f"archive: {archive}")
    if archived is not None:
        _compare(archived, entries)


def _say_unread(entry: RecordingEntry) -> None:
    if entry.unread:
        typer.echo(one_line(f"not read: {entry.file}: {entry.unread}"), err=True)


def _study_own(newest: int, jobs: int, strategies: tuple[str, ...], output: Path | None) -> None:
    """Study the user's own sessions. Nothing leaves this machine, and nothing is stored without ``output``."""
    home = Path(os.environ.get("HOME") or "~").expanduser()
    sessions = own_sessions(home, os.environ, newest)
    entries, files = list[RecordingEntry](), set[str]()
    with shown_work():
        report_work("sessions", 0, len(sessions.files))
        for entry in each_entry(home, sessions.files, jobs, strategies, READS[:1]):
            entries.append(entry)
            files.add(entry.file)
            _say_unread(entry)
            report_work("sessions", len(files), len(sessions.files))
    typer.echo(f"{quantity(len(files), 'recording')} of {len(sessions.files):,}", err=True)
    first, *others = answer(entries)
    typer.echo(first)
    typer.echo("\n".join(["", *align(rows_of_own(entries), (0, 5), width=terminal_width()), "", *others]))
    if sessions.older:
        typer.echo(f"{sessions.older:,} older sessions are left out; --newest N takes more")
    if output is not None:
        write_evidence(entries, output)
        typer.echo(f"wrote {output}")


def _archive_to_repeat(path: Path, folder: Path, rows: Path) -> EvidenceArchive:
    """Return the archive to repeat, if the recordings are the same and no figures exist yet."""
    archive = read_archive(path)
    refuse_unlike(archive, folder)
    if rows.exists():
        raise UsageError(
            f"{rows} already contains figures, but --repeat computes all of them; name another -o or --rows"
        )
    return archive


def _compare(archive: EvidenceArchive, entries: tuple[RecordingEntry, ...]) -> None:
    """Report whether the study is equal. Exits with 1 if it is not."""
    unlike = differences(archive, entries)
    for sentence in unlike:
        typer.echo(readable(sentence))
    typer.echo("not equal to the archive" if unlike else f"equal: {quantity(len(entries), 'recording')}")
    if unlike:
        sys.exit(1)
