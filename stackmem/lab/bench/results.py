"""Every row of a bench in one SQLite file to query; made from the ledger, at any time again."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from stackmem.errors import TraceError, UsageError
from stackmem.foreign.files import open_regular
from stackmem.measure.metrics import METRICS, SHIPPED
from stackmem.tools.plugins import load_plugins

RESULTS = "results.sqlite"
_STEPS_AT_ONCE = 1_000_000
_MAX_STEPS = 4_000_000_000
"""Of SQLite's machine, for one reading: a million trials take a twentieth; a table that computes itself has no end."""

_WHO = {
    "id": "TEXT PRIMARY KEY", "task": "TEXT", "family": "TEXT", "horizon": "INTEGER", "noise": "REAL",
    "seed": "INTEGER", "model": "TEXT", "strategy": "TEXT", "spelled": "TEXT", "settings": "TEXT", "isolation": "TEXT",
    "session": "TEXT",
}  # fmt: skip
_WHAT = {
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
    """Name to type, in their order; docs/bench.md tells what each holds, but for the metrics that plug-ins bring."""
    load_plugins()
    if taken := [name for name in METRICS if name not in SHIPPED and name in {**_WHO, **_WHAT, **_BILL}]:
        raise UsageError(
            f"the metric {taken[0]} is called as a column is; mend or uninstall the package that brings it"
        )
    return {**_WHO, **_WHAT, **dict.fromkeys(METRICS, "NUMERIC"), **_BILL}


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
"""Columns in which two runs of one plan differ: times, the run's own name, which begins with one, and its digest."""

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
    """Make ``results.sqlite`` anew; who reads the old one meanwhile reads it to its end."""
    path = folder / RESULTS
    fresh = folder / f"{RESULTS}.new"
    try:
        fresh.unlink(missing_ok=True)
        with closing(sqlite3.connect(fresh)) as database:
            _fill(database, rows, suite)
        os.replace(fresh, path)  # noqa: PTH105
    except (OSError, sqlite3.Error) as error:
        raise UsageError(f"{path} cannot be written ({error}); make room or rights there") from error
    return path


def _fill(database: sqlite3.Connection, rows: Iterable[dict[str, Any]], suite: Mapping[str, str]) -> None:
    named = columns()
    declared = ", ".join(f'"{name}" {kind}' for name, kind in named.items())
    database.execute(f"CREATE TABLE trials ({declared})")
    database.execute("CREATE TABLE suite (key TEXT PRIMARY KEY, value TEXT)")
    marks = ", ".join("?" * len(named))
    for row in rows:
        keep = f"INSERT INTO trials VALUES ({marks}) ON CONFLICT (id) DO NOTHING"  # noqa: S608
        database.execute("DELETE FROM trials WHERE id = ? AND outcome = 'error'", [row.get("id")])
        database.execute(keep, [_stored(row.get(name)) for name in named])
    database.executemany("INSERT INTO suite VALUES (?, ?)", sorted(suite.items()))
    for name, key in _VIEWS.items():
        database.execute(f"CREATE VIEW {name} AS SELECT {key}, {_MEANS} FROM trials GROUP BY {key}")  # noqa: S608
    database.commit()


def _stored(value: Any) -> Any:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The tables that a bench made, in a file that may come from anybody."""
    open_regular(path).close()  # SQLite would wait for a FIFO
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        steps = iter(range(_MAX_STEPS // _STEPS_AT_ONCE))
        database.set_progress_handler(lambda: next(steps, None) is None, _STEPS_AT_ONCE)
        database.execute("PRAGMA trusted_schema = OFF")
        kinds = dict(database.execute("SELECT name, type FROM sqlite_master WHERE name IN ('trials', 'suite')"))
        if wrong := next((name for name, kind in kinds.items() if kind != "table"), None):
            raise sqlite3.DatabaseError(f"{wrong} is a {kinds[wrong]}, not a table")
        yield database


def read_results(folder: Path) -> list[dict[str, Any]]:
    """The rows of a bench's ``results.sqlite``, by the names of its columns."""
    path = folder / RESULTS
    if not path.is_file():
        raise TraceError(f"there is no {path}; stackmem bench -o {folder} makes it from the bench's ledger")
    try:
        with _opened(path) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute("SELECT * FROM trials ORDER BY id")]
    except (OSError, sqlite3.Error) as error:
        raise TraceError(f"{path} cannot be read ({error}); stackmem bench -o {folder} makes it anew") from error


def read_suite(folder: Path) -> dict[str, str]:
    """What was run, when and where: the table ``suite``."""
    try:
        with _opened(folder / RESULTS) as database:
            return dict(database.execute("SELECT key, value FROM suite ORDER BY key"))
    except (OSError, sqlite3.Error) as error:
        raise TraceError(f"{folder / RESULTS} cannot be read ({error}); stackmem bench -o {folder} makes it") from error
