"""Values and scopes: null, truth, equality, source form and JSON form.

Values may be arbitrarily deep and contain cycles. Every table keyed by ``id()`` also keeps its objects alive, because
Python reuses the id of a freed object.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ..frame.bounds import LEVELS
from .errors import Budget, Meter, UnboundSymbolError, exhaustion
from .tree import Form, Node, Symbol


class SexpEnvironment:
    """A scope and its enclosing scope."""

    __slots__ = ("bindings", "parent")

    def __init__(self, bindings: Mapping[str, Any] | None = None, parent: SexpEnvironment | None = None) -> None:
        self.bindings: dict[str, Any] = dict(bindings or {})
        self.parent = parent

    def lookup(self, name: str) -> Any:
        """Return the value of a name. Raise UnboundSymbolError if no scope defines the name."""
        scope: SexpEnvironment | None = self
        while scope is not None:
            if name in scope.bindings:
                return scope.bindings[name]
            scope = scope.parent
        raise UnboundSymbolError(f"Unbound symbol: Name '{name}' is not defined.")

    def define(self, name: str, value: Any) -> None:
        """Bind a name in this scope."""
        self.bindings[name] = value

    def set_value_in_scope(self, name: str, value: Any) -> None:
        """Set a name in the nearest scope that defines it. Raise UnboundSymbolError if no scope defines the name."""
        scope: SexpEnvironment | None = self
        while scope is not None:
            if name in scope.bindings:
                scope.bindings[name] = value
                return
            scope = scope.parent
        raise UnboundSymbolError(f"Cannot 'set!' unbound symbol: {name}.")

    def extend(self, bindings: Mapping[str, Any]) -> SexpEnvironment:
        return SexpEnvironment(bindings, self)

    def __contains__(self, name: str) -> bool:
        scope: SexpEnvironment | None = self
        while scope is not None:
            if name in scope.bindings:
                return True
            scope = scope.parent
        return False


DEFAULT = Budget()


class Closure:
    """A function with its defining scope.

    ``name`` is the name given by ``define``; empty for a lambda. ``form`` is its source form.
    """

    __slots__ = ("body", "env", "form", "name", "params")

    def __init__(self, params: list[str], body: list[Node], env: SexpEnvironment, form: Form, name: str = "") -> None:
        self.params, self.body, self.env, self.form, self.name = params, body, env, form, name


def is_null(value: Any) -> bool:
    """Return whether a value is None or the empty list."""
    return value is None or (isinstance(value, list) and not value)


def as_mapping(value: Any) -> dict[str, Any] | None:
    """Convert a mapping or a list of pairs with text keys; None for anything else."""
    if isinstance(value, dict):
        return {str(key): item for key, item in value.items()}
    if not isinstance(value, list):
        return None
    mapping: dict[str, Any] = {}
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            return None
        mapping[str.__str__(pair[0])] = pair[1]
    return mapping


def truthy(value: Any) -> bool:
    """Return the truth value as Python defines it."""
    if value is None or value is False:
        return False
    if value is True:
        return True
    return bool(value)


def from_python(value: Any, budget: Budget = DEFAULT, meter: Meter | None = None) -> Any:
    """Convert a Python value: None becomes the empty list and tuples become lists, at any depth. Cycles are kept.

    A value without None or tuples is returned unchanged, so that callers see changes in the objects they passed in.
    """
    if value is None:
        return []
    if not isinstance(value, list | tuple | dict) or not _strange(value, budget, meter):
        return value
    root: Any = {} if isinstance(value, dict) else []
    copies: dict[int, Any] = {id(value): root}
    pairs: list[tuple[Any, Any]] = [(value, root)]  # grows during the loop, and keeps every object of `copies` alive
    for old, new in pairs:
        for key, item in old.items() if isinstance(old, dict) else enumerate(old):
            put = [] if item is None else item
            if isinstance(item, list | tuple | dict):
                if id(item) not in copies:
                    copies[id(item)] = {} if isinstance(item, dict) else []
                    pairs.append((item, copies[id(item)]))
                put = copies[id(item)]
            if isinstance(new, dict):
                new[key] = put
            else:
                new.append(put)
    return root


def _strange(value: Any, budget: Budget, meter: Meter | None) -> bool:
    """Return whether a value contains None or a tuple. Raises if it is nested too deeply or has too many items."""
    strange = False
    for item in containers(value, meter.budget if meter else budget):
        if meter:
            meter.charge(len(item) >> 4)
        strange = strange or isinstance(item, tuple)
        strange = strange or any(member is None for member in (item.values() if isinstance(item, dict) else item))
    return strange


def containers(value: Any, budget: Budget) -> Iterator[Any]:
    """Yield every list and mapping in a value, including itself, each once.

    Raise TaskError if a container is nested deeper or is longer than the budget allows.
    """
    seen: dict[int, Any] = {}
    waiting = [(value, 1)]
    while waiting:
        item, deep = waiting.pop()
        if not isinstance(item, list | tuple | dict) or id(item) in seen:
            continue
        if deep > budget.nested:
            raise exhaustion("nested", budget.nested, "levels in one value")
        if len(item) > budget.items:
            raise exhaustion("items", budget.items, "items in one list")
        seen[id(item)] = item
        yield item
        waiting += [(inner, deep + 1) for inner in (item.values() if isinstance(item, dict) else item)]


def equal(left: Any, right: Any, meter: Meter | None = None) -> bool:
    """Compare by structure, like Python's ``==``. Null values are equal, and symbols equal texts."""
    waiting = [(left, right)]
    seen: dict[tuple[int, int], tuple[Any, Any]] = {}
    while waiting:
        pair = waiting.pop()
        first, second = pair
        if meter:
            meter.charge(1)
        if is_null(first) and is_null(second):
            continue
        if isinstance(first, list | tuple) and isinstance(second, list | tuple):
            if len(first) != len(second):
                return False
            ids = (id(first), id(second))
            if ids not in seen:
                seen[ids] = pair
                waiting.extend(zip(first, second, strict=True))
        elif isinstance(first, Mapping) and isinstance(second, Mapping):
            if first.keys() != second.keys():
                return False
            ids = (id(first), id(second))
            if ids not in seen:
                seen[ids] = pair
                waiting.extend((first[key], second[key]) for key in first)
        elif first is not second and not _equal_values(first, second):
            return False
    return True


def _equal_values(first: Any, second: Any) -> bool:
    try:
        return bool(first == second)
    except Exception:  # noqa: BLE001 - comparing foreign objects may raise anything
        return False


CYCLE = "#<cycle>"


def to_source(value: Any, most: int = 10_000_000, meter: Meter | None = None) -> str:
    """Return the value as source text, which parses to an equal value if one can be written.

    Args:
        most: Longer texts are cut at this length, with a mark.
        meter: Charged for the text. A value that exceeds the maximum length of a text is then refused.
    """
    parts: list[str] = []
    size = 0
    open_: dict[int, Any] = {}
    waiting: list[tuple[str, Any]] = [("value", value)]
    while waiting:
        kind, item = waiting.pop()
        if kind == "close":
            del open_[id(item)]
            text = ")"
        elif kind == "text":
            text = item
        elif isinstance(item, list | tuple | dict) and item:
            if id(item) in open_:
                text = CYCLE
            else:
                open_[id(item)] = item
                waiting.append(("close", item))
                inner = _members(item)
                for number in range(len(inner) - 1, -1, -1):
                    waiting.append(("value", inner[number]))
                    if number:
                        waiting.append(("text", " "))
                text = "("
        else:
            text = _word(item)
        size += len(text)
        if meter:
            meter.charge(1 + (len(text) >> 6))
            if size > meter.budget.text:
                raise exhaustion("text", meter.budget.text, "characters in one text")
        elif size > most:
            return "".join([*parts, text])[:most] + "…"
        parts.append(text)
    return "".join(parts)


def _members(item: Any) -> list[Any]:
    """Return a container's members. A mapping is written as a list of pairs."""
    if isinstance(item, dict):
        return [
            [Symbol(key) if isinstance(key, str) and _is_symbol(key) else key, inner] for key, inner in item.items()
        ]
    return list(item)


def _is_symbol(text: str) -> bool:
    if text in ("nil", "true", "false") or text.lstrip("+-.")[:1].isdigit():
        return False
    return bool(text) and not any(char.isspace() or char in "()[]'\";`," for char in text)


def _word(value: Any) -> str:
    match value:
        case None | [] | () | {}:
            return "nil"
        case bool():
            return "true" if value else "false"
        case Symbol():
            return str.__str__(value)
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
            return '"' + escaped.replace("\r", "\\r").replace("\0", "\\0") + '"'
        case int():
            return _digits(value)
        case float() if math.isfinite(value):
            return repr(value)
        case float():
            return f"#<number {value}>"
        case Closure():
            return f"#<function {value.name or 'lambda'}>"
        case _:
            return f"#<{type(value).__name__}>"


def _digits(number: int) -> str:
    """Format an integer in chunks, because Python refuses to format more than 4,300 digits in one call."""
    if number.bit_length() < 14_000:
        return str(number)
    sign, number = ("-", -number) if number < 0 else ("", number)
    chunks = []
    while number:
        number, rest = divmod(number, 10**4_000)
        chunks.append(str(rest).rjust(4_000, "0"))
    return sign + "".join(reversed(chunks)).lstrip("0")


def as_json(value: Any, budget: Budget) -> Any:
    """Convert to JSON.

    Only nil becomes null; a symbol becomes its name; cycles and functions become their source form.

    Raise TaskError if the value is nested too deeply.
    """
    if is_null(value):
        return None
    if not isinstance(value, list | tuple | dict):
        return _plain(value)
    list(containers(value, budget))
    root: Any = {} if isinstance(value, dict) else []
    path: list[tuple[Any, Any, Any]] = [(value, iter(_pairs(value)), root)]
    open_ = {id(value): value}
    count = 0
    while path:
        old, pairs, new = path[-1]
        pair = next(pairs, None)
        if pair is None:
            path.pop()
            del open_[id(old)]
            continue
        key, item = pair
        count += 1
        if count > budget.items:
            raise exhaustion("items", budget.items, "items in one value")
        put: Any
        if not isinstance(item, list | tuple | dict):
            put = _plain(item)
        elif id(item) in open_:
            put = CYCLE
        elif len(path) >= LEVELS:
            put = to_source(item, budget.text)
        else:
            put = {} if isinstance(item, dict) else []
            open_[id(item)] = item
            path.append((item, iter(_pairs(item)), put))
        if isinstance(new, dict):
            new[str(key)] = put
        else:
            new.append(put)
    return root


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else [(None, item) for item in value]


def _plain(value: Any) -> Any:
    match value:
        case None | bool():
            return value
        case Symbol():
            return str.__str__(value)
        case str():
            return value
        case int() if -(1 << 63) <= value < 1 << 64:
            return value
        case float() if math.isfinite(value):
            return value
        case _:
            return to_source(value)
