"""Deciders, which choose what happens next in a run. The agent's rules are one decider, a program is another.

The programs themselves are in ``stackmem.languages``, and so is the protocol between a program and its debugger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from .facts import Event, RunForked, RunResumed
from .machine import advance
from .program_facts import ProgramCalled, StepFailed
from .requests import Effect
from .state import State
from .strategy import MemoryStrategy

Tell = Callable[[tuple[Any, ...], State], object]
"""Callback that receives what happened in a program since the last call, and the resulting state."""

Watcher = Callable[[Any, State], object]
"""Callback that receives each moment at which a debugger may stop, and the run's state at that moment."""


class Decider(Protocol):
    """Decides what happens next without doing it: the run loop performs and records it, a replay compares it."""

    def decide(self, state: State) -> Event | Effect | None:
        """Return what happens next: a derived fact, a request to the outside world, or None when the run is over."""

    def note(self, event: Event, after: State) -> None:
        """Take note of a fact after it was recorded, and of the resulting state."""


OpenCall = Callable[[ProgramCalled, State, MemoryStrategy], Decider]
"""Opens a program that the agent called. Receives the state with the program's frame running."""


class AgentDecider:
    """The rules of the machine, with a strategy that decides what the model sees.

    While a program that the agent called runs, the program decides. Otherwise nothing is kept.
    """

    def __init__(self, strategy: MemoryStrategy, open_call: OpenCall | None = None) -> None:
        self.strategy = strategy
        self._open_call = open_call
        self._calls: list[tuple[int, Decider]] = []  # the called programs, with the depth of the stack below each

    @property
    def in_call(self) -> bool:
        """Whether a called program has not ended yet."""
        return bool(self._calls)

    def decide(self, state: State) -> Event | Effect | None:
        stopped = state.session is not None and state.session.stopped
        if self._calls and state.end is None and not stopped:
            return self._calls[-1][1].decide(state)
        return advance(state, self.strategy)

    def note(self, event: Event, after: State) -> None:
        """Pass the event to the programs under way, and open a program that was called."""
        if isinstance(event, ProgramCalled):
            if self._open_call is None:
                raise TypeError("this decider cannot open programs")
            self._calls.append((len(after.stack) - 1, self._open_call(event, after, self.strategy)))
        elif self._calls and isinstance(event, RunResumed | RunForked):
            for _, program in self._calls:
                program.note(event, after)
        elif self._calls:
            self._calls[-1][1].note(event, after)
            while self._calls and len(after.stack) <= self._calls[-1][0]:
                self._calls.pop()


class ProgramUnderWay(Decider, Protocol):
    """A running program as a decider, whatever its language."""

    # messages, failed: the texts that the program printed and its failed steps, collected once ``listen`` was called
    messages: list[str]
    failed: list[StepFailed]

    @property
    def operation(self) -> Any:
        """The program's open request, or how the program ended."""

    @property
    def value(self) -> Any:
        """The program's return value. None before it returns and if it halted."""

    def listen(self, tell: Tell) -> None:
        """Report from here on what happens, while the program continues live."""


class LiveMoments:
    """Passes moments to a watcher, starting with the first one that is live.

    While recorded answers are replayed it calls nothing. ``go_live`` then reports the current moment and each later
    one.
    """

    def __init__(self, watch: Watcher) -> None:
        self._watch = watch
        self._live = False
        self._last: tuple[Any, State] | None = None

    def __call__(self, moment: Any, state: State) -> None:
        self._last = (moment, state)
        if self._live:
            self._watch(moment, state)

    def go_live(self) -> None:
        """Report the line at which the program continues, and each one after it.

        Raise Halted if the watcher ends the program.
        """
        self._live = True
        if self._last is not None:
            self._watch(*self._last)
