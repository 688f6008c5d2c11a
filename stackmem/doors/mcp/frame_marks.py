"""Marks by which the memory server tells the gateway where a frame begins and ends.

A mark is part of the text of an answer, so that every transport carries it: a direct call, a program that makes the
call for the agent, and every wire format. Its id names one frame of one run of the server. Its seal depends on a key
that only the server and the gateway have, so nobody else can write a mark.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator

from msgspec import Struct, field

PUSHED = re.compile(r"\bFRAME .{1,200}?, depth (\d+) of \d+")
"""The answer to an accepted push."""
POPPED = re.compile(r"\bframe .{1,200}? returned:")
"""The answer to an accepted pop."""
_MARK = re.compile(r"\[stackmem: frame ([0-9a-f]{16})(?:\.([0-9a-f]{16}))? (begins|ends)\]")
_SEARCHED_CHARS = 1_000
_SIDES = {"push_frame": "begins", "pop_frame": "ends"}
_TOOLS = {side: tool for tool, side in _SIDES.items()}


class FrameMark(Struct, frozen=True):
    """A mark of a frame's beginning or end."""

    tool: str  # the tool that made it
    frame_id: str
    seal: str = ""  # empty in recordings from before marks had one

    @property
    def text(self) -> str:
        sealed = f"{self.frame_id}.{self.seal}" if self.seal else self.frame_id
        return f"[stackmem: frame {sealed} {_SIDES[self.tool]}]"

    def is_sealed_with(self, key: bytes) -> bool:
        return hmac.compare_digest(self.seal, _seal(key, self.tool, self.frame_id))


class FrameMarks(Struct):
    """The marks of one run of the server."""

    run: str = ""
    key: bytes | None = None  # seals the marks; without one the server gives none
    count: int = 0
    open_ids: list[str] = field(default_factory=list)  # the ids of the open frames, outermost first

    def marked(self, tool: str, text: str) -> str:
        """Return the answer to a call, with a mark if it began or ended a frame."""
        if self.key is None:
            return text
        pushed = PUSHED.search(text[:_SEARCHED_CHARS]) if tool == "push_frame" else None
        if pushed is not None:
            self.count += 1
            frame_id = hashlib.sha256(f"{self.run} {self.count}".encode()).hexdigest()[:16]
            self.open_ids = [*self.open_ids[: int(pushed[1]) - 1], frame_id]
        elif tool == "pop_frame" and self.open_ids and POPPED.search(text[:_SEARCHED_CHARS]):
            frame_id = self.open_ids.pop()
        else:
            return text
        return f"{text}\n{FrameMark(tool, frame_id, _seal(self.key, tool, frame_id)).text}"


def _seal(key: bytes, tool: str, frame_id: str) -> str:
    return hmac.new(key, f"{tool} {frame_id}".encode(), hashlib.sha256).hexdigest()[:16]


def marks_in(text: str) -> Iterator[FrameMark]:
    """Yield the marks of an answer in order, whoever wrote them."""
    for match in _MARK.finditer(text):
        yield FrameMark(_TOOLS[match[3]], match[1], match[2] or "")
