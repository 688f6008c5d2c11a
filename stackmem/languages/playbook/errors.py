"""Errors in a program's text, and the report of a program that halts."""

from __future__ import annotations

from stackmem.core.errors import Halted

MAX_SHOWN = 500


class PlaybookError(Exception):
    """The text is not a valid program.

    Attributes:
        title: Short name of the fault, as the linter shows it.
        line: Line in the file, from 1.
    """

    def __init__(self, title: str, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.title, self.message, self.line = title, message, line

    def halt(self, path: str, text: str) -> Halted:
        lines = text.splitlines()
        line_text = lines[self.line - 1].strip() if 0 < self.line <= len(lines) else ""
        return halt(self.title, self.message, f"{path}:{self.line}", line_text)


def halt(kind: str, reason: str, location: str, excerpt: str = "") -> Halted:
    """Build a halt from its kind, the reason, the location (file and line), and the text that caused it."""
    text = excerpt if len(excerpt) <= MAX_SHOWN else f"{excerpt[:MAX_SHOWN]}…"
    lines = [f"Playbook halted: {kind}", f"  Reason: {reason}", f"  At: {location}"]
    if text:
        lines.append("  Text: " + text.replace("\n", "\n        "))
    return Halted(kind, "\n".join(lines), location)
