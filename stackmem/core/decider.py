"""What decides what happens next in a run: the agent's rules are one such decider, a program is another.

The programs themselves are in ``stackmem.languages``; what passes between one and its debugger is theirs alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from .facts import Event
from .machine import advance
from .program_facts import StepFailed
from .requests import Effect
from .state import State
from .strategy import MemoryStrategy

Tell = Callable[[tuple[Any, ...], State], object]
"""Told of what happened in a program since it was told last, and of the state that it made."""

Watcher = Callable[[Any, State], object]
"""Told of each moment of a program at which a debugger may stop, and of the run's state at it."""


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


class ProgramUnderWay(Decider, Protocol):
    """A program that decides, whatever its language."""

    # said, failed: what it told its person, and what it could not do, since somebody listens
    said: list[str]
    failed: list[StepFailed]

    @property
    def asked(self) -> Any:
        """What it waits for, or how it ended."""

    @property
    def value(self) -> Any:
        """What it returned; None before, and if it halted."""

    def listen(self, tell: Tell) -> None:
        """Tell from here on what happens, as the program goes on live."""


class LiveMoments:
    """Tells a watcher nothing while recorded answers are played, then where the program stands, then everything."""

    def __init__(self, watch: Watcher) -> None:
        self._watch = watch
        self._live = False
        self._last: tuple[Any, State] | None = None

    def __call__(self, moment: Any, state: State) -> None:
        self._last = (moment, state)
        if self._live:
            self._watch(moment, state)

    def go_live(self) -> None:
        """Tell of the line at which the program goes on, and of each one after it."""
        self._live = True
        if self._last is not None:
            self._watch(*self._last)
