"""The items of a reply, whichever form it is written in."""

from __future__ import annotations

import re
from typing import Any, Literal

from msgspec import Struct

from .literals import CallTo, LiteralFault
from .tree import Number, number_of


class TextItem(Struct, frozen=True):
    """``recap``, ``plan``, a ``what?`` line, or text that is not part of an item (``prose``)."""

    kind: Literal["recap", "plan", "what", "prose"]
    text: str


class SetVar(Struct, frozen=True):
    name: str
    value: Any


class AtStep(Struct, frozen=True):
    """The execution of a playbook line. ``label`` is its number as written; ``code`` may be empty."""

    playbook: str
    number: Number
    label: str
    code: str


class Fired(Struct, frozen=True):
    """A fired trigger. ``queues`` is true if calls follow it on its line."""

    playbook: str
    number: int
    code: str
    queues: bool = False


class Queued(Struct, frozen=True):
    """A queued call, and the variable that its result is bound to."""

    call: CallTo
    into: str = ""
    fired: bool = False  # whether it follows a trigger
    spare: bool = False  # whether it does not appear at a line that asks for it


class ReturnItem(Struct, frozen=True):
    value: Any


class Yielded(Struct, frozen=True):
    """A yield. ``other`` names the agent or meeting that it waits for; only later versions of the contract have it."""

    to: Literal["user", "call", "return", "exit", "other"]
    other: str = ""


class Unreadable(Struct, frozen=True):
    """An unreadable item. The reply is not performed from here on."""

    reason: str
    text: str


Item = TextItem | SetVar | AtStep | Fired | Queued | ReturnItem | Yielded | Unreadable


class ReplyItems(Struct, frozen=True):
    """The parsed items of a reply."""

    items: tuple[Item, ...]  # up to and including the first yield, Return or fault
    ignored: str = ""  # text after that, except what the contract allows there


MAX_ITEM_CHARS = 200_000
MAX_ITEMS = 5_000
_NAME = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?"
CODE = re.compile(
    rf"""\s*+["'“”]?\s*+({_NAME})\s*+:\s*+T?(\d{{1,9}}(?:\.\d{{1,9}}){{0,19}})\s*+"""
    r"""(?:[:.\-]\s*+([A-Za-z]{3})\w*+)?\s*+["'“”]?\s*+(?=\])"""
)
_OTHER = re.compile(r"(?:agent|meeting)?[ \t]*[\w-]{1,80}", re.I)


def item_at(kind: str, match: re.Match[str]) -> Item:
    """Return the Step or Trigger of a match of ``CODE``."""
    number, code = number_of(match[2]), (match[3] or "").upper()
    if kind == "Trigger":
        return Fired(match[1], number[0], code)
    return AtStep(match[1], number, match[2], code)


def read_place(kind: str, text: str) -> Item:
    """Return the Step or Trigger of a text such as ``Main:01:QUE``. Raise LiteralFault if it is malformed."""
    match = CODE.fullmatch(f"{text}]", 0, len(text) + 1) or CODE.match(f"{text}]")
    if not match or match.end() != len(text):
        raise LiteralFault(f"{kind} takes a text such as Playbook:Line:CODE, got {text[:60]!r}", 0)
    return item_at(kind, match)


def yield_to(words: str) -> Yielded | None:
    """Return the yield that words such as ``user``, ``for call`` or ``meeting 100`` name."""
    words = re.sub(r"^\s*for\s+", "", words, flags=re.I).strip().rstrip(".")
    if (lower := words.lower()) in ("user", "call", "return", "exit"):
        return Yielded(lower)  # type: ignore[arg-type]
    is_name = _OTHER.fullmatch(words) and lower not in ("yes", "no", "finished")
    return Yielded("other", words) if is_name else None
