"""All rows of a bench in one SQLite file for queries, which can be rebuilt from the ledger at any time."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from stackmem.core.errors import TraceError, UsageError
from stackmem.foreign.databases import SqliteFile
from stackmem.review.measure.metrics import METRICS, SHIPPED
from stackmem.run.plugins.loading import load_plugins

RESULTS = "results.sqlite"
_MAX_TEXT_BYTES = 8 << 30

_IDENTITY = {
    "id": "TEXT PRIMARY KEY", "task": "TEXT", "family": "TEXT", "horizon": "INTEGER", "noise": "REAL",
    "seed": "INTEGER", "model": "TEXT", "strategy": "TEXT", "spelled": "TEXT", "settings": "TEXT", "isolation": "TEXT",
    "session": "TEXT",
}  # fmt: skip
_OUTCOME = {
    "outcome": "TEXT", "ending": "TEXT", "solved": "INTEGER", "error": "TEXT", "run": "TEXT", "fingerprint": "TEXT",
    "prompts_digest": "TEXT", "digest": "TEXT", "requests": "TEXT", "conversations": "TEXT",
}  # fmt: skip
_BILL = {
    "bill_uncached": "INTEGER", "bill_read": "INTEGER", "bill_write_5m": "INTEGER", "bill_write_1h": "INTEGER",
    "bill_output": "INTEGER", "bill_usd": "REAL", "cache_read_share": "REAL", "first_loss_step": "INTEGER",
    "first_gone_step": "INTEGER", "facts_used": "INTEGER", "facts_lost": "INTEGER",
    "not_sent": "INTEGER", "acted": "INTEGER",
    "rate_limited": "INTEGER", "wall_seconds": "REAL", "started": "REAL", "finished": "REAL",
}  # fmt: skip


def columns() -> dict[str, str]:
    """Return the type of each column, in order. docs/bench.md documents them, except for metrics of plug-ins."""
    load_plugins()
    if duplicates := [name for name in METRICS if name not in SHIPPED and name in {**_IDENTITY, **_OUTCOME, **_BILL}]:
        raise UsageError(
            f"the metric {duplicates[0]} has the name of a column; fix or uninstall the package that provides it"
        )
    return {**_IDENTITY, **_OUTCOME, **dict.fromkeys(METRICS, "NUMERIC"), **_BILL}


TIMES = (
    "model_seconds",
    "tools_seconds",
    "harness_seconds",
    "wall_seconds",
    "started",
    "finished",
    "run",
    "digest",
    "conversations",
)
"""Columns that differ between two runs of one plan: times, the digest, and the run's name, which starts with a time."""

_MEANS = ", ".join((
    "count(*) AS trials",
    "sum(outcome = 'error') AS errors",
    *(
        f"avg({name}) FILTER (WHERE outcome <> 'error') AS {name}"
        for name in (
            "solved", "steps", "peak_context_tokens", "bill_usd", "cost_usd", "cache_read_share", "rediscoveries",
            "repeated_looks", "rereads",
        )
    ),
))  # fmt: skip

_VIEWS = {
    "means": "model, strategy",
    "means_by_task": "model, task, horizon, noise, strategy",
}


def write_results(folder: Path, rows: Iterable[dict[str, Any]], suite: Mapping[str, str]) -> Path:
    """Write a new ``results.sqlite``. Open readers of the old file can read it to the end.

    Raise UsageError if the file cannot be written.
    """
    path = folder / RESULTS
    fresh = folder / f"{RESULTS}.new"
    try:
        fresh.unlink(missing_ok=True)
        with closing(sqlite3.connect(fresh)) as database:
            _fill(database, rows, suite)
        os.replace(fresh, path)  # noqa: PTH105
    except (OSError, sqlite3.Error) as error:
        raise UsageError(f"{path} cannot be written ({error}); free some space or check its permissions") from error
    return path


def _fill(database: sqlite3.Connection, rows: Iterable[dict[str, Any]], suite: Mapping[str, str]) -> None:
    kinds = columns()
    declared = ", ".join(f'"{name}" {kind}' for name, kind in kinds.items())
    database.execute(f"CREATE TABLE trials ({declared})")
    database.execute("CREATE TABLE suite (key TEXT PRIMARY KEY, value TEXT)")
    marks = ", ".join("?" * len(kinds))
    for row in rows:
        keep = f"INSERT INTO trials VALUES ({marks}) ON CONFLICT (id) DO NOTHING"  # noqa: S608
        database.execute("DELETE FROM trials WHERE id = ? AND outcome = 'error'", [row.get("id")])
        database.execute(keep, [stored_value(row.get(name)) for name in kinds])
    database.executemany("INSERT INTO suite VALUES (?, ?)", sorted(suite.items()))
    for name, key in _VIEWS.items():
        database.execute(f"CREATE VIEW {name} AS SELECT {key}, {_MEANS} FROM trials GROUP BY {key}")  # noqa: S608
    database.commit()


def stored_value(value: Any) -> Any:
    """Return a value of the ledger as it is stored: lists and dicts as JSON, truth values as 1 and 0."""
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True)
    return int(value) if isinstance(value, bool) else value


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a bench's ``results.sqlite`` as mappings from column name to value.

    Raise TraceError if the results do not exist, or cannot be read.
    """
    path = folder / RESULTS
    if not path.is_file():
        raise TraceError(f"missing results {path}; stackmem bench -o {folder} creates them from the bench's ledger")
    try:
        with SqliteFile(path, ("trials",), _MAX_TEXT_BYTES) as database:
            return database.table("SELECT * FROM trials ORDER BY id")
    except OSError as error:
        raise TraceError(
            f"{path} cannot be read ({error.strerror}); stackmem bench -o {folder} creates it again"
        ) from error


def read_suite(folder: Path) -> dict[str, str]:
    """Return the table ``suite``: what was run, when and where."""
    try:
        with SqliteFile(folder / RESULTS, ("suite",)) as database:
            return dict(database.rows("SELECT key, value FROM suite ORDER BY key"))
    except OSError as error:
        raise TraceError(
            f"{folder / RESULTS} cannot be read ({error.strerror}); stackmem bench -o {folder} creates it"
        ) from error
