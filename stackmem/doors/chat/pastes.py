"""Large pastes, which the input line shows as a label, and the history, which keeps them in full."""

from __future__ import annotations

import re
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

_FOLDED_LINES = 20
_FOLDED_CHARS = 4_000
_LABEL = re.compile(r"\[Pasted text(?: \d+)?, [\d,]+ lines?\]")
_NOT_TYPED = re.compile(r"\x1b\[[0-9;?]*[A-Za-z~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Removed from pasted text: control characters, and terminal responses that arrived in between."""


class Pastes:
    """The folded pastes of a conversation, by label."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def folded(self, pasted: str) -> str:
        """Return what a paste adds to the line: the text, or a label for a large one."""
        text = _NOT_TYPED.sub("", pasted.replace("\r\n", "\n").replace("\r", "\n"))
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= _FOLDED_LINES and len(text) <= _FOLDED_CHARS:
            return text
        count = f"{lines:,} line{'s' * (lines > 1)}"
        label, number = f"[Pasted text, {count}]", 1
        while self._texts.get(label, text) != text:
            number += 1
            label = f"[Pasted text {number}, {count}]"
        self._texts[label] = text
        return label

    def unfolded(self, line: str) -> str:
        """Return a line with its pastes in full."""
        return _LABEL.sub(lambda match: self._texts.get(match[0], match[0]), line)

    def sent(self, line: str) -> str:
        """Return the text of a line that the user sends."""
        return _NOT_TYPED.sub("", self.unfolded(line))


class _FullHistory(FileHistory):
    """Stores lines with their pastes in full, so that a later conversation can use them."""

    def __init__(self, path: str, pastes: Pastes) -> None:
        super().__init__(path)
        self._pastes = pastes

    def append_string(self, string: str) -> None:
        super().append_string(self._pastes.unfolded(string))


def kept_history(path: Path | None, pastes: Pastes) -> History:
    """Return the history in a file that only the user can read, or one in memory if it cannot be written."""
    if path is None:
        return InMemoryHistory()
    try:
        with path.open("a", encoding="utf-8"):
            path.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return _FullHistory(str(path), pastes)
