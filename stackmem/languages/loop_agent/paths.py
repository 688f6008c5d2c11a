"""Paths in a JSON value: lookup, changes to a draft, and rules for allowed changes.

A rule is ``path`` or ``path:add,update,delete``. ``*`` matches any one member or item, ``**`` any number of levels,
``items[*]`` every item. The rule ``*`` matches everything.

A path that ends in ``*`` or ``**`` also covers everything below its matches. Any other path covers only the value
itself, as in the origin: the value as a whole, and the items of a list as wholes, but not the members of an object.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Literal, get_args

from msgspec import Struct

Path = tuple[str | int, ...]
MAX_STEPS = 100

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d{1,9})\]|\[\"([^\"\]]+)\"\]|\['([^'\]]+)'\]")


class AbsentValue:
    """The type of ``MISSING``, which marks a path without a value."""


MISSING = AbsentValue()


def parse_path(text: str) -> Path | None:
    """Parse a path.

    None if it is invalid or has over 100 steps. An empty text, ``$`` and ``*`` mean the whole value.
    """
    text = text.strip()
    if text in ("", "$", "*"):
        return ()
    text = text.removeprefix("$.")
    at, steps = 0, list[str | int]()
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None or (at == 0 and text[0] == ".") or (at > 0 and step[1] is not None and text[at] != "."):
            return None
        steps.append(int(step[2]) if step[2] is not None else next(each for each in step.groups() if each is not None))
        at = step.end()
        if len(steps) > MAX_STEPS:
            return None
    return tuple(steps)


def path_text(path: Path) -> str:
    """Format a path as text."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def look_up(value: Any, path: Path) -> Any:
    """Return the value at a path, or ``MISSING``."""
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
    """Return the list index that a step refers to; None if it is not an index."""
    if isinstance(step, int):
        return step
    return int(step) if step.isascii() and step.isdigit() and len(step) < 10 else None


Operation = Literal["add", "update", "delete"]
OPERATIONS: tuple[str, ...] = get_args(Operation)
_RULE = re.compile(r"[^.\[\]\s]+(\[(\d+|\*)\])*(\.[^.\[\]\s]+(\[(\d+|\*)\])*)*")


class Rule(Struct, frozen=True):
    """One allowed path."""

    steps: tuple[str, ...]  # names, indexes as text, ``*`` and ``**``
    operations: tuple[str, ...] = OPERATIONS

    def __str__(self) -> str:
        """Format for the model, such as ```items.*.price` (add, update)``."""
        some = "" if self.operations == OPERATIONS else f" ({', '.join(self.operations)})"
        return f"`{'.'.join(self.steps)}`{some}"


def parse_rule(text: str) -> Rule | str:
    """Parse a rule, or return what is wrong with it."""
    path, colon, rest = text.strip().rpartition(":")
    path, name = (path, rest) if colon else (rest, "")
    operations = tuple(word.strip().lower() for word in name.split(",")) if colon else OPERATIONS
    bad = next((word for word in operations if word not in OPERATIONS), None)
    if bad is not None:
        return f"{bad!r} is not an operation; known: {', '.join(OPERATIONS)}"
    if not _RULE.fullmatch(path):
        return f"{path!r} is not a path; write it like a.b, items[*].price, **.id or *"
    steps = tuple(part for part in re.split(r"[.\[\]]+", path) if part)
    return Rule(("**",) if steps == ("*",) else steps, operations)


def denial(rules: tuple[Rule, ...], path: Path, operation: Operation) -> str:
    """Return why an operation is not allowed at a path; empty if it is. Without rules everything is allowed."""
    if not rules or any(operation in rule.operations and _covers(rule.steps, path) for rule in rules):
        return ""
    return f"Operation denied: Cannot {operation} '{path_text(path)}' - operation '{operation}' not allowed"


def visible(value: Any, rules: tuple[Rule, ...], path: Path = ()) -> Any:
    """Return the part of a value that the rules cover, or ``MISSING`` if there is none.

    List items keep their positions.
    """
    if not denial(rules, path, "update"):
        return value
    if isinstance(value, dict):
        members = {name: visible(each, rules, (*path, name)) for name, each in value.items()}
        return {name: each for name, each in members.items() if each is not MISSING} or MISSING
    if isinstance(value, list):
        items = [visible(each, rules, (*path, at)) for at, each in enumerate(value)]
        any_visible = any(each is not MISSING for each in items)
        return [None if each is MISSING else each for each in items] if any_visible else MISSING
    return MISSING


def reaches(rules: tuple[Rule, ...], path: Path) -> bool:
    """Return whether a rule allows a write at the path, above it or below it."""
    return any(_places(rule.steps, path) and {"add", "update"} & set(rule.operations) for rule in rules)


def _covers(rule: tuple[str, ...], path: Path) -> bool:
    """Return whether the rule covers a write at the path."""
    return any(all(each == "**" for each in rule[at:]) for at in _places(rule, path))


def _places(rule: tuple[str, ...], path: Path) -> set[int]:
    """Return the positions in the rule after matching all steps of the path."""
    places = {0}
    for step in path:
        places = {after for at in places for after in _after(rule, at, step)}
    return places


def _after(rule: tuple[str, ...], at: int, step: str | int) -> set[int]:
    """Return the positions in the rule after one more step from ``at``.

    At its end it stays there if it ends in a wildcard, or if the step is an item of a list.
    """
    if at == len(rule):
        return {at} if rule[-1] in ("*", "**") or isinstance(step, int) else set()
    if rule[at] == "**":
        return {at, *_after(rule, at + 1, step)} if at + 1 < len(rule) else {at}
    return {at + 1} if rule[at] in ("*", str(step)) else set()


class Draft:
    """A JSON value under change, with copy on write. A thousand changes in a long list copy the list once.

    Each container on the path of a change is copied once and changed in place from then on. The original value and the
    values that were put in are never changed. A container that was shared through ``give`` is copied again.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        # containers created here, by id; each is reachable only through other containers created here
        self._own: dict[int, Any] = {}

    def put(self, path: Path, new: Any) -> None:
        """Set the value at a path, creating or replacing containers on the way.

        If an index is beyond the end of a list, the gap is filled with null.
        """
        if not path:
            self.value = new
            return
        holder = self.value = self._fit(self.value, path[0])
        for step, after in pairwise(path):
            inner = self._fit(look_up(holder, (step,)), after)
            _store(holder, step, inner)
            holder = inner
        _store(holder, path[-1], new)

    def take(self, path: Path) -> None:
        """Remove the value at a path. It must exist."""
        *way, last = path
        holder = self.value = self._own_copy(self.value)
        for step in way:
            inner = self._own_copy(look_up(holder, (step,)))
            _store(holder, step, inner)
            holder = inner
        del holder[index_of(last) if isinstance(holder, list) else str(last)]

    def give(self, value: Any) -> None:
        """Note that ``value`` was shared with other code, which may keep it."""
        if id(value) in self._own:
            self._own.clear()

    def _fit(self, value: Any, step: str | int) -> Any:
        """Return an own container in which the step can be stored."""
        if isinstance(value, list) and index_of(step) is not None:
            return self._own_copy(value)
        if isinstance(step, int) and not isinstance(value, dict):
            return self._own_copy([])
        return self._own_copy(value if isinstance(value, dict) else {})

    def _own_copy(self, value: Any) -> Any:
        if id(value) in self._own:
            return value
        copy = value.copy()
        self._own[id(copy)] = copy
        return copy


def _store(holder: Any, step: str | int, value: Any) -> None:
    if isinstance(holder, dict):
        holder[str(step)] = value
    elif look_up(holder, (step,)) is MISSING:
        holder += [None] * ((index_of(step) or 0) - len(holder))
        holder.append(value)
    else:
        holder[index_of(step)] = value
