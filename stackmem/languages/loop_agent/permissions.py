"""Which paths of the payload an agent may change, and how.

A rule is ``path`` or ``path:add,update,delete``; it holds for what lies below the path, too. ``*`` is any one member
or item, ``**`` any number of them, ``items[*]`` every item; the rule ``*`` is everything.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from msgspec import Struct

from .paths import Path, spelled

Operation = Literal["add", "update", "delete"]
OPERATIONS: tuple[str, ...] = get_args(Operation)
_RULE = re.compile(r"[^.\[\]\s]+(\[(\d+|\*)\])*(\.[^.\[\]\s]+(\[(\d+|\*)\])*)*")


class Rule(Struct, frozen=True):
    """One allowed path.

    Attributes:
        steps: Names, indexes as text, ``*`` and ``**``.

    """

    steps: tuple[str, ...]
    operations: tuple[str, ...] = OPERATIONS

    def __str__(self) -> str:
        """As a model reads it, such as ```items.*.price` (add, update)``."""
        some = "" if self.operations == OPERATIONS else f" ({', '.join(self.operations)})"
        return f"`{'.'.join(self.steps)}`{some}"


def parsed_rule(text: str) -> Rule | str:
    """The rule, or what is wrong with it."""
    path, colon, rest = text.strip().rpartition(":")
    path, named = (path, rest) if colon else (rest, "")
    operations = tuple(word.strip().lower() for word in named.split(",")) if colon else OPERATIONS
    bad = next((word for word in operations if word not in OPERATIONS), None)
    if bad is not None:
        return f"{bad!r} is no operation; known: {', '.join(OPERATIONS)}"
    if not _RULE.fullmatch(path):
        return f"{path!r} is no path; write it like a.b, items[*].price, **.id or *"
    steps = tuple(part for part in re.split(r"[.\[\]]+", path) if part)
    return Rule(("**",) if steps == ("*",) else steps, operations)


def denied(rules: tuple[Rule, ...], path: Path, operation: Operation) -> str:
    """Why the operation is not allowed there; empty where it is. No rules allow everything."""
    steps = tuple(map(str, path))
    if not rules or any(operation in rule.operations and _covers(rule.steps, steps) for rule in rules):
        return ""
    return f"Operation denied: Cannot {operation} '{spelled(path)}' - operation '{operation}' not allowed"


def _covers(rule: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether the rule's steps lead to the path or to something above it."""
    places = {0}
    for step in path:
        places = {after for at in places for after in _after(rule, at, step)}
    return any(all(each == "**" for each in rule[at:]) for at in places)


def _after(rule: tuple[str, ...], at: int, step: str) -> set[int]:
    """Places in the rule that one step leads to from ``at``; its end stays its end."""
    if at == len(rule):
        return {at}
    if rule[at] == "**":
        return {at, *_after(rule, at + 1, step)} if at + 1 < len(rule) else {at}
    return {at + 1} if rule[at] in ("*", step) else set()
