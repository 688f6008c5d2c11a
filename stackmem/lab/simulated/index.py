"""Parse the heap index from its last occurrence in the prompt."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from .lines import topic_of

_HEAD = re.compile(r"^HEAP (INDEX|CHANGES): (?:[^\n]*?, )?([\d,]{1,12}) of ([\d,]{1,12}) characters used", re.MULTILINE)
_MORE = " …"
INDEX_HEAD = "HEAP INDEX: "


class SeenChunk(Struct, frozen=True):
    """One chunk."""

    name: str
    chars: int
    items: frozenset[str]  # the items that its description lists: the part of each key after the topic
    is_complete: bool  # the description names everything in it
    source: str
    written: int  # the step at which it was last written; 0 if the index shows none
    stale: bool


class SeenIndex(Struct, frozen=True):
    rows: dict[str, SeenChunk]
    used: int
    budget: int


def index_in(text: str, before: SeenIndex | None) -> SeenIndex | None:
    """Return the index after ``text``, or ``before`` if the text has none."""
    if "HEAP " not in text:
        return before
    for head in _HEAD.finditer(text):
        kind, used, budget = head[1], _number(head[2]), _number(head[3])
        rows = dict(before.rows) if kind == "CHANGES" and before else {}
        for line in text[head.end() :].split("\n")[1:]:
            if not line.startswith("- "):
                break
            rows.pop(line[2:].partition(" | ")[0], None)
            row = _row(line)
            if row is not None:
                rows[row.name] = row
        before = SeenIndex(rows, used, budget)
    return before


@lru_cache(maxsize=2_048)
def _row(line: str) -> SeenChunk | None:
    """Parse a line of the index. Returns None for a line that reports a removed chunk."""
    name, *parts = line[2:].split(" | ")
    chars, items, source, written = -1, frozenset[str](), "", 0
    complete = False
    for part in parts:
        if part.endswith(" chars") and chars < 0:
            chars = _number(part[:-6])
        elif part.startswith("keys: "):
            listed = part[6:].removesuffix(_MORE)
            items, complete = frozenset(listed.split(", ")), not part.endswith(_MORE)
        elif part.startswith("source "):
            source = part[7:]
        elif part.startswith(("created step ", "rewritten step ")):
            written = max(written, _number(part.rpartition(" ")[2]))
    if chars < 0:
        return None
    return SeenChunk(name, chars, items, complete, source, written, any(part.startswith("STALE") for part in parts))


PART_CHARS = 300
"""A topic's last chunk accepts more facts while it is smaller than this."""
MANY_CHUNKS = 40


def last_part(index: SeenIndex, topic: str) -> SeenChunk | None:
    """Return the chunk that a topic's next facts are added to; None if they start a new one."""
    rows = sorted((row for row in index.rows.values() if topic_of(row.name) == topic), key=lambda row: row.name)
    return rows[-1] if rows and (rows[-1].chars < PART_CHARS or len(index.rows) >= MANY_CHUNKS) else None


def description(items: list[str], most: int) -> str:
    """Return an index description that ``index_in`` can parse. It ends with an ellipsis if items were cut."""
    text = f"keys: {', '.join(items) or 'none'}"
    if len(text) <= most:
        return text
    cut = text[: max(0, most - len(_MORE))].rpartition(", ")[0]
    return f"{cut}{_MORE}" if cut else ""


def _number(text: str) -> int:
    digits = text.replace(",", "")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 12 else 0
