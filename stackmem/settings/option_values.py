"""Parses the value of one setting from text (flags, variables) or from TOML and Python. Errors name its source.

``none`` means no value, for options that allow this. 0 is an ordinary number, accepted or refused by the range.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, assert_never
from urllib.parse import urlsplit

from stackmem.core.errors import UsageError

from .options import Option

MAX_TEXT_CHARS = 10_000

_COUNT = re.compile(r"[+-]?([0-9]{1,3}([_,][0-9]{3})+|[0-9]{1,30})")
_AMOUNT = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
_YES_NO = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class ValuePlace:
    """The source of a value.

    Attributes:
        source: As displayed to the user: ``--max-steps``, ``STACKMEM_MAX_STEPS``, ``stackmem.toml:3``.
        key: The key in the source, for messages; empty for flags and variables, which name it themselves.
        folder: Base of relative paths.
        home: Replacement of ``~``; empty if unknown.
        textual: Whether texts are converted (``"5"`` to 5), as for flags and variables; otherwise types must match.
        split: Separator of list members in one text; empty if there is none.
    """

    __slots__ = ("folder", "home", "key", "source", "split", "textual")

    def __init__(
        self, source: str, *, folder: Path, home: str, key: str = "", textual: bool = True, split: str = ""
    ) -> None:
        self.source, self.folder, self.home = source, folder, home
        self.key, self.textual, self.split = key, textual, split

    def refusal(self, option: Option, problem: str) -> UsageError:
        subject = f"{self.source}: {self.key}" if self.key else self.source
        return UsageError(f"{subject} {problem}; write {option.accepts}")


def read_value(option: Option, raw: Any, origin: ValuePlace) -> Any:
    """Return the parsed value.

    Raise UsageError if the value has the wrong type, is empty or out of range, or is not one of the choices.
    """
    if isinstance(raw, str):
        _refuse_unfit(option, raw, origin)
    if option.none_means and (raw == "none" or (option.kind == "texts" and raw in (["none"], ("none",)))):
        return () if option.kind == "texts" else None
    match option.kind:
        case "text":
            return _text(option, raw, origin)
        case "choice":
            if raw not in option.choices:
                raise origin.refusal(option, f"is {describe(raw)}")
            return raw
        case "count" | "amount":
            return _number(option, raw, origin)
        case "path":
            return _path(option, raw, origin)
        case "texts":
            return _texts(option, raw, origin)
        case "switch":
            return _switch(option, raw, origin)
        case "address":
            return _address(option, raw, origin)
        case _:
            assert_never(option.kind)


def describe(raw: object) -> str:
    """Describe a wrong value for a message: short, and on one line."""
    if isinstance(raw, dict):
        return "a table"
    if isinstance(raw, int) and abs(raw) >= 10**30:  # Python refuses to print very long integers
        return "a number of more than 30 digits"
    if isinstance(raw, str | int | float):
        text = ascii(raw[:60]) if isinstance(raw, str) else str(raw)
        return text if len(text) <= 60 else f"{text[:57]}..."
    return "a list" if isinstance(raw, list | tuple) else f"of the type {type(raw).__name__}"


def without_login(address: str) -> str:
    """Remove possible secrets from a URL: the login before the host, and the text after ``?`` or ``#``."""
    start, mark, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    cut = re.sub(r"[?#].*", lambda match: match[0][0] + "[secret]", host.rpartition("@")[2] + slash + path, flags=re.S)
    return f"{start}{mark}{'[secret]@' if '@' in host else ''}{cut}"


def _refuse_unfit(option: Option, raw: str, origin: ValuePlace) -> None:
    if not raw.strip():
        raise origin.refusal(option, "is empty")
    if len(raw) > MAX_TEXT_CHARS:
        raise origin.refusal(option, f"has {len(raw):,} characters, at most {MAX_TEXT_CHARS:,} are allowed")
    # A check may have several lines. Elsewhere, control characters are a mistake or an attack.
    text = raw.replace("\n", "").replace("\t", "") if option.name == "check" else raw
    if any(ord(char) < 32 or ord(char) == 127 or 0x80 <= ord(char) < 0xA0 for char in text):
        raise origin.refusal(option, "has control characters")
    if any(0xD800 <= ord(char) < 0xE000 for char in raw) and option.kind != "path":
        raise origin.refusal(option, "is not UTF-8")


def _text(option: Option, raw: Any, origin: ValuePlace) -> str:
    if not isinstance(raw, str):
        raise origin.refusal(option, f"is {describe(raw)}")
    return raw if option.name == "check" else raw.strip()


def _number(option: Option, raw: Any, origin: ValuePlace) -> int | float:
    is_count = option.kind == "count"
    value = raw
    if isinstance(raw, str) and origin.textual and (_COUNT if is_count else _AMOUNT).fullmatch(raw.strip()):
        value = int(re.sub("[_,]", "", raw)) if is_count else float(raw)
    if isinstance(value, bool) or not isinstance(value, int if is_count else int | float):
        raise origin.refusal(option, f"is {describe(raw)}")
    fits = option.low <= value <= option.high if is_count else option.low < value <= option.high
    if not fits:  # also false for NaN
        raise origin.refusal(option, f"is {describe(raw)}")
    return value if is_count else float(value)


def _path(option: Option, raw: Any, origin: ValuePlace) -> Path:
    if isinstance(raw, os.PathLike) and origin.textual:
        raw = os.fspath(raw)
        if isinstance(raw, str):
            _refuse_unfit(option, raw, origin)
    if not isinstance(raw, str):
        raise origin.refusal(option, f"is {describe(raw)}")
    first, _, rest = raw.partition("/")
    if first == "~":
        if not origin.home:
            raise origin.refusal(option, "starts with ~ and HOME is not set")
        return Path(origin.home, rest)
    if first.startswith("~"):
        raise origin.refusal(option, f"starts with {describe(first)}, but only ~/ is supported")
    return origin.folder / raw


def _texts(option: Option, raw: Any, origin: ValuePlace) -> tuple[str, ...]:
    if isinstance(raw, str):
        if not origin.textual:
            raise origin.refusal(option, f"is {describe(raw)} and not a list")
        raw = raw.split(origin.split) if origin.split else [raw]
    if not isinstance(raw, list | tuple) or not raw or len(raw) > 1_000:
        raise origin.refusal(option, "is an empty list" if raw in ([], ()) else f"is {describe(raw)}")
    for item in raw:
        if not isinstance(item, str):
            raise origin.refusal(option, f"has the member {describe(item)}")
        _refuse_unfit(option, item, origin)
    return tuple(raw)


def _switch(option: Option, raw: Any, origin: ValuePlace) -> bool:
    value = _YES_NO.get(raw.strip().lower()) if isinstance(raw, str) and origin.textual else raw
    if not isinstance(value, bool):
        raise origin.refusal(option, f"is {describe(raw)}")
    return value


def _address(option: Option, raw: Any, origin: ValuePlace) -> str:
    if not isinstance(raw, str):
        raise origin.refusal(option, f"is {describe(raw)}")
    try:
        parts = urlsplit(raw.strip())
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and " " not in raw.strip()
        _ = parts.port
    except ValueError:
        good = False
    if not good:
        raise origin.refusal(option, f"is {describe(without_login(raw))}")
    return raw.strip()
