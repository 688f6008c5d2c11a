"""Marks by which the memory server tells the gateway where a frame begins and ends.

A mark is part of the text of an answer, so that every transport carries it: a direct call, a program that makes the
call for the agent, and every wire format. Its id names one frame of one run of the server.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from msgspec import Struct, field

PUSHED = re.compile(r"\bFRAME .{1,200}?, depth (\d+) of \d+")
"""The answer to an accepted push."""
POPPED = re.compile(r"\bframe .{1,200}? returned:")
"""The answer to an accepted pop."""
_MARK = re.compile(r"\[stackmem: frame ([0-9a-f]{16}) (begins|ends)\]")
_SEARCHED_CHARS = 1_000


class FrameMarks(Struct):
    """The marks of one run of the server.

    Attributes:
        open_ids: The ids of the open frames, outermost first.
    """

    run: str = ""
    count: int = 0
    open_ids: list[str] = field(default_factory=list)

    def marked(self, tool: str, text: str) -> str:
        """Return the answer to a call, with a mark if it began or ended a frame."""
        pushed = PUSHED.search(text[:_SEARCHED_CHARS]) if tool == "push_frame" else None
        if pushed is not None:
            self.count += 1
            frame_id = hashlib.sha256(f"{self.run} {self.count}".encode()).hexdigest()[:16]
            self.open_ids = [*self.open_ids[: int(pushed[1]) - 1], frame_id]
            return f"{text}\n[stackmem: frame {frame_id} begins]"
        if tool == "pop_frame" and self.open_ids and POPPED.search(text[:_SEARCHED_CHARS]):
            return f"{text}\n[stackmem: frame {self.open_ids.pop()} ends]"
        return text


def marks_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the marks of an answer in order: the tool that made them and the frame's id."""
    for match in _MARK.finditer(text):
        yield ("push_frame" if match[2] == "begins" else "pop_frame"), match[1]
