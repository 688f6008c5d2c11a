"""The types that ``defatom`` may give its parameters, and what fits them.

A type's name in any case of letters; with a ``?`` behind it the value may be ``nil`` as well. Every other name tells
the reader something and is not held against the value; the linter says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .values import Closure, as_mapping, is_null, written

_SHOWN = 80


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_object(value: Any) -> bool:
    """A mapping, or a list of pairs."""
    return isinstance(value, Mapping) or as_mapping(value) is not None


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_whole,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "list": _is_list,
    "object": _is_object,
    "null": is_null,
    "any": lambda _: True,
}
_SPELLED = {
    "str": "string", "text": "string", "int": "integer", "float": "number", "bool": "boolean", "array": "list",
    "dict": "object", "map": "object", "mapping": "object", "alist": "object",
}  # fmt: skip
KNOWN = ", ".join(_CHECKS)


def typed_params(params: Any) -> dict[str, str]:
    """Parameter to type, of a template's parameters; those of a stranger's template may be anything."""
    found = params.items() if isinstance(params, Mapping) else ()
    return {
        str(name): one["type"]
        for name, one in found
        if isinstance(one, Mapping) and isinstance(one.get("type"), str) and one["type"] != "any"
    }


def known_type(kind: str) -> bool:
    return _plain(kind) in _CHECKS


def fits(value: Any, kind: str) -> bool:
    """Whether a value is of the type; a name that is none of ours fits anything."""
    check = _CHECKS.get(_plain(kind))
    return check is None or check(value) or (kind.endswith("?") and is_null(value))


def misfit(task: str, name: str, kind: str, value: Any) -> str:
    """That a value is not of its parameter's type."""
    shown = "a function" if isinstance(value, Closure) else written(value, _SHOWN)
    return f"Task '{task}' takes '{name}' as {kind}, got: {shown}"


def _plain(kind: str) -> str:
    name = kind.lower().removesuffix("?")
    return _SPELLED.get(name, name)
