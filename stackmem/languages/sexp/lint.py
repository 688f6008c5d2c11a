"""Implements ``stackmem lint`` for workflows, and the same check of a program before its first effect.

A source is checked together with the libraries and schemas that it loads. Without other errors, ``lint`` also evaluates
the program up to its first effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.messages import ToolSpec
from stackmem.core.requests import LoadSource
from stackmem.languages.language import Finding, Reading, finding_code
from stackmem.languages.operations import Source

from .analysis import Analysis
from .definitions import definition_of, definitions_of, read_schema
from .errors import Budget, LineIndex, SexpEvaluationError, SexpSyntaxError, SourcePlace
from .lint_scopes import LintFault, Surroundings
from .reader import read, split_budget
from .tools import PARAMETERS, READERS, plain_name
from .tree import Atom, Form, Node, bound_names, name_of, walk
from .trial import first_failure
from .workflow import WITHOUT_TOOLS

_MAX_FILES = 50
_MAX_FAULTS = 20


class SourcePart(Struct, frozen=True):
    """A parsed source: a program or one of its libraries."""

    path: str
    text: str
    nodes: list[Node]

    @property
    def names(self) -> frozenset[str]:
        """The names that it binds."""
        return frozenset(bound_names(self.nodes) | {task.template["name"] for task in definitions_of(self.nodes)})


class LintResult(Struct, frozen=True):
    """The findings on a program and its libraries."""

    faults: tuple[tuple[SourcePart, LintFault], ...]  # with the part each belongs to
    # names without which the program cannot run, each with its part and position
    needed: dict[str, tuple[SourcePart, int]]
    free: frozenset[str]  # names that the program expects as inputs
    sources: dict[tuple[str, str], Source]  # all loaded or unreadable sources, by ``(the naming file, name)``
    bound: frozenset[str]  # names bound anywhere in the sources

    @property
    def report(self) -> str:
        """The errors with their positions, at most 20; empty if there are none."""
        errors = [(part, fault) for part, fault in self.faults if fault.severity == "error"]
        lines = [f"{fault.message}\n{place_of(part, fault.at).excerpt}" for part, fault in errors[:_MAX_FAULTS]]
        more = len(errors) - len(lines)
        return "\n".join([*lines, *([f"and {more} more; stackmem lint lists them"] if more else [])])


def place_of(part: SourcePart, at: int) -> SourcePlace:
    return SourcePlace.of(part.path, part.text, at)


def lint(path: str, text: str, *, tools: tuple[ToolSpec, ...] = (), lib: tuple[str, ...] = ()) -> Reading:
    """Return the findings on one file as a tuple of ``Finding``.

    ``lib`` contains the libraries that a run would get.
    """
    try:
        nodes, budget = split_budget(read(text, path))
    except SexpSyntaxError as error:
        return (Finding(path, error.line, error.column, "error", "sexp/syntax", error.error_details),)
    own = SourcePart(path, text, nodes)
    parts = yield from libraries(lib)
    result: LintResult = yield from examine([*parts, own], frozenset(), tools)
    places = LineIndex(text)
    findings = [_finding(path, places.of(fault.at), fault) for part, fault in result.faults if part is own]
    if not result.report:
        findings += _tried([*parts, own], budget, tools, result)
    return tuple(findings)


def _tried(
    parts: list[SourcePart], budget: Budget, tools: tuple[ToolSpec, ...], result: LintResult
) -> Iterator[Finding]:
    """Yield the error, if any, with which every run of a program ends before its first effect."""
    own = parts[-1]
    failed = first_failure([part.nodes for part in parts], budget, tools, result.sources, result.bound)
    if failed is None or failed[0] not in own.nodes:
        return
    node, error = failed
    position = error.position if isinstance(error, SexpEvaluationError) else None
    if position is None or position.path != own.path:
        text = f"{error.message} ({position.path}:{position.line}:{position.column})" if position else error.message
        fault = LintFault(node.at, "error", "evaluation", text)
        yield _finding(own.path, LineIndex(own.text).of(fault.at), fault)
    else:
        yield Finding(own.path, position.line, position.column, "error", "sexp/evaluation", error.message)


def libraries(names: Iterable[object]) -> Reading:
    """Load the libraries that ``--lib`` names, as a list of ``SourcePart``.

    Raise UsageError if a library cannot be read, and SexpSyntaxError if a library cannot be parsed.
    """
    parts = []
    for path in names:
        source: Source = yield LoadSource(str(path))
        if source.failed:
            raise UsageError(f"--lib {path} cannot be read ({source.failed}); name a file that can")
        parts.append(SourcePart(source.path, source.text, read(source.text, source.path)))
    return parts


def examine(parts: list[SourcePart], names: frozenset[str], tools: tuple[ToolSpec, ...]) -> Reading:
    """Check a program (the last of ``parts``), its libraries, and everything they load. Returns a ``LintResult``.

    ``names`` are other bound names: the inputs.
    """
    own_tools = frozenset(plain_name(tool.name) for tool in tools)
    loads = []
    for part in parts:
        loaded: Loaded = yield from _load_all(part, own_tools)
        loads.append(loaded)
    sources = [*parts, *(inner for loaded in loads for inner, _ in loaded.sources)]
    is_whole = all(loaded.is_whole for loaded in loads)
    by_source = [source.names for source in sources]

    def analysis_of(number: int) -> Analysis:
        others = frozenset().union(names, *(own_names for at, own_names in enumerate(by_source) if at != number))
        return Analysis(sources[number].nodes, Surroundings(others, own_tools, is_whole))

    faults: list[tuple[SourcePart, LintFault]] = []
    needed: dict[str, tuple[SourcePart, int]] = {}
    number = len(parts)
    for at, (part, loaded) in enumerate(zip(parts, loads, strict=True)):
        analysis = analysis_of(at)
        for name, node in analysis.needed.items():
            needed.setdefault(name, (part, node.at))
        inner_faults = []
        for inner, use in loaded.sources:
            for fault in analysis_of(number).faults:
                if fault.severity == "error":
                    line, column = LineIndex(inner.text).of(fault.at)
                    inner_faults.append(use.fault("faulty library", f"line {line}, column {column}: {fault.message}"))
            number += 1
        faults += [(part, fault) for fault in (*loaded.faults, *inner_faults, *analysis.faults)]
    read_once = {key: source for loaded in loads for key, source in loaded.read.items()}
    return LintResult(tuple(faults), needed, frozenset(analysis.free), read_once, frozenset().union(*by_source))


class FileUse(Struct, frozen=True):
    """A file that a form refers to."""

    form: Form  # a form of the program; for a file named in a library, the form that loads the library
    name: str
    is_schema: bool  # a schema instead of a library
    sure: bool  # whether a missing file is certainly an error: not caught, and not written before

    def fault(self, title: str, message: str) -> LintFault:
        severity: Literal["error", "warning"] = "error" if self.sure else "warning"
        return LintFault(self.form.at, severity, title, f"'{self.name[:80]}': {message}")


class Loaded(Struct):
    """Everything that a source loads directly or indirectly."""

    sources: list[tuple[SourcePart, FileUse]]
    faults: list[LintFault]
    read: dict[tuple[str, str], Source]
    is_whole: bool = True


def _load_all(part: SourcePart, own_tools: frozenset[str]) -> Reading:
    loaded = Loaded([], [], {})
    seen: set[tuple[str, str]] = set()
    paths: set[str] = set()
    waiting = [(part.path, use) for use in _file_uses(part.nodes, own_tools)]
    loaded.is_whole = not _loads_unknown(part.nodes)
    while waiting and len(paths) < _MAX_FILES:
        base_path, use = waiting.pop()
        if (base_path, use.name) in seen:
            continue
        seen.add((base_path, use.name))
        source: Source = yield LoadSource(use.name, base_path)
        loaded.read[base_path, use.name] = source
        if source.failed:
            loaded.faults.append(
                use.fault("unreadable schema" if use.is_schema else "unreadable library", source.failed)
            )
            loaded.is_whole = loaded.is_whole and use.is_schema
            continue
        if source.path in paths:
            continue
        paths.add(source.path)
        try:
            if use.is_schema:
                read_schema(source.text)
                continue
            inner = SourcePart(source.path, source.text, read(source.text, source.path))
        except SexpEvaluationError as error:
            loaded.faults.append(use.fault("unreadable schema", error.error_details or error.message))
            continue
        except SexpSyntaxError as error:
            loaded.faults.append(use.fault("unreadable library", error.error_details))
            loaded.is_whole = False
            continue
        loaded.sources.append((inner, use))
        loaded.is_whole = loaded.is_whole and not _loads_unknown(inner.nodes)
        waiting += [
            (source.path, FileUse(use.form, inner_use.name, inner_use.is_schema, use.sure and inner_use.sure))
            for inner_use in _file_uses(inner.nodes, own_tools)
        ]
    loaded.is_whole = loaded.is_whole and not waiting
    return loaded


def _file_uses(nodes: list[Node], own_tools: frozenset[str]) -> Iterator[FileUse]:
    """Yield every ``(load "…")`` and every schema file whose path is a literal."""
    writes = min(_writes(nodes, own_tools), default=None)
    waiting: list[tuple[Node, bool, bool]] = [(node, False, False) for node in reversed(nodes)]
    while waiting:
        node, caught, later = waiting.pop()
        if not isinstance(node, Form) or not node.items:
            continue
        head = name_of(node.items[0])
        if head == "quote":
            continue
        sure = not caught and (writes is None or (not later and node.at < writes))
        path = node.items[1] if head == "load" and len(node.items) == 2 else None
        if isinstance(path, Atom) and isinstance(path.value, str) and path.value:
            yield FileUse(node, path.value, is_schema=False, sure=sure)
        if head == "defatom":
            schema = definition_of(node).schema_file
            if schema:
                yield FileUse(node, schema, is_schema=True, sure=sure)
            continue
        later = later or head in ("define", "lambda")
        for number, item in reversed(list(enumerate(node.items))):
            waiting.append((item, caught or head == "log-message" or (head == "try" and number == 1), later))


def _writes(nodes: list[Node], own_tools: frozenset[str]) -> Iterator[int]:
    """Yield the positions of calls that may write a file."""
    templates = [task.template for task in definitions_of(nodes)]
    tasks = {task["name"] for task in templates if task.get("subtype") not in WITHOUT_TOOLS}
    for node in walk(nodes):
        name = name_of(node.items[0]) if isinstance(node, Form) and node.items else ""
        plain = plain_name(name)
        if name in tasks or plain in own_tools or (plain in PARAMETERS and plain not in READERS):
            yield node.at


def _loads_unknown(nodes: list[Node]) -> bool:
    """Return whether a library with a computed path is loaded."""
    loads = (node for node in walk(nodes) if isinstance(node, Form) and node.items and name_of(node.items[0]) == "load")
    return any(len(load.items) == 2 and not isinstance(load.items[1], Atom) for load in loads)


def _finding(path: str, position: tuple[int, int], fault: LintFault) -> Finding:
    return Finding(path, *position, fault.severity, finding_code("sexp", fault.title), fault.message)
