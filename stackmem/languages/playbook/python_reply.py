"""Parses a reply that is written as Python, as later versions of the contract ask for it, into the same items.

Nothing is executed. A value is a literal, a variable, or text, list and number operations on values that are known when
the reply is read; anything else is an unreadable item, and the reading ends there.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
import re
import tokenize
import warnings
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, cast

from stackmem.languages.frame.values import as_text

from ..frame.bounds import VALUE_CHARS
from .literals import MAX_DEPTH, MAX_INT, CallTo, LiteralFault, Variable, parts_of
from .reply_items import (
    MAX_ITEM_CHARS,
    MAX_ITEMS,
    Fired,
    Item,
    Queued,
    ReplyItems,
    ReturnItem,
    SetVar,
    TextItem,
    Unreadable,
    Yielded,
    read_place,
    yield_to,
)
from .state import excess

_STEP = re.compile(r"^[ \t]*(?:await[ \t]+)?(?:self\.)?Step\([ \t]*[\"']", re.M)
_FENCED = re.compile(r"^[ \t]*```\w*[ \t]*\n(.*?)(?:^[ \t]*```|\Z)", re.M | re.S)
_WORDS = re.compile(r"#\s*(recap|plan)\b[\s:–—-]*(.*)", re.I)
_TOKEN = re.compile(
    r"""([fF]?)(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|\#[^\n]*|\$([A-Za-z_]\w*)""", re.S
)
"""A text, a comment or a ``$variable``."""
_FORMAT = re.compile(r"[<>^]?\d{0,3},?(?:\.\d{1,2})?[dfgs%]?")
_YIELDS, _TRIGGERS = ("Yield", "Yld"), ("LogTrigger", "Trigger")
_SUMMARY = "__"
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


def is_python(text: str) -> bool:
    """Return whether a reply names its steps as calls and not as back-ticked items."""
    return _STEP.search(text) is not None and "`Step[" not in text


def read_python(text: str, variables: Mapping[str, Any]) -> ReplyItems:
    """Parse a reply up to the first yield, Return or fault. Never raises.

    ``variables`` are the values of the agent's variables.
    """
    blocks = _FENCED.findall(text)
    source = _TOKEN.sub(_without_dollar, "\n".join(blocks) or text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
            comments = list(_comments(source))
    except SyntaxError as error:
        lines = source.split("\n")
        line = lines[min(max(1, error.lineno or 1), len(lines)) - 1]
        return ReplyItems((Unreadable(f"it is not Python: {error.msg}", line[:300]),))
    except (ValueError, RecursionError, MemoryError, tokenize.TokenError) as error:
        return ReplyItems((Unreadable(f"it is not Python: {type(error).__name__}", text[:200]),))
    return _PythonReader(source, variables).read(tree, comments)


def _without_dollar(match: re.Match[str]) -> str:
    if match[2]:
        return f"self.state.{match[2]}"
    return match[0].replace("{$", "{self.state.") if match[1] else match[0]


def _comments(source: str) -> Iterator[tuple[int, TextItem]]:
    lines = (f"{line}\n" for line in source.split("\n"))
    for token in tokenize.generate_tokens(lines.__next__):
        match = _WORDS.match(token.string) if token.type == tokenize.COMMENT else None
        if match:
            yield token.start[0], TextItem(cast("Literal['recap', 'plan']", match[1].lower()), match[2].strip())


class _PythonReader:
    def __init__(self, source: str, variables: Mapping[str, Any]) -> None:
        self._lines = source.split("\n")
        self._variables = ChainMap[str, Any]({}, cast("dict[str, Any]", variables))
        self._locals: dict[str, Any] = {}
        self._items: list[Item] = []
        self._created = 0  # characters of the texts and items of the lists that operations created
        self._pending: set[str] = set()  # variables whose value will be known after a call of this reply

    def read(self, tree: ast.Module, comments: list[tuple[int, TextItem]]) -> ReplyItems:
        for number, node in enumerate(tree.body):
            if len(self._items) > MAX_ITEMS:
                break
            while comments and comments[0][0] <= node.lineno:
                self._items.append(comments.pop(0)[1])
            try:
                self._statement(node)
            except (LiteralFault, RecursionError) as fault:
                self._items.append(Unreadable(str(fault), self._text(node)[:300]))
            if self._items and isinstance(self._items[-1], Yielded | ReturnItem | Unreadable):
                return ReplyItems(tuple(self._items), self._ignored(tree.body[number:]))
        return ReplyItems((*self._items, *(item for _, item in comments)))

    def _ignored(self, nodes: list[ast.stmt]) -> str:
        """Return the text after the end of the reply, including a variable that the end would set."""
        end = self._items[-1]
        if isinstance(end, Unreadable):
            return ""
        sets = isinstance(nodes[0], ast.Assign | ast.AnnAssign)
        rest = [] if isinstance(end, ReturnItem) else nodes[0 if sets else 1 :]
        return "\n".join(map(self._text, rest))

    def _text(self, node: ast.AST) -> str:
        begin, end = getattr(node, "lineno", 1), getattr(node, "end_lineno", None)
        return "\n".join(self._lines[begin - 1 : end or begin]).strip()

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Pass():
                return
            case ast.Expr(value=ast.Constant(value=str() as text)):
                self._items.append(TextItem("prose", text))
            case ast.Expr(value=value):
                self._call(_called(value), "")
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, value)
            case ast.AugAssign(target=target, op=op, value=value):
                self._set(target, self._operation(op, self._value(target), self._value(value)))
            case _:
                message = "only calls and assignments are read; write the steps that you execute, without if and loops"
                raise LiteralFault(message, 0)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        call = _called(value)
        if isinstance(call, ast.Call) and not (isinstance(call.func, ast.Name) and hasattr(builtins, call.func.id)):
            self._call(call, _variable_name(target))
        else:
            self._set(target, self._value(value))

    def _set(self, target: ast.expr, value: Any) -> None:
        name = _variable_name(target)
        if reason := excess(value):
            raise LiteralFault(reason, 0)
        if isinstance(target, ast.Name):
            self._locals[name] = value
            return
        if any(isinstance(part, CallTo) for part in parts_of(value)):
            raise LiteralFault("a call inside a value; assign its result to a variable first", 0)
        if name == _SUMMARY:
            self._items.append(TextItem("recap", as_text(self._resolve(value))))
            return
        self._items.append(SetVar(name, value))
        self._locals.pop(name, None)
        if isinstance(value, Variable) and value.name in self._pending:
            self._pending.add(name)
        else:
            self._variables[name] = self._resolve(value)
            self._pending.discard(name)
            if reason := excess(self._variables[name]):
                raise LiteralFault(reason, 0)

    def _call(self, call: ast.expr, into: str) -> None:
        if not isinstance(call, ast.Call):
            raise LiteralFault("it is not a call or an assignment", 0)
        name = _call_name(call.func)
        if name == "Step" or name in _TRIGGERS:
            self._items.append(read_place("Step" if name == "Step" else "Trigger", self._one_text(call)))
        elif name in _YIELDS:
            word = self._one_text(call)
            item = yield_to(word)
            if item is None:
                raise LiteralFault(f"{word[:40]!r} is not a yield; write user, call, return or exit", 0)
            self._items.append(item)
        elif name == "Return":
            value = self._value(call.args[0]) if call.args else None
            if any(isinstance(part, CallTo) for part in parts_of(value)):
                raise LiteralFault("a call in Return; assign its result to a variable first", 0)
            self._items.append(ReturnItem(value))
        else:
            self._queue(name, call, into)

    def _queue(self, name: str, call: ast.Call, into: str) -> None:
        last = self._items[-1] if self._items else None
        if isinstance(last, Fired):
            self._items[-1] = Fired(last.playbook, last.number, last.code, queues=True)
        self._items.append(Queued(self._call_to(name, call, 0), into, fired=isinstance(last, Fired)))
        if into:
            self._pending.add(into)
            self._locals.pop(into, None)

    def _call_to(self, name: str, call: ast.Call, depth: int) -> CallTo:
        if any(word.arg is None for word in call.keywords) or any(isinstance(arg, ast.Starred) for arg in call.args):
            raise LiteralFault("* and ** are not read; write each argument", 0)
        keywords = tuple((str(word.arg), self._value(word.value, depth + 1)) for word in call.keywords)
        return CallTo(name, tuple(self._value(arg, depth + 1) for arg in call.args), keywords)

    def _one_text(self, call: ast.Call) -> str:
        value = self._value(call.args[0]) if len(call.args) == 1 else None
        if not isinstance(value, str):
            raise LiteralFault("it takes one text", 0)
        return value

    def _value(self, node: ast.expr, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise LiteralFault(f"the value is nested over {MAX_DEPTH} deep", 0)
        match node:
            case ast.Constant(value=value) if value is None or isinstance(value, str | bool | int | float):
                return _bounded(value)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self._value(item, depth + 1) for item in items]
            case ast.Dict(keys=keys, values=values) if all(key is not None for key in keys):
                names = [self._resolve(self._value(cast("ast.expr", key), depth + 1)) for key in keys]
                return {as_text(name): self._value(item, depth + 1) for name, item in zip(names, values, strict=True)}
            case ast.Name(id=name) if name != "self":
                return self._locals[name] if name in self._locals else Variable(name)
            case ast.Attribute() | ast.Subscript():
                return self._part(node, depth)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._operation(ast.Sub(), 0, self._value(operand, depth + 1))
            case ast.BinOp(left=first, op=op, right=second):
                return self._operation(op, self._value(first, depth + 1), self._value(second, depth + 1))
            case ast.JoinedStr(values=parts):
                return self._joined(parts, depth)
            case ast.Await(value=ast.Call() as call) | (ast.Call() as call):
                name = _call_name(call.func)
                if not hasattr(builtins, name):
                    return self._call_to(name, call, depth)
        raise LiteralFault(f"{ast.unparse(node)[:60]} is not a literal, a variable or a call of the program", 0)

    def _part(self, node: ast.Attribute | ast.Subscript, depth: int) -> Any:
        """Return a variable, or a part of one whose value is known."""
        if _is_state(node.value):
            return Variable(_variable_name(node))
        inside = self._resolve(self._value(node.value, depth + 1))
        key = node.attr if isinstance(node, ast.Attribute) else self._resolve(self._value(node.slice, depth + 1))
        try:
            if isinstance(inside, dict) or (isinstance(inside, list | str) and type(key) is int):
                return cast("Any", inside)[key]
        except (KeyError, IndexError, TypeError):
            pass
        raise LiteralFault(f"{ast.unparse(node.value)[:60]} has no {as_text(key)[:60]!r}", 0)

    def _resolve(self, value: Any) -> Any:
        """Return a value with its variables replaced."""
        match value:
            case Variable(name=name) if name in self._pending:
                raise LiteralFault(f"${name} is only known after the call returned; yield first", 0)
            case Variable(name=name) if name in self._variables:
                return self._variables[name]
            case Variable(name=name):
                raise LiteralFault(f"${name} has no value; set it first, or give a literal", 0)
            case CallTo(name=name):
                raise LiteralFault(f"{name}(…) is only known after the call returned; assign it and yield first", 0)
            case list():
                return [self._resolve(item) for item in value]
            case dict():
                return {key: self._resolve(item) for key, item in value.items()}
        return value

    def _joined(self, parts: list[ast.expr], depth: int) -> str:
        texts: list[str] = []
        for part in parts:
            texts.append(self._formatted(part, depth))
            self._count(texts[-1])
        text = "".join(texts)
        _bounded(text)
        return text

    def _count(self, value: Any) -> None:
        """Count what an operation creates, so that a short reply cannot fill the memory."""
        self._created += len(value) if isinstance(value, str | list) else 0
        if self._created > VALUE_CHARS:
            raise LiteralFault(f"the reply makes texts of over {VALUE_CHARS:,} characters; write less", 0)

    def _formatted(self, part: ast.expr, depth: int) -> str:
        match part:
            case ast.Constant(value=str() as text):
                return text
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return as_text(self._resolve(self._value(value, depth + 1)))
            case ast.FormattedValue(value=value, conversion=-1, format_spec=ast.JoinedStr(values=[ast.Constant(spec)])):
                number = self._resolve(self._value(value, depth + 1))
                if isinstance(number, str | int | float) and _FORMAT.fullmatch(str(spec)):
                    try:
                        return format(number, str(spec))
                    except ValueError:
                        pass
        raise LiteralFault(f"{ast.unparse(part)[:60]} is not read in a text", 0)

    def _operation(self, op: ast.operator, first: Any, second: Any) -> Any:
        first, second = self._resolve(first), self._resolve(second)
        numbers = all(type(each) in (int, float) for each in (first, second))
        joins = isinstance(op, ast.Add) and isinstance(first, str | list)
        if type(op) not in _OPERATORS or not (numbers or (joins and type(first) is type(second))):
            raise LiteralFault("only numbers are calculated, and texts and lists joined", 0)
        try:
            result = _bounded(_OPERATORS[type(op)](first, second))
        except (ZeroDivisionError, OverflowError) as error:
            raise LiteralFault(str(error), 0) from None
        self._count(result)
        return result


def _called(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Await) else node


def _is_state(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "state" and isinstance(node.value, ast.Name)


def _variable_name(target: ast.expr) -> str:
    """Return the variable that is set by an assignment: ``self.state.x``, ``self.state["x"]`` or ``x``."""
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name) if isinstance(target, ast.Name) or _is_state(target.value):
            return name
        case ast.Subscript(value=inside, slice=ast.Constant(value=str() as name)) if _is_state(inside):
            return name.removeprefix("$")
    raise LiteralFault(f"{ast.unparse(target)[:60]} is not a variable of the program; set self.state.NAME", 0)


def _call_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return f"{owner}.{name}"
    raise LiteralFault(f"{ast.unparse(node)[:60]} is not a playbook", 0)


def _bounded(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise LiteralFault("the number is too large", 0)
    if isinstance(value, int) and not -MAX_INT <= value < MAX_INT:
        raise LiteralFault("the number is too large; write it as a text", 0)
    if isinstance(value, str | list) and len(value) > MAX_ITEM_CHARS:
        raise LiteralFault(f"a value has over {MAX_ITEM_CHARS:,} characters; write less", 0)
    return value
