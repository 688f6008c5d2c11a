"""Commands from files: a user types ``/NAME ARGUMENTS``, and the text of ``NAME.md`` is the request.

Rule 1: A project's commands can be used only after the user trusts them. A change of a file ends the trust.
Rule 2: A file that cannot be used is left out, and a note says why.
Rule 3: A built-in command is never replaced. If two files have the same name, the first one counts.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from stackmem.core.conversation.standing import memory_line
from stackmem.core.errors import UsageError
from stackmem.core.text import mark_cut
from stackmem.foreign.files import read_regular
from stackmem.foreign.front_matter import read_front_matter
from stackmem.settings.mcp_servers import is_trusted
from stackmem.settings.program_trust import COMMAND_FOLDERS, read_commands
from stackmem.settings.settings_files import user_folder
from stackmem.workspace.clip import shown_name, visible

from .commands import COMMANDS

MAX_COMMANDS = 200
_MAX_BYTES = 64 << 10
_MAX_DESCRIPTION = 120
_MAX_NOTES = 10
_RESERVED = frozenset({*COMMANDS, "exit", "stop"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SLOT = re.compile(r"\$(ARGUMENTS|[1-9])")


class FileCommand(Struct, frozen=True):
    """A command from a file."""

    name: str
    # takes, says: its arguments and its description, as menus show them
    takes: str
    says: str
    body: str
    source: str  # the file, as messages name it
    distrusted: str = ""  # why it cannot be used; empty if it can

    def request(self, arguments: str) -> str:
        """Return the request for these arguments. Raise UsageError if the user does not trust the file."""
        if self.distrusted:
            raise UsageError(f"/{self.name} is in {self.source}, which is not trusted; {self.distrusted}")
        try:
            words = shlex.split(arguments)
        except ValueError:  # a quote without its end
            words = arguments.split()

        def value(slot: re.Match[str]) -> str:
            if slot[1] == "ARGUMENTS":
                return arguments
            return words[int(slot[1]) - 1] if int(slot[1]) <= len(words) else ""

        text = _SLOT.sub(value, self.body).strip()
        if arguments and not _SLOT.search(self.body):
            text += f"\n\nArguments: {arguments}"
        # The terminal would run such a text as a command.
        return f"/{self.name}:\n{text}" if text.startswith(("/", "!")) or memory_line(text) is not None else text


class FileCommands(Struct, frozen=True):
    """The commands that files bring, by name, and notes about files that cannot be used."""

    commands: dict[str, FileCommand] = {}
    notes: tuple[str, ...] = ()

    @property
    def help(self) -> dict[str, str]:
        """The line of each command in menus."""
        return {f"/{each.name}": f"{each.takes} {each.says}".strip() for each in self.commands.values()}


def find_commands(folder: Path, environ: Mapping[str, str]) -> FileCommands:
    """Return the commands for work on a folder: first those of the user, then those of the folder."""
    commands: dict[str, FileCommand] = {}
    notes: list[str] = []
    for own_folder, spelled in _own_places(environ):
        _read_place(own_folder, spelled, "", commands, notes)
    for name in COMMAND_FOLDERS:
        try:
            command_folder = read_commands(folder, name)
            if command_folder is None:
                continue
            distrusted = "" if is_trusted(command_folder, environ) else f"run stackmem trust {shown_name(str(folder))}"
        except (UsageError, OSError) as error:
            notes.append(f"the commands in {name} cannot be used: {error}")
            continue
        before = len(commands)
        _read_place(command_folder.folder, name, distrusted, commands, notes)
        if distrusted and len(commands) > before:
            many = "1 command" if len(commands) == before + 1 else f"{len(commands) - before} commands"
            notes.append(f"{name} brings {many} that you do not trust yet; read them, then {distrusted}")
    if len(notes) > _MAX_NOTES:
        notes = [*notes[:_MAX_NOTES], f"{len(notes) - _MAX_NOTES:,} more notes about files of commands"]
    return FileCommands(commands, tuple(notes))


def request_of(line: str, folder: Path, environ: Mapping[str, str]) -> str:
    """Return the request that a line with a command from a file stands for. Empty for any other line.

    Raise UsageError if the user does not trust the file.
    """
    name, _, arguments = line.strip().removeprefix("/").partition(" ")
    if not line.strip().startswith("/") or name in _RESERVED or not _NAME.fullmatch(name):
        return ""
    command = find_commands(folder, environ).commands.get(name)
    return command.request(arguments.strip()) if command is not None else ""


def _own_places(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    own = user_folder(environ, "XDG_CONFIG_HOME", ".config", "commands")
    if own is not None:
        yield own, "your own commands"
    home = environ.get("HOME", "")
    if home.startswith("/"):
        yield Path(home, ".claude/commands"), "~/.claude/commands"


def _read_place(
    folder: Path, spelled: str, distrusted: str, commands: dict[str, FileCommand], notes: list[str]
) -> None:
    """Add the commands of one folder."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".md"))
    except OSError:
        return
    for file in names:
        name, source = file.removesuffix(".md"), f"{spelled}/{file}"
        obstacle = _obstacle(name, commands)
        try:
            raw = b"" if obstacle else read_regular(folder / file, _MAX_BYTES, follow=spelled not in COMMAND_FOLDERS)
        except (OSError, ValueError) as error:
            raw, obstacle = b"", (error.strerror if isinstance(error, OSError) else str(error)) or str(error)
        text = raw.decode("utf-8", "replace")
        if not obstacle and not text.strip():
            obstacle = "it is empty"
        if obstacle:
            notes.append(f"{shown_name(source)} is not a command: {obstacle}")
            continue
        matter = read_front_matter(text)
        keys = ("description", "argument-hint")
        says, takes = (" ".join(visible(matter.values.get(key, "")).split()) for key in keys)
        first = next((line.strip("# ") for line in visible(matter.body).splitlines() if line.strip("# ")), "")
        says, takes = mark_cut(says or first, _MAX_DESCRIPTION), mark_cut(takes, 40)
        commands[name] = FileCommand(name, takes, says, visible(matter.body), source, distrusted)


def _obstacle(name: str, commands: Mapping[str, FileCommand]) -> str:
    if not _NAME.fullmatch(name):
        return "use letters, digits, - and _ in its name"
    if name in _RESERVED:
        return f"/{name} is built in; rename the file"
    if name in commands:
        return f"{commands[name].source} has the same name"
    return f"there are more than {MAX_COMMANDS}" if len(commands) >= MAX_COMMANDS else ""
