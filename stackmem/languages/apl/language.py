"""The language interface of APL: how a program is started, outlined, and announced to the user while it runs."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from stackmem.core.errors import Halted, UsageError
from stackmem.core.facts import FramePushed, ModelReplied
from stackmem.core.messages import Text
from stackmem.core.program_facts import PhaseEnded, StepEntered, StepLeft, ToolAnswered, VariableSet
from stackmem.core.requests import InvokeTool
from stackmem.languages.language import (
    Announcer,
    Happening,
    Language,
    Launch,
    ProgramInterface,
    Reading,
    inputs_schema,
    leading_comment,
)
from stackmem.languages.operations import FrameAnswer, Group, Program, RunFrame

from . import tree
from .checks import broken_tool_files, check_program
from .data_flow import Flow
from .halts import INITIALIZATION, INPUT_VALIDATION, LIMIT_REACHED, LOAD_AND_PARSE, PROGRAM_RESOLUTION, Halt
from .interpreter import Execution
from .lint import lint, lint_report
from .reader import load_program, load_tool
from .registry import Registry
from .scope import WHILE_LIMIT, Doing, Pointer, Scope, bind_inputs
from .sources import CONFIG, Config, base_of, no_entry_point, read_config, read_program, registry_of
from .tree import Foreach, RunStep, Step, Switch, ToolStep, Try, WhileStep, all_steps, bodies

_FOREACH = re.compile(r"foreach (\d+)")
_ITEM = re.compile(r"item \d+ of \d+")
_ITERATION = re.compile(r"iteration (\d+)")


def announcer() -> Announcer:
    return _Announcements()


class _Announcements:
    """Tracks open loops, whether an agent's plan is due, and whether a group of operations is running."""

    def __init__(self) -> None:
        self._loops: dict[str, str] = {}
        self._plan_is_due = False
        self._in_group = False

    def __call__(self, happening: Happening) -> tuple[str, ...]:
        match happening:
            case StepEntered():
                return self._step_entered(happening)
            case StepLeft():
                return self._step_left(happening)
            case VariableSet():
                size = f", {happening.size:,}" if happening.size else ""
                return (f"  Register: {happening.name} ({happening.kind}{size})",)
            case InvokeTool():
                return (f"  Parameters: {_json(happening.arguments)}",)
            case RunFrame():
                hints = (f"  Using: {_json(happening.using)}",) if happening.using else ()
                return (f"  Goal: {happening.task}", *hints, f"  Parameters: {_json(happening.inputs)}")
            case Group():
                lines = [self(each) for each in happening.operations]
                self._in_group = True
                return tuple(
                    f"  [{number}]{line[1:]}" for number, own_lines in enumerate(lines, 1) for line in own_lines
                )
            case FramePushed():
                self._plan_is_due = happening.program is not UNSET and happening.program.kind == "work"
                return ()
            case ModelReplied() if self._plan_is_due:
                self._plan_is_due = False
                return tuple(f"Plan: {part.text}" for part in happening.parts if isinstance(part, Text) and part.text)
            case tuple():
                self._in_group = False
                return tuple(line for each in happening if isinstance(each, FrameAnswer) for line in self(each))
            case ToolAnswered():
                mark = f"  [{happening.branch + 1}]" if self._in_group else " "
                return tuple(f"{mark}{line[1:]}" for line in _answer(happening))
            case FrameAnswer():
                self._plan_is_due = False
                failed = f" ({happening.failed}: {happening.detail})" if happening.failed else ""
                return (f"  Result{failed}: {happening.result}",)
            case PhaseEnded():
                return (f"Phase ended: {_name(happening.path)}",)
            case _:
                return ()

    def _step_entered(self, note: StepEntered) -> tuple[str, ...]:
        name = _name(note.path)
        if note.call == "phase":
            return (f"Phase: {name}",)
        if note.call == "skipped":
            return (f"Step: {name}", "  Skipped: its `if` does not hold.")
        if loop := _FOREACH.fullmatch(note.call):
            self._loops[note.path] = "foreach"
            return (f"Step: {name}", f"Entering `foreach` loop with {loop[1]} items.")
        if note.call == "while":
            self._loops[note.path] = "while"
            return (f"Step: {name}", "Entering `while` loop.")
        if _ITEM.fullmatch(note.call):
            return (f"Processing {note.call}",)
        if round_ := _ITERATION.fullmatch(note.call):
            return (f"Iteration {round_[1]}",)
        return (f"Step: {name}", f"  Tool: {note.call}") if "/" in note.path else (f"{name}: {note.call}",)

    def _step_left(self, note: StepLeft) -> tuple[str, ...]:
        match self._loops.pop(note.path, ""):
            case "foreach":
                return (f"Successfully completed all {note.size} iterations of the loop.",)
            case "while":
                return (f"Completed {note.size} iterations.",)
        size = f", {note.size:,}" if note.size else ""
        return (f"  Gave: {note.kind}{size}",)


def _answer(fact: ToolAnswered) -> tuple[str, ...]:
    failed = f" ({fact.failed}{': ' if fact.detail else ''}{fact.detail})" if fact.failed else ""
    value = fact.value
    if isinstance(value, dict) and set(value) == {"stdout", "stderr", "exit_code"}:
        lines = [f"  Exit code: {value['exit_code']}{failed}"]
        lines += [f"  {name}: {str(value[name]).rstrip()}" for name in ("stdout", "stderr") if value[name]]
        return tuple(lines)
    return (f"  Result{failed}: {value if isinstance(value, str) else _json(value)}",)


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1].replace("\N{DIVISION SLASH}", "/")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def start(launch: Launch) -> Program:
    """Run the program; see ``language.Language``."""
    try:
        return (yield from _run(launch))
    except Halt as halt:
        halt.locate(INITIALIZATION, LOAD_AND_PARSE, ()).at(launch.path)
        raise halt.to_halted("/".join([halt.phase, *halt.trail, halt.step])) from halt
    except RecursionError:
        reason = "Steps or values are nested too deeply to be followed."
        deep = Halt(LIMIT_REACHED, reason, "Nest less, or loop instead.", "unknown", "unknown")
        raise deep.to_halted("") from None


def outline(launch: Launch) -> Reading:
    """Return a line for every step that would run, with its tool resolved."""
    try:
        program, _, _, registry, _ = yield from _load(launch, check=True)
        scope = Scope()
        scope.set("module_path", launch.module_path)
        try:
            scope.set_constants(program.constants)
            bind_inputs(program.inputs, launch.inputs, scope)
        except Halt as halt:
            raise halt.locate(INITIALIZATION, INPUT_VALIDATION, ()).at(launch.path) from None
        return tuple(_outline_lines(program, registry))
    except Halt as halt:
        raise halt.locate(INITIALIZATION, LOAD_AND_PARSE, ()).to_halted(INITIALIZATION) from halt


def interface(launch: Launch) -> Reading:
    """Return the program's interface. Its description is the comment at its beginning."""
    yield from ()  # a reading must be a generator, even if it reads no other source
    try:
        program = read_program(launch.path, launch.text)
    except Halt as halt:
        raise halt.locate(INITIALIZATION, LOAD_AND_PARSE, ()).to_halted(INITIALIZATION) from halt
    properties = {
        each.name: {"description": each.description} | ({"default": each.default} if each.has_default else {})
        for each in program.inputs
    }
    required = [each.name for each in program.inputs if each.required and not each.has_default]
    return ProgramInterface(leading_comment(launch.text, "#"), inputs_schema(properties, required))


def stop_lines(path: str, text: str) -> Iterator[int]:
    """Yield the lines of the steps of a program or tool. Steps under ``def_step`` count only if some step runs them."""
    if path.lower().endswith(".tool.apl"):
        tool, _ = load_tool(text)
        yield from (step.head.position.line for step in all_steps(tool.body if tool else ()))
        return
    program, _ = load_program(text)
    waiting = [phase.steps for phase in program.phases] if program else []
    entered: set[str] = set()
    while program and waiting:
        for step in all_steps(waiting.pop()):
            yield step.head.position.line
            if isinstance(step, RunStep) and step.target in program.steps and step.target not in entered:
                entered.add(step.target)
                waiting.append(program.steps[step.target])


def _run(launch: Launch) -> Doing:
    program, config, shared, registry, broken = yield from _load(launch, check=bool(launch.options.get("checked")))
    for sentence in (*registry.shadowed, *broken):
        yield StepEntered(INITIALIZATION, sentence)
    if config.path and (config.runtime or config.linter):
        text = f"{config.path} names a runtime and linter; their texts are not executed, this interpreter runs instead."
        yield StepEntered(INITIALIZATION, text)
    scope = Scope()
    scope.set("module_path", launch.module_path)
    limit: int = launch.options.get("while_limit") or config.while_limit or WHILE_LIMIT
    pointer = Pointer(scope, registry, shared, launch.path, launch.workspace, while_limit=limit, watch=launch.watch)
    return (yield from Execution().program(program, pointer, launch.inputs))


def _load(launch: Launch, *, check: bool) -> Reading:
    """Return ``(program, config, registry for all programs, the program's registry, skipped tool files)``.

    Raise UsageError if the program does not have this input, and Halt if the program would halt with any inputs.
    """
    program = read_program(launch.path, launch.text)
    names = [each.name for each in program.inputs]
    for name in launch.inputs:
        if name not in names:
            raise UsageError(
                f"{posixpath.basename(launch.path)} has no input {name[:80]!r}; known: {', '.join(names) or 'none'}"
            )
    config: Config = yield from read_config(str(launch.options.get("config") or ""), launch.path)
    base: Registry = yield from base_of(config, launch.tools)
    registry = yield from registry_of(program, launch.path, base)
    if not check:
        return program, config, base, registry, ()
    flow: Flow = yield from check_program(launch.path, program, registry, base)
    if flow.halts:
        raise flow.halts[0]
    return program, config, base, registry, tuple(broken_tool_files(flow, registry))


def no_main(folder: str) -> Halted:
    """Return the error for running a folder without a main program."""
    return no_entry_point(folder).locate(INITIALIZATION, PROGRAM_RESOLUTION, ()).at(folder).to_halted(INITIALIZATION)


def _outline_lines(program: tree.Program, registry: Registry) -> Iterator[str]:
    for phase in program.phases:
        yield f"{phase.name}:"
        yield from _step_lines(phase.steps, registry, 1)
    for name, steps in program.steps.items():
        yield f"def_step {name}:"
        yield from _step_lines(steps, registry, 1)


def _step_lines(steps: tuple[Step, ...], registry: Registry, depth: int) -> Iterator[str]:
    """Yield each step with its condition and the steps nested in it."""
    for step in steps:
        condition = f" if {step.head.condition}" if step.head.condition else ""
        yield f"{'  ' * depth}{step.head.name}: {_does(step, registry)}{condition}"
        for title, body in bodies(step):
            if title:
                yield f"{'  ' * (depth + 1)}{title}:"
            yield from _step_lines(body, registry, depth + (2 if title else 1))


def _does(step: Step, registry: Registry) -> str:
    match step:
        case ToolStep():
            tool = registry.find(step.tool)
            return f"{step.tool} ({tool.kind if tool else 'unknown'})"
        case Foreach():
            return f"for each {step.loop_var}"
        case WhileStep():
            return f"while {step.test}"
        case Switch():
            return f"switch {step.value}"
        case Try():
            return "try"
        case RunStep():
            return f"run_step {step.target}"


LANGUAGE = Language(
    name="apl",
    says="procedures in YAML, executed step by step",
    start=start,
    outline=outline,
    lint=lint,
    stop_lines=stop_lines,
    announcer=announcer,
    lint_report=lint_report,
    config=CONFIG,
    interface=interface,
    is_checked=True,
    no_main=no_main,
)
