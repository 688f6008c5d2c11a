"""Invariants of every prompt, as checks for properties and contracts."""

from __future__ import annotations

import re

from msgspec import json

from stackmem.core.heap import Heap, line
from stackmem.core.messages import Text, ToolCall, ToolResult, View

_READ = re.compile(r"heap '([^']+)', [\d,]+ characters, last read step (\d+)")
_LAST_READ = re.compile(r"last read (never|step \d+)")


def well_formed(view: View) -> None:
    """Roles alternate, no message is empty, and the next message answers every call once, in order."""
    roles = [message.role for message in view.messages]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    asked: list[str] = []
    for message in view.messages:
        assert message.parts
        assert all(part.text.strip() for part in message.parts if isinstance(part, Text))
        if message.role == "user":
            assert [part.call_id for part in message.parts if isinstance(part, ToolResult)] == asked
        asked = [part.id for part in message.parts if isinstance(part, ToolCall)]


def well_marked(view: View) -> None:
    """At most four breakpoints, each on an existing part, longer time to live first."""
    points = view.breakpoints
    assert len(points) <= 4
    assert [point.ttl for point in points] == sorted((point.ttl for point in points), key=("1h", "5m").index)
    for point in points:
        assert point.message == -1 or point.part < len(view.messages[point.message].parts)


def encoded(view: View) -> list[bytes]:
    return [json.encode(message) for message in view.messages]


def kept_bytes(view: View) -> bytes:
    """Return the bytes up to the last breakpoint, with which later prompts of the frame must begin."""
    point = view.breakpoints[-1]
    whole = encoded(view)[: point.message]
    return b"".join([*whole, *part_bytes(view, point.message, point.part + 1)])


def part_bytes(view: View, message: int, parts: int) -> list[bytes]:
    return [json.encode(part) for part in view.messages[message].parts[:parts]]


def begins_with_kept(view: View, before: View, *, rewritten: bool = False) -> bool:
    """Return whether ``view`` begins with what ``before`` marked for the cache (for an hour if turns are rewritten)."""
    point = [point for point in before.breakpoints if not rewritten or point.ttl == "1h"][-1]
    if len(view.messages) <= point.message or encoded(view)[: point.message] != encoded(before)[: point.message]:
        return False
    return part_bytes(view, point.message, point.part + 1) == part_bytes(before, point.message, point.part + 1)


def derived_index(view: View) -> dict[str, str]:
    """Return the index that a reader of the prompt derives: the last full one, its changes, and the reads since."""
    if "HEAP INDEX: " in view.system:
        return _lines(view.system)
    known: dict[str, str] = {}
    for message in view.messages:
        for part in message.parts if message.role == "user" else ():
            if isinstance(part, ToolResult) and (read := _READ.match(part.text)) and read[1] in known:
                known[read[1]] = _later_read(known[read[1]], int(read[2]))
            if isinstance(part, Text):
                known = _lines(part.text) if "HEAP INDEX: " in part.text else _changed(known, part.text)
    return known


def true_index(heap: Heap) -> dict[str, str]:
    return {name: line(heap, chunk) for name, chunk in heap.chunks.items()}


def _lines(text: str) -> dict[str, str]:
    block = text.rpartition("HEAP INDEX: ")[2] if "HEAP INDEX: " in text else ""
    return {row[2:].split(" | ")[0]: row for row in block.split("\n")[1:]}


def _later_read(row: str, step: int) -> str:
    said = _LAST_READ.search(row)
    told = int(said[1].removeprefix("step ")) if said and said[1] != "never" else 0
    return _LAST_READ.sub(f"last read step {max(told, step)}", row, count=1)


def _changed(known: dict[str, str], text: str) -> dict[str, str]:
    if not text.startswith("HEAP CHANGES: "):
        return known
    after = dict(known)
    for row in text.split("\n")[1:]:
        name = row[2:].split(" | ")[0]
        if row == f"- {name} | freed":
            del after[name]
        else:
            after[name] = row
    return after
