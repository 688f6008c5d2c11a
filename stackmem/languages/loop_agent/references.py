"""Resolves references in a loop's parameters: ``item.a.b``, ``payload.x[0]``, ``{{index}}``.

Rule 1: a text that is a single reference becomes the value, with its type.
Rule 2: an unresolved reference stays as written, without its braces, and is a warning if it has a dot.
Rule 3: resolved values are not searched for further references.
Rule 4: values built from references are bounded, because a payload that contains itself twice doubles each time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from stackmem.languages.frame.values import texts

from .paths import MISSING, look_up, parse_path

MAX_CHARS = 2_000_000
MAX_DEPTH = 150
_PART_CHARS = 8
_MAX_WARNINGS = 50
_DEEP = f"a value is nested deeper than {MAX_DEPTH} levels"
_LARGE = f"a value has more than {MAX_CHARS:,} characters"


def excess(value: Any) -> str:
    """Return why a value is too deep or too large when written out; empty if it is neither.

    Parts that occur in several places are measured once.
    """
    measured: dict[int, tuple[int, int]] = {}

    def measure(part: Any, depth: int) -> tuple[int, int]:
        """Return the characters and levels of a part, stopping early once a limit is exceeded."""
        if not isinstance(part, list | dict):
            return _PART_CHARS + (len(part) if isinstance(part, str) else 0), 0
        cached = measured.get(id(part))
        if cached is not None:
            return cached
        size, levels = _PART_CHARS * (1 + len(part)), 0
        if isinstance(part, dict):
            size += sum(map(len, part))
        for each in part.values() if isinstance(part, dict) else part:
            if size > MAX_CHARS or depth + levels > MAX_DEPTH:
                break
            inner, inner_levels = measure(each, depth + 1)
            size, levels = size + inner, max(levels, inner_levels + 1)
        measured[id(part)] = size, levels
        return size, levels

    size, levels = measure(value, 0)
    return _LARGE if size > MAX_CHARS else _DEEP if levels > MAX_DEPTH else ""


_BRACES = re.compile(r"\{\{\s*([^{}]{1,500}?)\s*\}\}")
_WORD = re.compile(r"[A-Za-z_$][\w$]*(?:\.[\w$-]+|\[\d+\])*")


class ReferenceNames(Struct, frozen=True):
    """The names that references can use in one iteration."""

    values: dict[str, Any]  # name to value, the loop's own variables first
    own: tuple[str, ...] = ()  # names that are also resolved as bare words

    def find(self, text: str) -> Any:
        """Return the value of a reference, or ``MISSING``."""
        path = parse_path(text)
        if not path or not isinstance(path[0], str):
            return MISSING
        head = next((name for name in self.values if name == path[0]), None)
        head = head or next((name for name in self.values if name.lower() == path[0].lower()), None)
        return MISSING if head is None else look_up(self.values[head], path[1:])


def resolve(value: Any, names: ReferenceNames, warnings: list[str], give: Callable[[Any], object] = id) -> Any:
    """Return ``value`` with every reference inside it resolved. Keys are not resolved.

    ``give`` receives each value that the result shares with its owner.
    """
    match value:
        case str():
            resolved = _text(value, names, warnings)
            give(resolved)
            return resolved
        case list():
            return [resolve(each, names, warnings, give) for each in value]
        case dict():
            return {name: resolve(each, names, warnings, give) for name, each in value.items()}
        case _:
            return value


def heads(value: Any) -> Iterator[tuple[str, bool]]:
    """Yield the first name of each apparent reference in a value, and whether it is in braces."""
    for text in texts(value):
        for match in _BRACES.finditer(text):
            path = parse_path(match[1])
            if path:
                yield str(path[0]), True
        bare = text.strip()
        if _WORD.fullmatch(bare) and ("." in bare or "[" in bare):
            yield re.split(r"[.\[]", bare)[0], False


def _text(text: str, names: ReferenceNames, warnings: list[str]) -> Any:
    reference = _BRACES.fullmatch(text.strip())
    if reference:
        value = names.find(reference[1])
        return _warn_unresolved(reference[1], warnings) if value is MISSING else value
    if "{{" in text:
        return _fill(text, names, warnings)
    bare = text.strip()
    if not _WORD.fullmatch(bare):
        return text
    if bare.lower() in {name.lower() for name in names.own}:
        return names.find(bare)
    if "." not in bare and "[" not in bare:
        return text
    value = names.find(bare)
    if value is not MISSING:
        return value
    _warn_unresolved(bare, warnings)
    return text


def _fill(text: str, names: ReferenceNames, warnings: list[str]) -> str:
    """Fill in the references of a text, up to the maximum size of a value."""
    size = len(text)

    def replacement(match: re.Match[str]) -> str:
        nonlocal size
        if size > MAX_CHARS:
            return match[0]
        filling = _inside(match[1], names, warnings)
        size += len(filling)
        if size > MAX_CHARS:
            warnings.append(f"a text would have more than {MAX_CHARS:,} characters; the rest of its references stay")
            return match[0]
        return filling

    return _BRACES.sub(replacement, text)


def _inside(text: str, names: ReferenceNames, warnings: list[str]) -> str:
    value = names.find(text)
    if value is MISSING:
        return _warn_unresolved(text, warnings)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _warn_unresolved(text: str, warnings: list[str]) -> str:
    add_warning(warnings, f"'{text[:80]}' stands for nothing here and was taken as it is written")
    return text


def add_warning(warnings: list[str], text: str) -> None:
    """Add a warning unless it is already there or there are too many to read."""
    if text not in warnings and len(warnings) < _MAX_WARNINGS:
        warnings.append(text)
