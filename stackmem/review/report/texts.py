"""The texts of a page: each is stored once, and everything else refers to it.

A reference is a number (a whole text), or a list of pieces: a whole text or ``[text, start, end]``. Positions count
UTF-16 units, like the page's JavaScript.
"""

from __future__ import annotations

from typing import Any

from msgspec import json

Piece = int | tuple[int, int, int]
Ref = int | list[Piece]

_SHORT_CHARS = 40
_EXACT = 2**53
_DEEPEST = 100  # deeper values are stored as JSON text


class Texts:
    """A pool of texts."""

    def __init__(self) -> None:
        self.items: list[str] = []  # the texts by number
        self._refs: dict[str, Ref] = {}

    def ref(self, text: str) -> Ref:
        """Return the reference of a text, composed if it was registered so, otherwise whole."""
        reference = self._refs.get(text)
        return self._plain_ref(text) if reference is None else reference

    def lines(self, text: str) -> Ref:
        """Register a text line by line, for texts that are repeated with one line changed, such as a heap index."""
        if text in self._refs or text.count("\n") < 2:
            return self.ref(text)
        *lines, last = text.split("\n")
        pieces: list[Piece] = [self._plain_ref(line + "\n") for line in lines]
        self._refs[text] = composed = [*pieces, self._plain_ref(last)] if last else pieces
        return composed

    def around(self, text: str, inner: str) -> Ref:
        """Register a text that contains ``inner``, or a piece of it, below its first line; otherwise as a whole."""
        head, _, body = text.partition("\n")
        start = inner.find(body)
        if text in self._refs or len(body) < _SHORT_CHARS or start < 0:
            return self.ref(text)
        position, before = self._plain_ref(inner), _units(inner[:start])
        piece: Piece = position if body == inner else (position, before, before + _units(body))
        self._refs[text] = [self._plain_ref(head + "\n"), piece]
        return self._refs[text]

    def value(self, value: Any, depth: int = 0) -> Any:
        """Encode a JSON value with its long texts replaced.

        A long text becomes ``{"t": ref}``, an object ``{"o": [[name, value], …]}``, and a number that JavaScript
        would round ``{"n": "digits"}``. Lists and other values stay as they are.
        """
        match value:
            case str() if len(value) > _SHORT_CHARS:
                return {"t": self.ref(value)}
            case bool():
                return value
            case int() if abs(value) > _EXACT:
                return {"n": str(value)}
            case dict() | list() | tuple() if depth > _DEEPEST:
                return {"t": self.ref(json.encode(value).decode())}
            case dict():
                return {"o": [[self.value(str(name)), self.value(inner, depth + 1)] for name, inner in value.items()]}
            case list() | tuple():
                return [self.value(inner, depth + 1) for inner in value]
            case _:
                return value

    def _plain_ref(self, text: str) -> int:
        reference = self._refs.get(text)
        if isinstance(reference, int):
            return reference
        self.items.append(text)
        if reference is None:
            self._refs[text] = len(self.items) - 1
        return len(self.items) - 1


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def chars_of(value: Any) -> int:
    """Count the characters of a JSON value in a prompt."""
    return len(json.encode(value))
