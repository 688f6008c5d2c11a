"""The language interface of Python programs."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator

from stackmem.core.errors import Halted
from stackmem.core.program_facts import StepEntered, StepFailed
from stackmem.core.requests import AskUser, InvokeTool
from stackmem.languages.language import (
    Announcer,
    Happening,
    Language,
    Launch,
    ProgramInterface,
    Reading,
    answer_lines,
    in_order,
    inputs_schema,
)
from stackmem.languages.operations import Program

from .interpreter import PythonProcess
from .lint import finding, findings_of
from .reader import EntryStep, ProgramFault, checked_inputs, find_entry, parse


def _read(launch: Launch) -> EntryStep:
    """Return the entry step, after the checks that a new run makes before its first effect."""
    file = posixpath.basename(launch.path)
    try:
        program = parse(launch.text)
        entry = find_entry(program, str(launch.options.get("entry") or ""))
    except ProgramFault as fault:
        location = f"{file}:{fault.line}"
        raise Halted("Static Fault", f"{location}:{fault.column}: {fault}", location) from fault
    errors = [each for each in findings_of(file, program) if each.severity == "error"]
    if launch.options.get("checked") and errors:
        lines = [f"{file}:{each.line}:{each.column}: {each.message}" for each in errors]
        raise Halted("Static Fault", "\n".join(["Static fault: nothing was done.", *lines]), f"{file}:{errors[0].line}")
    return entry


def start(launch: Launch) -> Program:
    """Run the program; see ``language.Language``."""
    entry = _read(launch)
    inputs = checked_inputs(entry, launch.inputs, posixpath.basename(launch.path))
    return (yield from PythonProcess(launch, entry, inputs).run())


def outline(launch: Launch) -> Reading:
    """Return a line for each step."""
    yield from ()
    entry = _read(launch)
    checked_inputs(entry, launch.inputs, posixpath.basename(launch.path))
    lines = []
    for step in parse(launch.text).steps:
        says = (ast.get_docstring(step) or "").partition("\n")[0]
        begins = " (the program begins here)" if step.name == entry.name else ""
        lines.append(f"{step.lineno}: {step.name}{begins}{': ' if says else ''}{says}")
    return tuple(lines)


def interface(launch: Launch) -> Reading:
    """Return the inputs of the entry step as a schema. Its docstring describes the program."""
    yield from ()
    entry = _read(launch)
    properties = {each.name: each.schema for each in entry.parameters}
    return ProgramInterface(
        entry.description, inputs_schema(properties, [e.name for e in entry.parameters if e.required])
    )


def lint(path: str, text: str) -> Reading:
    """Return the findings on a program."""
    yield from ()
    try:
        program = parse(text)
        findings = findings_of(path, program)
        try:
            find_entry(program)
        except ProgramFault as fault:
            return in_order((*findings, finding(path, "warning" if fault.code == "no-entry" else "error", fault)))
    except ProgramFault as fault:
        return (finding(path, "error", fault),)
    return findings


def stop_lines(path: str, text: str) -> Iterator[int]:
    """Yield the first line of each statement."""
    try:
        tree = parse(text).tree
    except ProgramFault:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno


def announcer() -> Announcer:
    return _lines


def _lines(happening: Happening) -> tuple[str, ...]:
    match happening:
        case StepEntered():
            return (f"{happening.path} ({happening.call})",)
        case StepFailed():
            return ()
        case InvokeTool(tool="run_python"):
            return ()
        case InvokeTool():
            detail = happening.arguments.get("command") or happening.arguments.get("path") or ""
            return (f"  {happening.tool} {str(detail)[:200]}".rstrip(),)
        case AskUser():
            return ()
        case tuple():
            return tuple(line for each in happening for line in _lines(each))
        case _:
            return answer_lines(happening)


LANGUAGE = Language(
    name="python",
    says="plain Python whose effects are recorded, in a sandbox",
    start=start,
    outline=outline,
    lint=lint,
    announcer=announcer,
    stop_lines=stop_lines,
    interface=interface,
    is_checked=True,
)
