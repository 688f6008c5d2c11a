"""Which runs of a list a person wants to see, and in which order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from operator import eq, ge, gt, le, lt, ne

from stackmem.errors import UsageError

from .run_list import RunRow

FIELDS: tuple[str, ...] = RunRow.__struct_fields__
_CONDITION = re.compile(r"\s*(\w+)\s*(!=|>=|<=|=|>|<)\s*(.*?)\s*", re.DOTALL)
_ORDERS: dict[str, Callable[[float, float], bool]] = {">": gt, "<": lt, ">=": ge, "<=": le, "=": eq, "!=": ne}
_NUMBERS = ("steps", "frames", "tokens", "cost_usd", "wall_seconds")

_Holds = Callable[[RunRow], bool]


def chosen(rows: Iterable[RunRow], conditions: Sequence[str], order: str, limit: int | None) -> list[RunRow]:
    """The rows for which every condition holds, in order, and of those the first ``limit``.

    Args:
        conditions: ``FIELD=PATTERN`` or ``FIELD!=PATTERN`` with ``*`` and ``?``, whatever the case; of numbers also
            ``>``, ``<``, ``>=`` and ``<=``. A value that is not known fulfils none but ``!=``.
        order: A field, the smallest first; with ``-`` before it the largest. What is not known comes last.

    Raises:
        UsageError: A condition, a field or the limit is none.

    """
    if limit is not None and limit < 1:
        raise UsageError(f"a list of {limit} runs cannot be shown; --limit takes 1 or more")
    holds = [_condition(text) for text in conditions]
    kept = [row for row in rows if all(one(row) for one in holds)]
    field = _field(order.removeprefix("-"))
    known = [row for row in kept if getattr(row, field) not in (None, "")]
    known.sort(key=lambda row: (getattr(row, field), row.run), reverse=order.startswith("-"))
    return [*known, *(row for row in kept if getattr(row, field) in (None, ""))][:limit]


def _condition(text: str) -> _Holds:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is no condition; write FIELD=PATTERN, as outcome=solved, or steps>20")
    field, sign, wanted = _field(found[1]), found[2], found[3]
    if field in _NUMBERS:
        return _compared(field, sign, _number(wanted, text))
    if sign not in ("=", "!="):
        raise UsageError(f"{field} is no number: {text!r} cannot be told; write {field}=PATTERN")
    pattern = wanted.casefold()

    def matches(row: RunRow) -> bool:
        return fnmatchcase(str(getattr(row, field)).casefold(), pattern) == (sign == "=")

    return matches


def _compared(field: str, sign: str, wanted: float) -> _Holds:
    def holds(row: RunRow) -> bool:
        value = getattr(row, field)
        return sign == "!=" if value is None else _ORDERS[sign](value, wanted)

    return holds


def _number(text: str, condition: str) -> float:
    try:
        return float(text.replace("_", ""))
    except ValueError as error:
        raise UsageError(f"{condition!r} compares with {text!r}, which is no number; write one, as steps>20") from error


def _field(name: str) -> str:
    if name not in FIELDS:
        raise UsageError(f"a run has no {name!r} in the list; known: {', '.join(FIELDS)}")
    return name
