"""Evaluates conditions with JavaScript semantics, on JSON values only, in a bounded number of steps.

Rule 1: a lookup finds members and items of JSON values, never attributes of Python objects.
Rule 2: a missing member is undefined. A member of undefined or null, or an unknown name, is an error.
Rule 3: every visit of a node counts as a step, including those in functions called for each item.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from . import values
from .syntax import (
    Arrow,
    Chain,
    ConditionFault,
    Identifier,
    ItemLookup,
    ListLiteral,
    Literal,
    Member,
    MethodCall,
    Node,
    Postfix,
    Unary,
    parse,
)
from .values import UNDEFINED, call_method

MAX_VISITS = 10_000
_CONSTANTS: dict[str, Any] = {
    "undefined": UNDEFINED, "null": None, "true": True, "false": False, "NaN": math.nan, "Infinity": math.inf,
}  # fmt: skip


class ConditionVerdict(Struct, frozen=True):
    """Whether a condition is true, or why it cannot be evaluated."""

    holds: bool
    fault: str = ""


def syntax_fault(text: Any) -> str:
    """Return why a text is not a valid condition; empty if it is."""
    try:
        parse(text)
    except ConditionFault as fault:
        return str(fault)
    return ""


def verdict(text: Any, names: dict[str, Any]) -> ConditionVerdict:
    """Return whether the condition is true for these names."""
    try:
        node = parse(text)
        if node is None:
            return ConditionVerdict(False)
        return ConditionVerdict(values.truthy(_Evaluator().evaluate(node, names)))
    except ConditionFault as fault:
        return ConditionVerdict(False, str(fault))


def value_of(text: Any, names: dict[str, Any]) -> tuple[Any, str]:
    """Return ``(value, fault)`` of an expression for these names. Undefined becomes None."""
    try:
        node = parse(text)
        value = None if node is None else _Evaluator().evaluate(node, names)
        return (None if value is UNDEFINED else value), ""
    except ConditionFault as fault:
        return None, str(fault)


class _Evaluator:
    """One evaluation, which counts its steps."""

    def __init__(self) -> None:
        self._visits = 0

    def evaluate(self, node: Node, names: dict[str, Any]) -> Any:
        self.visit()
        match node:
            case Literal():
                return node.value
            case Identifier():
                return self._look_up(node.name, names)
            case ListLiteral():
                return [self.evaluate(item, names) for item in node.items]
            case Unary():
                return self._unary(node, names)
            case Chain():
                return self._chain(node, names)
            case Postfix():
                return self._postfix(node, names)

    def visit(self, times: int = 1) -> None:
        self._visits += times
        if self._visits > MAX_VISITS:
            raise ConditionFault(f"Expression evaluation failed: it takes more than {MAX_VISITS:,} steps")

    def _look_up(self, name: str, names: dict[str, Any]) -> Any:
        if name in names:
            return names[name]
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        raise ConditionFault(f"Expression evaluation failed: {name} is not defined")

    def _unary(self, node: Unary, names: dict[str, Any]) -> Any:
        *before, last = node.operators
        if last == "typeof" and isinstance(node.operand, Identifier):
            name = node.operand.name
            value: Any = values.type_of(names.get(name, _CONSTANTS.get(name, UNDEFINED)))
        else:
            value = values.apply_prefix(last, self.evaluate(node.operand, names), self.visit)
        for operator in reversed(before):
            value = values.apply_prefix(operator, value, self.visit)
        return value

    def _chain(self, node: Chain, names: dict[str, Any]) -> Any:
        value = self.evaluate(node.first, names)
        for operator, operand in node.rest:
            if operator == "&&":
                if not values.truthy(value):
                    return value
                value = self.evaluate(operand, names)
            elif operator == "||":
                if values.truthy(value):
                    return value
                value = self.evaluate(operand, names)
            else:
                value = values.apply_infix(operator, value, self.evaluate(operand, names), self.visit)
        return value

    def _postfix(self, node: Postfix, names: dict[str, Any]) -> Any:
        value, owner = self.evaluate(node.target, names), Any
        method = ""
        for step in node.steps:
            self.visit()
            match step:
                case Member():
                    _refuse_nothing(value, step.name)
                    method, owner = step.name, value
                    value = values.member(value, step.name)
                case ItemLookup():
                    key = self.evaluate(step.key, names)
                    name = values.text_of(key, self.visit)
                    _refuse_nothing(value, name)
                    method = ""
                    value = values.member(value, name)
                case MethodCall():
                    if not method:
                        raise ConditionFault("Expression evaluation failed: only methods can be called")
                    value = self._call(owner, method, step.arguments, names)
                    method = ""
        return value

    def _call(self, owner: Any, method: str, operands: tuple[Node | Arrow, ...], names: dict[str, Any]) -> Any:
        arguments: list[Any] = []
        for each in operands:
            if isinstance(each, Arrow):
                arguments.append(self._function(each, names))
            else:
                arguments.append(self.evaluate(each, names))
        return call_method(owner, method, arguments, self.visit)

    def _function(self, arrow: Arrow, names: dict[str, Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            padded = (*arguments, *[UNDEFINED] * len(arrow.parameters))
            return self.evaluate(arrow.body, {**names, **dict(zip(arrow.parameters, padded, strict=False))})

        return call


def _refuse_nothing(value: Any, name: str) -> None:
    if value is None or value is UNDEFINED:
        message = "null" if value is None else "undefined"
        raise ConditionFault(f"Expression evaluation failed: cannot read '{name[:80]}' of {message}")
