"""Parses the parameters after a strategy's name: ``VALUE,key=value,key=value``.

Rule 1: A strategy lists its parameters in order. Values without a name come first and belong to the first parameters.
Rule 2: A name has only one spelling: parameters in order, each with its name, without those that have their default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct

from stackmem.core.errors import UsageError

T = TypeVar("T")


class Partial(Struct, Generic[T], frozen=True):
    """A function with its first arguments, like ``functools.partial``, but comparable: equal parts make it equal.

    So opening a strategy by its name gives an equal strategy.
    """

    function: Callable[..., T]
    arguments: tuple[Any, ...]

    def __call__(self, *more: Any) -> T:
        return self.function(*self.arguments, *more)


class Choice(Struct, frozen=True):
    """A parameter with a fixed set of words; the first is the default."""

    name: str
    values: tuple[str, ...]


class Count(Struct, frozen=True):
    """A parameter that is a whole number."""

    name: str
    default: int
    low: int = 1
    high: int = 1_000_000_000


Parameter = Choice | Count


class Parameters(Struct, frozen=True):
    """The parsed parameters."""

    name: str  # the strategy with its parameters in their only spelling
    words: dict[str, str]  # value of each choice
    counts: dict[str, int]  # value of each count


def parameters(strategy: str, text: str, specs: tuple[Parameter, ...] = ()) -> Parameters:
    """Return the value of every known parameter, or its default if ``text`` does not set it.

    Raise UsageError if a parameter or value is unknown, or a parameter is given twice.
    """
    values = _parse(strategy, text, specs)
    words, counts, pieces = dict[str, str](), dict[str, int](), []
    for each in specs:
        raw = values.get(each.name)
        if isinstance(each, Choice):
            word = words[each.name] = each.values[0] if raw is None else _word(strategy, each, raw)
            pieces += [f"{each.name}={word}"] if word != each.values[0] else []
        else:
            count = counts[each.name] = each.default if raw is None else _count(strategy, each, raw)
            pieces += [f"{each.name}={count}"] if count != each.default else []
    return Parameters(strategy + (":" + ",".join(pieces) if pieces else ""), words, counts)


def _parse(strategy: str, text: str, specs: tuple[Parameter, ...]) -> dict[str, str]:
    names = [each.name for each in specs]
    values: dict[str, str] = {}
    has_names = False
    for position, piece in enumerate(text.split(",") if text else ()):
        name, equals, value = (part.strip() for part in piece.partition("="))
        has_names = has_names or bool(equals)
        if not has_names and name not in names and position < len(names):
            name, value = names[position], name
        elif not equals and name in names:
            raise UsageError(f"strategy {strategy!r} takes {_accepts(specs[names.index(name)])}, not {piece!r}")
        if name not in names:
            raise UsageError(
                f"strategy {strategy!r} has no parameter {name[:80]!r}; known: {', '.join(sorted(names)) or 'none'}"
            )
        if name in values:
            raise UsageError(f"strategy {strategy!r} sets {name} twice; set it once")
        values[name] = value
    return values


def _word(strategy: str, spec: Choice, raw: str) -> str:
    if raw not in spec.values:
        raise UsageError(f"strategy {strategy!r} takes {_accepts(spec)}, not {raw[:80]!r}")
    return raw


def _count(strategy: str, spec: Count, raw: str) -> int:
    plain = raw.replace("_", "")
    if not (plain.isascii() and plain.isdigit() and len(plain) <= 12 and spec.low <= int(plain) <= spec.high):
        raise UsageError(f"strategy {strategy!r} takes {_accepts(spec)}, not {raw[:80]!r}")
    return int(plain)


def _accepts(spec: Parameter) -> str:
    if isinstance(spec, Choice):
        return f"{spec.name}={'|'.join(spec.values)}"
    return f"{spec.name}=NUMBER, from {spec.low:,} to {spec.high:,}"
