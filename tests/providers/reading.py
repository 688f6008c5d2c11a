"""Worlds played by the bounded reader through the real machine, with an in-memory workspace and no harness."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from msgspec import Struct

from stackmem.core.budgets import Budgets, Limits
from stackmem.core.facts import CallRejected, ModelReplied
from stackmem.core.machine import advance, evolve
from stackmem.core.messages import ToolCall
from stackmem.core.requests import AskModel, Compact, Effect, RunChecks
from stackmem.core.state import State
from stackmem.lab.simulated import BoundedReader
from stackmem.lab.worlds import design
from stackmem.lab.worlds.folder import Made, answers, instruction
from stackmem.memory import open_strategy
from stackmem.run.in_memory import PROGRAM
from stackmem.run.perform import World, perform
from stackmem.run.tasks import work
from stackmem.workspace.memory import MemoryWorkspace
from tests.build import started


class Played(Struct):
    """The outcome of a world.

    Attributes:
        calls: Tool and arguments, in order.
        peak: Tokens of the longest prompt.
        digests: Digest of every prompt.
    """

    state: State
    solved: bool
    why: str
    calls: list[tuple[str, dict[str, object]]]
    refusals: list[str]
    peak: int
    digests: list[str]

    @property
    def tools(self) -> Counter[str]:
        return Counter(tool for tool, _ in self.calls)


@lru_cache(maxsize=32)
def world(family: str, seed: int, horizon: int, noise: float = 0.2) -> Made:
    return design(family, seed, horizon, noise)


def played(
    family: str,
    strategy: str,
    variant: str = "nesting",
    *,
    seed: int = 0,
    horizon: int = 60,
    noise: float = 0.2,
    window_tokens: int = 2_000_000,
    budgets: Budgets | None = None,
) -> Played:
    made = world(family, seed, horizon, noise)
    limits = Limits(steps=3 * len(made.calls) + 20)
    start = started(
        strategy, task=instruction(made.world), limits=limits, window_tokens=window_tokens, budgets=budgets or Budgets()
    )
    workspace = MemoryWorkspace(made.files, "/workspace", PROGRAM)
    outside = World(
        model=BoundedReader(variant, window_tokens), workspace=workspace, checks=None, scrub=str, sync=lambda: None,
        command_seconds=30.0,
    )  # fmt: skip
    memory = open_strategy(strategy)
    state = evolve(State(), start)
    run = Played(state, False, "", [], [], 0, [])
    while (upcoming := advance(state, memory)) is not None and not isinstance(upcoming, RunChecks):
        event = perform(upcoming, outside) if isinstance(upcoming, Effect) else upcoming
        if isinstance(upcoming, AskModel | Compact):
            ask = upcoming if isinstance(upcoming, AskModel) else upcoming.ask
            run.digests.append(ask.view.digest)
        if isinstance(event, ModelReplied):
            run.peak = max(run.peak, event.usage.prompt)
            run.calls += [(part.name, part.arguments) for part in event.parts if isinstance(part, ToolCall)]
        if isinstance(event, CallRejected):
            run.refusals.append(event.reason)
        state = evolve(state, event)
    reward, run.why = work.verdict(workspace.files, answers(made))
    run.state, run.solved = state, reward == 1.0
    return run
