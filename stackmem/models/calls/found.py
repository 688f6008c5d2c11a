"""A call that was found in a text, and the names by which models call tools."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from msgspec import Struct

MOST_TRIES = 400
"""Places in one text that are looked at as a possible call of one kind."""


class FoundCall(Struct, frozen=True):
    """A call in a text.

    Attributes:
        start, end: Where it is.
        form: In what form it was written, as the trace notes it.
        arguments: An object, or what the model wrote in place of one.
        malformed: The text of a call that cannot be read; None for all others.
    """

    start: int
    end: int
    name: str
    arguments: Any
    form: str
    malformed: str | None = None


class FoundCalls(Struct, frozen=True):
    """What a reply says in addition to its calls, and the calls in their order."""

    text: str
    calls: tuple[FoundCall, ...]


def plain_name(name: str) -> str:
    """A tool's name without what some models put around it: ``functions.read_file:0``."""
    bare = name.strip().strip("`\"'<>")
    bare = re.sub(r"\A(?:functions?|default_api|tools?)[.=/]", "", bare)
    return re.sub(r":\d+\Z", "", bare)


def offered_name(name: str, offered: Collection[str]) -> str:
    """The offered tool that ``name`` means, also if it is written ``Read-File``; the plain name if there is none."""
    bare = plain_name(name)
    if bare in offered:
        return bare
    spelled = re.sub(r"[-\s]", "_", bare).casefold()
    same = [one for one in offered if one.casefold() == spelled]
    return same[0] if len(same) == 1 else bare
