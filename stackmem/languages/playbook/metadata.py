"""Reads metadata lines under a heading, such as ``public: true``, and reports those without effect here."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from .tree import Caveat

_LINE = re.compile(r"([a-z][a-z_]*)[ \t]*:[ \t]*(.*)")
_FLAGS = {"true": True, "yes": True, "false": False, "no": False}
_NO_EFFECT = {
    "agent_type": "every agent runs here; remove the line",
    "export": "agents do not import playbooks; write `public: true` to let others call it",
    "meeting": "meetings are not supported; let the agents use SendMessage and WaitForMessage",
    "remote": "remote agents are not supported; write their functions as Python playbooks",
    "required_attendees": "meetings are not supported; let the agents use SendMessage and WaitForMessage",
}
_KEYS = ("cli_entry", "execution_mode", "metadata", "public", *_NO_EFFECT)
_MODES = {
    "raw": "raw text is not sent; the playbook runs as one without steps",
    "react": "",
}
NO_EFFECT = "Metadata Without Effect"


class Metadata(Struct):
    """The metadata under one heading."""

    public: bool | None = None  # whether other agents may call the playbook; None if unspecified
    entry: bool = False  # whether the program begins with the playbook
    mode: str = ""  # ``execution_mode``; ``mode_line`` is its line
    mode_line: int = 0
    caveats: list[Caveat] = []

    def take_from(self, text: str, line: int) -> str:
        """Read the metadata of a paragraph that begins at ``line``, and return the remaining text."""
        lines: list[str] = []
        block = ""
        for position, each in enumerate(text.split("\n"), line):
            if block and (each[:1].isspace() or each.lstrip().startswith("- ")):
                if block == "metadata":
                    self._take(each.strip(), position, nested=True)
                continue
            block = self._take(each, position)
            if not block:
                lines.append(each)
        return "\n".join(lines).strip()

    def take_words(self, words: dict[str, Any], line: int) -> None:
        """Read a decorator's keywords other than the triggers."""
        for name, value in words.items():
            self._take(f"{name}: {value}", line, nested=True)

    def _take(self, text: str, line: int, *, nested: bool = False) -> str:
        """Read one line. Returns its key, or an empty text if it belongs to the description."""
        match = _LINE.fullmatch(text)
        key, value = (match[1], match[2].strip()) if match else ("", "")
        if key not in _KEYS:
            if nested:
                self.caveats.append(Caveat(NO_EFFECT, f"{text[:80]!r} has no effect here; remove it", line))
            return ""
        flag = _FLAGS.get(value.lower())
        match key:
            case "public" | "cli_entry" if flag is None:
                self.caveats.append(Caveat(NO_EFFECT, f"{key} is {value[:40]!r}; write true or false", line))
            case "public":
                self.public = flag
            case "cli_entry":
                self.entry = bool(flag)
            case "execution_mode":
                self.mode, self.mode_line = value.lower(), line
                if reason := _MODES.get(self.mode, "this mode is unknown; remove the line"):
                    self.caveats.append(Caveat(NO_EFFECT, f"execution_mode: {value[:40]}: {reason}", line))
            case "metadata":
                pass
            case _ if flag is not False:
                self.caveats.append(Caveat(NO_EFFECT, f"{key}: {_NO_EFFECT[key]}", line))
        return key
