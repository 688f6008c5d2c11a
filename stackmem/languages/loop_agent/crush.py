"""Large JSON results as tables: the names of members once, in a legend, instead of in every row."""

from __future__ import annotations

import json
from typing import Any

LEAST_CHARS = 600
_LEAST_ROWS = 2


def crushed(value: Any) -> str | None:
    """The value as text with tables in it; None where that is no shorter than its JSON, or there is no table in it.

    A text that holds JSON is taken as that JSON.
    """
    if isinstance(value, str):
        if len(value) < LEAST_CHARS or value.lstrip()[:1] not in ("{", "["):
            return None
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    whole = _json(value)
    if len(whole) < LEAST_CHARS:
        return None
    text = _crushed(value)
    return text if text is not None and len(text) < len(whole) else None


def _crushed(value: Any) -> str | None:
    if isinstance(value, list):
        return _table(value)
    if not isinstance(value, dict):
        return None
    lines, any_ = [], False
    for name, member in value.items():
        table = _table(member) if isinstance(member, list) else None
        any_ = any_ or table is not None
        lines.append(f"{name}: {_json(member)}" if table is None else f"{name}: {table}")
    return "\n".join(lines) if any_ else None


def _table(rows: list[Any]) -> str | None:
    """Rows of objects with the same members, a line each."""
    if len(rows) < _LEAST_ROWS or not all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows):
        return None
    columns = list(rows[0])
    if not columns:
        return None
    legend = f"[{len(rows)} rows; columns: {' | '.join(columns)}; each cell is JSON]"
    return "\n".join([legend, *(" | ".join(_json(row[name]) for name in columns) for row in rows)])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
