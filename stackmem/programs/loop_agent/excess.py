"""How much a value that is put together of references may be: a payload that holds itself twice doubles each time."""

from __future__ import annotations

from typing import Any

MOST_CHARS = 2_000_000
MOST_DEPTH = 150
_PART_CHARS = 8


def excess(value: Any) -> str:
    """What is too much of a value, its depth or its size as it is written down; empty where nothing is."""
    size, left = 0, [(value, 0)]
    while left:
        each, depth = left.pop()
        size += _PART_CHARS + (len(each) if isinstance(each, str) else 0)
        if depth > MOST_DEPTH:
            return f"a value is nested deeper than {MOST_DEPTH} levels"
        if isinstance(each, list):
            size += _PART_CHARS * len(each)
            parts = each
        elif isinstance(each, dict):
            size += sum(map(len, each)) + _PART_CHARS * len(each)
            parts = list(each.values())
        else:
            parts = []
        if size > MOST_CHARS:
            return f"a value has more than {MOST_CHARS:,} characters"
        left.extend((part, depth + 1) for part in parts)
    return ""
