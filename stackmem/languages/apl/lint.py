"""Lints programs, and formats the report in the layout of APL's own tools.

The stages are: the standard library, configuration and tools; the shape of the document; then each step in order, with
the variables known when it is reached.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from stackmem.core.messages import ToolSpec
from stackmem.languages.frame.yaml_tree import Place
from stackmem.languages.language import Finding, Reading, finding_code, in_order

from .checks import broken_tool_files, check_program, check_tool
from .data_flow import Flow
from .halts import Halt
from .reader import load_library, load_program, load_tool
from .refusals import At
from .registry import Registry
from .sources import Config, base_of, read_config, registry_of
from .tree import Fault, Program


def lint_report(path: str, findings: tuple[Finding, ...]) -> str:
    """Format errors first, then warnings. Empty without findings."""
    if not findings:
        return ""
    lines = ["APL VALIDATION REPORT", "", f"File: {path}", ""]
    for each in sorted(findings, key=lambda each: each.severity != "error"):
        lines += [f"*   [{each.severity.upper()}] Line {each.line}: {each.title}", f"    *   Message: {each.message}"]
        lines += [f"    *   Suggestion: {each.suggestion}"] if each.suggestion else []
    return "\n".join([*lines, "", _footer(findings)])


def _footer(findings: tuple[Finding, ...]) -> str:
    errors = sum(each.severity == "error" for each in findings)
    warnings = len(findings) - errors
    counts = [_count(errors, "error")] if errors or not warnings else []
    counts += [_count(warnings, "warning")] if warnings else []
    return f"Validation {'Failed' if errors else 'Finished'}: {', '.join(counts)}."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def lint(path: str, text: str, config: str = "", tools: tuple[ToolSpec, ...] = ()) -> Reading:
    """Return the findings on a program, tool file, standard library or configuration, ordered by line.

    ``config`` is the configuration of a run, or empty. ``tools`` are the user's own tools.
    """
    name = posixpath.basename(path).lower()
    if name.endswith(".aplconfig"):
        return (yield from _lint_config(path))
    if name == "apl_stl.yml":
        _, faults = load_library(text)
        return findings(path, faults, ())
    if name.endswith(".tool.apl"):
        return (yield from _lint_tool(path, text, config, tools))
    program, faults = load_program(text)
    if program is None:
        return findings(path, faults, ())
    registry, shared, errors = yield from _registry(path, program, config, tools)
    flow = yield from check_program(path, program, registry, shared)
    input_notes = [note for note in program.notes if note.title == "Invalid Input Definition"]
    noted = [note for note in program.notes if note not in input_notes]
    return findings(path, (*faults, *errors, *input_notes, *flow.errors), (*_warnings(flow, registry), *noted))


def _lint_tool(path: str, text: str, config: str, tools: tuple[ToolSpec, ...]) -> Reading:
    tool, faults = load_tool(text)
    if tool is None:
        return findings(path, faults, ())
    registry, _, errors = yield from _registry(path, Program(()), config, tools)
    flow = yield from check_tool(path, tool, registry)
    return findings(path, (*faults, *errors, *flow.errors), (*_warnings(flow, registry), *tool.notes))


def _warnings(flow: Flow, registry: Registry) -> list[Fault]:
    top = Place(1, 1)
    shadowed = [Fault(top, "Shadowed Tool", sentence) for sentence in registry.shadowed]
    broken = [Fault(top, "Broken Tool File", sentence) for sentence in broken_tool_files(flow, registry)]
    return [*shadowed, *broken, *flow.warnings]


def _lint_config(path: str) -> Reading:
    try:
        config: Config = yield from read_config(posixpath.basename(path), path)
        registry: Registry = yield from base_of(config, ())
    except Halt as halt:
        return findings(path, (_of_halt(path, halt),), ())
    nothing = Flow(path, registry, {}, At(path))
    return findings(path, (), tuple(_warnings(nothing, registry)))


def _registry(path: str, program: Program, name: str, own: tuple[ToolSpec, ...]) -> Reading:
    """Return ``(registry, registry for all programs, errors)``. The errors would also halt a run."""
    errors: list[Fault] = []
    shared: Registry
    try:
        config: Config = yield from read_config(name, path)
        shared = yield from base_of(config, own)
    except Halt as halt:
        errors.append(Fault(Place(1, 1), "Unreadable Configuration", f"{halt.reason} {halt.details}"))
        shared = yield from base_of(Config(), own)
    registry = shared
    try:
        registry = yield from registry_of(program, path, shared)
    except Halt as halt:
        errors.append(
            Fault(Place(halt.line or 1, halt.column or 1), "Unreadable Tools", f"{halt.reason} {halt.details}")
        )
    return registry, shared, tuple(errors)


def findings(path: str, errors: Iterable[Fault], warnings: Iterable[Fault]) -> tuple[Finding, ...]:
    results = [_finding(path, fault, error=True) for fault in errors]
    results += [_finding(path, fault, error=False) for fault in warnings]
    return in_order(results)


def _finding(path: str, fault: Fault, *, error: bool) -> Finding:
    return Finding(
        path=path,
        line=fault.position.line,
        column=fault.position.column,
        severity="error" if error else "warning",
        code=finding_code("apl", fault.title),
        message=fault.message,
        title=fault.title,
    )


def _of_halt(path: str, halt: Halt) -> Fault:
    """Convert a halt to a fault. A halt in this file keeps its position; another is reported in full at line 1."""
    if halt.file == path and halt.line:
        title, _, message = halt.reason.partition(": ")
        return Fault(Place(halt.line, halt.column), title, message)
    return Fault(Place(1, 1), halt.kind, f"{halt.reason} {halt.details}")
