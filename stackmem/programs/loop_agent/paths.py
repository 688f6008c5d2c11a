"""Places in a JSON value: ``a.b[0].c``."""

from __future__ import annotations

import re
from typing import Any

Path = tuple[str | int, ...]
MOST_STEPS = 100

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d{1,9})\]|\[\"([^\"\]]+)\"\]|\['([^'\]]+)'\]")


class Missing:
    """Nothing stands at a place; the one value of it is ``MISSING``."""


MISSING = Missing()


def parsed(text: str) -> Path | None:
    """The path of ``text``, or None, also beyond 100 steps; the empty text and ``$`` are the whole value."""
    text = text.strip()
    if text in ("", "$", "*"):
        return ()
    text = text.removeprefix("$.")
    at, found = 0, list[str | int]()
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None or (at == 0 and text[0] == ".") or (at > 0 and step[1] is not None and text[at] != "."):
            return None
        found.append(int(step[2]) if step[2] is not None else next(each for each in step.groups() if each is not None))
        at = step.end()
        if len(found) > MOST_STEPS:
            return None
    return tuple(found)


def spelled(path: Path) -> str:
    """The path as text."""
    made = ""
    for step in path:
        made += f"[{step}]" if isinstance(step, int) else f".{step}" if made else step
    return made


def looked_up(value: Any, path: Path) -> Any:
    """What stands there, or ``MISSING``."""
    for step in path:
        if isinstance(value, dict) and str(step) in value:
            value = value[str(step)]
        elif isinstance(value, list) and _index(step) is not None and (_index(step) or 0) < len(value):
            value = value[_index(step) or 0]
        else:
            return MISSING
    return value


def put(value: Any, path: Path, new: Any) -> Any:
    """``value`` with ``new`` at the path; what lies on the way is made, what is no object or list is replaced."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    index = _index(step)
    if isinstance(value, list) and index is not None:
        items = list(value)
        if index < len(items):
            items[index] = put(items[index], rest, new)
        else:
            items.append(put(None, rest, new))
        return items
    if isinstance(step, int) and not isinstance(value, dict):
        return [put(None, rest, new)]
    members = dict(value) if isinstance(value, dict) else {}
    members[str(step)] = put(members.get(str(step)), rest, new)
    return members


def removed(value: Any, path: Path) -> Any:
    """``value`` without what stands at the path."""
    step, rest = path[0], path[1:]
    if rest:
        return put(value, (step,), removed(looked_up(value, (step,)), rest))
    if isinstance(value, dict):
        return {name: member for name, member in value.items() if name != step}
    return [item for index, item in enumerate(value) if index != step]


def _index(step: str | int) -> int | None:
    if isinstance(step, int):
        return step
    return int(step) if step.isascii() and step.isdigit() and len(step) < 10 else None
