"""The session log, which shortens older entries, and the text form of values and items."""

from __future__ import annotations

import json
import textwrap
from typing import Any, Literal, assert_never

from msgspec import Struct

from .literals import CallTo, Variable
from .reply_items import AtStep, Fired, Item, Queued, ReturnItem, SetVar, TextItem, Unreadable, Yielded

Level = Literal["HIGH", "MEDIUM", "LOW"]
_REACH: dict[Level, tuple[int, int, int]] = {"HIGH": (30, 40, 50), "MEDIUM": (20, 30, 40), "LOW": (10, 20, 30)}
"""Ages (entries from the end) up to which an entry appears in full, in 200 and in 50 characters."""
FULL_CHARS = 2_000
MAX_ENTRIES = 50


class LogEntry(Struct, frozen=True):
    """One entry. If ``compact`` or ``minimal`` is empty, it is derived from ``full``."""

    level: Level
    full: str
    compact: str = ""
    minimal: str = ""


class SessionLog:
    """The newest entries. Entries too old to be shown are discarded."""

    def __init__(self) -> None:
        self._entries: list[LogEntry] = []
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._entries) + self.dropped

    def add(self, level: Level, full: str, compact: str = "", minimal: str = "") -> None:
        if full.strip():
            self._entries.append(LogEntry(level, head_and_tail(full, FULL_CHARS), compact, minimal))
            excess = len(self._entries) - MAX_ENTRIES
            if excess > 0:
                self._entries, self.dropped = self._entries[excess:], self.dropped + excess

    def fold(self, mark: int, summary: str) -> None:
        """Replace every entry from ``mark`` on (a former ``len`` of the log) by a summary."""
        self._entries = self._entries[: max(0, mark - self.dropped)]
        self.add("HIGH", summary)

    def text(self) -> str:
        """Return the log as shown to the model."""
        lines = [_at(entry, age) for age, entry in enumerate(reversed(self._entries))]
        return "\n".join(line for line in reversed(lines) if line)


def _at(entry: LogEntry, age: int) -> str:
    full, compact, minimal = _REACH[entry.level]
    if age < full:
        return entry.full
    if age < compact:
        return entry.compact or brief(entry.full, 200)
    return (entry.minimal or brief(entry.full, 50)) if age < minimal else ""


def brief(text: str, most: int) -> str:
    """Shorten a text to ``most`` characters on one line. Empty if fewer than 13 characters would remain."""
    short = textwrap.shorten(" ".join(text.split())[: 10 * most], most, placeholder="...")
    return "" if len(short) < 13 and len(text) > most else short


def head_and_tail(text: str, most: int) -> str:
    """Cut a long text to its head and tail, with a mark between them."""
    if len(text) <= most:
        return text
    half = (most - 60) // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"


VALUE_CHARS = 200


def value_text(value: Any, most: int = VALUE_CHARS) -> str:
    """Format a value as the contract writes it, cut at ``most`` characters."""
    text = _text(value)
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def _text(value: Any) -> str:
    match value:
        case Variable():
            return f"${value.name}"
        case CallTo():
            return call_text(value)
        case list():
            return f"[{', '.join(map(_text, value))}]"
        case dict():
            return "{" + ", ".join(f"{_text(key)}: {_text(each)}" for key, each in value.items()) + "}"
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)


def call_text(call: CallTo, most: int = VALUE_CHARS) -> str:
    """Format a call such as ``F(1, k="v")``; each argument is cut at ``most`` characters."""
    parts = [value_text(each, most) for each in call.values]
    return f"{call.name}({', '.join([*parts, *(f'{name}={value_text(each, most)}' for name, each in call.keywords)])})"


def item_text(item: Item) -> str:
    """Format an item for the session log. Empty for items that are logged in another way."""
    match item:
        case TextItem():
            return f"{item.kind} - {item.text}" if item.kind in ("recap", "plan") else item.text
        case SetVar():
            return f"Var[${item.name}, {value_text(item.value)}]"
        case AtStep():
            return f'Step["{item.playbook}:{item.label}{":" if item.code else ""}{item.code}"]'
        case Fired():
            return f'Trigger["{item.playbook}:T{item.number}{":" if item.code else ""}{item.code}"]'
        case Queued():
            into = f"${item.into} = " if item.into else ""
            return "" if item.call.name == "SaveArtifact" else into + call_text(item.call)
        case ReturnItem():
            return f"Return[{'' if item.value is None else value_text(item.value)}]"
        case Yielded():
            return f"yld {item.to}"
        case Unreadable():
            return brief(item.text, VALUE_CHARS)
        case _:
            assert_never(item)  # pragma: no cover - the type checker ensures that all cases are handled
