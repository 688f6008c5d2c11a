"""What decides what happens next in a run: the agent's rules are one such decider, a program is another."""

from __future__ import annotations

from typing import Protocol

from .facts import Event
from .machine import advance
from .requests import Effect
from .state import State
from .strategy import MemoryStrategy


class Decider(Protocol):
    """Decides, and does nothing itself; the loop performs and records, replay compares."""

    def decide(self, state: State) -> Event | Effect | None:
        """What happens next: a fact that follows, something to ask of the world, or None when the run is over."""

    def note(self, event: Event, after: State) -> None:
        """Take note of a fact once it is recorded, and of the state that it makes."""


class AgentDecider:
    """The machine's rules, with a strategy for what the model sees; all that it goes by is in the state."""

    def __init__(self, strategy: MemoryStrategy) -> None:
        self.strategy = strategy

    def decide(self, state: State) -> Event | Effect | None:
        return advance(state, self.strategy)

    def note(self, event: Event, after: State) -> None:
        pass
