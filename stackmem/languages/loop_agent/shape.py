"""Reads mappings of a definition: each key by its kind, with a fault at its place where it does not fit."""

from __future__ import annotations

from typing import Any

from stackmem.languages.frame.yaml_tree import Items, Place, Scalar, Table, Tree, doubled, kind_of, plain

from .definition import Fault
from .naming import near

_KINDS = {
    "text": "a text", "object": "a mapping", "list": "a list", "flag": "true or false",
    "count": "a whole number from 0", "number": "a number above 0",
}  # fmt: skip
MOST = 1_000_000_000
_MOST_MEANT = 50
"""Findings after which no more is guessed at, so that a file of strange keys is read in a moment."""


class Shape:
    """One mapping; faults gather in a list that all mappings of a file share.

    Attributes:
        says: What it is, in messages.

    """

    def __init__(self, tree: Tree, says: str, keys: tuple[str, ...], faults: list[Fault]) -> None:
        self.place, self.says, self._faults = tree.place, says, faults
        self._table = tree if isinstance(tree, Table) else Table(tree.place, ())
        if not isinstance(tree, Table):
            self.fault(tree.place, "schema", f"{says} is a mapping, not {kind_of(tree)}")
        for key in doubled(self._table):
            self.fault(key.place, "schema", f"`{key.value}` stands twice in {says}")
        for key, _ in self._table.pairs:
            if key.value not in keys:
                meant = near(str(key.value), keys) if len(faults) < _MOST_MEANT else ""
                told = f"did you mean `{meant}`?" if meant else f"known: {', '.join(keys)}"
                self.fault(key.place, "schema", f"{says} has no `{str(key.value)[:80]}`; {told}")

    def fault(self, place: Place, code: str, message: str, *, warning: bool = False) -> None:
        self._faults.append(Fault(place, code, message, warning))

    def at(self, key: str) -> Place:
        tree = self._table.get(key)
        return tree.place if tree is not None else self.place

    def places(self) -> dict[str, Place]:
        return {str(key.value): value.place for key, value in self._table.pairs}

    def tree(self, key: str) -> Tree | None:
        """The value; None where the key is absent or holds nothing."""
        tree = self._table.get(key)
        return None if isinstance(tree, Scalar) and tree.value is None else tree

    def text(self, key: str, default: str = "", *, needed: bool = False) -> str:
        tree = self.tree(key)
        if tree is None:
            if needed:
                self.fault(self.place, "schema", f"{self.says} needs `{key}`")
            return default
        if not isinstance(tree, Scalar) or not isinstance(tree.value, str) or (needed and not tree.value.strip()):
            return str(self._misfit(key, tree, "text", default))
        return tree.value

    def word(self, key: str, words: tuple[str, ...], default: str) -> Any:
        found = self.text(key, default).lower()
        if found not in words:
            self.fault(self.at(key), "schema", f"`{key}` of {self.says} is one of {', '.join(words)}")
            return default
        return found

    def table(self, key: str) -> dict[str, Any]:
        tree = self.tree(key)
        if tree is None:
            return {}
        found: dict[str, Any] = plain(tree) if isinstance(tree, Table) else self._misfit(key, tree, "object", {})
        return found

    def items(self, key: str) -> tuple[Tree, ...]:
        tree = self.tree(key)
        if tree is None:
            return ()
        found: tuple[Tree, ...] = tree.items if isinstance(tree, Items) else self._misfit(key, tree, "list", ())
        return found

    def flag(self, key: str, default: bool) -> bool:
        tree = self.tree(key)
        if tree is None:
            return default
        fits = isinstance(tree, Scalar) and isinstance(tree.value, bool)
        return bool(plain(tree) if fits else self._misfit(key, tree, "flag", default))

    def count(self, key: str, default: Any, most: int = 10**12, least: int = 0) -> Any:
        tree = self.tree(key)
        if tree is None:
            return default
        value = tree.value if isinstance(tree, Scalar) else None
        if isinstance(value, bool) or not isinstance(value, int) or not value >= 0:
            return self._misfit(key, tree, "count", default)
        if value > most:
            self.fault(tree.place, "schema", f"`{key}` of {self.says} is {value:,}, at most {most:,}")
            return most
        if value < least:
            self.fault(tree.place, "schema", f"`{key}` of {self.says} is {value:,}, at least {least:,}")
            return default
        return value

    def number(self, key: str) -> float | None:
        tree = self.tree(key)
        value = tree.value if isinstance(tree, Scalar) else None
        if tree is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._misfit(key, tree, "number", None)
            return None
        if not 0 < value <= MOST:
            told = f"`{key}` of {self.says} is {_KINDS['number']} and at most {MOST:,}, not {str(value)[:40]}"
            self.fault(tree.place, "schema", told)
            return None
        return float(value)

    def _misfit(self, key: str, tree: Tree, kind: str, default: Any) -> Any:
        empty = isinstance(tree, Scalar) and isinstance(tree.value, str) and kind == "text"
        found = "empty" if empty else kind_of(tree)
        self.fault(tree.place, "schema", f"`{key}` of {self.says} is {_KINDS[kind]}, not {found}")
        return default
