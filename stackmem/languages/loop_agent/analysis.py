"""Looks at what a change did, for what a model does by mistake: text cut away, things removed, placeholders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from .paths import Path, spelled
from .permissions import Operation

_CUT = 0.3
_WORTH_CHARS = 50
"""A text that was shorter may shrink without a word."""
_PLACEHOLDER = re.compile(
    r"…|\[?\.{3}\]?|TODO|TBD"
    r"|(?i:etc\.?|\(?(rest|remainder) (of .{1,40} )?(unchanged|omitted|as before|goes here)\)?)"
)
"""In capitals ``TODO`` is a mark; in small letters it is as often the state of a task."""

_ENDS = ("...", "…", " etc", " etc.")


class Deed(Struct, frozen=True):
    """One thing that was done to a payload; ``before`` and ``after`` are None where nothing stood or stands."""

    operation: Operation
    path: Path
    before: Any = None
    after: Any = None


def flags_of(deeds: tuple[Deed, ...]) -> tuple[str, ...]:
    """What somebody should look at again, a sentence each."""
    return tuple(flag for deed in deeds for flag in _flags(deed))


def _flags(deed: Deed) -> Iterator[str]:
    place = spelled(deed.path)
    if deed.operation == "delete":
        if deed.before not in (None, "", [], {}):
            yield f"'{place}' was removed and was not empty"
        return
    if deed.operation == "update":
        yield from _shrunk(place, deed.before, deed.after)
        if deed.before is not None and deed.after is not None and _kind(deed.before) != _kind(deed.after):
            yield f"'{place}' was {_kind(deed.before)} and is {_kind(deed.after)}"
    for text in _texts(deed.after):
        if _PLACEHOLDER.fullmatch(text.strip()) or text.rstrip().endswith(_ENDS):
            yield f"'{place}' holds what looks like a placeholder: {text[-40:]!r}"
            return


def _shrunk(place: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, str) and isinstance(after, str) and len(before) >= _WORTH_CHARS:
        lost = 1 - len(after) / len(before)
        if lost > 1 - _CUT:
            yield f"'{place}' lost {lost:.0%} of its {len(before):,} characters"


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _texts(each)
        case dict():
            for each in value.values():
                yield from _texts(each)
        case _:
            return
