"""The interface of memory strategies, which decide what the model sees of a state and nothing else."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from msgspec import UNSET, Struct, UnsetType

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
        name: Spelled as for ``--strategy``, including parameters. Recorded in the trace.
        tools: The tools it offers, the same in every request of a run.
        prompt: Name of its system prompt: a file in ``run/prompts/`` without ``.md``, followed by the traits that
            select its lines (``stackheap+listed``). A prompt from another package is ``PACKAGE:FILE``.
        prefix_stable: Whether each prompt of a frame starts with the exact bytes of the frame's previous one. If not,
            the strategy leaves out the model's thinking from what it sends back, unless it is ``ClearsResults``.
            ``RunStarted`` records this.

    A strategy that sends its own requests, such as one for a summary, also has ``texts``: the names of their prompts,
    spelled like ``prompt``. ``render`` and ``upkeep`` read them from ``RunStarted.texts``.
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
        """Return the next prompt. Works for every state that has a running frame."""

    def upkeep(self, state: State) -> Effect | None:
        """Return what the strategy needs done before the next prompt, if anything."""


@runtime_checkable
class ChangesBudgets(Protocol):
    """A strategy that changes the budgets. ``RunStarted`` records the resulting ones."""

    def budgets(self, base: Budgets) -> Budgets:
        """Return the budgets of a run under this strategy, given the configured ones."""


@runtime_checkable
class SummaryStrategy(Protocol):
    """A strategy in which the model summarizes a conversation, also when the user asks for it (``/compact``)."""

    def summary(self, state: State) -> Effect | None:
        """Return the request for a summary of all that may be summarized now, or None if that is nothing."""


def budgets_of(strategy: MemoryStrategy, base: Budgets) -> Budgets:
    """Return the budgets of a run under this strategy, given the configured ones."""
    return strategy.budgets(base) if isinstance(strategy, ChangesBudgets) else base


@runtime_checkable
class ClearsResults(Protocol):
    """A strategy that clears old results from a conversation, and then leaves out the thinking before that point.

    Providers refuse thinking if the text before it has changed; what is thought afterwards can be sent back.
    """

    @property
    def clearing(self) -> Literal["paying"]:
        """Recorded as ``RunStarted.clearing``, because runs from before that fact existed cleared nothing."""


def clearing_of(strategy: MemoryStrategy) -> Literal["paying"] | UnsetType:
    """Return what a run under this strategy records about clearing."""
    return strategy.clearing if isinstance(strategy, ClearsResults) else UNSET


@runtime_checkable
class ProviderStrategy(Protocol):
    """A strategy that asks the provider for something that only some providers do."""

    @property
    def providers(self) -> tuple[str, ...]:
        """The prefixes of the models that can do it, such as ``anthropic/``. Simulated models always can."""


class StrategyProgram(Struct, frozen=True):
    """A program that a strategy offers to the agent; the fields are those of ``OfferedProgram``."""

    name: str
    description: str
    language: str
    text: str
    schema: str


@runtime_checkable
class BringsProgram(Protocol):
    """A strategy with a program that the agent calls with ``run_program``. It needs a sandbox."""

    @property
    def program(self) -> StrategyProgram: ...


@runtime_checkable
class EditsAtProvider(Protocol):
    """A strategy that always sends the whole history, which only the provider changes. So all thinking stays valid."""

    @property
    def edits_at_provider(self) -> bool: ...


def keeps_thinking(strategy: MemoryStrategy) -> bool:
    """Return whether prompts of this strategy may contain the model's thinking."""
    return strategy.prefix_stable or isinstance(strategy, ClearsResults | EditsAtProvider)


def has_frames(strategy: MemoryStrategy) -> bool:
    """Return whether the strategy offers a tool that pushes a frame."""
    return not PUSHES.isdisjoint(map(tool_name, strategy.tools))
