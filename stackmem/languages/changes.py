"""Describes how a program's variables changed between two of its lines, one line of text per change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from typing import Any

from .debugger import DebugMoment

_MAX_LINES = 20
_VALUE_CHARS = 120
_ABSENT = object()


class VariableChanges:
    """Compares a frame's variables with their values at the frame's previous moment.

    With ``full``, each changed variable is one line with its complete value, and no line is left out.
    """

    def __init__(self, *, full: bool = False) -> None:
        self._full = full
        self._seen: dict[tuple[str, str, int], dict[str, Any]] = {}  # keyed by agent, frame name and depth

    def lines(self, moment: DebugMoment) -> tuple[str, ...]:
        """Return the changes in the innermost frame since its previous moment, one per line.

        A frame that was just entered has no changes: the variables it starts with are the baseline. Lines from a nested
        frame start with the frame's name. At most 20 changes are listed, except in the whole form.
        """
        frame, *around = moment.stack
        key, depth = (moment.agent, frame.name, len(moment.stack)), len(moment.stack)
        for ended in [each for each in self._seen if each[0] == moment.agent and each[2] > depth]:
            del self._seen[ended]
        begins_with = around[0].variables if around else {}
        before = begins_with if moment.kind == "entered" else self._seen.get(key, begins_with)
        self._seen[key] = deepcopy(frame.variables)
        changes = _whole_changes if self._full else partial(_changes, "")
        lines = () if moment.kind == "entered" else tuple(changes(before, frame.variables))
        prefix = f"{frame.name}: " if around else ""
        if not self._full and len(lines) > _MAX_LINES:
            lines = (*lines[:_MAX_LINES], f"and {len(lines) - _MAX_LINES:,} more changes")
        return tuple(f"{prefix}{line}" for line in lines)


def _whole_changes(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    for name, value in now.items():
        if next(_changes(name, before.get(name, _ABSENT), value), None) is not None:
            yield f"{name} = {json.dumps(value, ensure_ascii=False, default=str)}"
    yield from (f"{name} is gone" for name in before if name not in now)


def _changes(name: str, before: Any, now: Any) -> Iterator[str]:
    """Yield a line for each path whose value differs, with the current and the previous value."""
    match before, now:
        case dict(), dict():
            for key in [*now, *(key for key in before if key not in now)]:
                inner = f"{name}.{key}" if name else str(key)
                yield from _changes(inner, before.get(key, _ABSENT), now.get(key, _ABSENT))
        case list(), list() if len(before) <= len(now):
            for index, value in enumerate(now):
                yield from _changes(f"{name}[{index}]", before[index] if index < len(before) else _ABSENT, value)
        case _ if type(before) is type(now) and before == now:
            return
        case _ if now is _ABSENT:
            yield f"{name} is gone"
        case _ if before is _ABSENT:
            yield f"{name} = {_brief(now)}"
        case _:
            yield f"{name} = {_brief(now)} (was {_brief(before)})"


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}…"
