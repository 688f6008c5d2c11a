"""What the texts in a loop's parameters stand for: ``item.a.b``, ``payload.x[0]``, ``{{index}}``.

Rule 1: a text that is one reference as a whole becomes the value, with its type.
Rule 2: what cannot be resolved stays as it is written (without its braces), and is a warning where it has a dot.
Rule 3: what a reference gave is never looked through for references again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from .excess import MOST_CHARS
from .paths import MISSING, looked_up, parsed

_BRACES = re.compile(r"\{\{\s*([^{}]{1,500}?)\s*\}\}")
_WORD = re.compile(r"[A-Za-z_$][\w$]*(?:\.[\w$-]+|\[\d+\])*")


class Names(Struct, frozen=True):
    """What stands to be named in one iteration.

    Attributes:
        values: Name to value; the loop's own variables first.
        own: Names that also stand for themselves as bare words.

    """

    values: dict[str, Any]
    own: tuple[str, ...] = ()

    def find(self, text: str) -> Any:
        """What a reference gives, or ``MISSING``."""
        path = parsed(text)
        if not path or not isinstance(path[0], str):
            return MISSING
        head = next((name for name in self.values if name == path[0]), None)
        head = head or next((name for name in self.values if name.lower() == path[0].lower()), None)
        return MISSING if head is None else looked_up(self.values[head], path[1:])


def resolved(value: Any, names: Names, warnings: list[str], give: Callable[[Any], object] = id) -> Any:
    """``value`` with every reference in it resolved, at any depth; keys stay.

    Args:
        give: Told of each value that stands in the result as it is, and belongs to somebody else.

    """
    match value:
        case str():
            found = _text(value, names, warnings)
            give(found)
            return found
        case list():
            return [resolved(each, names, warnings, give) for each in value]
        case dict():
            return {name: resolved(each, names, warnings, give) for name, each in value.items()}
        case _:
            return value


def _text(text: str, names: Names, warnings: list[str]) -> Any:
    whole = _BRACES.fullmatch(text.strip())
    if whole:
        found = names.find(whole[1])
        return _unresolved(whole[1], warnings) if found is MISSING else found
    if "{{" in text:
        return _filled(text, names, warnings)
    bare = text.strip()
    if not _WORD.fullmatch(bare):
        return text
    if bare.lower() in {name.lower() for name in names.own}:
        return names.find(bare)
    if "." not in bare and "[" not in bare:
        return text
    found = names.find(bare)
    if found is not MISSING:
        return found
    _unresolved(bare, warnings)
    return text


def _filled(text: str, names: Names, warnings: list[str]) -> str:
    """The text with its references filled in, as long as it stays within what a value may be."""
    size = len(text)

    def one(match: re.Match[str]) -> str:
        nonlocal size
        if size > MOST_CHARS:
            return match[0]
        told = _inside(match[1], names, warnings)
        size += len(told)
        if size > MOST_CHARS:
            warnings.append(f"a text would have more than {MOST_CHARS:,} characters; the rest of its references stay")
            return match[0]
        return told

    return _BRACES.sub(one, text)


def _inside(text: str, names: Names, warnings: list[str]) -> str:
    found = names.find(text)
    if found is MISSING:
        return _unresolved(text, warnings)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def _unresolved(text: str, warnings: list[str]) -> str:
    told = f"'{text[:80]}' stands for nothing here and was taken as it is written"
    if told not in warnings and len(warnings) < 50:
        warnings.append(told)
    return text
