"""How much a value that is put together of references may be: a payload that holds itself twice doubles each time."""

from __future__ import annotations

from typing import Any

MOST_CHARS = 2_000_000
MOST_DEPTH = 150
_PART_CHARS = 8
_DEEP = f"a value is nested deeper than {MOST_DEPTH} levels"
_LARGE = f"a value has more than {MOST_CHARS:,} characters"


def excess(value: Any) -> str:
    """What is too much of a value, its depth or its size as it is written down; empty where nothing is.

    What stands at many places in it is looked through once.
    """
    known: dict[int, tuple[int, int]] = {}

    def measure(part: Any, depth: int) -> tuple[int, int]:
        """Characters and levels of a part; nothing is said of what is too much already."""
        if not isinstance(part, list | dict):
            return _PART_CHARS + (len(part) if isinstance(part, str) else 0), 0
        found = known.get(id(part))
        if found is not None:
            return found
        size, levels = _PART_CHARS * (1 + len(part)), 0
        if isinstance(part, dict):
            size += sum(map(len, part))
        for each in part.values() if isinstance(part, dict) else part:
            if size > MOST_CHARS or depth + levels > MOST_DEPTH:
                break
            inner, below = measure(each, depth + 1)
            size, levels = size + inner, max(levels, below + 1)
        known[id(part)] = size, levels
        return size, levels

    size, levels = measure(value, 0)
    return _LARGE if size > MOST_CHARS else _DEEP if levels > MOST_DEPTH else ""
