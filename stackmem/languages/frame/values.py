"""Facts recorded about a program's values (kind, size, digest at the end of a phase), and their text form."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from json import dumps
from typing import Any

from msgspec import json

from stackmem.core.program_facts import StepLeft, VariableSet

_BRIEF_CHARS = 80
_BRIEF_ITEMS = 8
_BRIEF_DEPTH = 3


def kind_and_size(value: Any) -> tuple[str, int]:
    """Return a value's kind and size: characters of a text, items of a list, members of an object, otherwise 0."""
    match value:
        case None:
            return "nothing", 0
        case bool():
            return "boolean", 0
        case int() | float():
            return "number", 0
        case str():
            return "text", len(value)
        case list() | tuple():
            return "list", len(value)
        case dict():
            return "object", len(value)
        case _:
            return type(value).__name__.lower(), 0


def step_left(path: str, value: Any) -> StepLeft:
    """Return the note that a step ended with ``value``."""
    return StepLeft(path, *kind_and_size(value))


def variable_set(name: str, value: Any) -> VariableSet:
    """Return the note that a variable was set to ``value``."""
    return VariableSet(name, *kind_and_size(value))


def digest_of(value: Any) -> str:
    """Return the SHA-256 of the value as JSON, with members in their order.

    Parts that JSON cannot represent are hashed by their ``repr``.
    """
    try:
        raw = json.encode(value, enc_hook=repr)
    # a lone surrogate, or nesting that is too deep
    except (UnicodeEncodeError, RecursionError, OverflowError, TypeError):
        raw = repr_of(value)
    return hashlib.sha256(raw).hexdigest()


def repr_of(value: Any) -> bytes:
    """Return bytes that identify a value that JSON cannot represent."""
    try:
        return repr(value).encode(errors="backslashreplace")
    except (RecursionError, ValueError):
        return type(value).__name__.encode()


def as_text(value: Any) -> str:
    """Return a text unchanged and any other value as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.encode(value, enc_hook=str).decode()
    except RecursionError:
        return "(a value that is nested too deeply to be shown)"
    except UnicodeEncodeError:  # a lone surrogate, which JSON can only escape
        return dumps(value, default=str)


def texts(value: Any) -> Iterator[str]:
    """Yield every text inside a value."""
    match value:
        case str():
            yield value
        case list() | tuple():
            for item in value:
                yield from texts(item)
        case dict():
            for item in value.values():
                yield from texts(item)
        case _:
            pass


def brief(value: Any, depth: int = 0) -> str:
    """Return a short form of a value of any size."""
    many = 0 if depth == _BRIEF_DEPTH else _BRIEF_ITEMS
    match value:
        case str():
            prefix = value[: _BRIEF_CHARS + 1]
            return dumps(f"{prefix[:_BRIEF_CHARS]}…" if len(prefix) > _BRIEF_CHARS else prefix, ensure_ascii=False)
        case list() if len(value) > many:
            return f"[{len(value):,} items]"
        case dict() if len(value) > many:
            return f"{{{len(value):,} members}}"
        case list():
            return f"[{', '.join(brief(inner, depth + 1) for inner in value)}]"
        case dict():
            return f"{{{', '.join(f'{name}: {brief(inner, depth + 1)}' for name, inner in value.items())}}}"
        case _:
            return dumps(value)
