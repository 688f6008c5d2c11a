"""Names and their values, scope in scope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import UnboundSymbolError


class SexpEnvironment:
    """One scope, and the one around it."""

    __slots__ = ("bindings", "parent")

    def __init__(self, bindings: Mapping[str, Any] | None = None, parent: SexpEnvironment | None = None) -> None:
        self.bindings: dict[str, Any] = dict(bindings or {})
        self.parent = parent

    def lookup(self, name: str) -> Any:
        """Raises ``UnboundSymbolError`` where no scope has it."""
        scope: SexpEnvironment | None = self
        while scope is not None:
            if name in scope.bindings:
                return scope.bindings[name]
            scope = scope.parent
        raise UnboundSymbolError(f"Unbound symbol: Name '{name}' is not defined.")

    def define(self, name: str, value: Any) -> None:
        """In this scope."""
        self.bindings[name] = value

    def set_value_in_scope(self, name: str, value: Any) -> None:
        """In the nearest scope that has the name; raises ``UnboundSymbolError`` where none has."""
        scope: SexpEnvironment | None = self
        while scope is not None:
            if name in scope.bindings:
                scope.bindings[name] = value
                return
            scope = scope.parent
        raise UnboundSymbolError(f"Cannot 'set!' unbound symbol: {name}.")

    def extend(self, bindings: Mapping[str, Any]) -> SexpEnvironment:
        return SexpEnvironment(bindings, self)

    def get_local_bindings(self) -> dict[str, Any]:
        return dict(self.bindings)

    def __contains__(self, name: str) -> bool:
        scope: SexpEnvironment | None = self
        while scope is not None:
            if name in scope.bindings:
                return True
            scope = scope.parent
        return False
