"""Warnings about steps that run but may not do what was meant: paths, commands, doubled names, unused variables."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping

from .registry import named_variables
from .templates import literal_stretches, mentions
from .tree import Foreach, Step, ToolStep, WhileStep, all_steps, command_mentions, names_set, own_mentions

_DANGEROUS = re.compile(
    r"\brm\s+(-\w*[rR]\w*f|-\w*f\w*[rR]|-r\s+-f|-f\s+-r)|\bmkfs\b|\bdd\b[^|;]*\bof=/dev/|:\(\)\s*\{|\bsudo\b"
    r"|\b(curl|wget)\b[^;&]*\|\s*(ba|z|da)?sh\b|\bchmod\s+-R\s+777\b|>\s*/dev/sd"
)


def habits(step: ToolStep, from_outside: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield the title and message of each warning.

    ``from_outside`` contains the variables whose values come from tools, models and files.
    """
    if step.doubled_name:
        message = "`name` occurs twice: for the step and for the tool's parameter; write `list_name` for the parameter."
        yield "Doubled Name", message
    if step.tool in ("read_file", "write_file"):
        for key in ("path", "absolute_path", "to_file"):
            value = step.params.get(key)
            if isinstance(value, str) and value and not value.startswith(("/", "{")):
                message = f"`{value}` is relative to the workspace; begin it with a variable such as `module_path`."
                yield "Use of Relative Paths", message
    command = step.params.get("command")
    if step.tool == "shell" and isinstance(command, str):
        yield from _command(command, from_outside)


def _command(command: str, from_outside: Container[str]) -> Iterator[tuple[str, str]]:
    if dangerous := _DANGEROUS.search(command):
        yield "Potentially Dangerous Shell Command", f"The command contains `{dangerous[0][:60]}`."
    for start, end in literal_stretches(command):
        yield "Literal Stretch", f"Not rendered, because it is not a valid template: {command[start:end][:80]}"
    for mention in command_mentions(command):
        if mention.name in from_outside and not mention.quoted and mention.path != ("exit_code",):
            message = (
                f"`{mention.name}` comes from outside; write {{{{ {mention.name} | quote }}}}, or pass it in `env`."
            )
            yield "Unquoted Shell Value", message


def unused(steps: list[Step], used_outside: frozenset[str]) -> Iterator[tuple[Step, str]]:
    """Yield each step that registers a variable that no step reads."""
    used = set(used_outside)
    for step in steps:
        used |= {mention.name for mention in own_mentions(step, command=True)}
        used |= set(named_variables(step)) if isinstance(step, ToolStep) else set()
        if isinstance(step, Foreach) and isinstance(step.items, str):
            used.add(step.items.split(".", 1)[0])
    for step in steps:
        register = step.register if isinstance(step, ToolStep | Foreach) else ""
        if register and register not in used:
            yield step, f"`{register}` is registered but never used."


def endless(step: WhileStep, stored_steps: Mapping[str, tuple[Step, ...]]) -> str:
    """Return why a loop may never end; empty if a step in it writes a variable of its condition."""
    tested = {mention.name for mention in mentions(step.test, expression=True)}
    written = {name for each in all_steps(step.body) for name in names_set(each, stored_steps)}
    if not tested or tested & written:
        return ""
    return f"No step in the loop writes {', '.join(f'`{name}`' for name in sorted(tested))}."
