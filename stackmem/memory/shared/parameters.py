"""``VALUE,key=value,key=value`` after a strategy's name.

Rule 1: a strategy names its parameters in order; values without a name come first and are the first ones'.
Rule 2: a name is spelled in one way only: parameters in their order, each with its name, none that has its default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct

from stackmem.errors import UsageError

T = TypeVar("T")


class Partial(Struct, Generic[T], frozen=True):
    """A function with its first arguments, as ``functools.partial``; of equal ones, two are equal.

    So a strategy's name opens one that is equal to it.
    """

    function: Callable[..., T]
    arguments: tuple[Any, ...]

    def __call__(self, *more: Any) -> T:
        return self.function(*self.arguments, *more)


class Choice(Struct, frozen=True):
    """A parameter that is one of some words; the first is the default."""

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
    """What was chosen."""

    name: str  # the strategy with its parameters, spelled in the one way
    words: dict[str, str]  # of each choice
    counts: dict[str, int]  # of each count


def parameters(strategy: str, text: str, known: tuple[Parameter, ...] = ()) -> Parameters:
    """The value of every known parameter; its default where ``text`` does not name it."""
    given = _given(strategy, text, known)
    words, counts, spelled = dict[str, str](), dict[str, int](), []
    for each in known:
        raw = given.get(each.name)
        if isinstance(each, Choice):
            word = words[each.name] = each.values[0] if raw is None else _word(strategy, each, raw)
            spelled += [f"{each.name}={word}"] if word != each.values[0] else []
        else:
            count = counts[each.name] = each.default if raw is None else _count(strategy, each, raw)
            spelled += [f"{each.name}={count}"] if count != each.default else []
    return Parameters(strategy + (":" + ",".join(spelled) if spelled else ""), words, counts)


def _given(strategy: str, text: str, known: tuple[Parameter, ...]) -> dict[str, str]:
    names = [each.name for each in known]
    given: dict[str, str] = {}
    named = False
    for place, piece in enumerate(text.split(",") if text else ()):
        name, equals, value = (part.strip() for part in piece.partition("="))
        named = named or bool(equals)
        if not named and name not in names and place < len(names):
            name, value = names[place], name
        elif not equals and name in names:
            raise UsageError(f"strategy {strategy!r} takes {_accepts(known[names.index(name)])}, not {piece!r}")
        if name not in names:
            raise UsageError(
                f"strategy {strategy!r} has no parameter {name[:80]!r}; known: {', '.join(sorted(names)) or 'none'}"
            )
        if name in given:
            raise UsageError(f"strategy {strategy!r} was given {name} twice; give it once")
        given[name] = value
    return given


def _word(strategy: str, known: Choice, raw: str) -> str:
    if raw not in known.values:
        raise UsageError(f"strategy {strategy!r} takes {_accepts(known)}, not {raw[:80]!r}")
    return raw


def _count(strategy: str, known: Count, raw: str) -> int:
    plain = raw.replace("_", "")
    if not (plain.isascii() and plain.isdigit() and len(plain) <= 12 and known.low <= int(plain) <= known.high):
        raise UsageError(f"strategy {strategy!r} takes {_accepts(known)}, not {raw[:80]!r}")
    return int(plain)


def _accepts(known: Parameter) -> str:
    if isinstance(known, Choice):
        return f"{known.name}={'|'.join(known.values)}"
    return f"{known.name}=NUMBER, from {known.low:,} to {known.high:,}"
