"""What would halt a program whatever its inputs are: known before its first effect, to a run as to the linter."""

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
    """The ``Flow`` of a program, and of every tool and program that it calls."""
    flow = Flow(path, registry, program.steps, At(path))
    yield from flow.program(program)
    _evaluate_constants(flow, path, program)
    yield from _follow(flow, registry, shared)
    return flow


def _evaluate_constants(flow: Flow, path: str, program: Program) -> None:
    """They depend on nothing but each other, so what they come to is known."""
    scope = Scope()
    scope.set("module_path", posixpath.dirname(path))
    try:
        scope.set_constants(program.constants)
    except Halt as halt:
        if not flow.errors:
            fault = Fault(program.places["constants"], "Invalid Template", f"{halt.reason} {halt.details}")
            flow.add(fault, halt.within(INITIALIZATION, INPUT_VALIDATION, ()))


def check_tool(path: str, tool: Tool, registry: Registry) -> Reading:
    """The ``Flow`` of a tool file, and of what it calls."""
    flow = Flow(path, registry, {}, At(path, validates=False))
    yield from flow.tool(tool)
    yield from _follow(flow, registry, registry)
    return flow


def broken_tool_files(flow: Flow, registry: Registry) -> Iterator[str]:
    """A sentence for each file of tools that cannot be read, and that nothing here needs."""
    for each in registry.broken:
        if each.name not in flow.used:
            yield f"The tool file {each.where} is left out: {each.fault.title}: {each.fault.message}"


def _follow(flow: Flow, registry: Registry, shared: Registry) -> Reading:
    """Looks into what is called, each once; what halts there is an error of the call."""
    seen = set[tuple[str, str, bool]]()
    waiting = [(call, call.place, call.caught, registry) for call in flow.calls]
    while waiting:
        call, place, caught, known = waiting.pop(0)
        key = (call.path, call.of.name if isinstance(call.of, KnownTool) else "", caught)
        if key in seen:
            continue
        seen.add(key)
        try:
            inner, own = yield from _inside(call, known, shared)
            halts = inner.halts
            waiting += [(each, place, caught or each.caught, own) for each in inner.calls]
            title = "Faulty Tool" if isinstance(call.of, KnownTool) else "Faulty Program"
        except Halt as halt:
            halts = [halt.within(INITIALIZATION, LOAD_AND_PARSE, call.at.trail)]
            title = "Unreadable Program"
        if halts:
            first: Halt = halts[0]
            where = f"{first.file}:{first.line}:{first.column}"
            fault = Fault(place, title, f"{where}: {first.kind}: {first.reason} {first.details}")
            flow.add(fault, first, caught=caught)


def _inside(call: Call, registry: Registry, shared: Registry) -> Reading:
    """``(flow, registry)`` of a tool or program; raises ``Halt`` where it cannot be read."""
    if isinstance(call.of, KnownTool):
        tool = call.of
        flow = Flow(call.path, registry, {}, call.at)
        yield from flow.tool(Tool(tool.name, tool.place, "", tool.inputs, tool.outputs, tool.body))
        return flow, registry
    program = read_program(call.path, call.of.text)
    own = yield from registry_of(program, call.path, shared)
    flow = Flow(call.path, own, program.steps, call.at)
    yield from flow.program(program)
    return flow, own
