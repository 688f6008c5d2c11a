"""Everything that can be known of a program before it runs, and the report in the layout that APL's own tools print.

Stages: the standard library, configuration and tools; the document's shape; then every step in its order, with the
variables that are known when it is reached.
"""

from __future__ import annotations

import posixpath
import re

from stackmem.core.messages import ToolSpec
from stackmem.languages.frame.yaml_tree import Place
from stackmem.languages.language import Finding, Reading

from .data_flow import Flow
from .halts import Halt
from .reader import load_library, load_program, load_tool
from .registry import Registry
from .sources import Config, base_of, read_config, registry_of
from .tree import Fault, Program


def lint_report(path: str, findings: tuple[Finding, ...]) -> str:
    """Errors, then warnings; empty where nothing was found: success says nothing."""
    if not findings:
        return ""
    lines = ["APL VALIDATION REPORT", "", f"File: {path}", ""]
    for each in sorted(findings, key=lambda each: each.severity != "error"):
        lines += [f"*   [{each.severity.upper()}] Line {each.line}: {each.title}", f"    *   Message: {each.message}"]
        lines += [f"    *   Suggestion: {each.suggestion}"] if each.suggestion else []
        lines.append("")
    return "\n".join([*lines, _footer(findings)])


def _footer(findings: tuple[Finding, ...]) -> str:
    errors = sum(each.severity == "error" for each in findings)
    warnings = len(findings) - errors
    counts = [_count(errors, "error")] if errors or not warnings else []
    counts += [_count(warnings, "warning")] if warnings else []
    return f"Validation {'Failed' if errors else 'Finished'}: {', '.join(counts)}."


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


_WORDS = re.compile(r"[^a-z0-9]+")


def lint(path: str, text: str, config: str = "", tools: tuple[ToolSpec, ...] = ()) -> Reading:
    """The findings on a program, a tool file, a standard library or a configuration, in the order of its lines.

    Args:
        config: The configuration that a run would have; empty is none.
        tools: The person's own.

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
    registry, warnings = yield from _registry(path, program, config, tools)
    flow = Flow(path, registry, program.steps)
    yield from flow.program(program)
    return findings(path, (*faults, *flow.errors), (*warnings, *flow.warnings))


def _lint_tool(path: str, text: str, config: str, tools: tuple[ToolSpec, ...]) -> Reading:
    tool, faults = load_tool(text)
    if tool is None:
        return findings(path, faults, ())
    registry, warnings = yield from _registry(path, Program(()), config, tools)
    flow = Flow(path, registry, {})
    yield from flow.tool(tool)
    return findings(path, (*faults, *flow.errors), (*warnings, *flow.warnings))


def _lint_config(path: str) -> Reading:
    try:
        config: Config = yield from read_config(posixpath.basename(path), path)
        yield from base_of(config, ())
    except Halt as halt:
        return (_of_halt(path, halt),)
    return ()


def _registry(path: str, program: Program, named: str, own: tuple[ToolSpec, ...]) -> Reading:
    """``(registry, warnings)``; what cannot be read is a warning, since it may be there when the program runs."""
    warnings: list[Fault] = []
    registry: Registry
    try:
        config: Config = yield from read_config(named, path)
        registry = yield from base_of(config, own)
    except Halt as halt:
        warnings.append(Fault(Place(1, 1), "Unreadable Configuration", f"{halt.reason} {halt.details}"))
        registry = yield from base_of(Config(), own)
    try:
        registry = yield from registry_of(program, path, registry)
    except Halt as halt:
        place = program.places.get("local_tool_paths") or program.places.get("import") or Place(1, 1)
        warnings.append(Fault(place, "Unreadable Tools", f"{halt.reason} {halt.details}"))
    warnings += [Fault(Place(1, 1), "Shadowed Tool", sentence) for sentence in registry.shadowed]
    return registry, tuple(warnings)


def findings(path: str, errors: tuple[Fault, ...], warnings: tuple[Fault, ...]) -> tuple[Finding, ...]:
    made = [_finding(path, fault, error=True) for fault in errors]
    made += [_finding(path, fault, error=False) for fault in warnings]
    return tuple(sorted(dict.fromkeys(made), key=lambda each: (each.line, each.column, each.severity, each.title)))


def _finding(path: str, fault: Fault, *, error: bool) -> Finding:
    return Finding(
        path=path,
        line=fault.place.line,
        column=fault.place.column,
        severity="error" if error else "warning",
        code=f"apl/{_WORDS.sub('-', fault.title.lower()).strip('-')}",
        message=fault.message,
        title=fault.title,
    )


def _of_halt(path: str, halt: Halt) -> Finding:
    """A halt's details name the place where it is a fault of a file."""
    place = re.search(r":(\d+):(\d+)(?:: |$)", halt.details)
    line, column = (int(place[1]), int(place[2])) if place else (1, 1)
    title, _, message = halt.reason.partition(": ") if place else (halt.kind, "", f"{halt.reason} {halt.details}")
    return _finding(path, Fault(Place(line, column), title, message), error=True)
