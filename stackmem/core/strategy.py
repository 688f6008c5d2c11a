"""What a memory strategy is: it decides what the model sees of a state, and nothing else."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from .budgets import Budgets
from .messages import View
from .requests import Effect
from .state import State
from .tools import Tool, tool_name, tools_that

PUSHES = tools_that(lambda behavior: behavior.frame == "starts")
"""Names of the tools that push a frame."""


class MemoryStrategy(Protocol):
    """A pure view of the state.

    Attributes:
        name: As ``--strategy`` spells it, parameters included; recorded in the trace.
        tools: The tools it offers, the same in every request of a run.
        prompt: Name of the system prompt it is written for, a file of ``prompts/`` without ``.md``, with the
            traits that choose its lines (``stackheap+listed``); one that another package brings is ``PACKAGE:FILE``.
        prefix_stable: Each prompt of a frame starts with the exact bytes of the frame's last one. A strategy for which
            that does not hold leaves the model's thinking out of what it sends back; ``RunStarted`` records which.

    A strategy that sends requests of its own, such as one for a summary, also has ``texts``: the names of their
    prompts, spelled as ``prompt`` is. ``RunStarted.texts`` holds them; ``render`` and ``upkeep`` read them there.
    """

    @property
    def name(self) -> str: ...
    @property
    def tools(self) -> tuple[Tool, ...]: ...
    @property
    def prompt(self) -> str: ...
    @property
    def prefix_stable(self) -> bool: ...

    def render(self, state: State) -> View:
        """The next prompt; total over every state that has a running frame."""

    def upkeep(self, state: State) -> Effect | None:
        """What the strategy needs done before the next prompt, if anything."""


@runtime_checkable
class ChangesBudgets(Protocol):
    """A strategy with sizes of its own; ``RunStarted`` records what comes of them."""

    def budgets(self, asked: Budgets) -> Budgets:
        """The budgets of a run under it, where these were asked for."""


def budgets_of(strategy: MemoryStrategy, asked: Budgets) -> Budgets:
    """The budgets of a run under this strategy, where these were asked for."""
    return strategy.budgets(asked) if isinstance(strategy, ChangesBudgets) else asked


def has_frames(strategy: MemoryStrategy) -> bool:
    """Whether the strategy offers a tool that pushes a frame."""
    return not PUSHES.isdisjoint(map(tool_name, strategy.tools))
