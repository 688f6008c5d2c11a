"""``stackmem heap``: chunks that are kept between runs on a folder."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import typer

from stackmem.cli.options import JsonArray, absolute, argument, option, switch
from stackmem.cli.screen.text import align, echo_json, one_line, readable, terminal_width
from stackmem.core.errors import UsageError
from stackmem.core.tools import StoreEntry
from stackmem.review.kept.kept_heaps import (
    KeptRow,
    free_kept,
    kept_content,
    kept_rows,
    prune_gone,
    prune_kept,
    write_kept,
)
from stackmem.review.kept.removal import read_age
from stackmem.run.companion.kept_heap import KEEP, HeapStore, all_heaps, heap_store

app = typer.Typer(help="Manage the chunks that are kept between runs on a folder.", no_args_is_help=True)

_FOLDER = option("--folder", "The folder that the chunks belong to; by default the current one.", "DIR", default=".")
_HEAP = option("--heap", "The file with the chunks, if they are not stored for a folder.", "FILE", default=KEEP)
_NAME = argument("NAME", "The chunk's name.")


def _store(folder: str, heap: str) -> HeapStore:
    path = absolute(folder)
    if heap == KEEP and not path.is_dir():
        raise UsageError(f"{folder} is not a folder; stackmem heap list --all lists all folders with chunks")
    return heap_store(heap, path, Path.cwd(), os.environ)


@app.command("list", short_help="List the chunks of a folder.")
def list_command(
    folder: str = _FOLDER,
    heap: str = _HEAP,
    every: bool = switch("--all", "List the chunks of every folder."),
    json: JsonArray = False,
) -> None:
    """List the chunks of a folder with their sources, and whether a source has changed since."""
    stores = all_heaps(os.environ) if every else [_store(folder, heap)]
    rows = [row for store in stores for row in kept_rows(store)]
    if json:
        echo_json(rows)
        return
    if not rows:
        typer.echo("no chunks are stored here; runs with --heap keep store them")
        return
    headings = (*(("folder",) if every else ()), "chunk", "chars", "state", "age", "source", "description")
    cells = [(*((one_line(row.folder),) if every else ()), *_cells(row)) for row in rows]
    left_columns = tuple(position for position, name in enumerate(headings) if name not in ("chars", "age"))
    for line in align([headings, *cells], left=left_columns, width=terminal_width()):
        typer.echo(line)


def _cells(row: KeptRow) -> tuple[str, ...]:
    age = _age(time.time() - row.written)
    return one_line(row.name), f"{row.chars:,}", row.state, age, one_line(row.source), one_line(row.description)


def _age(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return "now"


@app.command("read", short_help="Print a chunk.")
def read_command(name: str = _NAME, folder: str = _FOLDER, heap: str = _HEAP) -> None:
    """Print the content of a chunk."""
    typer.echo(readable(kept_content(_store(folder, heap), name)), nl=False)


@app.command("write", short_help="Write a chunk.")
def write_command(
    name: str = _NAME,
    text: str | None = option("-t --text", "The content; by default read from standard input.", "TEXT"),
    description: str = option("--description", "The description in the index.", "TEXT", default=""),
    source: str = option("--source", "The file in the folder that the chunk describes.", "FILE", default=""),
    folder: str = _FOLDER,
    heap: str = _HEAP,
) -> None:
    """Write a chunk for later runs, replacing a chunk of the same name."""
    content = sys.stdin.read() if text is None else text
    write_kept(_store(folder, heap), StoreEntry(name, content, description, source))


@app.command("free", short_help="Free chunks.")
def free_command(
    names: list[str] = argument("NAME...", "The chunks' names."), folder: str = _FOLDER, heap: str = _HEAP
) -> None:
    """Free chunks. The traces of the runs that wrote them still contain them."""
    free_kept(_store(folder, heap), names)


@app.command("prune", short_help="Free old or stale chunks.")
def prune_command(
    older_than: str | None = option("--older-than", "Free chunks not written for this long, such as 30d.", "AGE"),
    stale: bool = switch("--stale", "Free chunks whose source file has changed or is gone."),
    gone: bool = switch("--gone", "Free all chunks of folders that no longer exist."),
    dry_run: bool = switch("--dry-run", "Only show what would be freed."),
    folder: str = _FOLDER,
    heap: str = _HEAP,
) -> None:
    """Free old or stale chunks of a folder, or all chunks of folders that no longer exist."""
    if older_than is None and not stale and not gone:
        raise UsageError("missing selection; pass --older-than AGE, --stale or --gone")
    does = "would be freed" if dry_run else "freed"
    if older_than is not None or stale:
        age = None if older_than is None else read_age(older_than)
        for row in prune_kept(_store(folder, heap), age, stale=stale, dry_run=dry_run):
            typer.echo(f"{one_line(row.name)} {does}")
    for store in prune_gone(os.environ, dry_run=dry_run) if gone else ():
        typer.echo(f"the heap of {one_line(store.folder)} {does}")
