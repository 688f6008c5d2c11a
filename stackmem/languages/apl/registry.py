"""Resolves tool names, and checks statically whether a step's parameters fit its tool.

A name is looked up among the built-ins, the custom tools, the user's own tools and the standard library, in this order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct, field

from stackmem.core.messages import ToolSpec
from stackmem.languages.frame.yaml_tree import Place

from .halts import Halt, invalid_program, nearest, unknown_tool
from .tree import Fault, Input, Output, Step, Tool, ToolStep

CODE_TOOLS = ("split", "initialize_list", "append_to_list", "create_directory")
"""Tools of the standard library that need no judgment and are implemented in code."""

Kind = Literal["built-in", "code", "custom", "own", "agent", "broken"]


class Parameter(Struct, frozen=True):
    """A parameter of a built-in tool."""

    name: str
    required: bool = False
    aliases: tuple[str, ...] = ()  # alternative spellings


BUILT_INS: dict[str, tuple[Parameter, ...]] = {
    "set_vars": (Parameter("vars", required=True),),
    "shell": (Parameter("command", required=True), Parameter("working_directory")),
    "read_file": (Parameter("path", required=True, aliases=("absolute_path",)),),
    "write_file": (
        Parameter("to_file", required=True, aliases=("path",)),
        Parameter("content_template", required=True, aliases=("content",)),
    ),
    "git_clone": (
        Parameter("repo_path", required=True, aliases=("repo_url",)),
        Parameter("workspace"),
        Parameter("if_not_exists"),
    ),
    "log": (Parameter("message"), Parameter("dump_register")),
    "run_apl": (Parameter("program", required=True), Parameter("with_inputs")),
    "agent_native": (Parameter("prompt", required=True), Parameter("outputs")),
}
"""The built-in tools, which cannot be overridden, and their parameters."""

SPELLINGS: dict[tuple[str, str], tuple[str, ...]] = {
    ("append_to_list", "items"): ("item",),
    ("append_to_list", "list"): ("list_name",),
    ("initialize_list", "name"): ("list_name",),
    ("rank_items", "from"): ("in", "list"),
}
"""Alternative spellings of the standard library's parameters."""

_TEXTS: dict[str, tuple[str, ...]] = {
    "shell": ("command",), "read_file": ("path",), "write_file": ("to_file",), "git_clone": ("repo_path",),
    "run_apl": ("program",), "agent_native": ("prompt",), "split": ("from", "delimiter"), "create_directory": ("path",),
}  # fmt: skip
"""Parameters that must be texts."""


class BrokenFile(Struct, frozen=True):
    """A tool file that cannot be read."""

    path: str
    fault: Fault
    name: str = ""  # the tool it would define, if its text shows the name
    line: str = ""  # source line of the fault

    @property
    def halt(self) -> Halt:
        return invalid_program(self.path, self.fault.position, f"{self.fault.title}: {self.fault.message}", self.line)

    @property
    def location(self) -> str:
        return f"{self.path}:{self.fault.position.line}:{self.fault.position.column}"


class KnownTool(Struct, frozen=True):
    """A tool that a step can name."""

    name: str
    kind: Kind  # ``broken`` if its file cannot be read
    description: str = ""
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    body: tuple[Step, ...] = ()
    source: str = ""  # the file that defines it; empty for tools shipped with the language
    broken: BrokenFile | None = None  # the fault of its file
    position: Place = Place(1, 1)

    @property
    def gives_result(self) -> bool:
        """Whether it is a standard tool whose only output is ``result``: a call then returns that value itself."""
        return self.kind in ("code", "agent") and not self.source and [each.name for each in self.outputs] == ["result"]


class Registry(Struct, frozen=True):
    """All tools by name."""

    tools: dict[str, KnownTool] = field(default_factory=dict)
    shadowed: tuple[str, ...] = ()  # one sentence for each tool that hides another
    # unreadable tool files; a tool that such a file defines is known but cannot be used
    broken: tuple[BrokenFile, ...] = ()

    def find(self, name: str) -> KnownTool | None:
        return self.tools.get(name)

    def get(self, name: str) -> KnownTool:
        """Return a tool by name. Raise Halt if the tool does not exist, or its file is broken."""
        tool = self.tools.get(name)
        if tool is None:
            raise unknown_tool(name, self.tools, [each.location for each in self.broken])
        if tool.broken:
            raise tool.broken.halt
        return tool

    def with_custom(self, custom: Iterable[tuple[Tool | BrokenFile, str]], origin: str) -> Registry:
        """Return a registry with custom tools added. They override existing tools except built-ins.

        Args:
            custom: Tools, each with its file. Of two tools with one name, the later one counts.
            origin: ``global`` or ``local``.
        """
        tools, lines, broken = dict(self.tools), list(self.shadowed), list(self.broken)
        for tool, source in custom:
            old = tools.get(tool.name)
            if isinstance(tool, BrokenFile):
                broken.append(tool)
                if tool.name and (old is None or old.kind != "built-in"):
                    tools[tool.name] = KnownTool(tool.name, "broken", source=source, broken=tool)
                continue
            if old is not None and old.kind == "built-in":
                lines.append(
                    f"The {origin} tool `{tool.name}` of {source} is ignored: a built-in cannot be overridden."
                )
                continue
            if old is not None:
                of = f" of {old.source}" if old.source else ""
                lines.append(f"The {origin} tool `{tool.name}` of {source} stands over the {old.kind} tool{of}.")
            kind: Kind = "custom" if tool.body else "agent"
            tools[tool.name] = KnownTool(
                tool.name, kind, tool.description, tool.inputs, tool.outputs, tool.body, source, position=tool.position
            )
        return Registry(tools, tuple(lines), tuple(broken))


def base_registry(library: Iterable[Tool], own: Iterable[ToolSpec]) -> Registry:
    """Return the registry of the built-ins, the standard library, and the user's tools, which override it."""
    tools = {
        tool.name: KnownTool(
            tool.name, "code" if tool.name in CODE_TOOLS else "agent", tool.description, tool.inputs, tool.outputs
        )
        for tool in library
    }
    lines = [f"Your own tool `{spec.name}` stands over the standard library's." for spec in own if spec.name in tools]
    tools |= {spec.name: KnownTool(spec.name, "own", spec.description) for spec in own}
    lines += [f"The name `{name}` is a built-in's and cannot be overridden." for name in tools if name in BUILT_INS]
    tools |= {name: KnownTool(name, "built-in") for name in BUILT_INS}
    return Registry(tools, tuple(lines))


PARAMETER = "Invalid Tool Parameter"
MISSING = "Missing Required Tool Input"
_MUST_BE_KNOWN = {"split": ("from",), "append_to_list": ("list", "list_name"), "rank_items": ("from", "in", "list")}
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(\.\w+)*")


_STEP_KEYS = {
    "shell": ("env", "allow_failure", "timeout_seconds", "register"),
    "git_clone": ("timeout_seconds", "register"),
    "set_vars": ("vars",),
}
"""Step keys that only these built-ins use."""


def _keys(step: ToolStep) -> Iterator[str]:
    """Yield the step's keys that only some tools use."""
    if step.env:
        yield "env"
    if step.variables:
        yield "vars"
    if step.allow_failure:
        yield "allow_failure"
    if step.timeout_seconds is not None:
        yield "timeout_seconds"
    if step.register and step.tool == "set_vars":
        yield "register"


def misfits(tool: KnownTool, step: ToolStep) -> Iterator[str]:
    """Yield a message for each literal value that its tool never accepts."""
    if tool.kind not in ("built-in", "code"):
        return
    arguments = step.params if step.tool in ("run_apl", "agent_native") else {**step.params, **step.inputs}
    parameters = {each.name: each.aliases for each in BUILT_INS.get(step.tool, ())}
    for name in _TEXTS.get(step.tool, ()):
        spelled = next((each for each in (name, *parameters.get(name, ())) if each in arguments), "")
        if spelled and not isinstance(arguments[spelled], str):
            value = json.dumps(arguments[spelled], default=str)[:80]
            yield f"The tool `{step.tool}` takes a text as `{spelled}`, not {value}."
    names = step.params.get("outputs") if step.tool == "agent_native" else None
    listed = isinstance(names, list) and all(isinstance(each, str) for each in names)
    if names and not listed and "{" not in str(names):
        yield f"The tool `agent_native` takes a list of names as `outputs`, not {json.dumps(names, default=str)[:80]}."


class CallFaults(Struct, frozen=True):
    """The faults of a call."""

    missing: tuple[tuple[str, str, str], ...] = ()  # ``(title, message, name)`` of each missing parameter
    unknown: tuple[str, ...] = ()  # a message for each parameter that the tool does not have


def check_call(tool: KnownTool, step: ToolStep) -> CallFaults:
    match tool.kind:
        case "built-in":
            return _check_built_in(step)
        case "code" | "custom" | "agent":
            return _check_declared(tool, step)
        case "own" | "broken":
            return CallFaults()


def named_variables(step: ToolStep) -> Iterator[str]:
    """Yield the variables that a parameter refers to by bare name."""
    for key in _MUST_BE_KNOWN.get(step.tool, ()):
        value = step.params.get(key, step.inputs.get(key))
        if isinstance(value, str) and _IDENTIFIER.fullmatch(value):
            yield value.split(".", 1)[0]


def _check_built_in(step: ToolStep) -> CallFaults:
    parameters = BUILT_INS[step.tool]
    # for these two, the inputs belong to another program or to an agent
    inputs = {} if step.tool in ("run_apl", "agent_native") else step.inputs
    own = {name for name in _keys(step) if name not in _STEP_KEYS.get(step.tool, ())}
    arguments = {*step.params, *inputs, *own} | ({"vars"} if step.tool == "set_vars" and step.variables else set())
    spellings = [(each.name, *each.aliases) for each in parameters]
    accepted = {name for names in spellings for name in names}
    lacking = (each.name for each in parameters if each.required and arguments.isdisjoint((each.name, *each.aliases)))
    strange = sorted(arguments - accepted)
    return CallFaults(
        tuple((PARAMETER, f"The tool `{step.tool}` needs the parameter `{name}`.", name) for name in lacking),
        tuple(f"The tool `{step.tool}` has no parameter `{name}`; {_meant(name, accepted)}." for name in strange),
    )


_REGISTER_SPELLINGS = ("output", "outputs", "output_var", "result", "save", "save_as", "save_to", "store", "store_as")


def _meant(name: str, accepted: Iterable[str]) -> str:
    if name in _REGISTER_SPELLINGS:
        return f"to store the result in a variable, write `register` instead of `{name}`"
    return _accepted_text(name, accepted)


def _check_declared(tool: KnownTool, step: ToolStep) -> CallFaults:
    arguments = {*step.params, *step.inputs, *_keys(step)}
    spellings = {each.name: (each.name, *SPELLINGS.get((tool.name, each.name), ())) for each in tool.inputs}
    needed = [each.name for each in tool.inputs if each.required and not each.has_default]
    if tool.name == "initialize_list" and step.register:
        needed = []
    accepted = {name for names in spellings.values() for name in names}
    strange = sorted(arguments - accepted - {"using"})
    return CallFaults(
        tuple(
            (MISSING, f"The tool `{tool.name}` needs the input `{name}`.", name)
            for name in needed
            if arguments.isdisjoint(spellings[name])
        ),
        tuple(f"The tool `{tool.name}` has no input `{name}`; {_accepted_text(name, accepted)}." for name in strange),
    )


def _accepted_text(name: str, accepted: Iterable[str]) -> str:
    near = nearest(name, accepted)
    meant = f"nearest: {', '.join(near)}; " if near else ""
    return f"{meant}known: {', '.join(sorted(accepted)) or 'none'}"
