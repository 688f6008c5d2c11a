"""A playbook program as it was read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal

from msgspec import Struct

from .line_order import LineOrder, Number, StepLine

CODES = ("EXE", "TNK", "QUE", "CND", "CHK", "RET", "JMP", "YLD", "LOP", "ELS")


class Required:
    """Stands for the default of a parameter that has none."""


class Param(Struct, frozen=True):
    """A parameter; ``kind`` is a name of a type, or empty."""

    name: str
    kind: str = ""
    default: Any = Required

    @property
    def required(self) -> bool:
        return self.default is Required


class Trigger(Struct, frozen=True):
    """A line under ``### Triggers``; ``label`` is as it was written, such as ``T1``."""

    number: int
    label: str
    code: Literal["BGN", "CND", "EVT"]
    text: str
    line: int


class Remark(Struct, frozen=True):
    """A line under ``### Notes``, named as ``CHK`` names it."""

    name: str
    text: str
    line: int


class Playbook(Struct, frozen=True, dict=True):
    """One H2, or one ``@playbook`` function.

    Attributes:
        steps: In the order of the file. A function has none.
        python: The fenced block that defines the function; empty of prose.
        python_line: Of the program's file, where the block begins.
        plain: Its steps are sentences without codes: it must be compiled before it can run.

    """

    name: str
    params: tuple[Param, ...]
    returns: str
    says: str
    line: int
    steps: tuple[StepLine, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    notes: tuple[Remark, ...] = ()
    public: bool = False
    python: str = ""
    python_line: int = 0
    plain: bool = False

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join('$' + param.name for param in self.params)})"

    def begins(self) -> bool:
        return any(trigger.code == "BGN" for trigger in self.triggers)

    @cached_property
    def order(self) -> LineOrder:
        return LineOrder(self.steps)

    def step(self, number: Number) -> StepLine | None:
        return self.order.step(number)


class Agent(Struct, frozen=True, dict=True):
    """One H1."""

    name: str
    says: str
    line: int
    playbooks: tuple[Playbook, ...] = ()

    @cached_property
    def named(self) -> dict[str, Playbook]:
        return {playbook.name: playbook for playbook in self.playbooks}

    def find(self, name: str) -> Playbook | None:
        return self.named.get(name)


class Program(Struct, frozen=True, dict=True):
    agents: tuple[Agent, ...]

    def all(self) -> Iterator[tuple[Agent, Playbook]]:
        for agent in self.agents:
            for playbook in agent.playbooks:
                yield agent, playbook

    @cached_property
    def _agents(self) -> dict[str, Agent]:
        return {agent.name: agent for agent in self.agents}

    @cached_property
    def public(self) -> dict[str, list[tuple[str, Playbook]]]:
        """Name to the public playbooks that have it, each with its agent, in the order of the file."""
        found: dict[str, list[tuple[str, Playbook]]] = {}
        for agent, playbook in self.all():
            if playbook.public:
                found.setdefault(playbook.name, []).append((agent.name, playbook))
        return found

    def book(self, agent: str, name: str) -> Playbook | None:
        found = self._agents.get(agent)
        return found.find(name) if found else None

    def names(self, agent: str) -> tuple[str, ...]:
        """The names of an agent's playbooks."""
        found = self._agents.get(agent)
        return tuple(found.named) if found else ()

    @property
    def plain(self) -> bool:
        return any(playbook.plain for _, playbook in self.all())
