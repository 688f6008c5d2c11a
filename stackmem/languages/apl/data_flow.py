"""The linter's last stage: each step with the variables that are known when it is reached."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any

from stackmem.core.requests import LoadSource
from stackmem.languages.frame.yaml_tree import Place
from stackmem.languages.operations import Source

from .reader import load_program
from .registry import PARAMETER, CallFaults, Registry, check_call, named_variables
from .templates import Mention, bare, fault_of, literal_stretches, mentions
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
    While,
    all_steps,
    bodies,
    command_mentions,
    conditions,
    own_mentions,
    texts,
)

_UNKNOWN_VARIABLE = "Unresolved Template Variable"
_DANGEROUS = re.compile(
    r"\brm\s+(-\w*[rR]\w*f|-\w*f\w*[rR]|-r\s+-f|-f\s+-r)|\bmkfs\b|\bdd\b[^|;]*\bof=/dev/|:\(\)\s*\{|\bsudo\b"
    r"|\b(curl|wget)\b[^;&]*\|\s*(ba|z|da)?sh\b|\bchmod\s+-R\s+777\b|>\s*/dev/sd"
)

_MOST_FOLLOWED = 1_000
"""Steps that name named steps; a few that name each other would otherwise stand for millions."""

Walk = Generator[LoadSource, Source, None]


class Flow:
    """Walks a program and collects what is wrong; ``errors`` and ``warnings`` are in the order they were met."""

    def __init__(self, path: str, registry: Registry, named: Mapping[str, tuple[Step, ...]]) -> None:
        self.errors: list[Fault] = []
        self.warnings: list[Fault] = []
        self._path = path
        self._registry = registry
        self._named = named
        self._known: set[str] = set()
        self._constants: frozenset[str] = frozenset()
        self._plain_texts: set[str] = set()
        self._from_outside: set[str] = set()
        self._running: set[str] = set()
        self._followed = 0

    def program(self, program: Program) -> Walk:
        self._begin(program.inputs, program.constants, program.places.get("constants"))
        for phase in program.phases:
            yield from self._steps(phase.steps)
        steps = [step for phase in program.phases for step in all_steps(phase.steps)]
        steps += [step for body in program.steps.values() for step in all_steps(body)]
        self._warn_unused(steps, frozenset())

    def tool(self, tool: Tool) -> Walk:
        self._begin(tool.inputs, {}, None)
        yield from self._steps(tool.body)
        steps = [*all_steps(tool.body)]
        declared = frozenset(output.name for output in tool.outputs)
        registered = {step.register for step in steps if isinstance(step, ToolStep) and step.register}
        last = steps[-1] if steps else None
        whole = frozenset({last.register}) if isinstance(last, ToolStep) else frozenset()
        self._warn_unused(steps, declared | whole)
        sets = registered | {name for step in steps if isinstance(step, ToolStep) for name in step.variables}
        if declared - sets and not registered:
            names = ", ".join(sorted(declared - sets))
            self.errors.append(
                Fault(tool.place, "Missing Tool Output", f"No step gives the declared outputs: {names}.")
            )

    def _begin(self, inputs: tuple[Input, ...], constants: Mapping[str, object], place: Place | None) -> None:
        self._constants = frozenset(constants)
        self._known = {"module_path"}
        for name, value in constants.items():
            for text in texts(value):
                self._check_mentions(mentions(text), place or Place(1, 1))
            self._known.add(name)
        for each in inputs:
            for text in texts(each.default):
                self._check_mentions(mentions(text), each.place)
            self._known.add(each.name)

    def _steps(self, steps: tuple[Step, ...]) -> Walk:
        for step in steps:
            yield from self._step(step)

    def _step(self, step: Step) -> Walk:
        self._templates(step)
        self._directives(step)
        match step:
            case ToolStep():
                yield from self._tool_step(step)
            case Foreach():
                yield from self._foreach(step)
            case While():
                yield from self._steps(step.body)
                self._while(step)
            case Try():
                yield from self._steps(step.body)
                self._known.add("error")
                yield from self._steps(step.catch)
            case Switch():
                for _, body in bodies(step):
                    yield from self._steps(body)
            case RunStep():
                yield from self._run_step(step)

    def _run_step(self, step: RunStep) -> Walk:
        if step.named not in self._named:
            known = ", ".join(sorted(self._named)) or "none"
            self._error(step, "Unknown Step", f"`def_step` has no `{step.named}`; known: {known}.")
        elif step.named not in self._running and self._followed < _MOST_FOLLOWED:
            self._followed += 1
            self._running.add(step.named)
            yield from self._steps(self._named[step.named])
            self._running.discard(step.named)

    def _foreach(self, step: Foreach) -> Walk:
        if isinstance(step.items, str) and "{" not in step.items:
            root = step.items.split(".", 1)[0]
            self._check_mentions((Mention(root),), step.head.place)
            if root == step.items and root in self._plain_texts:
                message = f"`{root}` is a text, and the loop goes over a list; split it first."
                self._warn(step, "Logical Type Mismatch", message)
        if FULL_LOOP not in step.head.directives and not step.max_concurrency:
            message = f"Say `directives: [{FULL_LOOP}]`; interpreters that are models may leave items out without it."
            self._warn(step, "Missing Loop Execution Directive", message)
        self._known.add(step.loop_var)
        self._came_from(step.loop_var, self._names_in(step.items))
        yield from self._steps(step.body)
        if step.register:
            self._known.add(step.register)

    @staticmethod
    def _names_in(items: Any) -> set[str]:
        """The variables that a loop's items come from."""
        if isinstance(items, str) and "{" not in items:
            return {items.split(".", 1)[0]}
        return {mention.name for text in texts(items) for mention in mentions(text)}

    def _came_from(self, name: str, sources: set[str]) -> None:
        """A variable that is made of what came from outside comes from outside."""
        (self._from_outside.add if sources & self._from_outside else self._from_outside.discard)(name)

    def _while(self, step: While) -> None:
        tested = {mention.name for mention in mentions(step.test, expression=True)}
        written = {name for each in all_steps(step.body) for name in _names_set(each, self._named)}
        if tested and not tested & written:
            names = ", ".join(f"`{name}`" for name in sorted(tested))
            self._warn(step, "Potential Infinite `while` Loop", f"Nothing in the loop writes {names}.")

    def _tool_step(self, step: ToolStep) -> Walk:
        known = self._registry.find(step.tool)
        if known is None and step.tool:
            names = ", ".join(sorted(self._registry.tools))
            self._error(step, "Unknown Tool", f"There is no tool `{step.tool}`; known: {names}.")
        elif known is not None:
            call: CallFaults = check_call(known, step)
            for title, message in (*call.missing, *((PARAMETER, message) for message in call.unknown)):
                self._error(step, title, message)
        for name in named_variables(step):
            self._check_mentions((Mention(name),), step.head.place)
        if step.tool == "run_apl":
            yield from self._run_apl(step)
        self._habits(step)
        self._sets(step)

    def _run_apl(self, step: ToolStep) -> Walk:
        """The inputs of a program whose path can be known."""
        named = step.params.get("program")
        path = str(named).replace("{{module_path}}/", "").replace("{{ module_path }}/", "")
        if not isinstance(named, str) or "{" in path:
            return
        if not path.lower().endswith(".apl"):
            path = f"{path.rstrip('/')}/main.apl"
        source: Source = yield LoadSource(path, self._path)
        if source.failed:
            self._warn(step, "Program Not Found", f"`{path}` could not be read ({source.failed}).")
            return
        program, _ = load_program(source.text)
        if program is None:
            self._error(step, "Unreadable Program", f"`{path}` is no program; lint it by itself.")
            return
        for each in program.inputs:
            if each.required and not each.has_default and each.name not in step.inputs:
                message = f"The program `{path}` needs the input `{each.name}`."
                self._error(step, "Missing Input in `run_apl` Call", message)
        known = {each.name for each in program.inputs}
        for name in step.inputs:
            if name not in known:
                message = f"The program `{path}` has no input `{name}`."
                self._error(step, "Unknown Input in `run_apl` Call", message)

    def _habits(self, step: ToolStep) -> None:
        """What runs, and may still not be what was meant."""
        if step.doubled_name:
            message = (
                "`name` stands twice: the first names the step, the second is the tool's; `list_name` says it once."
            )
            self._warn(step, "Doubled Name", message)
        if step.tool in ("read_file", "write_file"):
            for key in ("path", "absolute_path", "to_file"):
                value = step.params.get(key)
                if isinstance(value, str) and value and not value.startswith(("/", "{")):
                    message = f"`{value}` is relative to the workspace; begin it with a variable such as `module_path`."
                    self._warn(step, "Use of Relative Paths", message)
        command = step.params.get("command")
        if step.tool == "shell" and isinstance(command, str):
            self._command(step, command)

    def _command(self, step: ToolStep, command: str) -> None:
        if found := _DANGEROUS.search(command):
            self._warn(step, "Potentially Dangerous Shell Command", f"The command holds `{found[0][:60]}`.")
        for start, end in literal_stretches(command):
            message = f"Left alone, as it is no template of ours: {command[start:end][:80]}"
            self._warn(step, "Literal Stretch", message)
        for mention in command_mentions(command):
            if mention.name in self._from_outside and not mention.quoted and mention.path != ("exit_code",):
                message = (
                    f"`{mention.name}` comes from outside; write {{{{ {mention.name} | quote }}}}, or pass it by `env`."
                )
                self._warn(step, "Unquoted Shell Value", message)

    def _sets(self, step: ToolStep) -> None:
        known = set[str]()
        for name, value in step.variables.items():
            for text in texts(value):
                self._check_mentions(mentions(text), step.head.place, also=known)
            known.add(name)
            self._came_from(name, {mention.name for text in texts(value) for mention in mentions(text)})
            if name in self._constants:
                self._error(step, "Constant Changed", f"`{name}` is a constant.")
        self._known |= known
        listed = step.params.get("name", step.params.get("list_name")) if step.tool == "initialize_list" else None
        for name in [step.register, *([listed] if isinstance(listed, str) else [])]:
            if not name:
                continue
            if name in self._constants:
                self._error(step, "Constant Changed", f"`{name}` is a constant.")
            self._known.add(name)
            self._plain_texts.discard(name)
        if step.register and step.as_type is None and step.tool in ("read_file", "shell"):
            self._plain_texts.add(step.register)
        registry_tool = self._registry.find(step.tool)
        trusted = registry_tool is not None and registry_tool.kind == "code"
        if step.register and step.tool != "set_vars":
            (self._from_outside.discard if trusted and step.tool != "split" else self._from_outside.add)(step.register)

    def _templates(self, step: Step) -> None:
        """Everything it mentions is known, and everything can be parsed."""
        for condition in conditions(step):
            if why := fault_of(condition, expression=True):
                self._error(step, "Invalid Template", f"`{bare(condition)[:80]}`: {why}")
        is_shell = isinstance(step, ToolStep) and step.tool == "shell"
        found = own_mentions(step, command=is_shell, variables=False)
        self._check_mentions(found, step.head.place)
        if isinstance(step, ToolStep):
            for text in texts([step.params, step.inputs, step.using, step.env, step.variables]):
                if not (is_shell and literal_stretches(text)) and (why := fault_of(text)):
                    self._error(step, "Invalid Template", f"`{text[:80]}`: {why}")

    def _check_mentions(self, found: Iterable[Mention], place: Place, also: set[str] | None = None) -> None:
        for mention in found:
            if mention.name not in self._known and not mention.guarded and mention.name not in (also or ()):
                message = f"The variable `{mention.name}` is not known here."
                self.errors.append(Fault(place, _UNKNOWN_VARIABLE, message))

    def _directives(self, step: Step) -> None:
        if FULL_LOOP in step.head.directives and not isinstance(step, Foreach):
            self._warn(step, "Misplaced Directive", f"`{FULL_LOOP}` stands on a step that is not a `foreach` loop.")

    def _warn_unused(self, steps: list[Step], used_outside: frozenset[str]) -> None:
        used = set(used_outside)
        for step in steps:
            used |= {mention.name for mention in own_mentions(step, command=True)}
            used |= set(named_variables(step)) if isinstance(step, ToolStep) else set()
            if isinstance(step, Foreach) and isinstance(step.items, str):
                used.add(step.items.split(".", 1)[0])
        for step in steps:
            register = step.register if isinstance(step, ToolStep | Foreach) else ""
            if register and register not in used:
                self._warn(step, "Unused Registered Variable", f"`{register}` is registered and never used.")

    def _error(self, step: Step, title: str, message: str) -> None:
        self.errors.append(Fault(step.head.place, title, message))

    def _warn(self, step: Step, title: str, message: str) -> None:
        self.warnings.append(Fault(step.head.place, title, message))


def _names_set(step: Step, named: Mapping[str, tuple[Step, ...]]) -> Iterator[str]:
    """Every name that a step may set."""
    match step:
        case ToolStep():
            yield from step.variables
            yield step.register
            for key in ("list", "list_name", "name"):
                value = step.params.get(key)
                if isinstance(value, str) and step.tool in ("append_to_list", "initialize_list"):
                    yield value
        case Foreach():
            yield step.loop_var
            yield step.register
        case RunStep():
            for each in all_steps(named.get(step.named, ())):
                if not isinstance(each, RunStep):
                    yield from _names_set(each, named)
        case _:
            pass
