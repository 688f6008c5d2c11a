"""Parses values as a model writes them: literals, ``$variables``, and calls with such arguments.

Nothing is evaluated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from .errors import PlaybookError
from .tree import Param, Required

MAX_DEPTH = 50
MAX_DIGITS = 400
MAX_INT = 1 << 63
"""the 64-bit range that every JSON reader accepts"""
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?(?![\w.])")
_VARIABLE = re.compile(r"\$([A-Za-z_]\w*)")
_CALLED = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)\s*\(")
_KEYWORD = re.compile(r"\$?([A-Za-z_]\w*)\s*=(?!=)")
_WORDS = {"true": True, "false": False, "null": None, "none": None}
_WORD = re.compile(r"[A-Za-z]+(?!\w)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "\n": ""}
_PAIR = re.compile(r"\\u([dD][89abAB][0-9A-Fa-f]{2})\\u([dD][c-fC-F][0-9A-Fa-f]{2})")
_HEX = {"x": 2, "u": 4, "U": 8}


class LiteralFault(Exception):  # noqa: N818 - a finding of the reader, shown to the model
    """The text is not a value. The message gives the reason, ``at`` the position."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


class Variable(Struct, frozen=True):
    """A variable, written ``$name``."""

    name: str


class CallTo(Struct, frozen=True):
    """A call, written ``Name(values, name=value)``."""

    name: str
    values: tuple[Any, ...] = ()
    keywords: tuple[tuple[str, Any], ...] = ()


def parts_of(value: Any) -> Iterator[Any]:
    """Yield a value and all nested parts of its lists and maps, in order. The inside of calls is not entered."""
    yield value
    for each in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
        yield from parts_of(each)


def variables_in(value: Any) -> list[str]:
    """Return the names of the variables in a value, in order, except those inside calls."""
    return [part.name for part in parts_of(value) if isinstance(part, Variable)]


def calls_in(value: Any) -> Iterator[CallTo]:
    """Yield every call in a value, inner calls first."""
    for part in parts_of(value):
        if isinstance(part, CallTo):
            for each in (*part.values, *(inner for _, inner in part.keywords)):
                yield from calls_in(each)
            yield part


class LiteralReader:
    """Reads values from a text, from left to right. ``at`` is the current position."""

    def __init__(self, text: str, at: int = 0) -> None:
        self.text, self.at = text, at

    def skip_space(self) -> int:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.at

    def peek(self) -> str:
        self.skip_space()
        return self.text[self.at : self.at + 1]

    def value(self, depth: int = 0) -> Any:
        """Read the value at the current position. Raise LiteralFault if the text is not a literal."""
        if depth > MAX_DEPTH:
            raise LiteralFault(f"the value is nested over {MAX_DEPTH} deep", self.at)
        first = self.peek()
        match first:
            case "":
                raise LiteralFault("a value is missing", self.at)
            case '"' | "'":
                return self._texts()
            case "[":
                return self._list("[", "]", depth)
            case "(":
                return self._list("(", ")", depth)
            case "{":
                return self._map(depth)
            case "$":
                return self._variable()
        return self._number() if first in "+-." or first.isdigit() else self._word(depth)

    def _word(self, depth: int) -> Any:
        match = _WORD.match(self.text, self.at)
        if match and match[0].lower() in _WORDS and self.text[match.end() : match.end() + 1] not in ("(", "."):
            self.at = match.end()
            return _WORDS[match[0].lower()]
        if _CALLED.match(self.text, self.at):
            return self.call(depth)
        raise LiteralFault(f"{_excerpt(self.text, self.at)} is not a literal, $variable or call", self.at)

    def _variable(self) -> Variable:
        match = _VARIABLE.match(self.text, self.at)
        if not match:
            raise LiteralFault("a name is missing after $", self.at)
        if self.text[match.end() : match.end() + 1] in (".", "[", "("):
            message = f"{_excerpt(self.text, self.at)} looks into ${match[1]}; set a variable to that part first"
            raise LiteralFault(message, self.at)
        self.at = match.end()
        return Variable(match[1])

    def _number(self) -> int | float:
        match = _NUMBER.match(self.text, self.at)
        if not match or len(match[0]) > MAX_DIGITS:
            raise LiteralFault(f"{_excerpt(self.text, self.at)} is not a number", self.at)
        plain = match[0].replace("_", "")
        value = float(plain) if any(mark in plain for mark in ".eE") else int(plain)
        if not (-MAX_INT <= value < MAX_INT if isinstance(value, int) else math.isfinite(value)):
            raise LiteralFault(f"{match[0][:40]} is too large; write it as a text", self.at)
        self.at = match.end()
        return value

    def _texts(self) -> str:
        """Read a text and join the texts directly after it, as Python does."""
        parts = [self._text()]
        while self.peek() in ('"', "'") and self.peek():
            parts.append(self._text())
        return "".join(parts)

    def _text(self) -> str:
        text, start = self.text, self.at
        quote = text[start] * 3 if text.startswith(text[start] * 3, start) else text[start]
        self.at += len(quote)
        parts: list[str] = []
        while not text.startswith(quote, self.at):
            if self.at >= len(text):
                raise LiteralFault(f"the text that begins with {_excerpt(text, start)} has no closing {quote}", start)
            char = text[self.at]
            self.at += 1
            parts.append(self._escape() if char == "\\" else char)
        self.at += len(quote)
        return "".join(parts)

    def _escape(self) -> str:
        """Return the character after a backslash. An unknown escape is kept as written."""
        char = self.text[self.at : self.at + 1]
        self.at += 1
        if char in _HEX:
            digits = self.text[self.at : self.at + _HEX[char]]
            if re.fullmatch(r"[0-9A-Fa-f]+", digits) and len(digits) == _HEX[char]:
                code = int(digits, 16)
                if code < 0x110000 and not 0xD800 <= code < 0xE000:
                    self.at += len(digits)
                    return chr(code)
                pair = _PAIR.match(self.text, self.at - 2) if char == "u" else None
                if pair:
                    self.at = pair.end()
                    return chr(0x10000 + ((int(pair[1], 16) - 0xD800) << 10) + int(pair[2], 16) - 0xDC00)
            return f"\\{char}"
        if char in ("\\", "'", '"', "`", "/"):
            return char
        return _ESCAPES.get(char, f"\\{char}")

    def _list(self, opening: str, closing: str, depth: int) -> list[Any]:
        self.at += 1
        items: list[Any] = []
        while self.peek() != closing:
            items.append(self.value(depth + 1))
            self._comma(closing, f"the list that begins with {opening}")
        self.at += 1
        return items

    def _map(self, depth: int) -> dict[str, Any]:
        self.at += 1
        entries: dict[str, Any] = {}
        while self.peek() != "}":
            key = self.value(depth + 1)
            if not isinstance(key, str | int | float | bool | None):
                raise LiteralFault("a key of a map must be a text", self.at)
            if self.peek() != ":":
                raise LiteralFault(f"a colon is missing at {_excerpt(self.text, self.at)}", self.at)
            self.at += 1
            entries[key if isinstance(key, str) else str(key)] = self.value(depth + 1)
            self._comma("}", "the map")
        self.at += 1
        return entries

    def _comma(self, closing: str, subject: str) -> None:
        if self.peek() == ",":
            self.at += 1
        elif self.peek() != closing:
            raise LiteralFault(
                f"{subject} continues with {_excerpt(self.text, self.at)}; a comma belongs there", self.at
            )

    def call(self, depth: int = 0) -> CallTo:
        """Read the call at the current position.

        Raise LiteralFault if the text is not a call, or an argument is not a value.
        """
        match = _CALLED.match(self.text, self.at)
        if not match:
            raise LiteralFault(f"{_excerpt(self.text, self.at)} is not a call", self.at)
        self.at = match.end()
        values: list[Any] = []
        keywords: dict[str, Any] = {}
        while self.peek() != ")":
            keyword = _KEYWORD.match(self.text, self.at)
            if keyword:
                self.at = keyword.end()
                if keyword[1] in keywords:
                    raise LiteralFault(f"{keyword[1]} is given twice to {match[1]}", self.at)
                keywords[keyword[1]] = self.value(depth + 1)
            elif keywords:
                raise LiteralFault(f"{match[1]} has a value without a name after named ones; name it", self.at)
            else:
                values.append(self.value(depth + 1))
            self._comma(")", f"the call of {match[1]}")
        self.at += 1
        return CallTo(match[1], tuple(values), tuple(keywords.items()))


def _excerpt(text: str, at: int) -> str:
    return repr(" ".join(text[at : at + 40].split()))


_NAME = re.compile(r"\s*+\$?([A-Za-z_]\w*)\s*+(?::\s*+([A-Za-z_][\w\[\] |.]*+)\s*+(?=[,=]|$))?\s*+")


def read_params(text: str, line: int) -> tuple[Param, ...]:
    """Parse a parameter list, in order. Raise PlaybookError if a parameter is malformed, or two have the same name."""
    params: dict[str, Param] = {}
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = _NAME.match(text, at)
        if not match:
            message = f"{text[at : at + 200].strip()[:80]!r} is not a parameter; write `$name`"
            raise PlaybookError("Bad Heading", message, line)
        at = match.end()
        default = Required
        if text[at : at + 1] == "=":
            reader = LiteralReader(text, at + 1)
            try:
                default = reader.value()
            except LiteralFault as fault:
                raise PlaybookError("Bad Heading", f"the default of ${match[1]}: {fault}", line) from fault
            if isinstance(default, Variable | CallTo):
                raise PlaybookError("Bad Heading", f"the default of ${match[1]} must be a literal", line)
            at = reader.skip_space()
        if text[at : at + 1] not in ("", ","):
            message = f"a comma belongs before {text[at : at + 200].strip()[:80]!r}"
            raise PlaybookError("Bad Heading", message, line)
        at += 1
        if match[1] in params:
            raise PlaybookError("Bad Heading", f"two parameters are called ${match[1]}; rename one", line)
        params[match[1]] = Param(match[1], (match[2] or "").rstrip(), default)
    return tuple(params.values())
