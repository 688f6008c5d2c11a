"""Lints program files: each by its language, reading what it names from beside it."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from stackmem.errors import UsageError
from stackmem.programs.in_memory import read_with
from stackmem.programs.language import INTERPRETERS, LINTED, Finding, Language, language_of
from stackmem.trace.languages import open_language

from .plugins import load_plugins
from .program_prepare import read_program
from .program_sources import Loader, reading


class Linted(Struct, frozen=True):
    """The findings on one file, in the order of its lines."""

    path: str
    language: Language
    findings: tuple[Finding, ...]


def lint_file(named: str, language: str | None, cwd: Path) -> Linted:
    """Lint a file.

    Raises:
        UsageError: It cannot be read, or nothing says what language it is in.

    """
    load_plugins()
    path = (cwd / Path(named).expanduser()).resolve()
    found = language or language_of(path.name, linting=True)
    if found is None:
        told = ", ".join(sorted({*INTERPRETERS, *LINTED}))
        raise UsageError(f"{named} cannot be linted: its name ends with none of {told}; say --language NAME")
    opened = open_language(found)
    text = read_program(path)
    findings = read_with(opened.lint(str(path), text), reading(Loader(path, (cwd,))))
    shown = [_named_as(finding, str(path), named) for finding in findings]
    return Linted(named, opened, tuple(sorted(shown, key=lambda each: (each.path, each.line, each.column))))


def _named_as(finding: Finding, path: str, named: str) -> Finding:
    """With the path as the person gave it."""
    return replace(finding, path=named) if finding.path == path else finding
