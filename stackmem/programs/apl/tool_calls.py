"""Whether a step gives its tool what that takes, by the text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from .nodes import ToolStep
from .registry import BUILT_INS, SPELLINGS, Known

PARAMETER = "Invalid Tool Parameter"
MISSING = "Missing Required Tool Input"
_MUST_BE_KNOWN = {"split": ("from",), "append_to_list": ("list", "list_name"), "rank_items": ("from",)}
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(\.\w+)*")


_TAKEN = {
    "shell": ("env", "allow_failure", "timeout_seconds", "register"),
    "git_clone": ("timeout_seconds", "register"),
    "set_vars": ("vars",),
}
"""Keys of a step that only these built-ins look at."""


def _keys(step: ToolStep) -> Iterator[str]:
    """Those of the step's own keys that only some tools look at."""
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


class Call(Struct, frozen=True):
    """A call, with ``(title, message)`` for each thing that is wrong with it."""

    faults: tuple[tuple[str, str], ...]


def call_of(known: Known, step: ToolStep) -> Call:
    match known.kind:
        case "built-in":
            return Call(tuple(_built_in(step)))
        case "code" | "custom" | "agent":
            return Call(tuple(_declared(known, step)))
        case _:
            return Call(())


def named_variables(step: ToolStep) -> Iterator[str]:
    """Variables that a parameter takes by their bare name."""
    for key in _MUST_BE_KNOWN.get(step.tool, ()):
        value = step.params.get(key, step.inputs.get(key))
        if isinstance(value, str) and _IDENTIFIER.fullmatch(value):
            yield value.split(".", 1)[0]


def _built_in(step: ToolStep) -> Iterator[tuple[str, str]]:
    parameters = BUILT_INS[step.tool]
    given = {**step.params} if step.tool in ("run_apl", "agent_native") else {**step.params, **step.inputs}
    given |= {name: True for name in _keys(step) if name not in _TAKEN.get(step.tool, ())}
    if step.tool == "set_vars" and step.variables:
        given["vars"] = step.variables
    known = {name for each in parameters for name in (each.name, *each.instead)}
    for each in parameters:
        if each.required and not any(name in given for name in (each.name, *each.instead)):
            yield PARAMETER, f"The tool `{step.tool}` needs the parameter `{each.name}`."
    for name in given:
        if name not in known:
            names = ", ".join(sorted(known))
            yield PARAMETER, f"The tool `{step.tool}` has no parameter `{name}`; known: {names}."


def _declared(known: Known, step: ToolStep) -> Iterator[tuple[str, str]]:
    given = {**step.params, **step.inputs} | dict.fromkeys(_keys(step), True)
    if step.using:
        given["using"] = list(step.using)
    spellings = {each.name: (each.name, *SPELLINGS.get((known.name, each.name), ())) for each in known.inputs}
    for each in known.inputs:
        missing = each.required and not each.has_default and not any(name in given for name in spellings[each.name])
        if missing and not (known.name == "initialize_list" and step.register):
            yield MISSING, f"The tool `{known.name}` needs the input `{each.name}`."
    accepted = {name for names in spellings.values() for name in names}
    for name in given:
        if name not in accepted and name != "using":
            names = ", ".join(sorted(accepted)) or "none"
            yield PARAMETER, f"The tool `{known.name}` has no input `{name}`; known: {names}."
