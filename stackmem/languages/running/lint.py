"""Lints program files.

Each file is linted by its language, which may read the sources that the file names. Given a folder, every program file
in it is linted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.text import whole
from stackmem.languages.calling import with_run_program
from stackmem.languages.language import INTERPRETERS, LINTED, Finding, Language, language_of, read_with
from stackmem.languages.running.sources import Loader
from stackmem.run.plugins.loading import load_plugins
from stackmem.settings.tools.own_tools import TOOLS

from .opening import open_language
from .prepare import read_program, source_reader, with_config

_LEFT_OUT = ("node_modules", "__pycache__", "venv")
"""Folders to skip, in addition to those whose names begin with a dot."""


class Linted(Struct, frozen=True):
    """The findings on one file, ordered by line. ``path`` is as the user named it, ``file`` is absolute."""

    path: str
    file: str
    language: Language
    findings: tuple[Finding, ...]


def lint_all(
    names: list[str],
    cwd: Path,
    *,
    language: str | None = None,  # for files, their language; for folders, only files in this language are linted
    config: str | None = None,  # configuration to use instead of the one that a run would find
    libraries: tuple[str, ...] = (),  # the values of ``--lib``
) -> tuple[Linted, ...]:
    """Lint files, and every file in folders that is named like a program or a part of one.

    Raise UsageError if a named file cannot be checked, or a folder contains no file that can.
    """
    load_plugins()
    if language is not None:
        open_language(language)
    lib = tuple(str((cwd / os.path.expanduser(each)).resolve()) for each in libraries)
    results: dict[Path, Linted] = {}
    for each in names:
        path = (cwd / os.path.expanduser(each)).resolve()
        if not path.is_dir():
            results[path] = _lint_file(path, whole(each), language, config, cwd, lib)
            continue
        inside = [file for file in _files(path) if _fits(file, language)]
        if not inside:
            suffixes = ", ".join(sorted({*INTERPRETERS, *LINTED}))
            raise UsageError(f"{each} contains no file whose name ends with {suffixes}; name a file and its --language")
        for file in inside:
            label = whole(os.path.join(each, file.relative_to(path)))  # noqa: PTH118 - as typed, `.` and all
            results.setdefault(file, _lint_found_file(file, label, config, cwd, lib))
    return tuple(results.values())


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in order of their names. Links to folders are not followed."""
    for location, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _LEFT_OUT)
        yield from (Path(location) / name for name in sorted(files))


def _fits(file: Path, language: str | None) -> bool:
    file_language = language_of(file.name, linting=True)
    return file_language is not None and language in (None, file_language) and file.is_file()


def _lint_found_file(file: Path, label: str, config: str | None, cwd: Path, lib: tuple[str, ...]) -> Linted:
    """Lint a file found in a folder. If it cannot be read, that is reported as a finding."""
    try:
        return _lint_file(file, label, None, config, cwd, lib)
    except UsageError as error:
        language = open_language(language_of(file.name, linting=True) or "")
        code = f"{language.name}/unreadable-file"
        finding = Finding(label, 1, 1, "error", code, whole(str(error)), "Unreadable File")
        return Linted(label, whole(str(file)), language, (finding,))


def _lint_file(
    path: Path, label: str, language: str | None, config: str | None, cwd: Path, lib: tuple[str, ...]
) -> Linted:
    if not path.exists():
        raise UsageError(f"cannot find {label}; name a program or a folder of programs")
    language_name = language or language_of(path.name, linting=True, explicit=True)
    if language_name is None:
        suffixes = ", ".join(sorted({*INTERPRETERS, *LINTED}))
        raise UsageError(f"{label} does not end with {suffixes}; pass its language with --language NAME")
    opened = open_language(language_name)
    if path.exists() and not path.is_file():
        raise UsageError(f"{label} is not a regular file; name a program or a folder of programs")
    text = read_program(path)
    options = {"config": str((cwd / os.path.expanduser(config)).resolve())} if config else {}
    config_path = str(with_config(options, opened, cwd, path).get("config", ""))
    around: dict[str, Any] = {"tools": with_run_program([tool.spec for tool in TOOLS.values()]), "lib": lib}
    own = {"config": config_path, "tools": around["tools"]} if opened.config else {}
    own |= {name: around[name] for name in opened.lints_with}
    folders = (cwd, *([Path(config_path).parent] if config_path else []), *(Path(each).parent for each in lib))
    findings = read_with(opened.lint(str(path), text, **own), source_reader(Loader(path, folders)))
    relabeled = [replace(each, path=label) if each.path == str(path) else each for each in findings]
    return Linted(
        label, whole(str(path)), opened, tuple(sorted(relabeled, key=lambda each: (each.path, each.line, each.column)))
    )
