"""Loads programs, tools, the standard library and configuration. Each source is requested as an effect."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Generator
from typing import Any

from msgspec import Struct

from stackmem.core.requests import LoadSource
from stackmem.languages.frame.yaml_tree import Table, YamlError, line_of, parse_yaml, plain
from stackmem.languages.operations import Source

from .halts import Halt, invalid_program, source_failed
from .reader import load_library, load_program, load_tool
from .registry import BrokenFile, Registry, base_registry
from .scope import Pointer
from .tree import Fault, Program, Tool

CONFIG = ".aplconfig"
LIBRARY = "APL_STL.yml"
PACKAGED = f"stackmem:apl/{LIBRARY}"
MANIFEST = "agent_native_tools.yml"
TOOL_SUFFIX = ".tool.apl"
_CONFIG_KEYS = ("runtime", "linter", "tool_paths", "while_limit")

Reading = Generator[LoadSource, Source, Any]


class Config(Struct, frozen=True):
    """The contents of an ``.aplconfig`` file."""

    path: str = ""  # empty without a configuration
    runtime: str = ""  # a file whose folder contains the standard library; the file itself is not executed
    linter: str = ""
    tool_paths: tuple[str, ...] = ()
    while_limit: int = 0  # maximum rounds of a ``while`` loop; 0 for the default


def invalid(path: str, fault: Fault, text: str) -> Halt:
    """Build the halt for a document that cannot be executed."""
    return invalid_program(path, fault.position, f"{fault.title}: {fault.message}", line_of(text, fault.position))


def read_program(path: str, text: str) -> Program:
    """Read a program. Raise Halt if the program has a fault; the first one is reported."""
    program, faults = load_program(text)
    if faults or program is None:
        raise invalid(path, faults[0], text)
    return program


def read_config(name: str, source: str) -> Reading:
    """Load the configuration at a path; empty if no path is given. Raise Halt if the file is missing or broken."""
    if not name:
        return Config()
    return _config((yield from _load(LoadSource(name, source), "The configuration could not be read.")))


def _load(operation: LoadSource, reason: str, name: str = "") -> Generator[LoadSource, Source, Source]:
    """Load a source. ``name`` is its path as the program spells it. Raise Halt if the source cannot be read."""
    source = yield operation
    if source.failed:
        raise source_failed(reason, source, name or operation.path)
    return source


def _config(source: Source) -> Config:
    try:
        tree = parse_yaml(source.text)
    except YamlError as error:
        raise invalid(source.path, Fault(error.position, "Invalid YAML", error.message), source.text) from error
    if not isinstance(tree, Table):
        raise invalid(source.path, Fault(tree.position, "Invalid Configuration", "It is a mapping."), source.text)
    for key, _ in tree.pairs:
        if key.value not in _CONFIG_KEYS:
            message = f"`{key.value}` is not a key of it; known: {', '.join(_CONFIG_KEYS)}."
            raise invalid(source.path, Fault(key.position, "Invalid Configuration", message), source.text)
    values = plain(tree)
    paths = values.get("tool_paths") or []
    texts = (values.get("runtime") or "", values.get("linter") or "", *(paths if isinstance(paths, list) else [None]))
    if not all(isinstance(text, str) for text in texts):
        raise invalid(source.path, Fault(tree.position, "Invalid Configuration", "Its values are paths."), source.text)
    limit = values.get("while_limit", 0)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        message = "`while_limit` is a whole number."
        raise invalid(source.path, Fault(tree.position, "Invalid Configuration", message), source.text)
    return Config(source.path, str(texts[0]), str(texts[1]), tuple(map(str, texts[2:])), limit)


def base_of(config: Config, own: Any) -> Reading:
    """Build the registry that all programs share: built-ins, library, manifest and global tools.

    Raise Halt if a named file is missing or broken.
    """
    library = yield from _library(config)
    registry = base_registry(library, own)
    if not config.path:
        return registry
    manifest: Source = yield LoadSource(MANIFEST, config.path)
    if not manifest.failed:
        tools, faults = load_library(manifest.text)
        if faults:
            raise invalid(manifest.path, faults[0], manifest.text)
        registry = registry.with_custom(((tool, manifest.path) for tool in tools), "global")
    global_tools = yield from _tools_in(config.tool_paths, config.path)
    return registry.with_custom(global_tools, "global")


def _library(config: Config) -> Reading:
    if config.runtime:
        library_path = posixpath.join(posixpath.dirname(config.runtime), LIBRARY)
        source: Source = yield LoadSource(library_path, config.path)
        if not source.failed:
            return _tools_of_library(source)
        if source.failed != "No such file":
            raise source_failed("The folder of the runtime could not be read.", source, library_path)
    source = yield LoadSource(PACKAGED)
    return _tools_of_library(source)


def _tools_of_library(source: Source) -> tuple[Tool, ...]:
    tools, faults = load_library(source.text)
    if faults or source.failed:
        fault = faults[0] if faults else Fault(parse_yaml("").position, "Invalid Library", source.failed)
        raise invalid(source.path, fault, source.text)
    return tools


def registry_of(program: Program, source: str, base: Registry) -> Reading:
    """Build the registry of one program: its own tools on top of ``base``.

    Raise Halt if a named folder or file is missing or broken.
    """
    name = "local_tool_paths"
    try:
        tools = yield from _tools_in(program.local_tool_paths, source)
        name = "import"
        for path in program.imports:
            loaded = yield from _load(LoadSource(path, source), "An imported tool file could not be read.")
            tools.append((_tool(loaded), loaded.path))
    except Halt as halt:
        raise halt.at(source, program.places.get(name)) from None
    return base.with_custom(tools, "local")


def _tools_in(
    folders: tuple[str, ...], base_path: str
) -> Generator[LoadSource, Source, list[tuple[Tool | BrokenFile, str]]]:
    """Load the tools of each folder in order of file names. Subfolders are not searched."""
    tools = []
    for folder in folders:
        listing = yield from _load(LoadSource(folder, base_path, listing=True), "A folder of tools could not be read.")
        for name in listing.text.splitlines():
            if name.lower().endswith(TOOL_SUFFIX):
                file = LoadSource(posixpath.join(folder, name), base_path)
                loaded = yield from _load(file, "A tool file could not be read.", name)
                tools.append((_tool(loaded), loaded.path))
    return tools


_NAME = re.compile(r"^[ \t]+name:[ \t]*[\"']?(\w+)", re.MULTILINE)


def _tool(source: Source) -> Tool | BrokenFile:
    tool, faults = load_tool(source.text)
    if tool is not None and not faults:
        return tool
    match = _NAME.search(source.text)
    name = tool.name if tool else match[1] if match else ""
    return BrokenFile(source.path, faults[0], name, line_of(source.text, faults[0].position))


def load_program_at(name: str, pointer: Pointer) -> Generator[LoadSource, Source, tuple[Program, str, str]]:
    """Load a program that a step names: a file, or a folder with ``main.apl``. Returns ``(program, path, folder)``.

    Raise Halt if the program is missing or broken.
    """
    path = name
    if not name.lower().endswith(".apl"):
        listing: Source = yield LoadSource(name, pointer.source, listing=True)
        if not listing.failed:
            path = posixpath.join(name, "main.apl")
            if "main.apl" not in listing.text.splitlines():
                raise no_entry_point(listing.path or name)
    source = yield from _load(LoadSource(path, pointer.source), "The program could not be found.", name)
    return read_program(source.path, source.text), source.path, posixpath.dirname(source.path)


def no_entry_point(path: str) -> Halt:
    reason = "The specified path is a directory, but no 'main.apl' file was found inside it."
    return Halt("Module Entry Point Not Found", reason, f'Path: "{path}"')
