"""Strict JSON with the position of errors, and JSON and TOML from untrusted sources with one exception type each.

Rule 1: Values that Python's parser accepts and others do not are refused: NaN, Infinity, and numbers that no float can
    represent. Nesting too deep for later parsers is refused too.
Rule 2: Every refusal has the position of its first character. Python's parser does the work; this module scans a text
    only if that parser fails or a caller needs a position.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")
MAX_DEPTH = 100
_SHORT_DIGITS = 300  # every integer with this many digits fits into a float
_TOKEN = re.compile(r'"(?:[^"\\]+|\\.)*"?|[\[\]{},:]|[^\s"\[\]{},:]+', re.DOTALL)
_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def strict_value(text: str, *, one_each: bool = False, utf8: bool = False) -> Any:
    """Parse one JSON text.

    Args:
        one_each: Refuse repeated keys. Otherwise the last value of a key counts.
        utf8: Refuse strings with half of a surrogate pair, because they cannot be written to a file.

    Raises:
        json.JSONDecodeError: The text is not JSON, or it is refused. The error is a ``ValueError`` with the position.
        RecursionError: The caller's stack has no room left for a hundred levels.
    """
    pairs = _each_once if one_each else None
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_float, parse_int=_int, object_pairs_hook=pairs)
    except (_Refused, RecursionError) as error:
        raise _first_refusal(text, one_each=one_each, utf8=utf8) or error from None
    if text.count("[") + text.count("{") > MAX_DEPTH or (utf8 and (_is_half(text) or _ESCAPED_HALF.search(text))):
        refusal = _first_refusal(text, one_each=False, utf8=utf8)
        if refusal is not None:
            raise refusal
    return value


def line_and_column(text: str, at: int) -> str:
    """Return a position as text, both numbers from 1: ``line 2, column 5``."""
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"


_CURES = {
    "Invalid control character": "in a string, write a line break as \\n and a tab as \\t",
    "Invalid \\escape": "in a string, write a backslash as \\\\",
    "Invalid \\uXXXX escape": "write \\u with four hexadecimal digits, or the character itself",
    "Extra data": "write nothing after the object",
}
_NEAR = 20


def fault_of_json(text: str) -> str:
    """Return what is wrong with a text that is not JSON, where, and what to write instead. Empty if it is JSON."""
    try:
        strict_value(text)
    except json.JSONDecodeError as error:
        at = error.pos
        if not text.strip() or at >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
            return f"they break off after {len(text):,} characters; make a shorter call"
        near = text[max(0, at - _NEAR) : at + _NEAR]
        cure = next((cure for fault, cure in _CURES.items() if error.msg.startswith(fault)), "")
        return f"{error.msg} at {line_and_column(text, at)}, near {near!r}{'; ' if cure else ''}{cure}"
    except (ValueError, RecursionError) as error:
        return str(error)
    return ""


def offset_of(text: str, path: tuple[str | int, ...]) -> int:
    """Return the offset of the value at a path of a JSON text, or of its nearest existing ancestor."""
    offset, ancestors = 0, [list(path[:steps]) for steps in range(len(path) + 1)]
    for token in _tokens(text):
        if not token.key and len(token.path) <= len(path) and token.path == ancestors[len(token.path)]:
            offset = token.at
            if len(token.path) == len(path):
                break
    return offset


class _Refused(ValueError):  # noqa: N818 - it never leaves this file
    """Python's parser met a value that is refused."""


class _Token(Struct):
    """A key, a scalar, or an opening bracket."""

    at: int
    text: str
    path: list[str | int | None]  # of its value, or of the value that a key belongs to; the scanner modifies it later
    key: bool


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the tokens in order. Misplaced characters are skipped."""
    path: list[str | int | None] = []  # one entry per open bracket; None: a key comes next
    for match in _TOKEN.finditer(text):
        piece, last = match[0], path[-1] if path else 0
        if piece in ("]", "}"):
            del path[-1:]
        elif piece == "," and path:
            path[-1] = last + 1 if isinstance(last, int) else None
        elif last is None and piece[0] == '"':
            path[-1] = _text(piece)
            yield _Token(match.start(), piece, path, key=True)
        elif piece not in (",", ":"):
            yield _Token(match.start(), piece, path, key=False)
            if piece in ("[", "{"):
                path.append(0 if piece == "[" else None)


def _first_refusal(text: str, *, one_each: bool, utf8: bool) -> json.JSONDecodeError | None:
    """Return the error for the first refused token. Up to there the text is JSON."""
    keys: dict[int, set[Any]] = {}
    for token in _tokens(text):
        message, depth = "", len(token.path)
        if token.text in ("[", "{"):
            keys[depth + 1] = set()
            message = f"nested deeper than {MAX_DEPTH} levels" if depth >= MAX_DEPTH else ""
        elif token.text[0] == '"':
            message = "a text holds half of a surrogate pair" if utf8 and _is_half(_text(token.text)) else ""
            if token.key and one_each:
                message = message or (
                    f"the key {_text(token.text)[:40]!r} stands twice" if token.path[-1] in keys[depth] else ""
                )
                keys[depth].add(token.path[-1])
        else:
            message = _fault_of_word(token.text)
        if message:
            return json.JSONDecodeError(message, text, token.at)
    return None


def _fault_of_word(word: str) -> str:
    try:
        json.loads(word, parse_constant=_refuse, parse_float=_float, parse_int=_int)
    except ValueError as refused:
        return str(refused)
    return ""


def _text(piece: str) -> str:
    return str(json.loads(piece))


def _is_half(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise _Refused
    return table


def _refuse(word: str) -> NoReturn:
    raise _Refused(f"{word} is not JSON")


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _Refused(f"the number {digits[:20]} is too large")
    return number


def _int(digits: str) -> int:
    if len(digits) > _SHORT_DIGITS:
        _float(digits)
    return int(digits)


def decode_json(raw: bytes | str, kind: type[T]) -> T:
    """Decode JSON as an instance of ``kind``.

    Raises:
        msgspec.DecodeError: For any fault of the text, also invalid UTF-8 and nesting that is too deep.
    """
    try:
        return msgspec.json.decode(raw, type=kind)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error


class _TooManyDigits(tomllib.TOMLDecodeError):
    """An error without a position. From Python 3.14 on, other errors of this type need one."""

    def __init__(self) -> None:
        ValueError.__init__(self, "a number in it has too many digits")


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML text.

    Raises:
        tomllib.TOMLDecodeError: For any fault of the text, also numbers with too many digits.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:
        raise _TooManyDigits from error
