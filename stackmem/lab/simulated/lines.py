"""The grammar of the worlds: parse a text into its meaningful lines.

A line can follow blanks and one bullet or line number. Every pattern takes time linear in the text, whatever the text
is. The functions never raise.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

KEY = r"[a-z][a-z_]*\.[a-z0-9][a-z0-9_-]*"
VALUE = r"[A-Za-z0-9_./:+-]{1,80}"
READ_CHARS = 400_000
"""The maximum length parsed of one text. No tool returns as much."""

_REMEMBERED_CHARS = 65_536


class StatedFact(Struct, frozen=True):
    """A fact. ``at`` is the unit as of which it holds, or 0 if the line has no stamp."""

    key: str
    value: str
    at: int


class Excluded(Struct, frozen=True):
    """A candidate that is known to be wrong."""

    key: str
    value: str


class Changed(Struct, frozen=True):
    """Facts of the topic or key ``scope`` with a lower stamp are no longer valid."""

    scope: str
    at: int


class UnitsDone(Struct, frozen=True):
    """Units up to ``last`` are done."""

    last: int


class UnitFailed(Struct, frozen=True):
    unit: int
    reason: str


class StatedNeed(Struct, frozen=True):
    """A need. ``way`` is as in the plan, without the angle brackets; empty if the plan names none."""

    key: str
    way: str


class Planned(Struct, frozen=True):
    unit: int
    needs: tuple[StatedNeed, ...]
    gives: tuple[str, ...]


class Next(Struct, frozen=True):
    unit: int
    total: int


class Candidates(Struct, frozen=True):
    key: str
    values: tuple[str, ...]


class ReadTo(Struct, frozen=True):
    """A file was read up to a line and continues."""

    path: str
    line: int


Line = StatedFact | Excluded | Changed | UnitsDone | UnitFailed | Planned | Next | Candidates | ReadTo

_LINE = re.compile(
    rf"""^[ \t]*(?:[-*•>][ \t]+|\d{{1,6}}(?:[.:)|][ \t]*|\t[ \t]*|[ ]{{2,}}))?(?:
      (?P<no>not[ ])?(?P<key>{KEY})[ ]=[ ](?P<value>{VALUE})(?:[ ]@[ ](?P<at>\d{{1,9}}))?[ \t\r]*$
    | changed[ ](?P<scope>[a-z][a-z_]*(?:\.[a-z0-9][a-z0-9_-]*)?)[ ]@[ ](?P<since>\d{{1,9}})[ \t\r]*$
    | done[ ]units?[ ](?:\d{{1,9}}-)?(?P<done>\d{{1,9}})(?:[ ]\([^\n]*\))?[ \t\r]*$
    | failed[ ]unit[ ](?P<failed>\d{{1,9}})(?::[ ]?(?P<reason>[^\n]{{0,400}}))?
    | unit[ ](?P<unit>\d{{1,9}}):[ ]needs[ ](?P<plan>[^\n]{{0,4000}})
    | next[ ]unit[ ](?P<next>\d{{1,9}})[ ]of[ ](?P<total>\d{{1,9}})[ \t\r]*$
    | read[ ](?P<path>[^\s]{{1,200}})[ ]to[ ]line[ ](?P<upto>\d{{1,9}})[ \t\r]*$
    | candidate[ ](?P<of>{KEY}):[ ](?P<candidates>[^\n]{{0,4000}})
    )""",
    re.MULTILINE | re.VERBOSE | re.ASCII,
)
_NEED = re.compile(rf"({KEY}) <([^<>]{{0,400}})>", re.ASCII)
_PLAN = re.compile(rf"(?:nothing|{KEY} <[^<>]{{0,400}}>(?:, {KEY} <[^<>]{{0,400}}>)*)(?:; gives ([^;<>]+))?", re.ASCII)
_MARKS = ("[... ", "[shortened: ")
"""Prefixes of lines that mark omitted text. The lines next to them may be incomplete."""
_CUT = tuple(f"\n{mark}" for mark in _MARKS)
_VALUE = re.compile(VALUE, re.ASCII)


def lines(text: str) -> tuple[Line, ...]:
    """Return the meaningful lines of ``text`` in order. Equal texts are parsed once."""
    return _remembered(text) if len(text) <= _REMEMBERED_CHARS else _read(text[:READ_CHARS])


@lru_cache(maxsize=4_096)
def _remembered(text: str) -> tuple[Line, ...]:
    return _read(text)


def _read(text: str) -> tuple[Line, ...]:
    return tuple(line for match in _LINE.finditer(_without_parts(text)) if (line := _line(match)) is not None)


def _without_parts(text: str) -> str:
    """Return the text without lines that were cut in part."""
    if not any(mark in text for mark in _CUT):
        return text
    rows = text.split("\n")
    cuts = [at for at, row in enumerate(rows) if row.startswith(_MARKS)]
    for at in cuts:
        rows[max(0, at - 1) : at + 2] = [""] * len(rows[max(0, at - 1) : at + 2])
    return "\n".join(rows)


def _line(match: re.Match[str]) -> Line | None:
    """Convert a match. Returns None for an incomplete plan."""
    if match["key"]:
        if match["no"]:
            return Excluded(match["key"], match["value"])
        return StatedFact(match["key"], match["value"], int(match["at"] or 0))
    if match["scope"]:
        return Changed(match["scope"], int(match["since"]))
    if match["done"]:
        return UnitsDone(int(match["done"]))
    if match["failed"]:
        return UnitFailed(int(match["failed"]), match["reason"] or "")
    if match["unit"]:
        plan = _PLAN.fullmatch(match["plan"].rstrip())
        if plan is None:
            return None
        needs = match["plan"].partition("; gives ")[0]
        keys = tuple(StatedNeed(key, way.strip()) for key, way in _NEED.findall(needs))
        return Planned(int(match["unit"]), keys, keys_in(plan[1] or ""))
    if match["next"]:
        return Next(int(match["next"]), int(match["total"]))
    if match["path"]:
        return ReadTo(match["path"], int(match["upto"]))
    return Candidates(match["of"], tuple(_VALUE.findall(match["candidates"])))


def topic_of(key: str) -> str:
    return key.partition(".")[0]


def keys_in(text: str) -> tuple[str, ...]:
    return tuple(re.findall(KEY, text, re.ASCII))


def fact_line(key: str, value: str, at: int) -> str:
    return f"{key} = {value} @ {at}" if at else f"{key} = {value}"
