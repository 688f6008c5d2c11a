"""Finds the sessions that interactive agents stored on this machine for the user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from stackmem.core.errors import UsageError

from .evidence import is_part_of_session

STRATEGIES = (
    "clear_cold", "clear_paying", "clear", "boundary", "mask:poll=30", "compact", "summary:tokens=100000", "adaptive",
)  # fmt: skip
"""The strategies of a study of the user's own sessions."""


class _Store(NamedTuple):
    """The place where an agent stores its sessions."""

    variable: str  # of the environment, which names the agent's folder
    folder: str  # below the home folder, otherwise
    sessions: str  # the folder of the sessions in it
    pattern: str


_STORES = (
    _Store("CLAUDE_CONFIG_DIR", ".claude", "projects", "*.jsonl"),
    _Store("CODEX_HOME", ".codex", "sessions", "rollout-*.jsonl"),
    _Store("", ".gemini", "tmp", "session-*.json*"),
)


class OwnSessions(NamedTuple):
    """The newest sessions, and how many more there are."""

    files: list[Path]
    older: int


def own_sessions(home: Path, variables: Mapping[str, str], most: int) -> OwnSessions:
    """Return the newest sessions of all agents. Links are not followed."""
    dated = sorted(
        ((path.stat().st_mtime, path) for store in _STORES for path in _of(store, home, variables)), reverse=True
    )
    if not dated:
        places = ", ".join(f"~/{store.folder}/{store.sessions}" for store in _STORES)
        raise UsageError(f"no sessions of Claude Code, Codex or Gemini CLI in {places}; name a folder with recordings")
    return OwnSessions([path for _, path in dated[:most]], max(0, len(dated) - most))


def _of(store: _Store, home: Path, variables: Mapping[str, str]) -> list[Path]:
    agent = Path(variables.get(store.variable) or home / store.folder) if store.variable else home / store.folder
    return [
        path for path in (agent / store.sessions).rglob(store.pattern)
        if not path.is_symlink() and path.is_file() and not is_part_of_session(path)
        and path.stat().st_size
    ]  # fmt: skip
