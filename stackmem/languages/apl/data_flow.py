"""The linter's last stage: checks each step against the variables known when it is reached."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.requests import LoadSource
from stackmem.languages.frame.values import texts
from stackmem.languages.frame.yaml_tree import Place
from stackmem.languages.operations import Source

from .habits import endless, habits, unused
from .halts import (
    INITIALIZATION,
    INPUT_VALIDATION,
    Halt,
    bad_name,
    malformed_value,
    missing_input,
    missing_parameter,
    missing_variable,
    tool_logic,
    unknown_input,
    unknown_step,
)
from .reader import load_program
from .refusals import At, Refusals
from .registry import PARAMETER, KnownTool, Registry, check_call, misfits, named_variables
from .templates import Mention, bare, defined_by, fault_of, literal_stretches, mentions
from .tree import (
    FULL_LOOP,
    Fault,
    Foreach,
    Input,
    Program,
    RunStep,
    Step,
    Switch,
    Tool,
    ToolStep,
    Try,
    WhileStep,
    all_steps,
    bodies,
    conditions,
    names_set,
    own_mentions,
)

_UNKNOWN_VARIABLE = "Unresolved Template Variable"
_MODULE_PATH = re.compile(r"^\{\{\s*module_path\s*\}\}/")
_MAX_COMPARED = 100
"""Maximum number of unknown variables reported with similar names.

The limit keeps hostile programs with many of them fast.
"""
_MAX_FOLLOWED = 1_000
"""Maximum number of named steps followed.

A few named steps that run each other could otherwise expand to millions.
"""

Walk = Generator[LoadSource, Source, None]


class Call(Struct, frozen=True):
    """A call to a tool or program in another file."""

    position: Place  # position of the calling step
    path: str
    at: At
    caught: bool  # whether the call is inside a ``try``
    of: KnownTool | Source  # the tool, or the program's source


class Flow(Refusals):
    """Walks a program and collects its faults."""

    def __init__(
        self, source: str, registry: Registry, stored_steps: Mapping[str, tuple[Step, ...]], position: At
    ) -> None:
        super().__init__(source, position)
        self.calls: list[Call] = []  # calls to tools and programs in other files
        self.used: set[str] = set()  # names of the tools that are used
        self._registry = registry
        self._stored_steps = stored_steps
        self._assumed: list[frozenset[str]] = []
        self._loops: list[tuple[frozenset[str], int]] = []
        self._branches = 0
        self._variables: set[str] = set()
        self._constants: frozenset[str] = frozenset()
        self._plain_texts: set[str] = set()
        self._from_outside: set[str] = set()
        self._running: set[str] = set()
        self._followed = 0

    def program(self, program: Program) -> Walk:
        self._begin(program.inputs, program.constants, program.places.get("constants"))
        for phase in program.phases:
            self._at = replace(self._at, phase=phase.name)
            yield from self._steps(phase.steps)
        steps = [step for phase in program.phases for step in all_steps(phase.steps)]
        steps += [step for body in program.steps.values() for step in all_steps(body)]
        self._warn_unused(steps)

    def tool(self, tool: Tool) -> Walk:
        self._begin(tool.inputs, {}, None)
        yield from self._steps(tool.body)
        steps = [*all_steps(tool.body)]
        declared = frozenset(output.name for output in tool.outputs)
        registered = {step.register for step in steps if isinstance(step, ToolStep) and step.register}
        last = steps[-1] if steps else None
        result = frozenset({last.register}) if isinstance(last, ToolStep) else frozenset()
        self._warn_unused(steps, declared | result)
        sets = registered | {name for step in steps if isinstance(step, ToolStep) for name in step.variables}
        if declared - sets and not registered:
            names = ", ".join(sorted(declared - sets))
            halt = malformed_value(tool.name, f"its outputs are missing: {names}")
            fault = Fault(tool.position, "Missing Tool Output", f"No step gives the declared outputs: {names}.")
            step = self._at.trail[-2] if self._at.trail else tool.name
            self.add(fault, halt.locate(self._at.phase, step, self._at.trail[:-2]))

    def _begin(self, inputs: tuple[Input, ...], constants: Mapping[str, object], position: Place | None) -> None:
        self._variables = {"module_path"}
        initial = self._at
        if initial.validates:
            self._at = replace(initial, phase=INITIALIZATION)
        for name, value in constants.items():
            self._initial(value, position or Place(1, 1))
            self._variables.add(name)
        self._constants = frozenset(constants)
        for each in inputs:
            self._initial(each.default, each.position)
            if each.name in self._constants:
                self._constant(each.name, each.position, INPUT_VALIDATION)
            self._variables.add(each.name)
        self._at = initial

    def _initial(self, value: Any, position: Place) -> None:
        """Check a constant or the default of an input."""
        for text in texts(value):
            if reason := fault_of(text):
                self._invalid_template(text, reason, position, INPUT_VALIDATION)
            self._check_mentions(mentions(text), position, INPUT_VALIDATION)

    def _steps(self, steps: tuple[Step, ...]) -> Walk:
        for step in steps:
            yield from self._step(step)

    def _step(self, step: Step) -> Walk:
        self._conditions(step)
        self._directives(step)
        holds = step.test if isinstance(step, WhileStep) else "true"
        self._assumed.append(defined_by(step.head.condition or "true") | defined_by(holds))
        self._branches += bool(step.head.condition)
        match step:
            case ToolStep():
                yield from self._tool_step(step)
            case Foreach():
                yield from self._foreach(step)
            case WhileStep():
                yield from self._round(step)
                if message := endless(step, self._stored_steps):
                    self._warn(step, "Potential Infinite `while` Loop", message)
            case Try():
                yield from self._try(step)
            case Switch():
                for _, body in bodies(step):
                    yield from self._branch(body)
            case RunStep():
                yield from self._run_step(step)
        self._branches -= bool(step.head.condition)
        self._assumed.pop()

    def _try(self, step: Try) -> Walk:
        self._tries += 1
        yield from self._steps(step.body)
        self._tries -= 1
        if "error" in self._constants:
            self._constant("error", step.head.position, step.head.name)
        self._variables.add("error")
        yield from self._branch(step.catch)

    def _branch(self, body: tuple[Step, ...]) -> Walk:
        """Check steps that may be skipped."""
        self._branches += 1
        yield from self._steps(body)
        self._branches -= 1

    def _round(self, step: Foreach | WhileStep) -> Walk:
        """Check a loop's steps. A variable set later in the body may exist from the second round on."""
        sets = {name for each in all_steps(step.body) for name in names_set(each, self._stored_steps)}
        self._branches += 1
        self._loops.append((frozenset(sets), self._branches))
        yield from self._steps(step.body)
        self._loops.pop()
        self._branches -= 1

    def _run_step(self, step: RunStep) -> Walk:
        if step.target not in self._stored_steps:
            self._refuse(step, "Unknown Step", unknown_step(step.target, self._stored_steps))
        elif step.target not in self._running and self._followed < _MAX_FOLLOWED:
            self._followed += 1
            self._running.add(step.target)
            yield from self._steps(self._stored_steps[step.target])
            self._running.discard(step.target)

    def _foreach(self, step: Foreach) -> Walk:
        if isinstance(step.items, str) and "{" not in step.items:
            root = step.items.split(".", 1)[0]
            self._check_mentions((Mention(root),), step.head.position, step.head.name)
            if root == step.items and root in self._plain_texts:
                message = f"`{root}` is a text, but the loop needs a list; split it first."
                self._warn(step, "Logical Type Mismatch", message)
        else:
            self._check_mentions(own_mentions(step, expressions=False), step.head.position, step.head.name)
            self._text_templates(step, [step.items])
        if FULL_LOOP not in step.head.directives and not step.max_concurrency:
            message = f"Add `directives: [{FULL_LOOP}]`; without it, interpreters that are models may skip items."
            self._warn(step, "Missing Loop Execution Directive", message)
        for name in (step.loop_var, step.register):
            if name in self._constants:
                self._constant(name, step.head.position, step.head.name)
        self._variables.add(step.loop_var)
        self._came_from(step.loop_var, self._names_in(step.items))
        yield from self._round(step)
        if step.register:
            self._variables.add(step.register)

    @staticmethod
    def _names_in(items: Any) -> set[str]:
        """Return the variables that a loop's items are taken from."""
        if isinstance(items, str) and "{" not in items:
            return {items.split(".", 1)[0]}
        return {mention.name for text in texts(items) for mention in mentions(text)}

    def _came_from(self, name: str, sources: set[str]) -> None:
        """Mark a variable as coming from outside if one of its sources does."""
        (self._from_outside.add if sources & self._from_outside else self._from_outside.discard)(name)

    def _tool_step(self, step: ToolStep) -> Walk:
        if step.tool:
            self._call(step)
        for name in named_variables(step):
            self._check_mentions((Mention(name),), step.head.position, step.head.name)
        self._templates(step)
        if step.tool == "run_apl":
            yield from self._run_apl(step)
        for title, message in habits(step, self._from_outside):
            self._warn(step, title, message)
        self._sets(step)

    def _call(self, step: ToolStep) -> None:
        """Check that the tool exists and that the call's parameters fit."""
        self.used.add(step.tool)
        try:
            tool = self._registry.get(step.tool)
        except Halt as halt:
            self._refuse(step, "Broken Tool File" if halt.file else "Unknown Tool", halt)
            return
        call = check_call(tool, step)
        for message in call.unknown:
            if tool.kind == "agent":
                self._warn(step, "Undeclared Tool Input", message)
            else:
                self._error(step, PARAMETER, message, tool_logic(message, f"Step: {step.head.name}"))
        for message in misfits(tool, step):
            self._error(step, PARAMETER, message, tool_logic(message, f"Step: {step.head.name}"))
        for title, message, name in call.missing:
            custom = tool.kind == "custom"
            self._error(step, title, message, missing_input(name) if custom else missing_parameter(tool.name, name))
        if tool.kind == "custom":
            trail = (*self._at.trail, step.head.name, f"tool {tool.name}")
            at = replace(self._at, trail=trail, validates=False)
            self.calls.append(Call(step.head.position, tool.source, at, self._tries > 0, tool))

    def _run_apl(self, step: ToolStep) -> Walk:
        """Check the inputs of a called program whose path is known statically."""
        program_path = step.params.get("program")
        path = _MODULE_PATH.sub("", program_path) if isinstance(program_path, str) else "{"
        if "{" in path:
            return
        if not path.lower().endswith(".apl"):
            path = f"{path.rstrip('/')}/main.apl"
        source: Source = yield LoadSource(path, self._path if path == program_path else self._at.module)
        if source.failed:
            self._warn(step, "Program Not Found", f"`{path}` could not be read ({source.failed}).")
            return
        trail = (*self._at.trail, step.head.name)
        self.calls.append(Call(step.head.position, source.path, At(source.path, trail=trail), self._tries > 0, source))
        program, faults = load_program(source.text)
        if program is None or faults:
            return
        for each in program.inputs:
            if each.required and not each.has_default and each.name not in step.inputs:
                message = f"The program `{path}` needs the input `{each.name}`."
                halt = missing_input(each.name).locate(INITIALIZATION, INPUT_VALIDATION, trail)
                self._error(step, "Missing Input in `run_apl` Call", message, halt)
        input_names = [each.name for each in program.inputs]
        for name in step.inputs:
            if name not in input_names:
                message = f"The program `{path}` has no input `{name}`."
                halt = unknown_input(name, input_names).locate(INITIALIZATION, INPUT_VALIDATION, trail)
                self._error(step, "Unknown Input in `run_apl` Call", message, halt)

    def _sets(self, step: ToolStep) -> None:
        names = set[str]()
        for name, value in step.variables.items():
            for text in texts(value):
                self._check_mentions(mentions(text), step.head.position, step.head.name, also=names)
            if not name.isidentifier():
                self._refuse(step, PARAMETER, bad_name(name))
            names.add(name)
            self._came_from(name, {mention.name for text in texts(value) for mention in mentions(text)})
        self._variables |= names
        listed = step.params.get("name", step.params.get("list_name")) if step.tool == "initialize_list" else None
        if isinstance(listed, str) and "{" not in listed and not listed.isidentifier():
            self._refuse(step, PARAMETER, bad_name(repr(listed)))
        own = [step.register, *([listed] if isinstance(listed, str) else [])]
        for name in filter(None, own):
            self._variables.add(name)
            self._plain_texts.discard(name)
        extended = step.params.get("list", step.params.get("list_name")) if step.tool == "append_to_list" else None
        for name in [*step.variables, *own, *([extended] if isinstance(extended, str) else [])]:
            if name in self._constants:
                self._constant(name, step.head.position, step.head.name)
        if step.register and step.as_type is None and step.tool in ("read_file", "shell"):
            self._plain_texts.add(step.register)
        registry_tool = self._registry.find(step.tool)
        trusted = registry_tool is not None and registry_tool.kind == "code"
        if step.register and step.tool != "set_vars":
            (self._from_outside.discard if trusted and step.tool != "split" else self._from_outside.add)(step.register)

    def _conditions(self, step: Step) -> None:
        for condition in conditions(step):
            if reason := fault_of(condition, expression=True):
                self._invalid_template(bare(condition), reason, step.head.position, step.head.name)
            self._check_mentions(mentions(condition, expression=True), step.head.position, step.head.name)

    def _templates(self, step: ToolStep) -> None:
        """Check that all mentioned variables are known and all templates can be parsed."""
        mentioned = own_mentions(step, command=step.tool == "shell", variables=False, expressions=False)
        self._check_mentions(mentioned, step.head.position, step.head.name)
        self._text_templates(step, [step.params, step.inputs, step.using, step.env, step.variables])

    def _text_templates(self, step: Step, values: list[Any]) -> None:
        is_shell = isinstance(step, ToolStep) and step.tool == "shell"
        for text in texts(values):
            if not (is_shell and literal_stretches(text)) and (reason := fault_of(text)):
                self._invalid_template(text, reason, step.head.position, step.head.name)

    def _check_mentions(
        self, mentioned: Iterable[Mention], position: Place, step: str, also: Collection[str] = ()
    ) -> None:
        for mention in mentioned:
            name = mention.name
            is_defined = name in self._variables or name in also or any(name in assumed for assumed in self._assumed)
            if is_defined or mention.guarded:
                continue
            halt = missing_variable(name, self._variables if len(self.errors) < _MAX_COMPARED else ())
            near = f"; nearest: {', '.join(halt.near)}" if halt.near else ""
            if any(name in sets and self._branches > depth for sets, depth in self._loops):
                message = f"The variable `{name}` is set only later in the loop; in the first round it is missing."
                self.warnings.append(Fault(position, "Variable May Be Missing", message))
            else:
                message = f"The variable `{name}` is not known here{near}."
                self._halts_at(step, Fault(position, _UNKNOWN_VARIABLE, message), halt)

    def _directives(self, step: Step) -> None:
        if FULL_LOOP in step.head.directives and not isinstance(step, Foreach):
            self._warn(
                step, "Misplaced Directive", f"`{FULL_LOOP}` has no effect on a step other than a `foreach` loop."
            )

    def _warn_unused(self, steps: list[Step], used_outside: frozenset[str] = frozenset()) -> None:
        for step, message in unused(steps, used_outside):
            self._warn(step, "Unused Registered Variable", message)
