"""Reads hooks: the user's own ``hooks.toml``, and ``stackmem.hooks.toml`` of a project.

A project's hooks count only if the user trusts the file, and the project's files that its commands name, as they are.

Each table of a file is named after the event, and may be repeated::

    [[before_tool]]
    command = "python3 guard.py"             # for the shell; it gets JSON on standard input
    tools = ["run_command", "write_*"]       # without it, every tool
    seconds = 10                             # its time limit
    required = true                          # a failure of the command refuses the call
    sandbox = true                           # run it in the agent's workspace, inside of the sandbox
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct

from stackmem.core.conversation.hook_facts import Hook, HookEvent
from stackmem.core.errors import UsageError

from .mcp_servers import FolderServers, NamedFile, Server, named_files
from .options import suggestion
from .settings_files import MAX_FILE_BYTES, line_of, read_tables, read_within, user_folder

HOOKS_FILE = "stackmem.hooks.toml"
"""A project's own hooks."""

OWN_FILE = "hooks.toml"
"""The user's own hooks, next to ``config.toml``."""

LONGEST_SECONDS = 600.0
_EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)
_TOOL_EVENTS = ("before_tool", "after_tool")
_MAX_HOOKS, _MAX_CHARS = 100, 10_000


class _HookTable(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a file."""

    command: str
    tools: tuple[str, ...] = ()
    seconds: float = 60.0
    required: bool = False
    sandbox: bool = False


def own_hooks(environ: Mapping[str, str]) -> tuple[Hook, ...]:
    """Return the user's own hooks. Raises ``UsageError`` if the file has an unknown key or is not valid."""
    path = user_folder(environ, "XDG_CONFIG_HOME", ".config", OWN_FILE)
    if path is None or not path.is_file():
        return ()
    return _parsed(path, read_within(path, MAX_FILE_BYTES), f"the user's {OWN_FILE}")


def project_hooks(folder: Path) -> tuple[tuple[Hook, ...], FolderServers]:
    """Return the hooks of a project's file, and what trust is recorded with."""
    path = folder.resolve() / HOOKS_FILE
    if path.is_symlink():
        raise UsageError(f"{path} is a link; replace it by a file")
    raw = read_within(path, MAX_FILE_BYTES)
    hooks = _parsed(path, raw, HOOKS_FILE)
    commands = {str(number): Server(command=(hook.command,)) for number, hook in enumerate(hooks)}
    files = (NamedFile(HOOKS_FILE, f"SHA-256 {hashlib.sha256(raw).hexdigest()}"), *named_files(path.parent, commands))
    digest = hashlib.sha256(b"stackmem trust hooks 1\n" + msgspec.json.encode(files)).hexdigest()
    return hooks, FolderServers(path, {}, files, digest)


def _parsed(path: Path, raw: bytes, source: str) -> tuple[Hook, ...]:
    text, tables = read_tables(path, raw)
    hooks: list[Hook] = []
    for event, entries in tables.items():
        location = f"{path}:{line_of(text, (event,)) or 1}"
        if event not in _EVENTS:
            raise UsageError(f"{location}: no event {event[:60]!a}; {suggestion(event, _EVENTS)}")
        hooks += _hooks_of(location, event, entries, source)
    if len(hooks) > _MAX_HOOKS:
        raise UsageError(f"{path} has {len(hooks):,} hooks, maximum is {_MAX_HOOKS:,}; remove some")
    return tuple(hooks)


def _hooks_of(location: str, event: str, entries: Any, source: str) -> Iterator[Hook]:
    for entry in entries if isinstance(entries, list) else [entries]:
        if not isinstance(entry, dict):
            raise UsageError(
                f'{location}: {event} must be a table; write [[{event}]], then lines such as command = "make"'
            )
        for key in entry:
            if key not in _HookTable.__struct_fields__:
                hint = suggestion(key, _HookTable.__struct_fields__)
                raise UsageError(f"{location}: {event} has no key {key[:60]!a}; {hint}")
        try:
            read = msgspec.convert(entry, _HookTable)
        except msgspec.ValidationError as error:
            raise UsageError(f"{location}: {event}: {error}") from error
        if fault := _fault(event, read):
            raise UsageError(f"{location}: {event}: {fault}")
        yield Hook(event, read.command, source, read.tools, read.seconds, read.sandbox, read.required)  # type: ignore[arg-type]


def _fault(event: str, entry: _HookTable) -> str:
    """Return what is wrong with an entry, or an empty string."""
    if not entry.command.strip():
        return "the command is empty; write a shell command"
    if len(entry.command) > _MAX_CHARS or "\0" in entry.command:
        return f"the command is too long or contains NUL; write at most {_MAX_CHARS:,} characters"
    if not 0 < entry.seconds <= LONGEST_SECONDS:
        return f"seconds is {entry.seconds:g}, it must be above 0 and at most {LONGEST_SECONDS:g}"
    if entry.tools and event not in _TOOL_EVENTS:
        return f"tools applies only to {' and '.join(_TOOL_EVENTS)}; remove it"
    if wrong := next((each for each in entry.tools if not each.strip() or not each.isprintable()), None):
        return f'{wrong!a} is not a pattern for tools; write a name, or "*" for every tool'
    if entry.sandbox and event == "before_apply":
        return "before_apply has no sandbox, because the run may be over; remove sandbox"
    return ""
