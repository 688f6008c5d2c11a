"""The linter's data structures for names and findings."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Literal

from msgspec import Struct


class LintFault(Struct, frozen=True):
    """A finding. ``at`` is its character index in the source."""

    at: int
    severity: Literal["error", "warning"]
    title: str
    message: str


class Bound:
    """A name in a scope.

    ``params`` is the number of arguments of its function, if known. ``quiet`` says whether it may stay unused without a
    warning. ``is_result`` says whether its value is the result of a task or tool.
    """

    def __init__(self, at: int, *, quiet: bool, params: int | None = None, is_result: bool = False) -> None:
        self.at, self.quiet, self.params, self.is_result = at, quiet, params, is_result
        self.used = False


class LintScope:
    """A scope with its names, and whether errors inside it are caught."""

    def __init__(self, parent: LintScope | None = None, *, caught: bool = False) -> None:
        self.names: dict[str, Bound] = {}
        self.parent = parent
        self.caught: bool = caught or (parent is not None and parent.caught)

    def find(self, name: str) -> Bound | None:
        scope: LintScope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None


class Surroundings(Struct, frozen=True):
    """The surroundings of a source."""

    names: frozenset[str] = frozenset()  # names bound by libraries or inputs; their values are unknown
    tools: frozenset[str] = frozenset()  # the user's own tools
    is_whole: bool = True  # whether the names are complete; otherwise, unknown names may be bound too


_FOREIGN_OPERATORS = {
    "defun": "(define (name parameter) body)",
    "defn": "(define (name parameter) body)",
    "def": "(define name value)",
    "defvar": "(define name value)",
    "setq": "(set! name value)",
    "setf": "(set! name value)",
    "print": "(log-message text)",
    "println": "(log-message text)",
    "display": "(log-message text)",
    "fn": "(lambda (parameter) body)",
}
"""Operators of other Lisps that do not exist here, and what to write instead."""
_MAX_COMPARED = 1_000


def operator_hint(name: str, operators: Iterable[str]) -> str:
    """Return what to write instead of an unknown operator, or a similar known name; empty if there is neither."""
    if foreign := _FOREIGN_OPERATORS.get(name.lower()):
        return f"; write {foreign}"
    near = get_close_matches(name[:80], sorted(islice(operators, _MAX_COMPARED)), 1, 0.75)
    return f"; is '{near[0]}' meant?" if near else ""
