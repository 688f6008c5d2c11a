"""From tree to generator: executes steps in their order, every one of them, as it stands, and none twice.

Nothing here can skip a round of a loop or make up what a tool gave: the pointer is a Python ``for``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, assert_never

from msgspec.structs import replace

from stackmem.core.program_facts import PhaseEnded, StepEntered
from stackmem.core.requests import InvokeTool
from stackmem.languages.frame.parallel import side_by_side
from stackmem.languages.frame.values import digest_of, step_left
from stackmem.languages.operations import ToolAnswer

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
)
from .registry import Known, call_of
from .scope import Doing, Here, Scope, bound_inputs, converted, plain_output, said
from .sources import load_program_at, registry_of
from .template_language import CommandOutput, storable
from .templates import bare
from .tools import CODE, agent_native, checked_outputs, failure, given, interface_only
from .tree import Foreach, Phase, Program, RunStep, Step, Switch, ToolStep, Try, While, later_reads_exit_code

MOST_DEPTH = 50
Run = Callable[[tuple[Step, ...], Here], Doing]


class Interpreter:
    """One execution; it remembers only which steps look at an exit code, and which calls were found to be sound."""

    def __init__(self) -> None:
        self._looked_at: dict[int, tuple[Step, bool]] = {}
        self._checked: dict[int, Step] = {}

    def program(self, program: Program, here: Here, given_inputs: Mapping[str, Any]) -> Doing:
        """Run a program in a scope of its own; gives its final scope without its inputs.

        Raises:
            Halt: It cannot go on.

        """
        scope = Scope()
        scope.set("module_path", here.scope.variables["module_path"])
        try:
            scope.set_constants(program.constants)
            bound_inputs(program.inputs, given_inputs, scope)
        except Halt as halt:
            raise halt.within(INITIALIZATION, INPUT_VALIDATION, here.trail) from None
        inner = replace(here, scope=scope, named=program.steps)
        for phase in program.phases:
            yield from self._phase(phase, inner)
        own = {"module_path", *program.constants, *(each.name for each in program.inputs)}
        return {name: plain_output(value) for name, value in scope.variables.items() if name not in own}

    def _phase(self, phase: Phase, here: Here) -> Doing:
        path = here.at(phase.name)
        yield StepEntered(path, "phase")
        yield from self.steps(phase.steps, replace(here, phase=phase.name, path=path))
        digests = {name: digest_of(plain_output(value)) for name, value in here.scope.variables.items()}
        yield PhaseEnded(path, digests)

    def steps(self, steps: tuple[Step, ...], here: Here) -> Doing:
        """Gives what the last step gave."""
        value: Any = None
        for index, step in enumerate(steps):
            try:
                value = yield from self._step(step, steps, index, here)
            except Halt as halt:
                raise halt.within(here.phase, step.head.name, here.trail) from None
        return value

    def _step(self, step: Step, steps: tuple[Step, ...], index: int, here: Here) -> Doing:
        path = here.at(step.head.name)
        if step.head.condition and not here.scope.holds(step.head.condition):
            yield StepEntered(path, "skipped")
            return None
        match step:
            case ToolStep():
                value = yield from self._tool_step(step, steps, index, here, path)
            case Foreach():
                value = yield from self._foreach(step, here, path)
            case While():
                value = yield from self._while(step, here, path)
            case Switch():
                value = yield from self._switch(step, here, path)
            case Try():
                value = yield from self._try(step, here, path)
            case RunStep():
                value = yield from self._run_step(step, here, path)
            case _:
                assert_never(step)
        return value

    def _tool_step(self, step: ToolStep, steps: tuple[Step, ...], index: int, here: Here, path: str) -> Doing:
        value = yield from self._use(step, here, path)
        failed = isinstance(value, CommandOutput) and value.exit_code != 0
        if failed and not step.allow_failure and not self._looks_at_exit(step, steps, index):
            raise failure(value)
        if step.as_type is not None:
            value = converted(value, step.as_type, step.tool)
        if step.register and step.tool != "set_vars":
            yield here.set(step.register, value)
        yield step_left(path, value)
        return value

    def _looks_at_exit(self, step: ToolStep, steps: tuple[Step, ...], index: int) -> bool:
        kept = self._looked_at.get(id(step))
        if kept is None:
            kept = self._looked_at[id(step)] = (step, later_reads_exit_code(steps, index))
        return kept[1]

    def _use(self, step: ToolStep, here: Here, path: str) -> Doing:
        known = here.registry.find(step.tool)
        if known is None:
            near = ", ".join(sorted(here.registry.tools))
            raise Halt("Unknown Tool", f"There is no tool `{step.tool}`.", f"Known tools: {near}")
        self._refuse_unknown(known, step)
        match known.kind:
            case "built-in" | "code":
                if step.tool == "run_apl":
                    return (yield from self._run_apl(step, here, path))
                if step.tool == "agent_native":
                    return (yield from agent_native(step, here, path))
                return (yield from CODE[step.tool](step, here, path))
            case "custom":
                return (yield from self._custom(known, step, here, path))
            case "own":
                return (yield from _own_tool(step, here, path))
            case "agent":
                return (yield from interface_only(known, step, here, path))
            case _:
                assert_never(known.kind)

    def _refuse_unknown(self, known: Known, step: ToolStep) -> None:
        """A parameter that a tool of ours does not have is no hint to anybody: it would be passed over in silence."""
        if id(step) in self._checked or known.kind == "agent":
            return
        unknown = call_of(known, step).unknown
        if unknown:
            raise tool_logic(unknown[0], f"Step: {step.head.name}")
        self._checked[id(step)] = step

    def _custom(self, known: Known, step: ToolStep, here: Here, path: str) -> Doing:
        _refuse_depth(here)
        inputs = here.scope.resolve({**step.params, **step.inputs})
        scope = Scope()
        scope.set("module_path", here.scope.variables["module_path"])
        bound_inputs(known.inputs, inputs, scope)
        yield StepEntered(path, said(known.name, inputs))
        inner = replace(here, scope=scope, source=known.source, depth=here.depth + 1, named={})
        yield from self.steps(known.body, inner.inside(path, step.head.name, f"tool {known.name}"))
        declared = tuple(output.name for output in known.outputs)
        return checked_outputs(known.name, declared, scope.variables) if declared else {}

    def _run_apl(self, step: ToolStep, here: Here, path: str) -> Doing:
        _refuse_depth(here)
        named = here.scope.resolve(given(step, "program"))
        if not isinstance(named, str) or not named:
            raise missing_parameter("run_apl", "program")
        inputs = here.scope.resolve(step.inputs)
        yield StepEntered(path, said("run_apl", {"program": named, **inputs}))
        trail = (*here.trail, step.head.name)
        try:
            program, source, module_path = yield from load_program_at(named, here)
            registry = yield from registry_of(program, source, here.shared)
        except Halt as halt:
            stage = LOAD_AND_PARSE if halt.kind == "Invalid Program" else PROGRAM_RESOLUTION
            raise halt.within(INITIALIZATION, stage, trail) from None
        for sentence in registry.shadowed[len(here.shared.shadowed) :]:
            yield StepEntered(INITIALIZATION, sentence)
        scope = Scope()
        scope.set("module_path", module_path)
        inner = replace(here, scope=scope, source=source, registry=registry, depth=here.depth + 1, path=path)
        return (yield from self.program(program, replace(inner, trail=trail), inputs))

    def _foreach(self, step: Foreach, here: Here, path: str) -> Doing:
        items = step.items if isinstance(step.items, list) else here.scope.named(step.items, literal=False)
        items = here.scope.resolve(items) if isinstance(step.items, list) else items
        if not isinstance(items, list):
            kind = "a text" if isinstance(items, str) else type(items).__name__
            raise tool_logic("A `foreach` loop goes over a list.", f"`in` is {kind}")
        total = len(items)
        yield StepEntered(path, f"foreach {total}")
        value: Any = None
        if step.max_concurrency:
            value = yield from _in_rounds(self.steps, step, items, here, path)
            if step.register:
                yield here.set(step.register, value)
        else:
            for number, item in enumerate(list(items), 1):
                here.scope.set(step.loop_var, item)
                inner_path = f"{path}[{number}]"
                yield StepEntered(inner_path, f"item {number} of {total}")
                value = yield from self.steps(step.body, here.inside(inner_path, f"Item {number} of {total}"))
        yield step_left(path, items)
        return value

    def _while(self, step: While, here: Here, path: str) -> Doing:
        yield StepEntered(path, "while")
        number, value = 0, None
        while here.scope.holds(step.test):
            number += 1
            if number > here.while_limit:
                raise Halt(
                    LIMIT_REACHED,
                    f"A `while` loop went on for more than {here.while_limit:,} iterations.",
                    f"Condition: {step.test}",
                )
            inner_path = f"{path}[{number}]"
            yield StepEntered(inner_path, f"iteration {number}")
            value = yield from self.steps(step.body, here.inside(inner_path, f"Iteration {number}"))
        yield step_left(path, [None] * number)
        return value

    def _switch(self, step: Switch, here: Here, path: str) -> Doing:
        value = here.scope.evaluate(bare(step.value))
        text = value if isinstance(value, str) else json.dumps(plain_output(value), default=str)
        body = next((body for case, body in step.cases if case == text), step.default)
        yield StepEntered(path, f"switch {text[:80]}")
        value = yield from self.steps(body, here.inside(path, step.head.name))
        yield step_left(path, value)
        return value

    def _try(self, step: Try, here: Here, path: str) -> Doing:
        yield StepEntered(path, "try")
        try:
            value = yield from self.steps(step.body, here.inside(path, step.head.name))
        except Halt as halt:
            if halt.kind == LIMIT_REACHED:
                raise
            error = {"type": halt.kind, "reason": halt.reason, "details": halt.all_details}
            yield here.set("error", error)
            yield StepEntered(f"{path}/catch", f"catch {halt.kind}")
            value = yield from self.steps(step.catch, here.inside(f"{path}/catch", step.head.name))
        yield step_left(path, value)
        return value

    def _run_step(self, step: RunStep, here: Here, path: str) -> Doing:
        body = here.named.get(step.named)
        if body is None:
            known = ", ".join(sorted(here.named)) or "none"
            raise Halt("Invalid Program", f"`def_step` has no `{step.named}`.", f"Known: {known}")
        _refuse_depth(here)
        yield StepEntered(path, f"run_step {step.named}")
        inner = replace(here, depth=here.depth + 1)
        value = yield from self.steps(body, inner.inside(path, step.head.name))
        yield step_left(path, value)
        return value


def _own_tool(step: ToolStep, here: Here, path: str) -> Doing:
    arguments = {
        name: plain_output(value) for name, value in here.scope.resolve({**step.params, **step.inputs}).items()
    }
    yield StepEntered(path, said(step.tool, arguments))
    answer: ToolAnswer = yield InvokeTool(step.tool, arguments)
    if answer.failed:
        raise tool_logic(f"The '{step.tool}' tool failed.", answer.detail or answer.failed)
    try:
        return storable(answer.value)
    except (ValueError, RecursionError) as error:
        raise malformed_value(step.tool, "its result holds half a character or a number that is none") from error


def _refuse_depth(here: Here) -> None:
    if here.depth >= MOST_DEPTH:
        reason = f"Programs and tools are nested deeper than {MOST_DEPTH}."
        raise Halt(LIMIT_REACHED, reason, f"Depth: {here.depth}")


def _in_rounds(run: Run, step: Foreach, items: list[Any], here: Here, path: str) -> Doing:
    """What the last step of each round gave, in the order of the items; rounds run side by side.

    A round has a register of its own: what it sets is gone when it ends, but for what its last step gives.

    Raises:
        Halt: Of the first round, in the order of the items, that cannot go on; the others are given up.

    """

    def in_own_scope(number: int, item: Any) -> Doing:
        scope = here.scope.copy()
        scope.set(step.loop_var, item)
        inner_path = f"{path}[{number}]"
        yield StepEntered(inner_path, f"item {number} of {len(items)}")
        inner = replace(here, scope=scope).inside(inner_path, f"Item {number} of {len(items)}")
        return (yield from run(step.body, inner))

    rounds = [in_own_scope(number, item) for number, item in enumerate(items, 1)]
    return (yield from side_by_side(rounds, step.max_concurrency, open_at_once=step.max_concurrency))
