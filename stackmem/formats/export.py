"""Export runs in another tool's format to a file or collector, and their patches in the format of SWE-bench."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.facts import RunStarted
from stackmem.foreign.files import read_regular
from stackmem.run.companion.find import find_run
from stackmem.run.plugins.loading import load_plugins
from stackmem.run.run_folder import PATCH, TRACE
from stackmem.trace.imported import shown_strategy, stated_by_recording
from stackmem.trace.lineage import RunReader
from stackmem.trace.record import Record
from stackmem.trace.signatures import MAX_SIGNED_BYTES

INSPECT, SWEBENCH = "inspect", "swebench"
"""Formats that are not text, or not a fold over one run's records."""

Fold = Callable[[Iterable[Record], str], Iterator[str]]


class Exported(Struct, frozen=True):
    """The result of an export."""

    spans: int | None  # sent to a collector; None for a file or the screen
    torn_bytes: int  # bytes after the run's last complete record, which are not exported


class Prediction(Struct, frozen=True):
    """One line. ``instance_id`` is the name of the task that was solved."""

    instance_id: str
    model_name_or_path: str
    model_patch: str


def export_run(
    run_dir: Path,
    spelled: str,  # name of the format
    write: Callable[[bytes], object],  # receives the text if neither a file nor a collector is given
    *,
    out: Path | None,  # a file, written atomically
    endpoint: str | None,  # a collector, for ``otel``
    content: bool,  # whether spans include prompts and replies, for ``otel``
) -> Exported:
    """Export the run in the format.

    Raise UsageError if the format is unknown, or the collector did not accept everything. Raise TraceError if a record
    is broken, or the run's strategy is not installed.
    """
    from stackmem.formats.exports import EXPORTS
    from stackmem.formats.exports.otel import otel_with_content, requests
    from stackmem.formats.exports.otlp import send

    load_plugins()
    if spelled not in EXPORTS and spelled != INSPECT:
        raise UsageError(f"no format {spelled!r}; known: {', '.join(sorted((*EXPORTS, INSPECT, SWEBENCH)))}")
    if (endpoint is not None or content) and spelled != "otel":
        raise UsageError(f"--endpoint and --content are for --format otel, not {spelled}; leave them out")
    if endpoint is not None and out is not None:
        raise UsageError("-o writes a file and --endpoint sends to a collector; give one of them")
    reader = RunReader(run_dir)
    if spelled == INSPECT:
        return _inspect(reader, run_dir.name, out)
    if endpoint is not None:
        return Exported(send(requests(reader, run_dir.name, content=content), endpoint), reader.torn_bytes)
    fold: Fold = otel_with_content if content else EXPORTS[spelled]
    _write(_pieces(fold(reader, run_dir.name), spelled), write, out)
    return Exported(None, reader.torn_bytes)


def export_predictions(run_or_folder: str, runs_dir: Path, write: Callable[[bytes], object], out: Path | None) -> int:
    """Write the changes of runs for SWE-bench: JSON Lines, or one object if the file's name ends in ``.json``.

    ``run_or_folder`` is a run, or a folder of runs or of a bench. Raise UsageError if the run does not exist, a run has
    no patch, or one object cannot contain all predictions. Raise TraceError if a trace is broken.

    Returns:
        The number of predictions.
    """
    predictions = _predictions(run_or_folder, runs_dir)
    texts = _prediction_text(predictions, by_instance=out is not None and out.suffix == ".json")
    _write((text.encode() for text in texts), write, out)
    return len(predictions)


def _pieces(pieces: Iterable[object], spelled: str) -> Iterator[bytes]:
    for piece in pieces if isinstance(pieces, Iterable) else (pieces,):
        if not isinstance(piece, str):
            wrong = f"the exporter {spelled} returned {type(piece).__name__} instead of text"
            raise UsageError(f"{wrong}; fix or uninstall the package that provides it")
        yield piece.encode()


def _inspect(reader: RunReader, run: str, out: Path | None) -> Exported:
    from stackmem.formats.exports.inspect_log import write_inspect

    if out is None:
        raise UsageError("--format inspect writes a binary file; name it with -o FILE.eval")
    write_inspect(reader, run, out)
    return Exported(None, reader.torn_bytes)


def _write(pieces: Iterable[bytes], write: Callable[[bytes], object], out: Path | None) -> None:
    """Write to a file atomically, or pass the pieces to ``write`` without a file. Special files are written directly.

    A link is kept, because a command with redirected output finds a file behind the machine's own ``/dev/stdout``.
    """
    if out is None:
        for piece in pieces:
            write(piece)
        return
    if out.is_symlink() or (out.exists() and not out.is_file()):
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


def _predictions(run_or_folder: str, runs_dir: Path) -> list[Prediction]:
    """Return a prediction for the named run, or for every run below a folder of runs or of a bench.

    Repeated runs of one task with the same model and strategy get the suffixes ``#2``, ``#3`` and so on, in the order
    of their names. Raise UsageError if the folder contains no run, or a run has no patch.
    """
    times: Counter[tuple[str, str]] = Counter()
    predictions = []
    for folder in _run_folders(run_or_folder, runs_dir):
        start = _start(folder)
        solver = f"stackmem/{start.model}/{shown_strategy(start, stated_by_recording(folder))}"
        times[start.task_name, solver] += 1
        count = times[start.task_name, solver]
        predictions.append(Prediction(start.task_name, f"{solver}#{count}" if count > 1 else solver, _patch(folder)))
    return predictions


def _run_folders(run_or_folder: str, runs_dir: Path) -> list[Path]:
    """Return the named run, or every run below the named folder."""
    target = Path(run_or_folder)
    if target.is_dir() and not (target / TRACE).is_file():
        folders = sorted(path.parent for path in target.glob(f"**/{TRACE}"))
        if folders:
            return folders
    return [find_run(run_or_folder, runs_dir)]


def _prediction_text(predictions: Iterable[Prediction], *, by_instance: bool) -> Iterator[str]:
    """Format the predictions as JSON Lines, or as one object keyed by instance.

    Raise UsageError if two predictions are for the same instance, and an object has room for only one.
    """
    if not by_instance:
        for prediction in predictions:
            yield msgspec.json.encode(prediction).decode() + "\n"
        return
    table: dict[str, Prediction] = {}
    for prediction in predictions:
        if prediction.instance_id in table:
            raise UsageError(
                f"there are several runs of {prediction.instance_id}, but a .json file has one per instance; name one "
                "run, or write JSON Lines (-o FILE.jsonl)"
            )
        table[prediction.instance_id] = prediction
    yield msgspec.json.format(msgspec.json.encode(table), indent=2).decode() + "\n"


def _start(folder: Path) -> RunStarted:
    first = next(iter(RunReader(folder)), None)
    if first is None or not isinstance(first.event, RunStarted):
        raise UsageError(f"{folder} does not contain a started run; name another one")
    return first.event


def _patch(folder: Path) -> str:
    try:
        raw = read_regular(folder / PATCH, MAX_SIGNED_BYTES)
    except OSError as error:
        raise UsageError(
            f"the run {folder.name} has no patch ({error.strerror}); only finished runs that keep files have one"
        ) from error
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the patch of {folder.name} changes a file that is not UTF-8, so JSON cannot store it; leave the run out"
        ) from error
