"""Reads members of a model's JSON, and names the place of the first that does not fit."""

from __future__ import annotations

import re
from typing import Any

from .paths import Path, parsed

_BEHIND_PLACE = re.compile(r"[^\w.\[\]]")


class Misfit(Exception):  # noqa: N818 - a finding that is told to the model
    """A member has the wrong form; the message begins with its place, unless another is given.

    Attributes:
        path: Of the member, such as that of ``nextStep.actions[2].name``; () is the whole reply.

    """

    def __init__(self, told: str, place: str | None = None) -> None:
        super().__init__(told)
        self.path: Path = parsed(_BEHIND_PLACE.split(told, 1)[0] if place is None else place) or ()


def member(value: dict[str, Any], name: str, kind: type, place: str, default: Any) -> Any:
    """``value[name]``; the default where it is absent or null. The whole reply has the place "".

    Raises:
        Misfit: It is of another kind.

    """
    found = value.get(name)
    if found is None:
        return default
    if not _is(found, kind):
        raise Misfit(f"{place}{'.' if place else ''}{name} must be {_KINDS[kind]}, is {kind_of(found)}")
    return found


def needed(value: dict[str, Any], name: str, kind: type, place: str) -> Any:
    """As ``member``, but it must be there, a text not empty."""
    found = member(value, name, kind, place, None)
    if found is None or (kind is str and not found.strip()):
        raise Misfit(f"{place}.{name} is missing")
    return found


def count(value: dict[str, Any], name: str, place: str, default: int, least: int, most: int) -> int:
    """A whole number within bounds."""
    found = value.get(name)
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if found is None:
        return default
    if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
        raise Misfit(f"{place}.{name} must be a whole number from {least:,} to {most:,}, is {kind_of(found)}")
    return found


def word(value: dict[str, Any], name: str, place: str, words: tuple[str, ...], default: str) -> str:
    """One of some words, in any case."""
    found = str(member(value, name, str, place, default))
    known = next((each for each in words if each.lower() == found.strip().lower()), None)
    if known is None:
        raise Misfit(f"{place}.{name} must be one of {', '.join(words)}, is {found[:80]!r}")
    return known


def kind_of(value: Any) -> str:
    """What a value is, with a scalar's own text."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            return f"{value!r}"[:80]


_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false", float: "a number"}


def _is(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind)
