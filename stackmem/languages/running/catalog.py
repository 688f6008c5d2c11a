"""The programs of a folder as tools: each with a name, a description and the schema of its inputs."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from msgspec import Struct, json

from stackmem.core.errors import Halted, UsageError
from stackmem.core.program_facts import OfferedProgram
from stackmem.core.text import mark_cut
from stackmem.languages.calling import with_run_program
from stackmem.languages.language import INTERPRETERS, Launch, ProgramInterface, language_of, read_with
from stackmem.languages.running.sources import Loader
from stackmem.settings.tools.own_tools import TOOLS

from .opening import open_language
from .prepare import read_program, source_reader

MAX_PROGRAMS = 200
_STRANGE = re.compile(r"[^A-Za-z0-9_-]+")
_NAME_CHARS = 64
_DESCRIPTION_CHARS = 2_000
_OFFERED_CHARS = 500


class CatalogEntry(Struct, frozen=True):
    """One program of a folder."""

    name: str
    path: Path
    description: str
    schema: dict[str, Any]  # JSON Schema of its inputs


def catalog(folder: Path) -> tuple[CatalogEntry, ...]:
    """Return the programs in a folder, and the main programs of its subfolders, ordered by name.

    Raise UsageError if the folder has no programs, too many, two of the same name, or one that cannot be read.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; name a folder with programs")
    entries: dict[str, CatalogEntry] = {}
    for path in _programs(folder):
        entry = describe(path)
        if entry.name in entries:
            raise UsageError(f"{entries[entry.name].path} and {path} are both called {entry.name}; rename one")
        entries[entry.name] = entry
        if len(entries) > MAX_PROGRAMS:
            raise UsageError(f"{folder} has more than {MAX_PROGRAMS} programs; name a smaller folder")
    if not entries:
        raise UsageError(f"{folder} has no programs; they end with {', '.join(sorted(INTERPRETERS))}")
    return tuple(entries[name] for name in sorted(entries))


def offered_programs(folder: Path) -> tuple[list[tuple[Path, str, OfferedProgram]], list[str]]:
    """Return the programs of a folder for an agent, each with its file and text, and why others are left out."""
    by_name: dict[str, tuple[Path, str, OfferedProgram]] = {}
    faults: list[str] = []
    for path in _programs(folder)[:MAX_PROGRAMS]:
        try:
            entry, text = describe(path), read_program(path)
        except UsageError as error:
            faults.append(str(error))
            continue
        if entry.name in by_name:
            faults.append(f"{path} has the same name as {by_name[entry.name][0]}")
            continue
        language = open_language(language_of(path.name) or "")
        schema = json.encode(entry.schema, order="deterministic").decode()
        digest = hashlib.sha256(text.encode()).hexdigest()
        description = mark_cut(" ".join(entry.description.split()), _OFFERED_CHARS)
        facts = (entry.name, description, language.name, str(path), digest, schema)
        program = OfferedProgram(*facts, checked=language.is_checked, replies="loose")
        by_name[entry.name] = path, text, program
    return [by_name[name] for name in sorted(by_name)], faults


def _programs(folder: Path) -> list[Path]:
    here = sorted(folder.iterdir())
    mains = [
        path for each in here if each.is_dir() and not each.name.startswith(".") for path in sorted(each.iterdir())
    ]
    return [
        path
        for path in (*here, *(each for each in mains if _stem(each) == "main"))
        if path.is_file() and language_of(path.name) and not path.name.startswith(".")
    ]


def _stem(path: Path) -> str:
    """Return a program's file name without the suffix of its language."""
    name = path.name
    end = max((end for end in INTERPRETERS if name.lower().endswith(end)), key=len, default="")
    return name[: len(name) - len(end)]


def describe(path: Path) -> CatalogEntry:
    """Return the entry of one program."""
    language = open_language(language_of(path.name) or "")
    text = read_program(path)
    stem = path.parent.name if _stem(path) == "main" else _stem(path)
    name = _STRANGE.sub("_", stem)[:_NAME_CHARS].strip("_") or "program"
    interface = ProgramInterface("", {"type": "object"})
    if language.interface is not None:
        tools = with_run_program([tool.spec for tool in TOOLS.values()])
        launch = Launch(str(path), text, tools=tools)
        try:
            interface = read_with(language.interface(launch), source_reader(Loader(path, (path.parent,))))
        except Halted as halted:
            raise UsageError(f"{path} cannot be offered as a tool: {halted.report}") from halted
    description = mark_cut(interface.description, _DESCRIPTION_CHARS) or f"Runs the program {path.name}."
    return CatalogEntry(name, path, description, interface.inputs)
