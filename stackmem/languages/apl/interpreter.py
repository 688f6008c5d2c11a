"""Executes a program as a generator: every step in order, exactly as written, and exactly once.

Code drives the loops, so a model cannot skip a round or invent a tool's result.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Mapping
from typing import Any, assert_never

from msgspec.structs import replace

from stackmem.core.program_facts import PhaseEnded, StepEntered
from stackmem.core.requests import InvokeTool
from stackmem.languages.frame.parallel import side_by_side
from stackmem.languages.frame.values import digest_of, step_left
from stackmem.languages.operations import ToolAnswer

from .command_output import CommandOutput, storable
from .halts import (
    INITIALIZATION,
    INPUT_VALIDATION,
    LIMIT_REACHED,
    LOAD_AND_PARSE,
    PROGRAM_RESOLUTION,
    Halt,
    malformed_value,
    missing_parameter,
    tool_logic,
    unknown_step,
)
from .registry import KnownTool, check_call
from .scope import Doing, Pointer, Scope, bind_inputs, call_line, convert, plain_output
from .sources import load_program_at, registry_of
from .templates import bare
from .tools import CODE, agent_native, checked_outputs, failure, interface_only, parameter
from .tree import Foreach, Phase, Program, RunStep, Step, Switch, ToolStep, Try, WhileStep, later_reads_exit_code

MAX_DEPTH = 50
Run = Callable[[tuple[Step, ...], Pointer], Doing]


class Execution:
    """One execution. It caches only which steps read an exit code and which calls have been checked."""

    def __init__(self) -> None:
        self._looked_at: dict[int, tuple[Step, bool]] = {}
        self._checked: dict[int, Step] = {}

    def program(self, program: Program, pointer: Pointer, given_inputs: Mapping[str, Any]) -> Doing:
        """Run a program in a new scope. Returns the final scope without inputs and constants."""
        scope = Scope()
        scope.set("module_path", pointer.scope.variables["module_path"])
        try:
            scope.set_constants(program.constants)
            bind_inputs(program.inputs, given_inputs, scope)
        except Halt as halt:
            raise halt.locate(INITIALIZATION, INPUT_VALIDATION, pointer.trail).at(pointer.source) from None
        inner = replace(pointer, scope=scope, stored_steps=program.steps)
        inner.notify_debugger("entered", posixpath.basename(inner.source))
        for phase in program.phases:
            yield from self._phase(phase, inner)
        inner.notify_debugger("left", posixpath.basename(inner.source))
        own = {"module_path", *program.constants, *(each.name for each in program.inputs)}
        return {name: plain_output(value) for name, value in scope.variables.items() if name not in own}

    def _phase(self, phase: Phase, pointer: Pointer) -> Doing:
        path = pointer.at(phase.name)
        yield StepEntered(path, "phase")
        yield from self.steps(phase.steps, replace(pointer, phase=phase.name, path=path))
        digests = {name: digest_of(plain_output(value)) for name, value in pointer.scope.variables.items()}
        yield PhaseEnded(path, digests)

    def steps(self, steps: tuple[Step, ...], pointer: Pointer) -> Doing:
        """Run steps and return the value of the last one."""
        value: Any = None
        for index, step in enumerate(steps):
            try:
                value = yield from self._step(step, steps, index, pointer)
            except Halt as halt:
                raise halt.locate(pointer.phase, step.head.name, pointer.trail).at(
                    pointer.source, step.head.position
                ) from None
        return value

    def _step(self, step: Step, steps: tuple[Step, ...], index: int, pointer: Pointer) -> Doing:
        path = pointer.at(step.head.name)
        pointer.notify_debugger("line", path, step.head.position.line)
        if step.head.condition and not pointer.scope.holds(step.head.condition):
            yield StepEntered(path, "skipped")
            return None
        match step:
            case ToolStep():
                value = yield from self._tool_step(step, steps, index, pointer, path)
            case Foreach():
                value = yield from self._foreach(step, pointer, path)
            case WhileStep():
                value = yield from self._while(step, pointer, path)
            case Switch():
                value = yield from self._switch(step, pointer, path)
            case Try():
                value = yield from self._try(step, pointer, path)
            case RunStep():
                value = yield from self._run_step(step, pointer, path)
            case _:
                assert_never(step)
        return value

    def _tool_step(self, step: ToolStep, steps: tuple[Step, ...], index: int, pointer: Pointer, path: str) -> Doing:
        value = yield from self._use(step, pointer, path)
        failed = isinstance(value, CommandOutput) and value.exit_code != 0
        if failed and not step.allow_failure and not self._looks_at_exit(step, steps, index):
            raise failure(value)
        if step.as_type is not None:
            value = convert(value, step.as_type, step.tool)
        if step.register and step.tool != "set_vars":
            is_result = step.as_type is None and pointer.registry.get(step.tool).gives_result
            yield pointer.register(step.register, value, step.head.name, is_result=is_result)
        yield step_left(path, value)
        return value

    def _looks_at_exit(self, step: ToolStep, steps: tuple[Step, ...], index: int) -> bool:
        cached = self._looked_at.get(id(step))
        if cached is None:
            cached = self._looked_at[id(step)] = (step, later_reads_exit_code(steps, index))
        return cached[1]

    def _use(self, step: ToolStep, pointer: Pointer, path: str) -> Doing:
        tool = pointer.registry.get(step.tool)
        self._refuse_unknown(tool, step)
        match tool.kind:
            case "built-in" | "code":
                if step.tool == "run_apl":
                    return (yield from self._run_apl(step, pointer, path))
                if step.tool == "agent_native":
                    return (yield from agent_native(step, pointer, path))
                return (yield from CODE[step.tool](step, pointer, path))
            case "custom":
                return (yield from self._custom(tool, step, pointer, path))
            case "own":
                return (yield from _own_tool(step, pointer, path))
            case "agent":
                return (yield from interface_only(tool, step, pointer, path))
            case "broken":
                raise AssertionError(tool.name)  # the registry never returns a broken tool
            case _:
                assert_never(tool.kind)

    def _refuse_unknown(self, tool: KnownTool, step: ToolStep) -> None:
        """Refuse a parameter that a built-in or custom tool does not have.

        Unlike an agent, such a tool would silently ignore it.
        """
        if id(step) in self._checked or tool.kind == "agent":
            return
        unknown = check_call(tool, step).unknown
        if unknown:
            raise tool_logic(unknown[0], f"Step: {step.head.name}")
        self._checked[id(step)] = step

    def _custom(self, tool: KnownTool, step: ToolStep, pointer: Pointer, path: str) -> Doing:
        _refuse_depth(pointer)
        inputs = pointer.scope.resolve({**step.params, **step.inputs})
        scope = Scope()
        scope.set("module_path", pointer.scope.variables["module_path"])
        bind_inputs(tool.inputs, inputs, scope)
        yield StepEntered(path, call_line(tool.name, inputs))
        inner = pointer.calls(step, f"tool {tool.name}")
        inner = replace(inner, scope=scope, source=tool.source, depth=pointer.depth + 1, stored_steps={})
        inner.notify_debugger("entered", path)
        yield from self.steps(tool.body, inner.inside(path, step.head.name, f"tool {tool.name}"))
        inner.notify_debugger("left", path)
        declared = tuple(output.name for output in tool.outputs)
        return checked_outputs(tool.name, declared, scope.variables) if declared else {}

    def _run_apl(self, step: ToolStep, pointer: Pointer, path: str) -> Doing:
        _refuse_depth(pointer)
        program_name = pointer.scope.resolve(parameter(step, "program"))
        if not isinstance(program_name, str) or not program_name:
            raise missing_parameter("run_apl", "program")
        inputs = pointer.scope.resolve(step.inputs)
        yield StepEntered(path, call_line("run_apl", {"program": program_name, **inputs}))
        trail = (*pointer.trail, step.head.name)
        try:
            program, source, module_path = yield from load_program_at(program_name, pointer)
            registry = yield from registry_of(program, source, pointer.shared)
        except Halt as halt:
            stage = LOAD_AND_PARSE if halt.kind == "Invalid Program" else PROGRAM_RESOLUTION
            raise halt.locate(INITIALIZATION, stage, trail).at(pointer.source, step.head.position) from None
        for sentence in registry.shadowed[len(pointer.shared.shadowed) :]:
            yield StepEntered(INITIALIZATION, sentence)
        scope = Scope()
        scope.set("module_path", module_path)
        inner = pointer.calls(step, "")
        inner = replace(inner, scope=scope, source=source, registry=registry, depth=pointer.depth + 1, path=path)
        return (yield from self.program(program, replace(inner, trail=trail), inputs))

    def _foreach(self, step: Foreach, pointer: Pointer, path: str) -> Doing:
        items = step.items if isinstance(step.items, list) else pointer.scope.by_name(step.items, literal=False)
        items = pointer.scope.resolve(items) if isinstance(step.items, list) else items
        if not isinstance(items, list):
            kind = "a text" if isinstance(items, str) else type(items).__name__
            raise tool_logic("A `foreach` loop goes over a list.", f"`in` is {kind}")
        total = len(items)
        yield StepEntered(path, f"foreach {total}")
        value: Any = None
        if step.max_concurrency:
            value = yield from _in_rounds(self.steps, step, items, pointer, path)
            if step.register:
                yield pointer.set(step.register, value)
        else:
            for number, item in enumerate(list(items), 1):
                pointer.scope.set(step.loop_var, item)
                inner_path = f"{path}[{number}]"
                yield StepEntered(inner_path, f"item {number} of {total}")
                value = yield from self.steps(step.body, pointer.inside(inner_path, f"Item {number} of {total}"))
        yield step_left(path, items)
        return value

    def _while(self, step: WhileStep, pointer: Pointer, path: str) -> Doing:
        yield StepEntered(path, "while")
        number, value = 0, None
        while pointer.scope.holds(step.test):
            number += 1
            if number > pointer.while_limit:
                raise Halt(
                    LIMIT_REACHED,
                    f"A `while` loop went on for more than {pointer.while_limit:,} iterations.",
                    f"Condition: {step.test}",
                )
            inner_path = f"{path}[{number}]"
            yield StepEntered(inner_path, f"iteration {number}")
            value = yield from self.steps(step.body, pointer.inside(inner_path, f"Iteration {number}"))
        yield step_left(path, [None] * number)
        return value

    def _switch(self, step: Switch, pointer: Pointer, path: str) -> Doing:
        value = pointer.scope.evaluate(bare(step.value))
        text = value if isinstance(value, str) else json.dumps(plain_output(value), default=str)
        body = next((body for case, body in step.cases if case == text), step.default)
        yield StepEntered(path, f"switch {text[:80]}")
        value = yield from self.steps(body, pointer.inside(path, step.head.name))
        yield step_left(path, value)
        return value

    def _try(self, step: Try, pointer: Pointer, path: str) -> Doing:
        yield StepEntered(path, "try")
        try:
            value = yield from self.steps(step.body, pointer.inside(path, step.head.name))
        except Halt as halt:
            if halt.kind == LIMIT_REACHED:
                raise
            yield pointer.set("error", halt.as_error)
            yield StepEntered(f"{path}/catch", f"catch {halt.kind}")
            value = yield from self.steps(step.catch, pointer.inside(f"{path}/catch", step.head.name))
        yield step_left(path, value)
        return value

    def _run_step(self, step: RunStep, pointer: Pointer, path: str) -> Doing:
        body = pointer.stored_steps.get(step.target)
        if body is None:
            raise unknown_step(step.target, pointer.stored_steps)
        _refuse_depth(pointer)
        yield StepEntered(path, f"run_step {step.target}")
        inner = replace(pointer.calls(step, f"steps {step.target}"), depth=pointer.depth + 1)
        value = yield from self.steps(body, inner.inside(path, step.head.name))
        yield step_left(path, value)
        return value


def _own_tool(step: ToolStep, pointer: Pointer, path: str) -> Doing:
    arguments = {
        name: plain_output(value) for name, value in pointer.scope.resolve({**step.params, **step.inputs}).items()
    }
    yield StepEntered(path, call_line(step.tool, arguments))
    answer: ToolAnswer = yield InvokeTool(step.tool, arguments)
    if answer.failed:
        raise tool_logic(f"The '{step.tool}' tool failed.", answer.detail or answer.failed)
    try:
        return storable(answer.value)
    except (ValueError, RecursionError) as error:
        raise malformed_value(step.tool, "its result holds half a character or a number that is none") from error


def _refuse_depth(pointer: Pointer) -> None:
    if pointer.depth >= MAX_DEPTH:
        reason = f"Programs and tools are nested deeper than {MAX_DEPTH}."
        raise Halt(LIMIT_REACHED, reason, f"Depth: {pointer.depth}")


def _in_rounds(run: Run, step: Foreach, items: list[Any], pointer: Pointer, path: str) -> Doing:
    """Run the rounds of a loop in parallel, and return the value of each round's last step, in item order.

    Each round has its own scope: variables that it sets are discarded when it ends.

    Raises:
        Halt: The halt of the first round, in item order, that cannot continue. The other rounds are abandoned.
    """

    def in_own_scope(number: int, item: Any) -> Doing:
        scope = pointer.scope.copy()
        scope.set(step.loop_var, item)
        inner_path = f"{path}[{number}]"
        yield StepEntered(inner_path, f"item {number} of {len(items)}")
        inner = replace(pointer, scope=scope).inside(inner_path, f"Item {number} of {len(items)}")
        return (yield from run(step.body, inner))

    rounds = [in_own_scope(number, item) for number, item in enumerate(items, 1)]
    return (yield from side_by_side(rounds, step.max_concurrency, open_at_once=step.max_concurrency))
