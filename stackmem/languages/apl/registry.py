"""Which tool a name stands for: built-in, custom, the person's own, standard library; in that order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct, field

from stackmem.core.messages import ToolSpec

from .nodes import Input, Output, Step, Tool

CODE_TOOLS = ("split", "initialize_list", "append_to_list", "create_directory")
"""Tools of the standard library that need no judgement."""

Kind = Literal["built-in", "code", "custom", "own", "agent"]


class Parameter(Struct, frozen=True):
    """A parameter of a built-in.

    Attributes:
        instead: Other spellings of it.

    """

    name: str
    required: bool = False
    instead: tuple[str, ...] = ()


BUILT_INS: dict[str, tuple[Parameter, ...]] = {
    "set_vars": (Parameter("vars", required=True),),
    "shell": (Parameter("command", required=True), Parameter("working_directory")),
    "read_file": (Parameter("path", required=True, instead=("absolute_path",)),),
    "write_file": (
        Parameter("to_file", required=True, instead=("path",)),
        Parameter("content_template", required=True, instead=("content",)),
    ),
    "git_clone": (
        Parameter("repo_path", required=True, instead=("repo_url",)),
        Parameter("workspace"),
        Parameter("if_not_exists"),
    ),
    "log": (Parameter("message"), Parameter("dump_register")),
    "run_apl": (Parameter("program", required=True), Parameter("with_inputs")),
    "agent_native": (Parameter("prompt", required=True), Parameter("outputs")),
}
"""What cannot be overridden, and what each takes."""

SPELLINGS: dict[tuple[str, str], tuple[str, ...]] = {
    ("append_to_list", "items"): ("item",),
    ("append_to_list", "list"): ("list_name",),
    ("initialize_list", "name"): ("list_name",),
    ("rank_items", "from"): ("in", "list"),
}
"""Other spellings of parameters of the standard library."""


class Known(Struct, frozen=True):
    """A tool that a step can name.

    Attributes:
        source: The file it stands in; empty for what ships.

    """

    name: str
    kind: Kind
    description: str = ""
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    body: tuple[Step, ...] = ()
    source: str = ""


class Registry(Struct, frozen=True):
    """Every tool by name; ``shadowed`` says in a sentence each what hid what."""

    tools: dict[str, Known] = field(default_factory=dict)
    shadowed: tuple[str, ...] = ()

    def find(self, name: str) -> Known | None:
        return self.tools.get(name)

    def with_custom(self, found: Iterable[tuple[Tool, str]], place: str) -> Registry:
        """With custom tools over what was there, built-ins excepted.

        Args:
            found: Tools with the file each stands in; of two with one name the later holds.
            place: ``global`` or ``local``.

        """
        tools, said = dict(self.tools), list(self.shadowed)
        for tool, source in found:
            old = tools.get(tool.name)
            if old is not None and old.kind == "built-in":
                said.append(f"The {place} tool `{tool.name}` of {source} is ignored: a built-in cannot be overridden.")
                continue
            if old is not None:
                of = f" of {old.source}" if old.source else ""
                said.append(f"The {place} tool `{tool.name}` of {source} stands over the {old.kind} tool{of}.")
            kind: Kind = "custom" if tool.body else "agent"
            tools[tool.name] = Known(tool.name, kind, tool.description, tool.inputs, tool.outputs, tool.body, source)
        return Registry(tools, tuple(said))


def base_registry(library: Iterable[Tool], own: Iterable[ToolSpec]) -> Registry:
    """Built-ins, the standard library, and the person's own tools over it."""
    tools = {
        tool.name: Known(
            tool.name, "code" if tool.name in CODE_TOOLS else "agent", tool.description, tool.inputs, tool.outputs
        )
        for tool in library
    }
    said = [f"Your own tool `{spec.name}` stands over the standard library's." for spec in own if spec.name in tools]
    tools |= {spec.name: Known(spec.name, "own", spec.description) for spec in own}
    said += [f"The name `{name}` is a built-in's and cannot be overridden." for name in tools if name in BUILT_INS]
    tools |= {name: Known(name, "built-in") for name in BUILT_INS}
    return Registry(tools, tuple(said))
