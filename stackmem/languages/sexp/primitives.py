"""Functions of evaluated arguments: the primitives of the language document, and additional ones users expect.

In operator position, the document's primitives override every variable. Variables, tasks and tools of the same name
override the additional ones.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from .errors import Meter, SexpEvaluationError, error_line, exhaustion, within_budget
from .tree import Symbol
from .values import equal, from_python, is_null, to_source, truthy

Args = list[Any]
Primitive = Callable[[Args, Meter], Any]


def fault(message: str, details: str = "") -> SexpEvaluationError:
    return SexpEvaluationError(message, "", details)


def _number(name: str, value: Any) -> Any:
    if isinstance(value, int | float):
        return value
    raise fault(f"'{name}' takes numbers, got {kind_of(value)}: {to_source(value, 80)}")


def kind_of(value: Any) -> str:
    match value:
        case None | []:
            return "nil"
        case bool():
            return "a truth value"
        case Symbol():
            return "a symbol"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "a list"
        case {"content": _, "status": _}:
            return "a task's result (its value is (task-content result))"
        case dict():
            return "a mapping"
        case _:
            return "a function" if callable(value) or type(value).__name__ == "Closure" else "a value"


def add(args: Args, meter: Meter) -> Any:
    total: Any = 0
    for value in args:
        total = _calculate("+", operator.add, total, _number("+", value))
    return _bound(total, meter)


def subtract(args: Args, meter: Meter) -> Any:
    if len(args) not in (1, 2):
        raise fault("'-' requires one or two numeric arguments.")
    first = _number("-", args[0])
    return _bound(-first if len(args) == 1 else _calculate("-", operator.sub, first, _number("-", args[1])), meter)


def multiply(args: Args, meter: Meter) -> Any:
    total: Any = 1
    for value in args:
        total = _bound(_calculate("*", operator.mul, total, _number("*", value)), meter)
    return total


def divide(args: Args, meter: Meter) -> Any:
    if len(args) != 2:
        raise fault("'/' requires exactly two numeric arguments.")
    return _calculate("/", operator.truediv, _number("/", args[0]), _number("/", args[1]))


def modulo(args: Args, meter: Meter) -> Any:
    if len(args) != 2:
        raise fault("'mod' requires exactly two numeric arguments.")
    return _calculate("mod", operator.mod, _number("mod", args[0]), _number("mod", args[1]))


def _calculate(name: str, reckon: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    try:
        return reckon(left, right)
    except ZeroDivisionError:
        raise fault(f"'{name}' divides by zero.") from None
    except OverflowError:
        raise fault(f"'{name}' gives a number that is too large.") from None


def _bound(number: Any, meter: Meter) -> Any:
    if type(number) is not int or number.bit_length() <= 63:
        return number
    meter.charge(number.bit_length() >> 8)
    return within_budget(number, meter.budget)


def less(args: Args, meter: Meter) -> bool:
    if len(args) != 2:
        raise fault("'<' requires exactly two numeric arguments.")
    return bool(_number("<", args[0]) < _number("<", args[1]))


def _chain(name: str, holds: Callable[[Any, Any], bool]) -> Primitive:
    def compare(args: Args, meter: Meter) -> bool:
        if not args:
            raise fault(f"'{name}' requires at least one argument.")
        numbers = [_number(name, value) for value in args]
        return all(holds(left, right) for left, right in pairwise(numbers))

    return compare


def make_list(args: Args, meter: Meter) -> Any:
    return args


def eq(args: Args, meter: Meter) -> bool:
    if len(args) != 2:
        raise fault("'eq?' requires exactly two arguments.")
    return equal(args[0], args[1], meter)


def null(args: Args, meter: Meter) -> bool:
    if len(args) != 1:
        raise fault("'null?' requires exactly one argument.")
    return is_null(args[0])


def negate(args: Args, meter: Meter) -> bool:
    if len(args) != 1:
        raise fault("'not' requires exactly one argument.")
    return not truthy(args[0])


def same_text(args: Args, meter: Meter) -> bool:
    if len(args) != 2:
        raise fault("'string=?' requires exactly two string arguments.")
    for value in args:
        if not isinstance(value, str):
            raise fault(f"'string=?' takes texts, got {kind_of(value)}: {to_source(value, 80)}")
    text, other = args
    return isinstance(text, Symbol) == isinstance(other, Symbol) and str.__eq__(text, other)


def append_text(args: Args, meter: Meter) -> str:
    texts, size = [], 0
    for value in args:
        text = "" if is_null(value) else value if isinstance(value, str) else to_source(value, meter=meter)
        size += len(text)
        _fits(size, meter)
        texts.append(text)
    meter.charge(size >> 10)
    return "".join(texts)


def _fits(size: int, meter: Meter) -> None:
    if size > meter.budget.text:
        raise exhaustion("text", meter.budget.text, "characters in one text")


def get_field(args: Args, meter: Meter) -> Any:
    """Return the value of a key in a mapping or alist, or of an object's public field; nil if there is none."""
    if len(args) != 2:
        raise fault("'get-field' requires exactly two arguments: (get-field object field-name)")
    target, name = args
    if not isinstance(name, str):
        raise fault(f"'get-field' takes a text or a symbol as the field's name, got {kind_of(name)}.")
    key = str.__str__(name)
    return field(target, key, meter)


def field(target: Any, key: str, meter: Meter | None = None) -> Any:
    """Return the value of a key or field; nil if there is none."""
    if isinstance(target, dict):
        item = target.get(key)
        return [] if item is None else item
    if isinstance(target, list | tuple):
        if meter:
            meter.charge(len(target) >> 3)
        for pair in target:
            if isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) and pair[0] == key:
                return [] if pair[1] is None else pair[1]
        return []
    return from_python(_field(target, key), meter=meter)


def _field(target: Any, key: str) -> Any:
    """Read a declared field or an instance attribute. Methods and private names are not accessible."""
    if key.startswith("_") or target is None or isinstance(target, str | int | float | bool):
        return []
    declared = set(getattr(type(target), "model_fields", ())) | set(getattr(type(target), "__struct_fields__", ()))
    if dataclasses.is_dataclass(target):
        declared |= {each.name for each in dataclasses.fields(target)}
    attributes = getattr(target, "__dict__", {})
    if key not in declared and key not in attributes:
        return []
    try:
        value = getattr(target, key, None)
    except Exception as error:  # a property of a foreign object may raise anything
        raise fault(f"'get-field' cannot read the field '{key}'.", error_line(error)) from error
    return [] if value is None or callable(value) else value


DOCUMENT: dict[str, Primitive] = {
    "list": make_list, "eq?": eq, "equal?": eq, "null?": null, "nil?": null, "+": add, "-": subtract, "<": less,
    "not": negate, "string=?": same_text, "string-append": append_text, "get-field": get_field,
}  # fmt: skip
"""Primitives of the language document. ``get_context``, ``log-message`` and ``set!`` are forms."""


def first(args: Args, meter: Meter) -> Any:
    items = _list("car", args, 1)[0]
    return items[0] if items else []


def rest(args: Args, meter: Meter) -> Any:
    items = _list("cdr", args, 1)[0]
    meter.charge(len(items) >> 7)
    return items[1:]


def cons(args: Args, meter: Meter) -> Any:
    if len(args) != 2:
        raise fault("'cons' requires exactly two arguments: (cons item list)")
    items = [] if is_null(args[1]) else args[1]
    if not isinstance(items, list | tuple):
        raise fault(f"'cons' takes a list, got {kind_of(items)}: {to_source(items, 80)}")
    meter.charge(len(items) >> 7)
    return within_budget([args[0], *items], meter.budget)


def nth(args: Args, meter: Meter) -> Any:
    items, index = _list("nth", args, 2)[0], args[1]
    if isinstance(index, bool) or not isinstance(index, int):
        raise fault(f"'nth' takes a whole number from 0, got {kind_of(index)}.")
    return items[index] if 0 <= index < len(items) else []


def length(args: Args, meter: Meter) -> int:
    if len(args) != 1:
        raise fault("'length' requires exactly one argument.")
    if isinstance(args[0], list | tuple | str | dict):
        return len(args[0])
    raise fault(f"'length' takes a list or a text, got {kind_of(args[0])}.")


def append(args: Args, meter: Meter) -> Any:
    items: list[Any] = []
    for value in args:
        if is_null(value):
            continue
        if not isinstance(value, list | tuple):
            raise fault(f"'append' takes lists, got {kind_of(value)}: {to_source(value, 80)}")
        items.extend(value)
        within_budget(items, meter.budget)
    meter.charge(len(items) >> 7)
    return items


def assoc(args: Args, meter: Meter) -> Any:
    if len(args) != 2:
        raise fault("'assoc' requires exactly two arguments: (assoc key alist)")
    if isinstance(args[1], dict):
        return [args[0], args[1][args[0]]] if isinstance(args[0], str) and args[0] in args[1] else []
    for pair in _list("assoc", args[1:], 1)[0]:
        meter.charge(1)
        if isinstance(pair, list | tuple) and pair and equal(pair[0], args[0], meter):
            return pair
    return []


def split_text(args: Args, meter: Meter) -> Any:
    if len(args) not in (1, 2) or not all(isinstance(value, str) for value in args):
        raise fault("'string-split' takes a text and a separator: (string-split text separator)")
    text, separator = str.__str__(args[0]), str.__str__(args[1]) if len(args) == 2 else None
    if separator == "":
        raise fault("'string-split' takes a separator that is not empty.")
    parts = text.split(separator)
    meter.charge((len(text) >> 10) + (len(parts) >> 4))
    return within_budget(parts, meter.budget)


def join_texts(args: Args, meter: Meter) -> str:
    if len(args) not in (1, 2) or (len(args) == 2 and not isinstance(args[1], str)):
        raise fault("'string-join' takes a list and a separator: (string-join texts separator)")
    separator = str.__str__(args[1]) if len(args) == 2 else ""
    items = _list("string-join", args[:1], 1)[0]
    texts = [item if isinstance(item, str) else to_source(item, meter=meter) for item in items]
    size = sum(map(len, texts)) + len(separator) * max(0, len(texts) - 1)
    _fits(size, meter)
    meter.charge((size >> 10) + (len(texts) >> 4))
    return separator.join(texts)


def _list(name: str, args: Args, count: int) -> list[list[Any]]:
    if len(args) != count:
        raise fault(f"'{name}' requires exactly {count} argument{'' if count == 1 else 's'}.")
    value = [] if args[0] is None else args[0]
    if not isinstance(value, list | tuple):
        raise fault(f"'{name}' takes a list, got {kind_of(value)}: {to_source(value, 80)}")
    return [list(value) if isinstance(value, tuple) else value]


def task_ok(args: Args, meter: Meter) -> bool:
    """Return whether a result has the status COMPLETE."""
    return bool(field(_result("task-ok?", args), "status", meter) == "COMPLETE")


def task_content(args: Args, meter: Meter) -> Any:
    """Return the value of a typed task, otherwise the text."""
    parsed = field(_result("task-content", args), "parsedContent", meter)
    return field(args[0], "content", meter) if is_null(parsed) else parsed


def task_exit_code(args: Args, meter: Meter) -> Any:
    """Return a command's exit code; nil if the result has none."""
    return field(field(_result("task-exit-code", args), "notes", meter), "exit_code", meter)


def _result(name: str, args: Args) -> Any:
    if len(args) != 1:
        raise fault(f"'{name}' requires exactly one argument.")
    return args[0]


ADDED: dict[str, Primitive] = {
    "=": _chain("=", lambda left, right: left == right), ">": _chain(">", lambda left, right: left > right),
    "<=": _chain("<=", lambda left, right: left <= right), ">=": _chain(">=", lambda left, right: left >= right),
    "*": multiply, "/": divide, "mod": modulo, "car": first, "first": first, "cdr": rest, "rest": rest, "cons": cons,
    "nth": nth, "length": length, "append": append, "assoc": assoc, "string-split": split_text,
    "string-join": join_texts, "task-ok?": task_ok, "task-content": task_content, "task-exit-code": task_exit_code,
}  # fmt: skip
"""Additional functions of evaluated arguments."""
