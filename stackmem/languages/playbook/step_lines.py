"""Step lines, triggers and notes: one list item each."""

from __future__ import annotations

import re

from .faults import PlaybookError
from .line_order import Number, StepLine, number_of
from .nodes import CODES, Remark, Trigger

_CODED = re.compile(r"(?:(?:[A-Za-z_]\w*:)?(\d+(?:\.\d+)*)\s*:\s*|)([A-Z]{3})(?:(?=[\s:.,(])[:\s]*(.*)|$)", re.S)
_TRIGGER = re.compile(r"(?:T?(\d+)\s*:\s*|)(BGN|CND|EVT)\b[:\s]*(.*)", re.S)
_NOTE = re.compile(r"(N\d+)\b[:.\s]*(.*)", re.S)
_MOST_DIGITS = 9
_MOST_PARTS = 20


def label_of(number: Number) -> str:
    """``(2, 1)`` as ``02.01``."""
    return ".".join(f"{part:02}" for part in number)


def is_coded(text: str) -> bool:
    found = _CODED.match(text)
    return bool(found and (found[2] in CODES or found[1]))


def step_line(text: str, line: int, by_place: Number) -> StepLine:
    """A step from its list item.

    Args:
        by_place: Its number where none is written.

    Raises:
        PlaybookError: Its code is unknown, or its number is too long to be one.

    """
    found = _CODED.match(text)
    label, code, says = (found[1], found[2], found[3] or "") if found else ("", text[:40], "")
    if code not in CODES:
        raise PlaybookError("Unknown Code", f"{code} is no code of a step; known: {', '.join(CODES)}", line)
    parts = (label or "").split(".")
    if len(parts) > _MOST_PARTS or any(len(part) > _MOST_DIGITS for part in parts):
        told = f"{label[:40]} is no number of a line; use at most {_MOST_PARTS} parts of {_MOST_DIGITS} digits"
        raise PlaybookError("Bad Number", told, line)
    number = number_of(label) if label else by_place
    return StepLine(number, label or label_of(number), code, says.strip(), line)


def trigger_line(text: str, line: int, place: int) -> Trigger:
    """A trigger from its list item; without a number it has that of its place.

    Raises:
        PlaybookError: It has no code.

    """
    found = _TRIGGER.match(text)
    if not found or len(found[1] or "") > _MOST_DIGITS:
        raise PlaybookError("Bad Trigger", "a trigger is written `T1:CND text`, with BGN, CND or EVT", line)
    number = int(found[1]) if found[1] else place
    code = found[2]
    return Trigger(number, f"T{number}", code, found[3].strip(), line)  # type: ignore[arg-type]


def note_line(text: str, line: int, place: int) -> Remark:
    found = _NOTE.match(text)
    return Remark(found[1], found[2].strip(), line) if found else Remark(f"N{place}", text.strip(), line)
