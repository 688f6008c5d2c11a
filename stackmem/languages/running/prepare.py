"""Prepares a program from the arguments of ``stackmem run``. Creates no files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import Halted, StackmemError, UsageError
from stackmem.core.requests import LoadSource
from stackmem.core.text import whole_value
from stackmem.foreign.files import read_start
from stackmem.languages.calling import with_run_program
from stackmem.languages.language import INTERPRETERS, Language, Launch, language_of, read_with
from stackmem.languages.operations import Source
from stackmem.languages.running.sources import Loader, reachable_folders
from stackmem.models.registry import NOBODY, default_model
from stackmem.run.plugins.loading import load_plugins
from stackmem.run.prepare import must_be_text, place_run
from stackmem.run.request import ProgramRequest, Request, Subject
from stackmem.settings.settings import resolve
from stackmem.settings.tools.own_tools import TOOLS

from ..frame.bounds import FILE_BYTES, LEVELS
from .opening import open_language

HEAP_CHARS = 100_000
"""Default heap size of a program's run."""
_OF_EMPTY_FOLDERS = "apl"
"""The language that defines the error for a folder without any program."""


class ProgramArguments(Struct, frozen=True):
    """The arguments of the command line."""

    target: str  # a program, or a folder with one
    inputs: dict[str, Any] = {}  # name to value
    options: dict[str, Any] = {}  # further options for the interpreter
    workspace: str | None = None  # folder to copy; None for the program's own folder
    mounts: tuple[str, ...] = ()
    language: str | None = None
    interactive: bool = True


class PreparedProgram(Struct, frozen=True):
    """A program that is ready to run."""

    request: Request
    program: ProgramRequest
    language: Language
    text: str
    outline: str = ""  # text that ``--dry-run`` prints
    halts: Halted | None = None  # error found before the start that prevents the run; running reports the same error


def prepare_program(
    arguments: ProgramArguments, flags: Mapping[str, object], environ: Mapping[str, str], cwd: Path
) -> PreparedProgram:
    """Determine the program to run, its settings, and where its run is stored.

    Raise UsageError if the program, an input or a setting is not valid.
    """
    load_plugins()
    path, language = find_program(arguments.target, arguments.language, cwd)
    text = read_program(path)
    mounts = tuple(str(_folder(mount, cwd, "--mount")) for mount in arguments.mounts)
    folder = path.parent if arguments.workspace is None else _folder(arguments.workspace, cwd, "--workspace")
    program_settings = language.settings(text) if language.settings else {}
    source = must_be_text(path.name, "the program's name")
    resolved = resolve(flags, environ, cwd, program_settings, source)
    if not resolved.is_given("heap_chars"):
        flags = {**flags, "heap_chars": str(HEAP_CHARS)}
        resolved = resolve(flags, environ, cwd, program_settings, source)
    model = resolved.settings.model or default_model(environ)
    subject = Subject(
        path.name.partition(".")[0] or "program",
        f"Run the program {path.name}.",
        must_be_text(str(folder), "the folder's path"),
        folder=folder,
    )
    request = place_run(subject, resolved, NOBODY if model == "demo" else model, (cwd, environ), ())
    options = {**with_config(arguments.options, language, cwd, path), **language.new_options}
    for name, value in options.items():
        must_be_text(str(value), f"--{name.replace('_', '-')}")
    program = ProgramRequest(
        language.name, str(path), _recordable(arguments.inputs), options, mounts, arguments.interactive
    )
    return with_outline(PreparedProgram(request, program, language, text))


def _recordable(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs in a form that can be recorded: lone surrogates are replaced."""
    try:
        recordable: dict[str, Any] = whole_value(inputs, LEVELS)
    except ValueError as error:
        raise UsageError(f"an input is nested more than {LEVELS} levels deep; pass it as a file") from error
    return recordable


def with_outline(ready: PreparedProgram) -> PreparedProgram:
    """Check the program's inputs, resolve its tools, and add the outline.

    Raise UsageError if the program does not have this input.
    """
    program = ready.program
    path = Path(program.path)
    folders = reachable_folders(program, ready.request.subject.folder)
    inside = ready.request.subject.inside
    own = with_run_program([tool.spec for tool in TOOLS.values()])
    launch = Launch(program.path, ready.text, program.inputs, str(path.parent), inside, program.options, own)
    try:
        outline = read_with(ready.language.outline(launch), source_reader(Loader(path, folders)))
        list_models = ready.language.models
        others = () if list_models is None else read_with(list_models(launch), source_reader(Loader(path, folders)))
    except Halted as halted:
        return replace(ready, halts=halted)
    findings = ready.language.remarks(path.name, ready.text) if ready.language.remarks else ()
    warnings = (*ready.request.warnings, *(f"{each.path}:{each.line}: {each.message}" for each in findings))
    request = replace(ready.request, others=tuple(dict.fromkeys(others)), warnings=warnings)
    ready = replace(ready, request=request)
    return replace(ready, outline=outline if isinstance(outline, str) else "\n".join(outline))


def with_config(options: dict[str, Any], language: Language, cwd: Path, program: Path) -> dict[str, Any]:
    """Add the language's configuration to the options, unless it was given: the nearest one that exists."""
    if options.get("config") or not language.config:
        return options
    for folder in dict.fromkeys((cwd, *cwd.parents, program.parent, *program.parent.parents)):
        with suppress(OSError):
            if (folder / language.config).is_file():
                return {**options, "config": str(folder / language.config)}
    return options


def find_program(target: str, language: str | None, cwd: Path) -> tuple[Path, Language]:
    """Return the program's path and its language."""
    path = (cwd / os.path.expanduser(target)).resolve()
    must_be_text(str(path), "the program's path")
    if path.is_dir():
        path = _main_of(path, language)
    if path.exists() and not path.is_file():
        raise UsageError(f"{target} is not a regular file; name a program or a folder with one")
    if not path.is_file():
        raise UsageError(f"no program {target}; name a file or a folder that contains one of {', '.join(_mains())}")
    name = language or language_of(path.name, explicit=True)
    if name is None and language_of(path.name, linting=True) is not None:
        raise UsageError(f"{path.name} is only a part of programs and cannot be run; check it with stackmem lint")
    if name is None:
        suffixes = ", ".join(sorted(INTERPRETERS))
        raise UsageError(f"{path.name} does not end with {suffixes}; pass its language with --language NAME")
    return path, open_language(name)


def _mains() -> list[str]:
    """Return the possible names of a folder's main program in all languages, without importing any of them."""
    return [f"main{suffix}" for suffix, _ in sorted(INTERPRETERS.items(), key=lambda each: each[1])]


def _main_of(folder: Path, language: str | None) -> Path:
    opened = open_language(language) if language else None
    mains = [f"main{end}" for end in opened.suffixes] if opened else _mains()
    candidates = [folder / name for name in mains if (folder / name).is_file()]
    if len(candidates) > 1:
        raise UsageError(f"{folder} contains {' and '.join(path.name for path in candidates)}; name the one to run")
    if not candidates:
        raise _without_main(folder, language, mains)
    return candidates[0]


def _without_main(folder: Path, language: str | None, mains: list[str]) -> StackmemError:
    """Return the error of the language that the folder's programs are written in, otherwise a general one."""
    languages = (language_of(path.name) for path in sorted(folder.iterdir()))
    opened = open_language(language or next(filter(None, languages), _OF_EMPTY_FOLDERS))
    if opened.no_main is not None:
        return opened.no_main(str(folder))
    return UsageError(f"Module Entry Point Not Found: {folder} contains none of {', '.join(mains)}; name a file")


def read_program(path: Path) -> str:
    """Return a program's text without its byte order mark."""
    try:
        raw = read_start(path, FILE_BYTES + 1)
        if len(raw) > FILE_BYTES:
            raise UsageError(f"{path} is over {FILE_BYTES:,} bytes, the limit for programs; split it")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); check its path and permissions") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start:,}); save it as UTF-8") from error


def _folder(target: str, cwd: Path, flag: str) -> Path:
    path = (cwd / os.path.expanduser(target)).resolve()
    if not path.is_dir():
        raise UsageError(f"{flag} {target}: no such folder; name one that exists")
    must_be_text(str(path), f"the path of {flag}")
    return path


def source_reader(loader: Loader) -> Callable[[LoadSource], Source]:
    """Return a function that reads sources for checking a program without running it. It stores no copies."""

    def load(source: LoadSource) -> Source:
        path, text, failed = loader.read(source)
        return Source(path, text, failed=failed)

    return load
