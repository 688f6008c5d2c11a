"""The grammar of conditions, and a parser from text to tree. Depth and length are bounded. Nothing is evaluated.

expression := unary (operator unary)*          by precedence: || && equality comparison sum product
unary      := ("!" | "-" | "+" | "typeof") unary | postfix
postfix    := primary ("." name | "[" expression "]" | "(" arguments ")")*
primary    := number | text | name | "(" expression ")" | "[" expressions "]"
argument   := name "=>" expression | "(" names ")" "=>" expression | expression
"""

from __future__ import annotations

import re
import sys
from typing import Any

from msgspec import Struct

MAX_CHARS = 1_000
MAX_DEPTH = 40

FORBIDDEN = frozenset({
    "eval", "Function", "import", "require", "process", "global", "window", "document", "__proto__", "constructor",
    "prototype", "this", "await", "async", "class", "extends", "throw", "try", "catch", "finally",
})  # fmt: skip
_ALWAYS = frozenset({"__proto__", "constructor", "prototype"})
_LEVELS = (("||",), ("&&",), ("===", "!==", "==", "!="), ("<=", ">=", "<", ">"), ("+", "-"), ("*", "/", "%"))
_ASSIGNS = ("=", "+=", "-=", "*=", "/=", "%=", "++", "--")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<text>'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")"
    r"|(?P<name>(?:[^\W\d]|\$)[\w$]*)"
    r"|(?P<op>===|!==|=>|\+\+|--|[-+*/%]=|==|!=|<=|>=|&&|\|\||[-+*/%<>!=.,()\[\]])"
    r"|(?P<bad>[;{}`])|(?P<end>\Z))"
)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(0[0-9]|.))")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}


class ConditionFault(Exception):  # noqa: N818 - a finding to report, not a crash
    """The fault of a condition, in one sentence."""


class Literal(Struct, frozen=True):
    value: Any


class Identifier(Struct, frozen=True):
    name: str


class ListLiteral(Struct, frozen=True):
    items: tuple[Node, ...]


class Unary(Struct, frozen=True):
    """Prefix operators, left to right as written, and their operand."""

    operators: tuple[str, ...]
    operand: Node


class Chain(Struct, frozen=True):
    """Operands of one level of precedence, evaluated from left to right."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


class Member(Struct, frozen=True):
    """A member lookup, ``.name``."""

    name: str


class ItemLookup(Struct, frozen=True):
    """An item lookup, ``[key]``."""

    key: Node


class MethodCall(Struct, frozen=True):
    """A call, ``(arguments)``."""

    arguments: tuple[Node | Arrow, ...]


class Postfix(Struct, frozen=True):
    """A value and a sequence of lookups and calls on it."""

    target: Node
    steps: tuple[Member | ItemLookup | MethodCall, ...]


class Arrow(Struct, frozen=True):
    """An arrow function, which is allowed only as an argument."""

    parameters: tuple[str, ...]
    body: Node


Node = Literal | Identifier | ListLiteral | Unary | Chain | Postfix


class _ConditionToken(Struct, frozen=True):
    kind: str
    text: str
    at: int


def parse(text: Any) -> Node | None:
    """Parse a condition. None if it is only whitespace. Raise ConditionFault if the text is not a condition."""
    if not isinstance(text, str) or not text:
        raise ConditionFault("Expression must be a non-empty string")
    if len(text) > MAX_CHARS:
        raise ConditionFault(f"Expression exceeds the maximum length of {MAX_CHARS} characters")
    tokens = _tokens(text)
    if len(tokens) == 1:
        return None
    _check_balance(tokens)
    return _Parser(tokens).parse()


def _tokens(text: str) -> list[_ConditionToken]:
    tokens: list[_ConditionToken] = []
    at = 0
    while True:
        match = _TOKEN.match(text, at)
        if match is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise ConditionFault(
                f"Expression is not a parseable single expression: {text[start]!r} at column {start + 1}"
            )
        kind = str(match.lastgroup)
        token = _ConditionToken(kind, match[kind], match.start(kind))
        if kind == "bad" or (kind == "name" and token.text in FORBIDDEN and _is_word(token.text, tokens)):
            raise ConditionFault(f"Expression contains forbidden construct: {token.text}")
        if kind == "op" and token.text in _ASSIGNS:
            raise ConditionFault(f"AssignmentExpression is not allowed: {token.text!r} at column {token.at + 1}")
        tokens.append(token)
        if kind == "end":
            return tokens
        at = match.end()


def _is_word(name: str, before: list[_ConditionToken]) -> bool:
    """Return whether a forbidden name must be rejected here.

    A member may have most names, but not those for prototypes.
    """
    return name in _ALWAYS or not (before and before[-1].text == ".")


def _check_balance(tokens: list[_ConditionToken]) -> None:
    closes = {")": "(", "]": "["}
    open_: list[str] = []
    for token in tokens:
        if token.kind != "op":
            continue
        if token.text in "([":
            open_.append(token.text)
        elif token.text in closes and (not open_ or open_.pop() != closes[token.text]):
            raise ConditionFault("Unbalanced parentheses in expression")
        if len(open_) > MAX_DEPTH:
            raise ConditionFault(f"Expression is nested deeper than {MAX_DEPTH} levels")
    if open_:
        raise ConditionFault("Unbalanced parentheses in expression")


class _Parser:
    def __init__(self, tokens: list[_ConditionToken]) -> None:
        self._tokens = tokens
        self._at = 0

    def parse(self) -> Node:
        node = self._level(0)
        if self._next.kind != "end":
            raise self._unexpected()
        return node

    @property
    def _next(self) -> _ConditionToken:
        return self._tokens[self._at]

    def _unexpected(self) -> ConditionFault:
        token = self._next
        text = "its end" if token.kind == "end" else repr(token.text)
        return ConditionFault(f"Expression is not a parseable single expression: {text} at column {token.at + 1}")

    def _take(self, *texts: str) -> str:
        """Consume the next operator if it is one of these; otherwise return an empty text."""
        token = self._next
        if token.kind in ("op", "name") and token.text in texts:
            self._at += 1
            return token.text
        return ""

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._unexpected()

    def _level(self, level: int) -> Node:
        """Parse an operand and all operators of at least this level, in a loop instead of by recursion."""
        node = self._unary()
        pending: list[tuple[int, Node, list[tuple[str, Node]], str]] = []
        while True:
            token = self._next
            token_level = next((n for n, words in enumerate(_LEVELS) if token.kind == "op" and token.text in words), -1)
            while pending and pending[-1][0] > token_level:
                _, first, rest, operator = pending.pop()
                node = Chain(first, (*rest, (operator, node)))
            if token_level < level:
                return node
            self._at += 1
            if pending and pending[-1][0] == token_level:
                _, first, rest, operator = pending.pop()
                pending.append((token_level, first, [*rest, (operator, node)], token.text))
            else:
                pending.append((token_level, node, [], token.text))
            node = self._unary()

    def _unary(self) -> Node:
        operators = []
        while operator := self._take("!", "-", "+", "typeof"):
            operators.append(operator)
        node = self._postfix()
        return Unary(tuple(operators), node) if operators else node

    def _postfix(self) -> Node:
        node, steps = self._primary(), list[Member | ItemLookup | MethodCall]()
        while True:
            if self._take("."):
                if self._next.kind != "name":
                    raise self._unexpected()
                steps.append(Member(self._word()))
            elif self._take("["):
                steps.append(ItemLookup(self._level(0)))
                self._expect("]")
            elif self._take("("):
                steps.append(MethodCall(self._arguments()))
            else:
                return Postfix(node, tuple(steps)) if steps else node

    def _word(self) -> str:
        token = self._next
        self._at += 1
        return token.text

    def _primary(self) -> Node:
        token = self._next
        match token.kind:
            case "number":
                self._at += 1
                return Literal(float(token.text))
            case "text":
                self._at += 1
                return Literal(_unescape(token.text[1:-1]))
            case "name":
                return Identifier(self._word())
        if self._take("("):
            node = self._level(0)
            self._expect(")")
            return node
        if self._take("["):
            items: list[Node] = []
            while not self._take("]"):
                items.append(self._level(0))
                if not self._take(","):
                    self._expect("]")
                    break
            return ListLiteral(tuple(items))
        raise self._unexpected()

    def _arguments(self) -> tuple[Node | Arrow, ...]:
        arguments: list[Node | Arrow] = []
        while not self._take(")"):
            arguments.append(self._argument())
            if not self._take(","):
                self._expect(")")
                break
        return tuple(arguments)

    def _argument(self) -> Node | Arrow:
        parameters = self._parameters()
        if parameters is None:
            return self._level(0)
        return Arrow(parameters, self._level(0))

    def _parameters(self) -> tuple[str, ...] | None:
        """Parse the parameters of an arrow function, if one begins here."""
        at, names = self._at, list[str]()
        if self._tokens[at].kind == "name":
            names, at = [self._tokens[at].text], at + 1
        elif self._tokens[at].text == "(":
            at += 1
            while self._tokens[at].kind == "name":
                names.append(self._tokens[at].text)
                at += 2 if self._tokens[at + 1].text == "," else 1
            if self._tokens[at].text != ")":
                return None
            at += 1
        if not names or self._tokens[at].text != "=>":
            return None
        self._at = at + 1
        return tuple(names)


def _unescape(text: str) -> str:
    utf16 = _ESCAPE.sub(_unescape_match, text)
    try:
        # combines escaped surrogate pairs into one character
        return utf16.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ConditionFault(
            "Expression is not a parseable single expression: a text holds half of a surrogate pair"
        ) from None


def _unescape_match(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code is None and match[4] not in _ESCAPES and (match[4] in "ux" or match[4][0] in "0123456789"):
        raise ConditionFault(f"Expression is not a parseable single expression: the escape {match[0]!r}")
    if code is None:
        return _ESCAPES.get(match[4], match[4])
    if int(code, 16) > sys.maxunicode:
        raise ConditionFault(f"Expression is not a parseable single expression: the escape {match[0]!r}")
    return chr(int(code, 16))
