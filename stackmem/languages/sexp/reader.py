"""Parses text into nodes with positions, without recursion.

``'x`` is ``(quote x)``. ``nil`` and ``()`` are the empty list, ``true`` and ``false`` are booleans, and ``;`` begins a
comment. Brackets, quasi-quotes and infinite numbers are not supported. A program's file may begin with ``(budgets
(steps N) (depth N))``.
"""

from __future__ import annotations

import math
import re

from msgspec import structs

from ..frame.bounds import DIGITS
from .errors import Budget, SexpSyntaxError, SourcePlace
from .tree import MAX_NESTED, Atom, Form, Name, Node, SourceText

UNBALANCED = "S-expression syntax error: Unbalanced parentheses or brackets."
_QUOTE = "A quote is followed by nothing. A text is written in double quotes."

_TOKEN = re.compile(
    r"""(?P<blank>\s+|;[^\n]*)|(?P<open>\()|(?P<close>\))|(?P<quote>')"""
    r"""|(?P<text>"(?:[^"\\]|\\.)*")|(?P<word>[^\s()\[\]'";`,]+)""",
    re.DOTALL,
)
_REST_OF_TEXT = re.compile(r'(?:[^"\\]|\\.)*"', re.DOTALL)
_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


def read(text: str, path: str = "", most: int = 1_000_000) -> list[Node]:
    """Parse every top-level expression.

    Raise TypeError if ``text`` is not a text. Raise SexpSyntaxError if the text is empty, unbalanced or too long, or
    contains something that the language does not have.
    """
    if not isinstance(text, str):
        raise TypeError(f"a workflow is a text, not {type(text).__name__}")
    if len(text) > most:
        raise SexpSyntaxError(f"The source has {len(text):,} characters; the most is {most:,}.", text[:200])
    nodes = _Reader(SourceText(path, text)).nodes()
    if not nodes:
        raise SexpSyntaxError(
            "Input string is empty or contains only whitespace.", text, position=SourcePlace.of(path, text, 0)
        )
    return nodes


class TypedLines:
    """Tracks whether typed input is complete, scanning each line once."""

    def __init__(self) -> None:
        self._deep = 0
        self._in_text = False

    def is_unfinished_with(self, line: str) -> bool:
        """Add a line, and return whether a parenthesis or text is still open."""
        at = 0
        if self._in_text:
            rest = _REST_OF_TEXT.match(line)
            if rest is None:
                return True
            at, self._in_text = rest.end(), False
        while at < len(line):
            token = _TOKEN.match(line, at)
            if token is None:
                self._in_text = line[at] == '"'
                return self._in_text
            self._deep += (token.lastgroup == "open") - (token.lastgroup == "close")
            at = token.end()
        return self._deep > 0


class _Reader:
    """Reads one source. ``_open`` is the stack of open lists and quotes."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._done: list[Node] = []
        self._open: list[tuple[int, list[Node], bool]] = []  # start position, items, and whether it is a quote

    def nodes(self) -> list[Node]:
        text, at = self._source.text, 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                raise self._foreign(at)
            at = token.end()
            match token.lastgroup:
                case "open":
                    self._begin(token.start(), quote=False)
                case "close":
                    self._close(token.start(), at)
                case "quote":
                    self._begin(token.start(), quote=True)
                case "text":
                    self._add(Atom(_unescape(token[0][1:-1]), token.start()), at)
                case "word":
                    self._add(self._word(token[0], token.start(), at), at)
        if self._open:
            began, _, quote = self._open[-1]
            closes_text = quote and began > 0 and not text[began - 1].isspace()  # as in 'x'
            raise self._error(_QUOTE if closes_text else UNBALANCED, began)
        return self._done

    def _begin(self, at: int, *, quote: bool) -> None:
        if len(self._open) >= MAX_NESTED:
            raise self._error(f"Nested deeper than {MAX_NESTED:,}.", at)
        items: list[Node] = [Name("quote", at, self._source)] if quote else []
        self._open.append((at, items, quote))

    def _close(self, at: int, end: int) -> None:
        if not self._open:
            raise self._error("Unexpected content after the main expression.", at)
        began, items, quote = self._open.pop()
        if quote:
            raise self._error(_QUOTE, began)
        self._add(Form(items, began, end, self._source), end)

    def _add(self, node: Node, end: int) -> None:
        """Append a node to the innermost open list. A quote closes after its single item."""
        while self._open and self._open[-1][2]:
            began, items, _ = self._open.pop()
            items.append(node)
            node = Form(items, began, end, self._source)
        (self._open[-1][1] if self._open else self._done).append(node)

    def _word(self, word: str, at: int, end: int) -> Node:
        if word == "nil":
            return Form([], at, end, self._source)
        if word in ("true", "false"):
            return Atom(word == "true", at)
        if _INTEGER.fullmatch(word):
            if len(word) > DIGITS:
                raise self._error(f"A number of more than {DIGITS:,} digits.", at)
            return Atom(_int(word), at)
        if _NUMBER.fullmatch(word):
            number = float(word)
            if not math.isfinite(number):
                raise self._error(f"{word[:40]} is larger than any number here.", at)
            return Atom(number, at)
        return Name(word, at, self._source)

    def _foreign(self, at: int) -> SexpSyntaxError:
        char = self._source.text[at]
        if char == '"':
            return self._error("A text has no closing quotation mark.", at)
        if char in "[]":
            return self._error(f"{char} is not part of the language; lists are written ( ).", at)
        return self._error(f"{char} is not part of the language.", at)

    def _error(self, message: str, at: int) -> SexpSyntaxError:
        location = SourcePlace.of(self._source.path, self._source.text, at)
        return SexpSyntaxError(message, self._source.text, message, location)


def _int(word: str) -> int:
    """Parse an integer in chunks, because Python refuses to parse more than 4,300 digits in one call."""
    digits = word.lstrip("+-")
    number = 0
    for start in range(0, len(digits), 4_000):
        chunk = digits[start : start + 4_000]
        number = number * 10 ** len(chunk) + int(chunk)
    return -number if word.startswith("-") else number


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text, flags=re.DOTALL)


MOST = {"steps": 1_000_000_000, "depth": 100_000}


def split_budget(nodes: list[Node]) -> tuple[list[Node], Budget]:
    """Return the expressions without a leading budget form, and the budget.

    Raise SexpSyntaxError if the form is malformed, or requests more than the maximum.
    """
    first = nodes[0]
    head = first.items[0] if isinstance(first, Form) and first.items else None
    if not isinstance(first, Form) or not isinstance(head, Name) or head.name != "budgets":
        return nodes, Budget()
    limits: dict[str, int] = {}
    for clause in first.items[1:]:
        pair = clause.items if isinstance(clause, Form) else []
        name = pair[0].name if len(pair) == 2 and isinstance(pair[0], Name) else ""
        count = pair[1].value if name and isinstance(pair[1], Atom) else None
        if name not in MOST or name in limits or type(count) is not int or not 1 <= count <= MOST[name]:
            clauses = " and ".join(f"({key} N) with N from 1 to {most:,}" for key, most in MOST.items())
            location = SourcePlace.of(first.source.path, first.source.text, first.at)
            message = f"'budgets' takes {clauses}, each at most once."
            raise SexpSyntaxError(message, first.source.text, message, location)
        limits[name] = count
    return nodes[1:], structs.replace(Budget(), **limits)
