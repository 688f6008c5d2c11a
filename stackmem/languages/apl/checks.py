"""Finds the faults that halt a program regardless of its inputs, for the linter and before a run's first effect."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from stackmem.languages.language import Reading

from .data_flow import Call, Flow
from .halts import INITIALIZATION, INPUT_VALIDATION, LOAD_AND_PARSE, Halt
from .refusals import At
from .registry import KnownTool, Registry
from .scope import Scope
from .sources import read_program, registry_of
from .tree import Fault, Program, Tool


def check_program(path: str, program: Program, registry: Registry, shared: Registry) -> Reading:
    """Return the ``Flow`` of a program after checking it and every tool and program that it calls."""
    flow = Flow(path, registry, program.steps, At(path))
    yield from flow.program(program)
    _evaluate_constants(flow, path, program)
    yield from _follow(flow, registry, shared)
    return flow


def _evaluate_constants(flow: Flow, path: str, program: Program) -> None:
    """Evaluate the constants. They depend only on each other, so their values are known before a run."""
    scope = Scope()
    scope.set("module_path", posixpath.dirname(path))
    try:
        scope.set_constants(program.constants)
    except Halt as halt:
        if not flow.errors:
            fault = Fault(program.places["constants"], "Invalid Template", f"{halt.reason} {halt.details}")
            flow.add(fault, halt.locate(INITIALIZATION, INPUT_VALIDATION, ()))


def check_tool(path: str, tool: Tool, registry: Registry) -> Reading:
    """Return the ``Flow`` of a tool file after checking it and everything that it calls."""
    flow = Flow(path, registry, {}, At(path, validates=False))
    yield from flow.tool(tool)
    yield from _follow(flow, registry, registry)
    return flow


def broken_tool_files(flow: Flow, registry: Registry) -> Iterator[str]:
    """Yield a sentence for each unreadable tool file that this program does not need."""
    for each in registry.broken:
        if each.name not in flow.used:
            yield f"The tool file {each.location} is left out: {each.fault.title}: {each.fault.message}"


def _follow(flow: Flow, registry: Registry, shared: Registry) -> Reading:
    """Check everything that is called, each once. A halt in there becomes an error at the call."""
    seen = set[tuple[str, str, bool]]()
    waiting = [(call, call.position, call.caught, registry) for call in flow.calls]
    while waiting:
        call, position, caught, visible = waiting.pop(0)
        key = (call.path, call.of.name if isinstance(call.of, KnownTool) else "", caught)
        if key in seen:
            continue
        seen.add(key)
        try:
            inner, own = yield from _inside(call, visible, shared)
            halts = inner.halts
            waiting += [(each, position, caught or each.caught, own) for each in inner.calls]
            title = "Faulty Tool" if isinstance(call.of, KnownTool) else "Faulty Program"
        except Halt as halt:
            halts = [halt.locate(INITIALIZATION, LOAD_AND_PARSE, call.at.trail)]
            title = "Unreadable Program"
        if halts:
            first: Halt = halts[0]
            location = f"{first.file}:{first.line}:{first.column}"
            fault = Fault(position, title, f"{location}: {first.kind}: {first.reason} {first.details}")
            flow.add(fault, first, caught=caught)


def _inside(call: Call, registry: Registry, shared: Registry) -> Reading:
    """Return ``(flow, registry)`` of a tool or program. Raise Halt if the program cannot be read."""
    if isinstance(call.of, KnownTool):
        tool = call.of
        flow = Flow(call.path, registry, {}, call.at)
        yield from flow.tool(Tool(tool.name, tool.position, "", tool.inputs, tool.outputs, tool.body))
        return flow, registry
    program = read_program(call.path, call.of.text)
    own = yield from registry_of(program, call.path, shared)
    flow = Flow(call.path, own, program.steps, call.at)
    yield from flow.program(program)
    return flow, own
