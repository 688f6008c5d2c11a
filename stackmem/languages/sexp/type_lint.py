"""What the linter knows of types: those that a task declares, and the values that are written out in a source."""

from __future__ import annotations

from typing import Any

from .nodes import Atom, Form, Name, Node, datum
from .param_types import KNOWN, fits, known_type, misfit

UNKNOWN = object()
Typed = dict[str, str]


def declared(params: Node) -> list[tuple[Name, str, Name | None]]:
    """Of a ``(params …)``: each parameter with its type, ``any`` where it says none."""
    found: list[tuple[Name, str, Name | None]] = []
    for item in params.items[1:] if isinstance(params, Form) else []:
        if isinstance(item, Name):
            found.append((item, "any", None))
        elif isinstance(item, Form) and item.items and isinstance(item.items[0], Name):
            kind = item.items[1] if len(item.items) == 2 else None
            found.append((item.items[0], kind.name if isinstance(kind, Name) else "any", _named(kind)))
    return found


def _named(node: Node | None) -> Name | None:
    return node if isinstance(node, Name) else None


def unknown_type(kind: Name) -> str:
    """What is to be said of a type that nothing is held against; empty where something is."""
    return "" if known_type(kind.name) else f"'{kind.name[:80]}' is no type that is checked; known: {KNOWN}"


def type_fault(task: str, param: str, kind: str, node: Node) -> str:
    """What is wrong with a value that is written out; empty where nothing is, or it is not known."""
    value = _value(node)
    if value is UNKNOWN or fits(value, kind):
        return ""
    told = misfit(task, param, kind, value)
    return told[0].lower() + told[1:]


def _value(node: Node) -> Any:
    if isinstance(node, Atom):
        return node.value
    if isinstance(node, Name):
        return UNKNOWN
    if not node.items:
        return []
    head = node.items[0]
    quoted = isinstance(head, Name) and head.name == "quote" and len(node.items) == 2
    return datum(node.items[1]) if quoted else UNKNOWN
