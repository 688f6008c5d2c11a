"""Parses a model's reply as one JSON object, strictly except for two repairs, and reads its members.

Rule 1: a code fence around the object is removed, as are comments and trailing commas outside strings. Both repairs are
recorded.
Rule 2: any other reply that is not one JSON object is a fault with its position, never an exception.
Rule 3: removed characters become spaces, so that every position refers to the reply as the model wrote it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

from stackmem.core.strict_json import line_and_column, strict_value

from ..frame.bounds import TEXT_CHARS
from .paths import Path, parse_path

_FENCE = re.compile(r"```[A-Za-z0-9]*[ \t]*\r?\n")
_COMMENT = re.compile(r'"(?:[^"\\\n]+|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_LAST_COMMA = re.compile(r'"(?:[^"\\\n]+|\\.)*"?|[\[{:,](?:\s*,)+|,(?=\s*[\]}])', re.DOTALL)
_NOT_A_BREAK = re.compile(r"[^\n]")


class ReplyObject(Struct, frozen=True):
    """The parsed content of a reply."""

    value: dict[str, Any] | None  # the object; None if there is a fault
    text: str  # the object's text, at its position in the reply
    fault: str = ""  # one sentence with the position; empty if the reply is valid
    repairs: tuple[str, ...] = ()  # what was removed from the reply


def read_object(reply: str) -> ReplyObject:
    """Parse the single object of a reply."""
    if len(reply) > TEXT_CHARS:
        message = f"the reply has {len(reply):,} characters, at most {TEXT_CHARS:,} are read"
        return ReplyObject(None, "", f"{message} ({line_and_column(reply, TEXT_CHARS)})")
    text, repairs = _unwrap(reply)
    value, fault = _load(text)
    if fault:
        cleaned, changes = _clean(text)
        if changes:
            text, repairs = cleaned, [*repairs, *changes]
            value, fault = _load(text)
    if not fault and not isinstance(value, dict):
        begins = line_and_column(text, len(text) - len(text.lstrip()))
        fault = f"it is {json_kind(value)} and not one JSON object ({begins})"
    return ReplyObject(None, text, fault) if fault else ReplyObject(value, text, repairs=tuple(repairs))


def _unwrap(reply: str) -> tuple[str, list[str]]:
    """Blank out the whitespace and fence around a reply. Returns the text and what was removed."""
    end, repairs = len(reply.rstrip()), list[str]()
    start = len(reply) - len(reply.lstrip("\ufeff").lstrip())
    fence = _FENCE.match(reply, start, end)
    if fence and reply.endswith("```", fence.end(), end):
        start, end, repairs = fence.end(), end - 3, ["a code fence was taken off"]
    body = reply[start:end].lstrip()
    return _blank(reply[: end - len(body)]) + body.rstrip(), repairs


def _blank(text: str) -> str:
    return _NOT_A_BREAK.sub(" ", text)


def _load(text: str) -> tuple[Any, str]:
    try:
        return strict_value(text, one_each=True, utf8=True), ""
    except json.JSONDecodeError as error:
        return None, f"it is not one JSON object: {error.msg} at line {error.lineno}, column {error.colno}"


def _clean(text: str) -> tuple[str, list[str]]:
    """Blank out comments and trailing commas. Returns the text and what was removed."""
    bare = _COMMENT.sub(_blank_match, text)
    cleaned = _LAST_COMMA.sub(_blank_match, bare)
    changes = ["comments were taken out"] if bare != text else []
    return cleaned, [*changes, "trailing commas were taken out"] if cleaned != bare else changes


def _blank_match(match: re.Match[str]) -> str:
    """Blank out a comment or trailing comma. Strings, and commas without a preceding value, stay."""
    return _blank(match[0]) if match[0] == "," or match[0][0] == "/" else match[0]


_BEHIND_PLACE = re.compile(r"[^\w.\[\]]")


def json_kind(value: Any) -> str:
    """Describe the kind of a JSON value."""
    kinds = ((dict, "an object"), (list, "a list"), (str, "a text"), (bool, "true or false"), (type(None), "null"))
    return next((words for kind, words in kinds if isinstance(value, kind)), "a number")


def json_value(text: str, default: Any = None) -> Any:
    """Parse a text that may be JSON; return the default if it is not."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return default


class Misfit(Exception):  # noqa: N818 - a finding that is sent to the model
    """A member has the wrong form. The message begins with its place, unless ``location`` is given."""

    def __init__(self, text: str, location: str | None = None) -> None:
        super().__init__(text)
        # path of the member, such as ``nextStep.actions[2].name``; () for the whole reply
        self.path: Path = parse_path(_BEHIND_PLACE.split(text, 1)[0] if location is None else location) or ()


def member(value: dict[str, Any], name: str, kind: type, location: str, default: Any) -> Any:
    """Return ``value[name]``; the default if it is absent or null. The place of the whole reply is "".

    Raise Misfit if the value has another type.
    """
    item = value.get(name)
    if item is None:
        return default
    if not _is(item, kind):
        raise Misfit(f"{location}{'.' if location else ''}{name} must be {_KINDS[kind]}, is {kind_of(item)}")
    return item


def required_member(value: dict[str, Any], name: str, kind: type, location: str) -> Any:
    """Read a member that must be present and, if a text, not empty."""
    item = member(value, name, kind, location, None)
    if item is None or (kind is str and not item.strip()):
        raise Misfit(f"{location}.{name} is missing")
    return item


def count(value: dict[str, Any], name: str, location: str, default: int, least: int, most: int) -> int:
    """Read a whole number within bounds."""
    number = value.get(name)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if number is None:
        return default
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise Misfit(f"{location}.{name} must be a whole number from {least:,} to {most:,}, is {kind_of(number)}")
    return number


def word(value: dict[str, Any], name: str, location: str, words: tuple[str, ...], default: str) -> str:
    """Read one of several words, ignoring case."""
    text = str(member(value, name, str, location, default))
    match = next((each for each in words if each.lower() == text.strip().lower()), None)
    if match is None:
        raise Misfit(f"{location}.{name} must be one of {', '.join(words)}, is {text[:80]!r}")
    return match


def kind_of(value: Any) -> str:
    """Describe the kind of a value, or show the value if it is a scalar."""
    return json_kind(value) if isinstance(value, dict | list) else f"{value!r}"[:80]


_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false", float: "a number"}


def _is(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind)
