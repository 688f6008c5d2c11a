"""Import recordings of other agents as traces that can be viewed and costed, but not replayed; see ``mark``."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from stackmem.core.errors import UsageError
from stackmem.foreign.databases import SQLITE_START

from .aider import is_aider, read_aider
from .atif import read_atif
from .chat import is_chat, read_chat
from .claude_code import is_claude_code, read_claude_code
from .codex import codex_agents, is_codex, read_codex
from .gemini_cli import gemini_agents, is_gemini, read_gemini
from .goose import is_goose, read_goose
from .inspect_log import is_zip, read_inspect
from .mini import read_mini
from .opencode import is_opencode, read_opencode, read_opencode_database
from .openhands import is_openhands, read_openhands
from .pi import is_pi, read_pi
from .session import RecordedSession, RecordingFile, load
from .swe_agent import read_swe_agent
from .terminal import is_terminal_log, read_terminal


def _single_value(read: Callable[[object, str], RecordedSession]) -> Callable[[RecordingFile], list[RecordedSession]]:
    """Return a reader for a format whose files are one JSON value with one session."""
    return lambda file: [read(load(file.text, file.source), file.source)]


IMPORTERS: dict[str, Callable[[RecordingFile], list[RecordedSession]]] = {
    "aider": lambda file: read_aider(file.text, file.source),
    "atif": _single_value(read_atif),
    "chat": lambda file: read_chat(file.text, file.source),
    "claude-code": lambda file: [read_claude_code(file.text, file.source, file.subagents())],
    "codex": lambda file: [read_codex(file.text, file.source, codex_agents(file.path))],
    "gemini-cli": lambda file: [read_gemini(file.text, file.source, gemini_agents(file.path, file.text))],
    "goose": lambda file: [read_goose(file.text, file.source)],
    "inspect": read_inspect,
    "mini": _single_value(read_mini),
    "opencode": lambda file: (
        read_opencode_database(file) if is_sqlite(file.content) else _single_value(read_opencode)(file)
    ),
    "openhands": lambda file: read_openhands(file.text, file.source),
    "pi": lambda file: [read_pi(file.text, file.source)],
    "swe-agent": _single_value(read_swe_agent),
    "terminal": lambda file: [read_terminal(file.text, file.source)],
}
"""Name to reader. A reader returns the sessions of a file in order."""
_HEAD_LINES = 200


def is_sqlite(content: bytes) -> bool:
    return content.startswith(SQLITE_START)


def guess(file: RecordingFile) -> str:
    """Detect the format of a file by its content. Raise UsageError if the format is unknown."""
    if is_zip(file.content):
        return "inspect"
    if is_sqlite(file.content):
        return "opencode"
    text = file.text
    detected = _of_value(_json(text)) or next(filter(None, (_of_line(_json(line)) for line in _head(text))), "")
    if not detected and is_terminal_log(text):
        detected = "terminal"
    if not detected and is_aider(text):
        detected = "aider"
    if detected:
        return detected
    formats = ", ".join(sorted(IMPORTERS))
    raise UsageError(
        f"{file.source} has an unknown format; it {_seen(text)}; name one with stackmem import --format: {formats}"
    )


def _seen(text: str) -> str:
    """Describe the content of an unrecognized file for an error message."""
    first = next(_head(text), "")
    value = _json(text) or _json(first)
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, dict) and value:
        return f"contains objects with the keys {', '.join(sorted(value)[:8])}"
    return "is empty" if not first else "does not contain JSON objects"


def _head(text: str) -> Iterator[str]:
    """Return the first lines that are not empty. Which of them identifies the format depends on the writer."""
    lines = (line for line in io.StringIO(text) if line.strip())
    return itertools.islice(lines, _HEAD_LINES)


def _json(text: str) -> Any:
    try:
        return load(text, "")
    except UsageError:
        return None


def _of_value(value: Any) -> str:
    """Return the format of a file that is a single JSON value; empty if unknown."""
    if isinstance(value, dict):
        if {"version", "eval", "status"} <= value.keys():
            return "inspect"
        if str(value.get("schema_version", "")).startswith("ATIF"):
            return "atif"
        if str(value.get("trajectory_format", "")).startswith("mini-swe-agent"):
            return "mini"
        if {"trajectory", "info"} <= value.keys():
            return "swe-agent"
    return _of_line(value)


def _of_line(value: Any) -> str:
    """Return the format of a JSON value, which is one line of JSON Lines or a whole file; empty if unknown."""
    for name, is_one in _DETECTORS.items():
        if is_one(value):
            return name
    return ""


_DETECTORS: dict[str, Callable[[Any], bool]] = {
    "pi": is_pi,
    "goose": is_goose,
    "opencode": is_opencode,
    "codex": is_codex,
    "gemini-cli": is_gemini,
    "openhands": is_openhands,
    "chat": is_chat,
    "claude-code": is_claude_code,
}
