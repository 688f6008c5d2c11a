"""What a linter keeps of names and findings while it looks at a source."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Fault(Struct, frozen=True):
    """Something at a place; ``at`` is its character in the source."""

    at: int
    severity: Literal["error", "warning"]
    title: str
    message: str


class Bound:
    """A name in a scope.

    Attributes:
        params: How many arguments its function takes, where that is known.
        quiet: Nobody needs to use it.
    """

    def __init__(self, at: int, *, quiet: bool, params: int | None = None) -> None:
        self.at, self.quiet, self.params = at, quiet, params
        self.used = False


class LintScope:
    """Names, and whether an error in it is caught."""

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
    """What a source has around it."""

    names: frozenset[str] = frozenset()  # what libraries, or a person, bind; nothing is known of their values
    tools: frozenset[str] = frozenset()  # the person's own
    is_whole: bool = True  # whether those are all; else a name may be bound that nobody knows of
