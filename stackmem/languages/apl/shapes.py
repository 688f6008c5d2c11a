"""Asking a YAML tree for what a document must have, and keeping what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stackmem.languages.frame.yaml_tree import Items, Place, Scalar, Table, Tree, doubled, kind_of, plain

from .nodes import Fault


class Shapes:
    """Reads a tree; what does not fit becomes a fault, and reading goes on with the default."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def fault(self, place: Place, title: str, message: str) -> None:
        self.faults.append(Fault(place, title, message))

    def table(self, tree: Tree | None, what: str, title: str) -> Table | None:
        """A mapping without doubled keys."""
        if tree is None:
            return None
        if not isinstance(tree, Table):
            self.fault(tree.place, title, f"{what} is a mapping, not {kind_of(tree)}.")
            return None
        for key in doubled(tree):
            self.fault(key.place, "Duplicate Key", f"The key `{key.value}` stands twice in {what}.")
        return tree

    def items(self, tree: Tree | None, what: str, title: str) -> tuple[Tree, ...]:
        if tree is None or (isinstance(tree, Scalar) and tree.value is None):
            return ()
        if not isinstance(tree, Items):
            self.fault(tree.place, title, f"{what} is a list, not {kind_of(tree)}.")
            return ()
        return tree.items

    def text(self, table: Table, key: str, what: str, title: str) -> str:
        """A text that is not empty; what is missing is a fault, too."""
        value = table.get(key)
        if isinstance(value, Scalar) and isinstance(value.value, str) and value.value.strip():
            return value.value
        if value is None:
            self.fault(table.place, title, f"{what} has no `{key}`.")
        else:
            self.fault(value.place, title, f"`{key}` of {what} is a text that is not empty, not {kind_of(value)}.")
        return ""

    def flag(self, table: Table, key: str, title: str) -> bool:
        value = table.get(key)
        if value is None:
            return False
        if isinstance(value, Scalar) and isinstance(value.value, bool):
            return value.value
        said = value.literal if isinstance(value, Scalar) else kind_of(value)
        self.fault(value.place, title, f"`{key}` is true or false, not {said[:40]}.")
        return False

    def values(self, table: Table, key: str, title: str) -> dict[str, Any]:
        """A mapping of any values, in their order."""
        inner = self.table(table.get(key), f"`{key}`", title)
        return plain(inner) if inner else {}

    def texts(self, table: Table, key: str, title: str) -> Iterator[tuple[str, Place]]:
        """One text, or a list of them."""
        value = table.get(key)
        single = isinstance(value, Scalar) and isinstance(value.value, str)
        for item in (value,) if single else self.items(value, f"`{key}`", title):
            if isinstance(item, Scalar) and isinstance(item.value, str):
                yield item.value, item.place
            elif item is not None:
                self.fault(item.place, title, f"`{key}` holds texts, not {kind_of(item)}.")
