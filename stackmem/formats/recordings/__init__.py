"""Recordings of other agents as traces that can be looked at and costed, and never replayed: see ``mark``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stackmem.errors import UsageError

from .atif import read_atif
from .chat import is_chat, read_chat
from .claude_code import read_claude_code
from .codex import is_codex, read_codex
from .gemini_cli import is_gemini, read_gemini
from .inspect_log import is_zip, read_inspect
from .mini import read_mini
from .openhands import is_openhands, read_openhands
from .session import RecordedSession, RecordingFile, load
from .swe_agent import read_swe_agent
from .terminal import is_terminal_log, read_terminal


def _whole(read: Callable[[object, str], RecordedSession]) -> Callable[[RecordingFile], list[RecordedSession]]:
    """The reader of a format in which a file is one JSON value and one session."""
    return lambda file: [read(load(file.text, file.where), file.where)]


IMPORTERS: dict[str, Callable[[RecordingFile], list[RecordedSession]]] = {
    "atif": _whole(read_atif),
    "chat": lambda file: read_chat(load(file.text, file.where), file.where),
    "claude-code": lambda file: [read_claude_code(file.text, file.where, file.subagents())],
    "codex": lambda file: [read_codex(file.text, file.where)],
    "gemini-cli": lambda file: [read_gemini(file.text, file.where)],
    "inspect": read_inspect,
    "mini": _whole(read_mini),
    "openhands": lambda file: read_openhands(file.text, file.where),
    "swe-agent": _whole(read_swe_agent),
    "terminal": lambda file: [read_terminal(file.text, file.where)],
}
"""Name to reader; a reader gives the sessions of the file, in their order."""


def guess(file: RecordingFile) -> str:
    """The format of a file by what stands in it.

    Raises:
        UsageError: It is none that we know.
    """
    if is_zip(file.content):
        return "inspect"
    text = file.text
    found = _of_value(_json(text)) or _of_line(_json(next((line for line in text.split("\n") if line.strip()), "")))
    if not found and is_terminal_log(text):
        found = "terminal"
    if found:
        return found
    known = ", ".join(sorted(IMPORTERS))
    raise UsageError(f"{file.where} is in no known format; stackmem import --format names one of {known}")


def _json(text: str) -> Any:
    try:
        return load(text, "")
    except UsageError:
        return None


def _of_value(value: Any) -> str:
    """The format of a file that is one JSON value; empty for none."""
    if is_chat(value):
        return "chat"
    if is_openhands(value):
        return "openhands"
    if not isinstance(value, dict):
        return ""
    if is_gemini(value):
        return "gemini-cli"
    if {"version", "eval", "status"} <= value.keys():
        return "inspect"
    if str(value.get("schema_version", "")).startswith("ATIF"):
        return "atif"
    if str(value.get("trajectory_format", "")).startswith("mini-swe-agent"):
        return "mini"
    return "swe-agent" if {"trajectory", "info"} <= value.keys() else ""


def _of_line(line: Any) -> str:
    """The format of a file of JSON Lines by its first one; empty for none."""
    if is_codex(line):
        return "codex"
    if is_gemini(line):
        return "gemini-cli"
    if is_openhands(line):
        return "openhands"
    if not isinstance(line, dict) or not isinstance(line.get("type"), str):
        return ""
    return "claude-code" if "sessionId" in line or "uuid" in line or line["type"] == "summary" else ""
