"""The Jinja dialect of APL: strict, immutable, bounded, and without access to Python objects.

Rule 1: a dot or a bracket looks up a key or an index, never an attribute. The exceptions are the ``loop`` of a ``for``
and a command's output, which is text with fields.
Rule 2: a missing variable may be passed on, tested with ``is defined``, or replaced by ``default`` or ``or``. Any other
use is an error that names it.
Rule 3: templates are bounded in characters, loop rounds and digits. Powers and macros are not available.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, NoReturn, cast

from jinja2 import StrictUndefined, nodes
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from jinja2.runtime import LoopContext, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.visitor import NodeTransformer

from ..frame.bounds import ROUNDS, TEXT_CHARS
from .command_output import CommandOutput, MalformedOutputError

MAX_BITS = 63
"""The size of integers that every JSON reader supports."""

_FILTERS = (
    "abs", "capitalize", "count", "d", "default", "dictsort", "escape", "first", "float", "int", "items", "last",
    "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "round", "select",
    "selectattr", "sort", "sum", "title", "trim", "unique", "upper",
)  # fmt: skip
_ENDS_ARGUMENT = {"pipe", "variable_end", "block_end", "rparen", "rbracket", "rbrace", "eof"}
_ENDS_ARGUMENT_WORDS = {"if", "else", "and", "or", "is", "in", "not"}
_COMPARISONS = {"eq", "ne", "lt", "lteq", "gt", "gteq"}
_LOOP_FIELDS = {
    "index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0", "previtem", "nextitem",
    "cycle",
}  # fmt: skip


class Missing(StrictUndefined):
    """A missing variable or field. A field of it is also missing, under the same name."""

    __slots__ = ()

    def _refuse_use(self, *_: Any) -> NoReturn:
        self.refuse()

    def refuse(self) -> NoReturn:
        """Raise the error for using the missing value."""
        if isinstance(self._undefined_obj, CommandOutput) and self.container is _UNSET:
            raise MalformedOutputError(self._undefined_obj, self.missing_name)
        raise MissingError(self)

    @property
    def container(self) -> Any:
        """The value in which the lookup failed; for a command's output, its parsed JSON."""
        looked_in = self._undefined_obj
        return looked_in.json(_UNSET) if isinstance(looked_in, CommandOutput) else looked_in

    __getitem__ = __iter__ = __str__ = __len__ = __bool__ = __hash__ = __contains__ = __int__ = __float__ = _refuse_use
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __pos__ = __call__ = _refuse_use
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _refuse_use
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __pow__ = __rpow__ = _refuse_use

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    @property
    def missing_name(self) -> str:
        return str(self._undefined_name)

    @property
    def is_field(self) -> bool:
        """Whether it is a field of an existing variable."""
        return self._undefined_obj is not _UNSET


_UNSET: Any = Undefined()._undefined_obj  # noqa: SLF001 - Jinja's marker for an undefined variable is private


class MissingError(UndefinedError):
    """A missing variable was used."""

    def __init__(self, missing: Missing) -> None:
        super().__init__(missing.missing_name)
        self.name = missing.missing_name
        self.is_field = missing.is_field
        self.container = missing.container


class _ColonArguments(Extension):
    """Parses ``| name: 'x', 2`` as ``| name('x', 2)``."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        tokens = [*stream]
        at, depth, opened = 0, 0, list[int]()
        while at < len(tokens):
            token = tokens[at]
            if opened and depth == opened[-1] and _ends_argument(token):
                opened.pop()
                yield Token(token.lineno, "rparen", ")")
                continue
            depth += (token.type in ("lparen", "lbracket", "lbrace")) - (token.type in ("rparen", "rbracket", "rbrace"))
            if [each.type for each in tokens[at : at + 3]] == ["pipe", "name", "colon"]:
                yield from (token, tokens[at + 1], Token(token.lineno, "lparen", "("))
                opened.append(depth)
                at += 3
                continue
            yield token
            at += 1
        for _ in opened:
            yield Token(tokens[-1].lineno if tokens else 1, "rparen", ")")


def _ends_argument(token: Token) -> bool:
    is_keyword = token.type == "name" and token.value in _ENDS_ARGUMENT_WORDS
    return is_keyword or token.type in _ENDS_ARGUMENT or token.type in _COMPARISONS


class _Bounds(NodeTransformer):
    """Inserts filters that bound the size of output and loops, and that handle missing values."""

    def visit_Or(self, node: nodes.Or) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.left = _filter(node.left, "or_none")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter(nodes.List(node.nodes, lineno=node.lineno), "concatenated")

    def visit_Getattr(self, node: nodes.Getattr) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return self._own_result(node, node.attr)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return self._own_result(node, node.arg.value if isinstance(node.arg, nodes.Const) else None)

    @staticmethod
    def _own_result(node: nodes.Getattr | nodes.Getitem, key: object) -> nodes.Node:
        owner = node.node
        if key != "result" or not isinstance(owner, nodes.Name):
            return node
        arguments = [nodes.Name(owner.name, "load"), nodes.Const(owner.name)]
        return nodes.Filter(node, "own_result", arguments, [], None, None, lineno=node.lineno)

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.iter = _filter(cast("nodes.Expr", node.iter), "counted")
        return node

    def visit_Const(self, node: nodes.Const) -> nodes.Node:  # noqa: N802
        plain_json(node.value)  # rejects infinite numbers such as 1e999
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        raise SecurityError(f"{{% {type(node).__name__.lower()} %}} is not taken")

    visit_CallBlock = visit_Macro  # noqa: N815 - the visitor requires this spelling
    visit_Include = visit_Import = visit_FromImport = visit_Extends = visit_Block = visit_Macro  # noqa: N815


def _filter(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """The Jinja environment with APL's filters and limits."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            undefined=Missing,
            optimized=False,
            keep_trailing_newline=True,
            extensions=[_ColonArguments],
            cache_size=0,
            finalize=text_of,
        )
        self.rounds = 0  # loop rounds of the template that is running
        # variables that are the single ``result`` of a standard tool; they also have that name as a field
        self.results: Container[str] = ()
        self.globals = {"range": safe_range}
        own: dict[str, Callable[..., Any]] = {
            "concatenated": concatenate,
            "counted": self._count_rounds,
            "join": _join,
            "or_none": _or_none,
            "own_result": self._result,
            "quote": _quote,
            "remove_prefix": lambda text, prefix: text_of(text).removeprefix(text_of(prefix)),
            "remove_suffix": lambda text, suffix: text_of(text).removesuffix(text_of(suffix)),
            "replace": _replace,
            "split": _split,
            "string": text_of,
            "tojson": _to_json,
        }
        self.filters = {name: self.filters[name] for name in _FILTERS} | own

    def bound(self, tree: nodes.Template) -> nodes.Template:
        return _Bounds().visit(tree)  # type: ignore[no-any-return]

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self._looked_up(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        return self._looked_up(obj, argument)

    def _looked_up(self, obj: Any, key: Any) -> Any:
        value: Any = _UNSET
        if isinstance(obj, Missing):
            return obj
        if isinstance(obj, CommandOutput):
            value = obj.field(key, _UNSET)
        elif isinstance(obj, LoopContext):
            value = getattr(obj, key) if key in _LOOP_FIELDS else _UNSET
        elif isinstance(obj, dict):
            value = obj.get(key, _UNSET) if isinstance(key, str | int | float | bool) else _UNSET
            if value is _UNSET and isinstance(key, int) and not isinstance(key, bool):
                value = obj.get(str(key), _UNSET)
        elif isinstance(obj, list | tuple):
            index = int(key) if isinstance(key, str) and key.isdecimal() and len(key) < 10 else key
            if isinstance(index, int) and not isinstance(index, bool) and -len(obj) <= index < len(obj):
                value = obj[index]
        return self.undefined(obj=obj, name=str(key)) if value is _UNSET else value

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        for side in (left, right):
            if isinstance(side, Missing):
                side.refuse()
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if operator == "**":
            raise SecurityError("** is not taken")
        if operator in ("*", "%") and not numbers:
            raise SecurityError(f"{operator} takes numbers only")
        if not numbers and isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
            _refuse_length(len(left) + len(right))
        value = super().call_binop(context, operator, left, right)
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise SecurityError(f"a whole number of more than {MAX_BITS} bits")
        if isinstance(value, float) and not math.isfinite(value):
            raise SecurityError("a number that is too large")
        return value

    def _result(self, value: Any, owner: Any, name: str) -> Any:
        return owner if isinstance(value, Missing) and name in self.results else value

    def _count_rounds(self, items: Iterable[Any]) -> Iterator[Any]:
        if isinstance(items, Missing):
            items.refuse()
        for item in items:
            self.rounds += 1
            if self.rounds > ROUNDS:
                raise SecurityError(f"its loops take more than {ROUNDS:,} rounds")
            yield item


def plain_json(value: Any) -> Any:
    """Convert an expression's value to plain JSON. Ranges and other iterables become lists."""
    match value:
        case Missing():
            value.refuse()
        case CommandOutput():
            return value
        case str():
            return str.__str__(value)
        case float() if not math.isfinite(value):
            raise SecurityError("a number that is too large")
        case None | bool() | int() | float():
            return value
        case dict():
            return {str(key): plain_json(item) for key, item in value.items()}
        case Iterable():
            return [plain_json(item) for item in value]
    raise SecurityError("a function is not a value")


def text_of(value: Any) -> str:
    """Return a text unchanged and any other value as JSON."""
    if isinstance(value, Missing):
        value.refuse()
    return value if isinstance(value, str) else json.dumps(plain_json(value), ensure_ascii=False)


def concatenate(parts: Iterable[Any]) -> str:
    """Join texts within the size limit of a template."""
    texts, size = [], 0
    for part in parts:
        text = text_of(part)
        size += len(text)
        _refuse_length(size)
        texts.append(text)
    return "".join(texts)


def _refuse_length(size: int) -> None:
    if size > TEXT_CHARS:
        raise SecurityError(f"it makes more than {TEXT_CHARS:,} characters")


def _or_none(value: Any) -> Any:
    return None if isinstance(value, Missing) else value


def _join(items: Iterable[Any], separator: str = "") -> str:
    if isinstance(items, Missing):
        items.refuse()
    texts = [text_of(item) for item in items]
    _refuse_length(sum(map(len, texts)) + len(separator) * max(0, len(texts) - 1))
    return separator.join(texts)


def _replace(text: Any, old: str, new: str) -> str:
    full_text = text_of(text)
    _refuse_length(len(full_text) + (len(new) - len(old)) * full_text.count(old) if old else TEXT_CHARS + 1)
    return full_text.replace(old, new)


def _split(text: Any, separator: str | None = None) -> list[str]:
    return text_of(text).split(separator or None)


def _quote(value: Any) -> str:
    """Quote a value as one word of a shell command."""
    return shlex.quote(text_of(value))


def _to_json(value: Any, indent: int | None = None) -> str:
    if isinstance(value, Missing):
        value.refuse()
    text = json.dumps(value, ensure_ascii=False, indent=min(indent, 8) if indent else None)
    _refuse_length(len(text))
    return text
