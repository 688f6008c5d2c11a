"""Writes a run in another tool's format, to a file or to a collector."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from stackmem.errors import UsageError
from stackmem.tools.plugins import load_plugins
from stackmem.trace.lineage import RunReader
from stackmem.trace.record import Record

INSPECT, SWEBENCH = "inspect", "swebench"
"""Formats that are no text, and no fold over one run's records."""

Fold = Callable[[Iterable[Record], str], Iterator[str]]


class Exported(Struct, frozen=True):
    """What was written.

    Attributes:
        spans: Sent to a collector; None where a file or the screen was written.
        torn_bytes: Bytes after the run's last whole record; they are not in it.

    """

    spans: int | None
    torn_bytes: int


def export_run(
    run_dir: Path,
    spelled: str,
    write: Callable[[bytes], object],
    *,
    out: Path | None,
    endpoint: str | None,
    content: bool,
) -> Exported:
    """Fold the run into its export.

    Args:
        spelled: The format.
        write: Takes the text where neither a file nor a collector is named.
        out: A file that appears whole or not at all.
        endpoint: A collector, for ``otel``.
        content: Whether spans carry what was said, for ``otel``.

    Raises:
        UsageError: The format is unknown, or the collector did not take all.
        TraceError: A record is broken, or the run's strategy is not installed here.

    """
    from stackmem.formats.exports import EXPORTS
    from stackmem.formats.exports.collector import send
    from stackmem.formats.exports.otel import otel_with_content, requests

    if spelled not in EXPORTS and spelled != INSPECT:
        raise UsageError(f"no format {spelled!r}; known: {', '.join(sorted((*EXPORTS, INSPECT, SWEBENCH)))}")
    if (endpoint is not None or content) and spelled != "otel":
        raise UsageError(f"--endpoint and --content are for --format otel, not {spelled}; leave them out")
    if endpoint is not None and out is not None:
        raise UsageError("-o writes a file and --endpoint sends to a collector; give one of them")
    load_plugins()
    reader = RunReader(run_dir)
    if spelled == INSPECT:
        return _inspect(reader, run_dir.name, out)
    if endpoint is not None:
        return Exported(send(requests(reader, run_dir.name, content=content), endpoint), reader.torn_bytes)
    fold: Fold = otel_with_content if content else EXPORTS[spelled]
    pieces = (piece.encode() for piece in fold(reader, run_dir.name))
    if out is None:
        for piece in pieces:
            write(piece)
    else:
        _write_whole(out, pieces)
    return Exported(None, reader.torn_bytes)


def export_predictions(named: str, runs_dir: Path, write: Callable[[bytes], object], out: Path | None) -> int:
    """Write what runs changed for SWE-bench: JSON Lines, or one object where the file is named ``.json``.

    Args:
        named: A run, or a folder of runs or of a bench.

    Returns:
        The number of predictions.

    Raises:
        UsageError: There is no such run, one has no patch, or one object cannot hold them.
        TraceError: A trace is broken.

    """
    from .predictions import predictions, spelled

    found = predictions(named, runs_dir)
    pieces = (piece.encode() for piece in spelled(found, by_instance=out is not None and out.suffix == ".json"))
    if out is None:
        for piece in pieces:
            write(piece)
    else:
        _write_whole(out, pieces)
    return len(found)


def _inspect(reader: RunReader, run: str, out: Path | None) -> Exported:
    from stackmem.formats.exports.inspect_log import write_inspect

    if out is None:
        raise UsageError("--format inspect writes a file that is no text; name it with -o FILE.eval")
    write_inspect(reader, run, out)
    return Exported(None, reader.torn_bytes)


def _write_whole(out: Path, pieces: Iterable[bytes]) -> None:
    """A device or a pipe is written to as it is; a file is replaced once it is whole."""
    if out.exists() and not out.is_file():
        with out.open("wb") as sink:
            sink.writelines(pieces)
        return
    fresh = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with fresh.open("xb") as sink:
            sink.writelines(pieces)
        fresh.replace(out)
    except BaseException:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
