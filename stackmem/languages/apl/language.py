"""APL as the machine sees it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from stackmem.core.program_facts import StepEntered
from stackmem.errors import UsageError
from stackmem.languages.effects import Program
from stackmem.languages.language import Language, Launch, Reading

from . import nodes
from .announcing import announcer
from .halts import INITIALIZATION, INPUT_VALIDATION, LIMIT_REACHED, LOAD_AND_PARSE, Halt
from .here import WHILE_LIMIT, Doing, Here
from .interpreter import Interpreter
from .lint_report import lint_report
from .linter import lint
from .nodes import Foreach, RunStep, Step, Switch, ToolStep, Try, While
from .registry import Registry
from .scope import Scope, bound_inputs
from .sources import CONFIG, Config, base_of, read_config, read_program, registry_of


def start(launch: Launch) -> Program:
    """The program; see ``language.Language``."""
    try:
        return (yield from _run(launch))
    except Halt as halt:
        halt.within(INITIALIZATION, LOAD_AND_PARSE, ())
        raise halt.halted("/".join([halt.phase, *halt.trail, halt.step])) from halt
    except RecursionError:
        reason = "Steps or values are nested too deeply to be followed."
        deep = Halt(LIMIT_REACHED, reason, "Nest less, or loop instead.", "unknown", "unknown")
        raise deep.halted("") from None


def outline(launch: Launch) -> Reading:
    """Every step that would run, a line each, its tool resolved."""
    try:
        program, _, _, registry = yield from _loaded(launch)
        scope = Scope()
        scope.set("module_path", launch.module_path)
        try:
            scope.set_constants(program.constants)
            bound_inputs(program.inputs, launch.inputs, scope)
        except Halt as halt:
            raise halt.within(INITIALIZATION, INPUT_VALIDATION, ()) from None
        return tuple(_outlined(program, registry))
    except Halt as halt:
        raise halt.within(INITIALIZATION, LOAD_AND_PARSE, ()).halted(INITIALIZATION) from halt


def _run(launch: Launch) -> Doing:
    program, config, shared, registry = yield from _loaded(launch)
    for sentence in registry.shadowed:
        yield StepEntered(INITIALIZATION, sentence)
    if config.path and (config.runtime or config.linter):
        said = f"{config.path} names a runtime and linter; their texts are not executed, this interpreter runs instead."
        yield StepEntered(INITIALIZATION, said)
    scope = Scope()
    scope.set("module_path", launch.module_path)
    limit: int = launch.options.get("while_limit") or config.while_limit or WHILE_LIMIT
    here = Here(scope, registry, shared, launch.path, launch.workspace, while_limit=limit)
    return (yield from Interpreter().program(program, here, launch.inputs))


def _loaded(launch: Launch) -> Reading:
    """``(program, config, tools of every program, its own tools)``; the inputs' names are checked first."""
    program = read_program(launch.path, launch.text)
    known = [each.name for each in program.inputs]
    for name in launch.inputs:
        if name not in known:
            raise UsageError(
                f"{posixpath.basename(launch.path)} has no input {name[:80]!r}; known: {', '.join(known) or 'none'}"
            )
    config: Config = yield from read_config(str(launch.options.get("config") or ""), launch.path)
    base: Registry = yield from base_of(config, launch.tools)
    registry = yield from registry_of(program, launch.path, base)
    return program, config, base, registry


def _outlined(program: nodes.Program, registry: Registry) -> Iterator[str]:
    for phase in program.phases:
        yield f"{phase.name}:"
        yield from _listed(phase.steps, registry, 1)
    for name, steps in program.steps.items():
        yield f"def_step {name}:"
        yield from _listed(steps, registry, 1)


def _listed(steps: tuple[Step, ...], registry: Registry, depth: int) -> Iterator[str]:
    """Each step with its condition, and what stands in it."""
    for step in steps:
        condition = f" if {step.head.condition}" if step.head.condition else ""
        yield f"{'  ' * depth}{step.head.name}: {_does(step, registry)}{condition}"
        for title, body in _bodies(step):
            if title:
                yield f"{'  ' * (depth + 1)}{title}:"
            yield from _listed(body, registry, depth + (2 if title else 1))


def _does(step: Step, registry: Registry) -> str:
    match step:
        case ToolStep():
            known = registry.find(step.tool)
            if known is None:
                raise Halt("Unknown Tool", f"There is no tool `{step.tool}`.", f"Step: {step.head.name}")
            return f"{step.tool} ({known.kind})"
        case Foreach():
            return f"for each {step.loop_var}"
        case While():
            return f"while {step.test}"
        case Switch():
            return f"switch {step.value}"
        case Try():
            return "try"
        case RunStep():
            return f"run_step {step.named}"


def _bodies(step: Step) -> tuple[tuple[str, tuple[Step, ...]], ...]:
    match step:
        case Foreach() | While():
            return (("", step.body),)
        case Switch():
            return (*step.cases, ("default", step.default))
        case Try():
            return (("", step.body), ("catch", step.catch))
        case RunStep() | ToolStep():
            return ()


LANGUAGE = Language(
    name="apl",
    says="procedures in YAML, executed step by step",
    suffixes=(".apl",),
    main="main.apl",
    start=start,
    outline=outline,
    lint=lint,
    announcer=announcer,
    lint_report=lint_report,
    lint_suffixes=(".tool.apl", "apl_stl.yml", CONFIG),
    config=CONFIG,
)
