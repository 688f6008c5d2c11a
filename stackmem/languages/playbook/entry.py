"""Where a program starts, and with what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stackmem.errors import UsageError

from .nodes import Agent, Playbook, Program

Entries = dict[str, list[tuple[Playbook, dict[str, Any]]]]


def entries_of(program: Program, named: str, inputs: Mapping[str, Any]) -> Entries:
    """Agent to the playbooks that it begins with, each with its arguments.

    Args:
        named: The playbook of ``--entry``, alone or with its agent's name; empty is the BGN ones, else the first.

    Raises:
        UsageError: There is none of that name, or the inputs are not its parameters.

    """
    chosen = _chosen(program, named)
    known = list(dict.fromkeys(param.name for _, book in chosen for param in book.params))
    given = {name.lstrip("$"): value for name, value in inputs.items()}
    for name in given:
        if name not in known:
            raise UsageError(f"the program has no input {name[:80]!r}; known: {', '.join(known) or 'none'}")
    missing = [param.name for _, book in chosen for param in book.params if param.required and param.name not in given]
    if missing:
        raise UsageError(f"the program needs the input {missing[0]}; give it as --input {missing[0]}=TEXT")
    found: Entries = {}
    for agent, book in chosen:
        defaults = {param.name: param.default for param in book.params if not param.required}
        own = {param.name: given[param.name] for param in book.params if param.name in given}
        found.setdefault(agent.name, []).append((book, {**defaults, **own}))
    return found


def _chosen(program: Program, named: str) -> list[tuple[Agent, Playbook]]:
    every = list(program.all())
    if named:
        owner, _, name = named.rpartition(".")
        found = [pair for pair in every if pair[1].name == name and (not owner or pair[0].name == owner)]
        if not found:
            told = ", ".join(book.name for _, book in every)
            raise UsageError(f"there is no playbook {named[:80]!r} to start with; known: {told}")
        return found[:1]
    begin = [pair for pair in every if pair[1].begins()]
    if begin:
        return begin
    return [next((pair for pair in every if not pair[1].python), every[0])]
