"""Offers programs to an agent: those of a trusted folder, and those of folders that the user names.

Rule 1: A program's text is the one that it had when the run started; the run stores it like a source.
Rule 2: Programs of a folder that is not trusted are not read. A message names them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.facts import RunStarted
from stackmem.core.guidance.program_calls import TOOL, advice, as_skill
from stackmem.core.guidance.skills import Skill
from stackmem.core.neighbors import neighbor
from stackmem.core.program_facts import OfferedProgram
from stackmem.core.strategy import BringsProgram, MemoryStrategy
from stackmem.core.tools import HeapRead, tool_name
from stackmem.settings.mcp_servers import is_trusted
from stackmem.settings.program_trust import PROGRAMS_FOLDER, read_programs
from stackmem.settings.tools.own_tools import TOOLS
from stackmem.trace.program import keep_source
from stackmem.workspace.profile import Mount


class FoundProgram(Struct, frozen=True):
    """A program, before the run's places are known."""

    program: OfferedProgram  # ``path`` is the one on the host
    text: str
    inside: str  # its path relative to the workspace; empty if it is outside


class FoundPrograms(Struct, frozen=True):
    """The programs for an agent."""

    programs: tuple[FoundProgram, ...] = ()
    notes: tuple[str, ...] = ()  # what the user should know: programs that are not offered
    folders: tuple[str, ...] = ()  # folders outside the workspace


def find_programs(
    root: Path, location: str, folders: tuple[str, ...], cwd: Path, environ: Mapping[str, str]
) -> FoundPrograms:
    """Return the programs for work in ``root / place``, and those of the folders that the user named.

    Raise UsageError if a named folder does not exist.
    """
    programs: dict[str, FoundProgram] = {}
    notes: list[str] = []
    places = [(folder, "") for folder in (_named_folder(each, cwd) for each in folders)]
    own = _own_folder(root / location, environ, notes)
    if own is not None:
        places.append((own, str(Path(location, PROGRAMS_FOLDER))))
    for folder, inside in places:
        entries, faults = neighbor("languages: programs of a folder")(folder)
        notes += [f"a program is not offered: {fault}" for fault in faults]
        for path, text, program in entries:
            if inside and path.resolve() != path:
                notes.append(f"a program is not offered: {path} is a link")
            elif program.name in programs:
                notes.append(f"a program is not offered: {path} has the same name as another one")
            else:
                relative = f"{inside}/{os.path.relpath(path, folder)}" if inside else ""
                programs[program.name] = FoundProgram(program, text, relative)
    outside = tuple(str(folder) for folder, inside in places if not inside)
    return FoundPrograms(tuple(programs.values()), tuple(notes), outside)


def _named_folder(name: str, cwd: Path) -> Path:
    folder = (cwd / os.path.expanduser(name)).resolve()
    if not folder.is_dir():
        raise UsageError(f"--programs {name}: no such folder; name a folder with programs")
    return folder


def _own_folder(folder: Path, environ: Mapping[str, str], notes: list[str]) -> Path | None:
    """Return the folder's programs if the user trusts them."""
    try:
        files = read_programs(folder)
        if files is None or is_trusted(files, environ):
            return files.folder if files is not None else None
    except UsageError as error:
        notes.append(f"the programs of the folder are not offered: {error}")
        return None
    name = str(folder) if str(folder).isprintable() else ascii(str(folder))
    notes.append(f"{PROGRAMS_FOLDER} is ignored because it is not trusted; run stackmem trust {name}")
    return None


def for_agent(catalog: FoundPrograms, strategy: MemoryStrategy) -> tuple[tuple[Skill, ...], str]:
    """Return the entries for the heap, and the text for the agent's instructions."""
    if not is_offered(catalog):
        return (), ""
    offered = tuple(each.program for each in catalog.programs)
    if tool_name(HeapRead) not in map(tool_name, strategy.tools):
        return (), advice(offered, heap=False)
    entries = tuple(
        as_skill(each.program, each.inside or each.program.path, each.program.digest if each.inside else "")
        for each in catalog.programs
    )
    return entries, advice(offered, heap=True)


def with_own(programs: FoundPrograms, strategy: MemoryStrategy, *, sandboxed: bool) -> FoundPrograms:
    """Return the programs with the strategy's own one, if it has one.

    Raise UsageError if it has no sandbox to run in.
    """
    if not isinstance(strategy, BringsProgram):
        return programs
    if not sandboxed:
        raise UsageError(f"the strategy {strategy.name} runs Python in a sandbox; choose another --isolation")
    own = strategy.program
    path = f".stackmem/{own.name}.step.py"
    program = OfferedProgram(own.name, own.description, own.language, path, "", own.schema)
    return replace(programs, programs=(FoundProgram(program, own.text, path), *programs.programs))


def is_offered(catalog: FoundPrograms) -> bool:
    """Return whether the agent gets the tool. A tool of the user with the same name takes precedence."""
    return bool(catalog.programs) and TOOL not in TOOLS


def recorded(
    catalog: FoundPrograms, workspace: str, run_dir: Path, scrub: Callable[[str], str]
) -> tuple[OfferedProgram, ...]:
    """Store the texts of the programs that the agent can call, and return the programs as the run records them."""
    if not is_offered(catalog):
        return ()
    return tuple(
        replace(
            each.program,
            path=f"{workspace}/{each.inside}" if each.inside else each.program.path,
            digest=keep_source(run_dir, scrub(each.text)),
        )
        for each in catalog.programs
    )


def program_mounts(folders: tuple[str, ...], folder: Path | None) -> tuple[Mount, ...]:
    """Return read-only mounts for the named folders. A folder in the workspace, or around it, is not mounted."""
    return tuple(
        Mount(location, location)
        for location in dict.fromkeys(folders)
        if folder is None or not (Path(location).is_relative_to(folder) or folder.is_relative_to(location))
    )


def kept_programs(base: RunStarted) -> FoundPrograms:
    """Return what a run that continues needs: the folders outside its workspace."""
    programs = () if base.programs is UNSET else base.programs
    folders = (str(Path(each.path).parent) for each in programs if not each.path.startswith(f"{base.workspace}/"))
    return FoundPrograms(folders=tuple(dict.fromkeys(folders)))
