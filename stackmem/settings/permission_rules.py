"""Reads permission rules: the user's own ``permissions.toml``, and ``stackmem.permissions.toml`` of a project.

A project's rules that deny or ask always count. Those that allow count only if the user trusts the file as it is.

Each file has up to three tables. A key is a tool, a value one pattern or several; ``*`` stands for any text::

    [allow]
    run_command = ["git status", "pytest*"]

    [ask]
    run_command = "git push*"

    [deny]
    write_file = ["secrets/*", ".github/*"]
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from stackmem.core.errors import UsageError
from stackmem.core.person_facts import PermissionEffect, PermissionRule

from .mcp_servers import FolderServers, NamedFile
from .options import suggestion
from .settings_files import MAX_FILE_BYTES, line_of, read_tables, read_within, user_folder

PERMISSIONS_FILE = "stackmem.permissions.toml"
"""A project's own rules."""

OWN_FILE = "permissions.toml"
"""The user's own rules, next to ``config.toml``."""

_EFFECTS: tuple[PermissionEffect, ...] = get_args(PermissionEffect)
_MAX_RULES, _MAX_CHARS = 1_000, 1_000


def own_rules(environ: Mapping[str, str], tools: Collection[str]) -> tuple[PermissionRule, ...]:
    """Return the user's own rules. Raises ``UsageError`` if the file has an unknown key or tool."""
    path = user_folder(environ, "XDG_CONFIG_HOME", ".config", OWN_FILE)
    if path is None or not path.is_file():
        return ()
    return _parsed(path, read_within(path, MAX_FILE_BYTES), tools, f"the user's {OWN_FILE}")


def project_rules(folder: Path, tools: Collection[str] | None) -> tuple[tuple[PermissionRule, ...], FolderServers]:
    """Return the rules of a project's file, and what trust is recorded with. ``tools`` None allows any tool."""
    path = folder.resolve() / PERMISSIONS_FILE
    if path.is_symlink():
        raise UsageError(f"{path} is a link; replace it by a file")
    raw = read_within(path, MAX_FILE_BYTES)
    digest = hashlib.sha256(b"stackmem trust permissions 1\n" + raw).hexdigest()
    file = NamedFile(PERMISSIONS_FILE, f"SHA-256 {hashlib.sha256(raw).hexdigest()}")
    return _parsed(path, raw, tools, PERMISSIONS_FILE), FolderServers(path, {}, (file,), digest)


def _parsed(path: Path, raw: bytes, tools: Collection[str] | None, source: str) -> tuple[PermissionRule, ...]:
    text, tables = read_tables(path, raw)
    rules: list[PermissionRule] = []
    for effect, table in tables.items():
        location = f"{path}:{line_of(text, (effect,)) or 1}"
        if effect not in _EFFECTS:
            raise UsageError(f"{location}: no table {effect[:60]!a}; {suggestion(effect, _EFFECTS)}")
        if not isinstance(table, dict):
            raise UsageError(
                f'{location}: {effect} must be a table; write [{effect}], then lines such as run_command = "git push*"'
            )
        for tool, value in table.items():
            location = f"{path}:{line_of(text, (effect, tool)) or 1}"
            if tools is not None and tool not in tools:
                raise UsageError(f"{location}: no tool {tool[:60]!a}; {suggestion(tool, tools)}")
            rules += [PermissionRule(effect, tool, pattern, source) for pattern in _patterns(location, tool, value)]
    if len(rules) > _MAX_RULES:
        raise UsageError(f"{path} has {len(rules):,} patterns, maximum is {_MAX_RULES:,}; remove some")
    return tuple(rules)


def _patterns(location: str, tool: str, value: Any) -> Iterator[str]:
    for pattern in value if isinstance(value, list) else [value]:
        if not isinstance(pattern, str):
            raise UsageError(
                f"{location}: {tool[:60]!a} must be a pattern or a list of patterns, not {str(pattern)[:60]!a}"
            )
        if not pattern.strip():
            raise UsageError(f'{location}: {tool[:60]!a} has an empty pattern; write "*" for every call')
        if len(pattern) > _MAX_CHARS:
            raise UsageError(f"{location}: a pattern has {len(pattern):,} characters, maximum is {_MAX_CHARS:,}")
        if not pattern.isprintable():
            raise UsageError(f"{location}: the pattern {pattern[:60]!a} has a control character; use * instead")
        yield pattern
