"""The content and tools of a request, as the policy sees them, and the calls it can return."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from msgspec import DecodeError, Struct

from stackmem.core.messages import ToolSpec
from stackmem.core.tool_schemas import shown_schema

from .knowledge import Knowledge
from .listening import signed

ATTEMPTS = 2
"""Limit for repeating a call without progress. After that, the policy tries another way."""

CHARS_PER_TOKEN = 2.5

VARIANTS = ("nesting", "flat", "oracle", "forgetful", "hoarder", "never-push", "always-push")


class ReaderSight(Struct, frozen=True):
    knowledge: Knowledge
    offered: Offered
    variant: str = "nesting"


class ChosenCall(Struct, frozen=True):
    """One call with a short reason."""

    tool: str
    arguments: dict[str, Any]
    reason: str


def fresh(sight: ReaderSight, action: ChosenCall | None) -> ChosenCall | None:
    """Return the action, unless it was repeated too often without progress."""
    if action is None or sight.knowledge.repeats.get(signed(action.tool, action.arguments), 0) >= ATTEMPTS:
        return None
    return action


def command(line: str, reason: str) -> ChosenCall:
    return ChosenCall("run_command", {"command": line}, reason)


_MOST = re.compile(r"at most ([\d,]{1,12})(?: characters)?")
_STARTS = ("push_frame", "delegate", "branch")


class Offered(Struct, frozen=True):
    """The tools of a request."""

    names: frozenset[str]
    budgets: dict[str, int]  # ``tool.parameter`` to its maximum characters, 0 if none is stated
    start: str  # the tool that starts a child, if any
    finish: str  # the tool that ends the frame
    inherits: bool  # the child sees this conversation
    shows: bool = False  # the prompt of a child contains the chunks that its call names

    @property
    def heap(self) -> bool:
        return "heap_alloc" in self.names

    @property
    def remembers(self) -> bool:
        """Whether there is a tool that stores facts beyond the visible prompt."""
        return bool(self.names & {"heap_alloc", "add_note", "memory"})

    def takes(self, tool: str, parameter: str) -> bool:
        return f"{tool}.{parameter}" in self.budgets

    def most(self, tool: str, parameter: str, otherwise: int) -> int:
        return self.budgets.get(f"{tool}.{parameter}") or otherwise


@lru_cache(maxsize=64)
def offered(tools: tuple[ToolSpec, ...]) -> Offered:
    names = frozenset(tool.name for tool in tools)
    budgets: dict[str, int] = {}
    for tool in tools:
        for name, description in _parameters(tool).items():
            match = _MOST.search(description)
            budgets[f"{tool.name}.{name}"] = int(match[1].replace(",", "")) if match else 0
    start = next((name for name in _STARTS if name in names), "")
    finish = "return" if "return" in names else "pop_frame"
    copies = any("copy of your conversation" in tool.description for tool in tools if tool.name == start)
    shows = any("chunks it names" in tool.description for tool in tools if tool.name == start)
    return Offered(names, budgets, start, finish, start == "branch" or copies, shows)


def _parameters(tool: ToolSpec) -> dict[str, str]:
    """Return parameter names and descriptions; empty if the schema is invalid."""
    try:
        properties = shown_schema(tool).get("properties")
    except (DecodeError, AttributeError, RecursionError):
        return {}
    items = properties.items() if isinstance(properties, dict) else ()
    return {name: str(schema.get("description", "")) for name, schema in items if isinstance(schema, dict)}
