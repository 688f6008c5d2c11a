"""The texts of a page: each is kept once, and whatever shows it holds a reference.

A reference is a number (a whole text), or a list of pieces: a whole text or ``[text, start, end]``, positions counted
in UTF-16 units, as the page's own language counts them.
"""

from __future__ import annotations

from typing import Any

from msgspec import json

Piece = int | tuple[int, int, int]
Ref = int | list[Piece]

_SHORT_CHARS = 40
_EXACT = 2**53
_DEEPEST = 100  # what is nested deeper is told as its JSON


class Texts:
    """A pool that texts are added to."""

    def __init__(self) -> None:
        self.items: list[str] = []  # the texts, by number
        self._known: dict[str, Ref] = {}

    def ref(self, text: str) -> Ref:
        """The text as it was composed, or as a whole."""
        known = self._known.get(text)
        return self._whole(text) if known is None else known

    def lines(self, text: str) -> Ref:
        """The text line by line, for texts that are told again with a line changed, as a heap index is."""
        if text in self._known or text.count("\n") < 2:
            return self.ref(text)
        *lines, last = text.split("\n")
        pieces: list[Piece] = [self._whole(line + "\n") for line in lines]
        self._known[text] = composed = [*pieces, self._whole(last)] if last else pieces
        return composed

    def around(self, text: str, inner: str) -> Ref:
        """A text that brings back ``inner`` or a piece of it: all below its first line, or the text as a whole."""
        head, _, body = text.partition("\n")
        start = inner.find(body)
        if text in self._known or len(body) < _SHORT_CHARS or start < 0:
            return self.ref(text)
        place, before = self._whole(inner), _units(inner[:start])
        piece: Piece = place if body == inner else (place, before, before + _units(body))
        self._known[text] = [self._whole(head + "\n"), piece]
        return self._known[text]

    def value(self, value: Any, depth: int = 0) -> Any:
        """A JSON value with its long texts replaced.

        A long text is ``{"t": ref}``, an object ``{"o": [[name, value], …]}``, a number that JavaScript would round
        ``{"n": "digits"}``; a list stays one, and so does the rest.
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

    def _whole(self, text: str) -> int:
        known = self._known.get(text)
        if isinstance(known, int):
            return known
        self.items.append(text)
        if known is None:
            self._known[text] = len(self.items) - 1
        return len(self.items) - 1


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def chars_of(value: Any) -> int:
    """Characters of a JSON value as a prompt holds it."""
    return len(json.encode(value))
