"""Recordings of other agents as traces that can be looked at and costed, and never replayed: see ``mark``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stackmem.errors import UsageError

from .atif import read_atif
from .claude_code import read_claude_code
from .mini import read_mini
from .session import RecordedSession, load

Subagents = Callable[[], Iterable[tuple[str, str]]]


def _atif(text: str, where: str, subagents: Subagents) -> RecordedSession:
    return read_atif(load(text, where), where)


def _mini(text: str, where: str, subagents: Subagents) -> RecordedSession:
    return read_mini(load(text, where), where)


def _claude_code(text: str, where: str, subagents: Subagents) -> RecordedSession:
    return read_claude_code(text, where, subagents())


IMPORTERS: dict[str, Callable[[str, str, Subagents], RecordedSession]] = {
    "atif": _atif,
    "claude-code": _claude_code,
    "mini": _mini,
}
"""Name to reader; a reader takes the file's text, what to call it in messages, and the files of its subagents."""


def guess(text: str, where: str) -> str:
    """The format of a file by what stands in it.

    Raises:
        UsageError: It is none that we know.
    """
    try:
        value = load(text, where)
    except UsageError:
        value = None
    if isinstance(value, dict):
        if str(value.get("schema_version", "")).startswith("ATIF"):
            return "atif"
        if str(value.get("trajectory_format", "")).startswith("mini-swe-agent"):
            return "mini"
    first = next((line for line in text.split("\n") if line.strip()), "")
    try:
        line = load(first, where)
    except UsageError:
        line = None
    if isinstance(line, dict) and isinstance(line.get("type"), str) and ("sessionId" in line or "uuid" in line or
                                                                         line["type"] == "summary"):  # fmt: skip
        return "claude-code"
    known = ", ".join(sorted(IMPORTERS))
    raise UsageError(f"{where} is in no known format; stackmem import --format names one of {known}")
