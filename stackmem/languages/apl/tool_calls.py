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
    """What is wrong with a call.

    Attributes:
        missing: ``(title, message)`` for each thing that it lacks.
        unknown: A message for each parameter that the tool does not have.

    """

    missing: tuple[tuple[str, str], ...] = ()
    unknown: tuple[str, ...] = ()


def call_of(known: Known, step: ToolStep) -> Call:
    match known.kind:
        case "built-in":
            return _built_in(step)
        case "code" | "custom" | "agent":
            return _declared(known, step)
        case "own":
            return Call()


def named_variables(step: ToolStep) -> Iterator[str]:
    """Variables that a parameter takes by their bare name."""
    for key in _MUST_BE_KNOWN.get(step.tool, ()):
        value = step.params.get(key, step.inputs.get(key))
        if isinstance(value, str) and _IDENTIFIER.fullmatch(value):
            yield value.split(".", 1)[0]


def _built_in(step: ToolStep) -> Call:
    parameters = BUILT_INS[step.tool]
    inputs = {} if step.tool in ("run_apl", "agent_native") else step.inputs  # theirs are another program's, an agent's
    own = {name for name in _keys(step) if name not in _TAKEN.get(step.tool, ())}
    given = {*step.params, *inputs, *own} | ({"vars"} if step.tool == "set_vars" and step.variables else set())
    spellings = [(each.name, *each.instead) for each in parameters]
    known = {name for names in spellings for name in names}
    lacking = (each.name for each in parameters if each.required and given.isdisjoint((each.name, *each.instead)))
    strange, names = sorted(given - known), ", ".join(sorted(known))
    return Call(
        tuple((PARAMETER, f"The tool `{step.tool}` needs the parameter `{name}`.") for name in lacking),
        tuple(f"The tool `{step.tool}` has no parameter `{name}`; known: {names}." for name in strange),
    )


def _declared(known: Known, step: ToolStep) -> Call:
    given = {*step.params, *step.inputs, *_keys(step)}
    spellings = {each.name: (each.name, *SPELLINGS.get((known.name, each.name), ())) for each in known.inputs}
    needed = [each.name for each in known.inputs if each.required and not each.has_default]
    if known.name == "initialize_list" and step.register:
        needed = []
    accepted = {name for names in spellings.values() for name in names}
    strange, names = sorted(given - accepted - {"using"}), ", ".join(sorted(accepted)) or "none"
    return Call(
        tuple(
            (MISSING, f"The tool `{known.name}` needs the input `{name}`.")
            for name in needed
            if given.isdisjoint(spellings[name])
        ),
        tuple(f"The tool `{known.name}` has no input `{name}`; known: {names}." for name in strange),
    )
