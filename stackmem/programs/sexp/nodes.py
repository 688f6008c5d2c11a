"""A source as nodes that know where they stand, and the values that quoted ones stand for."""

from __future__ import annotations

from typing import Any


class Symbol(str):
    """A symbol as a value; equal to a text of the same characters, as the language says."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Symbol({str.__repr__(self)})"


class Source:
    """One text, and where it is from."""

    __slots__ = ("path", "text")

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text = path, text


class Atom:
    """A number, a text or a truth value."""

    __slots__ = ("at", "value")

    def __init__(self, value: Any, at: int) -> None:
        self.value, self.at = value, at


class Name:
    """A symbol."""

    __slots__ = ("at", "name", "source")

    def __init__(self, name: str, at: int, source: Source) -> None:
        self.name, self.at, self.source = name, at, source


class Form:
    """A list; the empty one is ``nil``.

    Attributes:
        end: Of its source text, exclusive.
        plan: How it is evaluated, once that is known; ``planner`` is who knows.

    """

    __slots__ = ("at", "end", "items", "plan", "planner", "source")

    def __init__(self, items: list[Node], at: int, end: int, source: Source) -> None:
        self.items, self.at, self.end, self.source = items, at, end, source
        self.plan: Any = None
        self.planner: Any = None


Node = Atom | Name | Form


def datum(node: Node) -> Any:
    """The value that a quoted node stands for; any depth."""
    if not isinstance(node, Form):
        return _atom(node)
    made: list[Any] = []
    waiting: list[tuple[Form, list[Any]]] = [(node, made)]
    while waiting:
        form, target = waiting.pop()
        for item in form.items:
            if isinstance(item, Form):
                inner: list[Any] = []
                target.append(inner)
                waiting.append((item, inner))
            else:
                target.append(_atom(item))
    return made


def _atom(node: Atom | Name) -> Any:
    return Symbol(node.name) if isinstance(node, Name) else node.value
