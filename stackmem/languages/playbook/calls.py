"""Resolves the name of a call, binds its arguments, and finds faults before the call is made."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

from msgspec import Struct

from stackmem.languages.operations import RUN_PROGRAM_TOOL as TOOL

from .literals import CallTo, Variable, calls_in, variables_in
from .state import LARGE_CHARS, AgentState, PlaybookState
from .tree import Param, Playbook, PlaybookProgram

_BUILT_IN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Say": (("message",), ("message",)),
    "SaveArtifact": (("artifact_name", "artifact_summary", "artifact_content"), ("name", "summary", "content")),
    "LoadArtifact": (("artifact_name",), ("name",)),
    "SendMessage": (("target_agent_id", "message"), ("target", "message")),
    "WaitForMessage": (("source_agent_id",), ("source",)),
}
"""Name to its parameters, and to the short parameter names that are also accepted."""
BUILT_IN_CALLS = {name: f"{name}({', '.join(params)})" for name, (params, _) in _BUILT_IN.items()}
"""Name to the call's signature as shown to the model."""
RUN_PROGRAM = "run_program(path, inputs)"
"""Signature of the call of another program. Prompts show it only if the program uses it."""
_ADDRESSED = ("target", "message")
_MAX_LISTED = 30
_MAX_NAME = 80


class Target(Struct, frozen=True):
    """The playbook or built-in tool that a call's name refers to. ``book`` is None for a built-in tool."""

    name: str
    agent: str = ""
    book: Playbook | None = None

    @property
    def params(self) -> tuple[Param, ...]:
        if self.book is None and self.name == TOOL:
            return (Param("path"), Param("inputs", default=None))
        return self.book.params if self.book else tuple(map(Param, _BUILT_IN[self.name][0]))


def find_target(program: PlaybookProgram, agent: str, name: str) -> Target | None:
    """Resolve ``name`` for an agent: a built-in tool, one of its playbooks, or another agent's public playbook."""
    if name in _BUILT_IN or name == TOOL:
        return Target(name)
    owner, _, inner = name.rpartition(".")
    book = program.book(owner or agent, inner)
    if book is not None and (book.public or owner in ("", agent)):
        return Target(inner, owner or agent, book)
    return None if owner else _public(program, agent, inner)


def _public(program: PlaybookProgram, agent: str, name: str) -> Target | None:
    """Return the first public playbook with that name from another agent, in file order."""
    others = program.public.get(name, ())
    return next((Target(name, each, book) for each, book in others if each != agent), None)


def bind_arguments(target: Target, call: CallTo) -> dict[str, Any] | str:
    """Map each parameter to its argument, or return a description of the fault.

    ``Say(target, message)`` is also accepted, as a ``SendMessage``.
    """
    if target.book is None and target.name == "Say" and isinstance(_addressee(call), str):
        target = Target("SendMessage")
    names = [param.name for param in target.params]
    if len(call.values) > len(names):
        return f"{_signature(target)} takes {len(names)} arguments, {len(call.values)} are given"
    by_name = dict(zip(names, call.values, strict=False))
    short = dict(zip(_BUILT_IN[target.name][1], names, strict=True)) if target.name in _BUILT_IN else {}
    for keyword, value in call.keywords:
        name = keyword if keyword in names else short.get(keyword, "")
        if not name:
            return f"{_signature(target)} has no parameter {keyword}"
        if name in by_name:
            return f"{_signature(target)} is given {name} twice"
        by_name[name] = value
    missing = [param.name for param in target.params if param.required and param.name not in by_name]
    if missing:
        return f"{_signature(target)} needs {', '.join(missing)}"
    return {**{each.name: each.default for each in target.params if not each.required}, **by_name}


def _addressee(call: CallTo) -> Any:
    """Return the recipient of a ``Say`` with two arguments; None for a single argument."""
    if len(call.values) + len(call.keywords) != len(_ADDRESSED):
        return None
    return call.values[0] if call.values else dict(call.keywords).get(_ADDRESSED[0])


def _signature(target: Target) -> str:
    return target.book.signature if target.book else BUILT_IN_CALLS.get(target.name, RUN_PROGRAM)


def fault_of(world: PlaybookState, agent: AgentState, call: CallTo, pending: Collection[str]) -> str:
    """Return the first fault of a call or the calls nested in it; empty if there is none."""
    for each in calls_in(call):
        target = find_target(world.program, agent.agent.name, each.name)
        if target is None:
            return unknown_name(world.program, agent.agent.name, each.name)
        arguments = bind_arguments(target, each)
        if isinstance(arguments, str):
            return arguments
        for name, value in arguments.items():
            if name == "artifact_name" and target.book is None and isinstance(value, Variable):
                continue
            for variable in variables_in(value):
                if variable not in agent.variables and variable not in pending:
                    return f"${variable} has no value in {each.name}(…); set it first, or give a literal"
    return ""


def unknown_name(program: PlaybookProgram, agent: str, name: str) -> str:
    """Build the message for an unknown name, listing the known ones (at most 30 playbooks)."""
    callable_names = list(islice(_names(program, agent), _MAX_LISTED + 1))
    names = [*callable_names[:_MAX_LISTED], *(["…"] if len(callable_names) > _MAX_LISTED else []), *_BUILT_IN]
    return f"unknown playbook {name[:_MAX_NAME]}; known: {', '.join(names)}"


def _names(program: PlaybookProgram, agent: str) -> Iterator[str]:
    """Yield the names an agent may call, its own first."""
    yield from program.names(agent)
    for books in program.public.values():
        yield from (f"{each}.{book.name}" for each, book in books if each != agent)


def artifact_name(world: PlaybookState, agent: AgentState, argument: Any, *, loading: bool) -> Any:
    """Return the artifact name that ``$x`` refers to: the value of ``$x`` if that is a text, otherwise ``x``.

    When loading, and no artifact has that name, the variable itself is meant, and the name keeps its ``$``.
    """
    name = argument.name if isinstance(argument, Variable) else argument[1:] if _is_variable_name(argument) else ""
    if not name:
        return argument
    value = agent.variables.get(name)
    artifact = value if isinstance(value, str) else name
    itself = loading and artifact not in world.artifacts and name in agent.variables
    return f"${name}" if itself and (artifact == name or len(artifact) > LARGE_CHARS) else artifact


def _is_variable_name(value: Any) -> bool:
    return isinstance(value, str) and value[:1] == "$" and value[1:].isidentifier()
