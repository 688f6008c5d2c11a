"""The plan of a bench and an append-only file with one line for each finished trial.

Rule 1: a row is written with a single call when its trial has ended, so kill -9 loses only the running trials. Rule 2:
a last line that a crash cut short is ignored, and removed when the bench continues. Any other broken line is an
    error.
Rule 3: only one process can run a bench at a time. Rule 4: trials that ended with an error can be repeated on request.
The last row of a trial counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any, Self

import msgspec

from stackmem.core.errors import TraceError, UsageError
from stackmem.core.strict_json import decode_json
from stackmem.core.text import quantity
from stackmem.core.version import VERSION
from stackmem.foreign.files import bounded_lines, descriptor_of_regular, open_regular, read_regular
from stackmem.run.run_folder import LEDGER
from stackmem.trace.lock import Lock
from stackmem.trace.store import append_line, cut_torn_line

from .plan import BenchPlan, trials
from .results import columns

PLAN = "plan.json"

MEMORY_COLUMNS = (
    "id", "task", "horizon", "model", "strategy", "outcome", "solved", "error", "cost_usd", "bill_usd",
    "bill_uncached", "peak_context_tokens", "model_seconds",
)  # fmt: skip
"""The columns that are kept in memory: enough for expected costs and for the table of means (``screen.Sums``)."""

_NEEDED = ("id", "task", "model", "strategy", "outcome")
_MAX_ROW_BYTES = 16 << 20
_MAX_INTEGER = 1 << 63  # the results cannot store larger integers


def read_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a bench folder in the order in which they ended, without an incomplete last line.

    Raise TraceError if the ledger cannot be read, or a line is broken. The message names the line.
    """
    kinds = columns()
    for number, line in enumerate(_read_lines(folder), 1):
        yield _row(line, number, folder, kinds)


def _read_lines(folder: Path) -> Iterator[bytes]:
    """Yield the lines of a bench ledger, without an incomplete last line."""
    try:
        with open_regular(folder / LEDGER) as file:
            for line in bounded_lines(file, _MAX_ROW_BYTES):
                if not line.endswith(b"\n"):
                    return
                yield line
    except FileNotFoundError:
        return
    except OSError as error:
        raise TraceError(f"the ledger {folder / LEDGER} cannot be read: {error.strerror}") from error


def _row(line: bytes, number: int, folder: Path, kinds: Mapping[str, str]) -> dict[str, Any]:
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        row = None
    if not isinstance(row, dict) or not all(_fits(row, name, kind) for name, kind in kinds.items()):
        raise TraceError(f"line {number} of {folder / LEDGER} is not a valid row; remove the line to repeat its trial")
    return row


def _fits(row: dict[str, Any], name: str, kind: str) -> bool:
    """Return whether a value fits its column. Identifying columns are required, figures are optional."""
    value = row.get(name)
    if value is None:
        return name not in _NEEDED
    if kind.startswith("TEXT"):
        return isinstance(value, str) or (name == "settings" and isinstance(value, dict))
    if isinstance(value, int):
        return abs(value) < _MAX_INTEGER
    return isinstance(value, float) and isfinite(value) and abs(value) < _MAX_INTEGER


def latest_rows(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the current row of each trial, by trial id, with only the columns in ``KEPT``.

    Raise TraceError as ``read_rows`` does.
    """
    latest: dict[str, dict[str, Any]] = {}
    for row in read_rows(folder):
        if row["id"] not in latest or latest[row["id"]]["outcome"] == "error":
            latest[row["id"]] = _brief(row)
    return latest


def read_plan(folder: Path) -> BenchPlan | None:
    """Read the plan of a bench folder. Returns None if there is none yet.

    Raise TraceError if the plan cannot be read.
    """
    try:
        plan = decode_json(read_regular(folder / PLAN), BenchPlan)
        for subject in plan.subjects:
            if subject.family and not (subject.task == subject.family and subject.family.isidentifier()):
                # otherwise a name from the file could point to another folder
                raise msgspec.ValidationError(f"{subject.task[:60]!a} is not a world")
        return plan
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise TraceError(
            f"the plan {folder / PLAN} cannot be read ({error}); repeat the command with another -o DIR"
        ) from error


def refuse_other(old: BenchPlan, new: BenchPlan, folder: Path) -> None:
    """Raise unless the new plan contains every trial of the old one, measured in the same way.

    Raise UsageError if the plans differ. The message names the first difference.
    """
    way_out = "choose another -o DIR, or use the original flags"
    if old.version != VERSION:
        raise UsageError(
            f"the bench in {folder} was started by stackmem {old.version}, and this is {VERSION}: their rows cannot be "
            "compared; choose another -o DIR, or continue with that version"
        )
    if old.plugins != new.plugins:
        other = sorted(old.plugins.items() ^ new.plugins.items())[0][0]
        raise UsageError(f"the bench in {folder} was started with other plug-ins ({other}); {way_out}")
    for name in ("price", "latency_seconds", "pause_seconds", "looks", "decide_on"):
        if getattr(old, name) != getattr(new, name):
            raise UsageError(
                f"the bench in {folder} was started with another {name} ({getattr(old, name)}, not "
                f"{getattr(new, name)}); {way_out}"
            )
    if old.looks > 1 and old.count != new.count:
        raise UsageError(
            f"the bench in {folder} compares its trials {old.looks} times, so its plan cannot grow; {way_out}"
        )
    planned = {trial.id for trial in trials(new)}
    lost = [trial.id for trial in trials(old) if trial.id not in planned]
    if lost:
        raise UsageError(
            f"the bench in {folder} contains {quantity(len(lost), 'trial')} from another plan, such as {lost[0]}; a "
            f"plan can grow, but not change: {way_out}"
        )


class Ledger:
    """The ledger of one bench, open for writing until ``close``."""

    def __init__(self, folder: Path, plan: BenchPlan, *, without_errors: bool = False) -> None:
        """Start a bench folder, or continue an existing one.

        ``without_errors`` says whether trials that ended with an error are run again. Raise UsageError if the folder
        cannot be created, contains something else, or belongs to another plan. Raise TraceError if another process runs
        this bench, or the existing files cannot be read.
        """
        self._path = folder / LEDGER
        _make(folder)
        self._lock = Lock(self._path, "bench")
        self._file = -1
        try:
            old = read_plan(folder)
            if old is not None:
                refuse_other(old, plan, folder)
            # sums every row ever written, including repeated trials
            self.paid_usd = sum(_paid(row) for row in read_rows(folder))
            latest = latest_rows(folder)
            # By trial id, in the order in which they ended. Only the columns in ``KEPT``, because there can be very
            # many rows.
            self.rows = {
                name: row for name, row in latest.items() if not (without_errors and row["outcome"] == "error")
            }
            _write(folder / PLAN, msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n")
            self._file = descriptor_of_regular(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            self._size = cut_torn_line(self._file)
        except OSError as error:
            self.close()
            raise UsageError(f"{folder} cannot be written ({error.strerror}); choose another -o DIR") from error
        except BaseException:
            self.close()
            raise

    def add(self, row: dict[str, Any]) -> None:
        """Append the row of a trial, unless the trial has a row already.

        Raise TraceError if the row was not written completely. Earlier rows are complete.
        """
        if row["id"] in self.rows:
            return
        line = msgspec.json.encode(row) + b"\n"
        try:
            self._size = append_line(self._file, line, self._size)
        except OSError as error:
            raise TraceError(
                f"{self._path} cannot be written ({error.strerror}); free some space and continue"
            ) from error
        self.rows[row["id"]] = _brief(row)
        self.paid_usd += _paid(row)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _paid(row: dict[str, Any]) -> float:
    return float(row.get("cost_usd") or 0.0)


def _brief(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in MEMORY_COLUMNS if name in row}


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ours = (folder / PLAN).exists() or (folder / LEDGER).exists()
        if not ours and next(folder.iterdir(), None) is not None:
            raise UsageError(f"{folder} is not empty and does not contain a bench; choose a new folder with -o")
    except OSError as error:
        raise UsageError(f"{folder} cannot be created ({error.strerror}); choose another -o DIR") from error


def _write(path: Path, content: bytes) -> None:
    """Write the file atomically."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    os.replace(fresh, path)  # noqa: PTH105
