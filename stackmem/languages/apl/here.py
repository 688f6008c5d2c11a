"""Where execution stands."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.program_facts import Note
from stackmem.languages.effects import Answer, Effect
from stackmem.languages.frame.values import variable_set

from .nodes import Step
from .registry import Registry
from .scope import Scope

Doing = Generator[Effect | Note, Answer, Any]
"""A part of the execution; gives the value of what it did."""

WHILE_LIMIT = 1_000
_BRIEF_CHARS = 80
_BRIEF_ITEMS = 8
_BRIEF_DEPTH = 3
_CALL_CHARS = 400


class Here(Struct, frozen=True):
    """The Execution Pointer and what surrounds it.

    Attributes:
        registry: The tools of the running program; ``shared`` are those that every program sees.
        source: The file that is executed, as ``LoadSource.beside`` takes it.
        path: Of the running step's parent, for the trace: names with slashes between them.
        trail: What lies around the running steps: tools, programs, items of loops.
        depth: Programs and tools around this one.
        workspace: The workspace as tools see it.
        while_limit: Rounds of a ``while``.

    """

    scope: Scope
    registry: Registry
    shared: Registry
    source: str
    workspace: str
    phase: str = ""
    path: str = ""
    trail: tuple[str, ...] = ()
    depth: int = 0
    named: Mapping[str, tuple[Step, ...]] = {}
    while_limit: int = WHILE_LIMIT

    def at(self, name: str) -> str:
        """The path of a step: names with slashes between them, and U+2215 for a slash in a name."""
        own = name.replace("/", "\N{DIVISION SLASH}")
        return f"{self.path}/{own}" if self.path else own

    def inside(self, path: str, *around: str) -> Here:
        return replace(self, path=path, trail=(*self.trail, *around))

    def set(self, name: str, value: Any) -> Note:
        """The note that a variable has a value now; it has it."""
        self.scope.set(name, value)
        return variable_set(name, value)


def said(tool: str, params: Mapping[str, Any]) -> str:
    """A call on one line, long values in short."""
    text = " ".join([tool, *(f"{name}={brief(value)}" for name, value in params.items())])
    return text if len(text) <= _CALL_CHARS else f"{text[:_CALL_CHARS]}…"


def brief(value: Any, depth: int = 0) -> str:
    """A value in few characters, whatever its size."""
    many = 0 if depth == _BRIEF_DEPTH else _BRIEF_ITEMS
    match value:
        case str():
            shown = value[: _BRIEF_CHARS + 1]
            return json.dumps(f"{shown[:_BRIEF_CHARS]}…" if len(shown) > _BRIEF_CHARS else shown, ensure_ascii=False)
        case list() if len(value) > many:
            return f"[{len(value):,} items]"
        case dict() if len(value) > many:
            return f"{{{len(value):,} members}}"
        case list():
            return f"[{', '.join(brief(inner, depth + 1) for inner in value)}]"
        case dict():
            return f"{{{', '.join(f'{name}: {brief(inner, depth + 1)}' for name, inner in value.items())}}}"
        case _:
            return json.dumps(value)
