"""A call found in text, and tool names as models spell them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from msgspec import Struct

MAX_TRIES = 400
"""Maximum number of places in a text to examine for one kind of call."""


class FoundCall(Struct, frozen=True):
    """A call in a text."""

    # start, end: its position
    start: int
    end: int
    name: str
    arguments: Any  # an object, or what the model wrote in place of one
    form: str  # the form in which it was written, as noted in the trace
    malformed: str | None = None  # the text of a call that cannot be parsed; None for all others


class FoundCalls(Struct, frozen=True):
    """The remaining text of a reply, and its calls in order."""

    text: str
    calls: tuple[FoundCall, ...]
    schemas: int = 0  # number of copies of tool schemas that were dropped, because a real call follows them


def plain_name(name: str) -> str:
    """Remove prefixes and suffixes that some models add to a tool name: ``functions.read_file:0``."""
    bare = name.strip().strip("`\"'<>")
    bare = re.sub(r"\A(?:functions?|default_api|tools?)[.=/]", "", bare)
    return re.sub(r":\d+\Z", "", bare)


def offered_name(name: str, offered: Collection[str]) -> str:
    """Match a name to an offered tool, also if it is spelled ``Read-File``; return the plain name without a match."""
    bare = plain_name(name)
    if bare in offered:
        return bare
    spelled = re.sub(r"[-\s]", "_", bare).casefold()
    matches = [each for each in offered if each.casefold() == spelled]
    return matches[0] if len(matches) == 1 else bare
