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
        else:
            index = index_of(step) if isinstance(value, list) else None
            if index is None or index >= len(value):
                return MISSING
            value = value[index]
    return value


def index_of(step: str | int) -> int | None:
    """Which item of a list a step names; None where it names none."""
    if isinstance(step, int):
        return step
    return int(step) if step.isascii() and step.isdigit() and len(step) < 10 else None
