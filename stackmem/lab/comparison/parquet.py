"""Trials of a bench and figures of recordings as Parquet, for pandas, Polars, DuckDB and R."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any

from stackmem.core.errors import UsageError
from stackmem.foreign.installing import install_command
from stackmem.lab.bench.evidence import READS, RecordingEntry
from stackmem.lab.bench.results import columns, stored_value

from .results import BenchRows

SUFFIX = ".parquet"
_TYPES = {"TEXT": "string", "INTEGER": "int64", "REAL": "float64", "NUMERIC": "float64"}


def trials_table(results: BenchRows) -> bytes:
    """Return one row per trial, with the columns of the table ``trials`` in ``results.sqlite``.

    Raise UsageError if the extra ``parquet`` is missing, or a value does not have the type of its column.
    """
    kinds = {name: _TYPES[kind.split()[0]] for name, kind in columns().items()}
    rows = [{name: stored_value(trial.row.get(name)) for name in kinds} for trial in results.trials]
    return _written(kinds, rows, dict(results.suite))


def recordings_table(entries: Sequence[RecordingEntry]) -> bytes:
    """Return one row per recording, strategy and case; the bills are in USD at each price of a cached token.

    Raise UsageError if the extra ``parquet`` is missing.
    """
    texts = dict.fromkeys(("file", "session", "agent", "model", "task", "strategy", "case"), "string")
    bills = {f"usd_at_{read:g}": "float64" for read in READS}
    numbers = dict.fromkeys(("steps", "peak_tokens", "facts", "lost", "frames", "across", "again"), "int64")
    return _written(texts | bills | numbers, list(_figures(entries)), {})


def _figures(entries: Sequence[RecordingEntry]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        common = {name: getattr(entry, name) for name in ("file", "session", "agent", "model", "task", "steps")}
        for label, bill in entry.bills.items():
            strategy, _, case = label.partition(" ")
            bills = {f"usd_at_{read:g}": usd for read, usd in zip(READS, bill.usd, strict=True)}
            counts = {name: getattr(bill, name) for name in ("peak_tokens", "facts", "lost", "frames", "across")}
            yield common | {"strategy": strategy, "case": case} | bills | counts | {"again": bill.rereads}


def _written(kinds: Mapping[str, str], rows: Sequence[Mapping[str, Any]], notes: Mapping[str, str]) -> bytes:
    try:
        import pyarrow as pa  # large, and only this function needs it
        from pyarrow import parquet
    except ImportError:
        raise UsageError(f"Parquet needs the extra parquet; install it with: {install_command('parquet')}") from None
    schema = pa.schema(list(kinds.items()), metadata=notes)
    try:
        table = pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowException, OverflowError) as error:
        raise UsageError(f"the rows cannot be written as Parquet ({error}); use .csv") from error
    content = BytesIO()
    parquet.write_table(table, content, compression="zstd")
    return content.getvalue()
