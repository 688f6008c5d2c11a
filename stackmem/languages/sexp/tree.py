"""A source as nodes with positions, and the values that quoted nodes represent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .errors import Budget, exhaustion

MAX_NESTED = 100_000


class Symbol(str):
    """A symbol as a value. It equals a text of the same characters, as the language requires."""

    __slots__ = ()


class SourceText:
    """A source text and its path."""

    __slots__ = ("path", "text")

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text = path, text


class Atom:
    """A number, text or boolean."""

    __slots__ = ("at", "value")

    def __init__(self, value: Any, at: int) -> None:
        self.value, self.at = value, at


class Name:
    """A symbol."""

    __slots__ = ("at", "name", "source")

    def __init__(self, name: str, at: int, source: SourceText) -> None:
        self.name, self.at, self.source = name, at, source


class Form:
    """A list. The empty list is ``nil``. ``end`` is the exclusive end of its source text."""

    __slots__ = ("at", "end", "height", "items", "plan", "planner", "source")

    def __init__(self, items: list[Node], at: int, end: int, source: SourceText) -> None:
        self.items, self.at, self.end, self.source = items, at, end, source
        # nesting depth of forms, counting this one
        self.height: int = 1 + max([item.height for item in items if type(item) is Form], default=0)
        self.plan: Any = None  # the cached evaluation plan; ``planner`` identifies what made it
        self.planner: Any = None

    def with_head(self, name: str) -> Form:
        """Return the form with a different symbol as its head."""
        head = self.items[0]
        return Form([Name(name, head.at, self.source), *self.items[1:]], self.at, self.end, self.source)


Node = Atom | Name | Form


def name_of(node: Node | None) -> str:
    """Return the symbol's name; empty for any other node."""
    return node.name if isinstance(node, Name) else ""


def pair_of(node: Node) -> tuple[Name, Node] | None:
    """Return the parts of a ``(name expression)``; None for any other node."""
    items = node.items if isinstance(node, Form) else []
    return (items[0], items[1]) if len(items) == 2 and isinstance(items[0], Name) else None


def datum(node: Node, budget: Budget | None = None) -> Any:
    """Return a new value for a quoted node. The nesting depth is limited only by the budget, if there is one."""
    if not isinstance(node, Form):
        return _atom(node)
    result: list[Any] = []
    waiting: list[tuple[Form, list[Any], int]] = [(node, result, 1)]
    most = budget.nested if budget else MAX_NESTED
    while waiting:
        form, target, deep = waiting.pop()
        if deep > most:
            raise exhaustion("nested", most, "levels in one value")
        for item in form.items:
            if isinstance(item, Form):
                inner: list[Any] = []
                target.append(inner)
                waiting.append((item, inner, deep + 1))
            else:
                target.append(_atom(item))
    return result


def walk(nodes: list[Node]) -> Iterator[Node]:
    """Yield every node, last ones first, at any depth."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if type(node) is Form:
            waiting += node.items
        yield node


def size_of(node: Node) -> int:
    """Return the number of nodes."""
    return sum(1 for _ in walk([node]))


def _atom(node: Atom | Name) -> Any:
    return Symbol(node.name) if isinstance(node, Name) else node.value


def bound_names(nodes: list[Node]) -> set[str]:
    """Return every symbol that may become a variable, from all places that bind one."""
    names: set[str] = set()
    for node in walk(nodes):
        if not isinstance(node, Form) or not node.items:
            continue
        head = node.items[0]
        target = node.items[1] if len(node.items) > 1 and isinstance(head, Name) else None
        match head.name if isinstance(head, Name) else "":
            case "bind" | "define" if isinstance(target, Name):
                names.add(target.name)
            case "define" | "lambda" | "catch" if isinstance(target, Form):
                names |= {item.name for item in target.items if isinstance(item, Name)}
            case "let" | "let*" if isinstance(target, Form):
                pairs = [item.items[0] for item in target.items if isinstance(item, Form) and item.items]
                names |= {first.name for first in pairs if isinstance(first, Name)}
            case _:
                pass
    return names
