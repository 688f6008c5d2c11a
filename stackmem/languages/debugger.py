"""The debugger interface shared by all languages: the line about to run, and the stack of frames around it.

A watcher may block for as long as it likes and may raise ``Halted`` to stop the program. It cannot influence the
program in any other way: a program behaves the same with and without a watcher.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import Halted
from stackmem.core.facts import Event, ModelReplied
from stackmem.core.messages import ToolCall
from stackmem.core.state import State


class FrameView(Struct, frozen=True):
    """One stack frame as a debugger shows it. ``line`` is a 1-based line number in the file ``path``."""

    name: str
    path: str
    line: int
    variables: dict[str, Any]


class DebugMoment(Struct, frozen=True):
    """A point at which a watcher is called."""

    kind: Literal["entered", "line", "left"]  # a frame was entered, a line is about to run, or a frame was left
    stack: tuple[FrameView, ...]  # the frames of the current agent, innermost first. Never empty
    text: str = ""  # the source line, or the frame's result
    agent: str = "program"  # the name of the running agent, for programs that have several


MomentListener = Callable[[DebugMoment], object]
"""Called by an interpreter at each of its moments. It may raise ``Halted`` to stop the program."""

Watcher = Callable[[DebugMoment, State], object]
"""Called at each moment with the run's state at that moment."""


def together(watchers: Sequence[Watcher]) -> Watcher:
    """Combine several watchers into one that calls them in order."""

    def watch(moment: DebugMoment, state: State) -> None:
        for each in watchers:
            each(moment, state)

    return watch


class DebugPort:
    """Forwards an interpreter's moments to a watcher, together with the run's current state."""

    def __init__(self, watch: Watcher, state: State) -> None:
        self._watch, self._state = watch, state
        self._stack: tuple[FrameView, ...] = ()
        self._ending: Halted | None = None

    def note(self, event: Event, after: State, *, working: bool) -> None:
        """Record the state after an event; later moments are reported with it.

        ``working`` is true while a frame of the agent is running.
        """
        self._state = after
        if working and isinstance(event, ModelReplied):
            self._reply(event)

    def __call__(self, moment: DebugMoment) -> None:
        """Forward a moment of the program to the watcher. Raise Halted if the watcher stopped the program."""
        self._stack = moment.stack
        if self._ending is not None:
            raise self._ending
        self._watch(moment, self._state)

    def _reply(self, event: ModelReplied) -> None:
        """Report a model reply in a frame that the program delegated to the agent, on top of the program's frames."""
        working = [frame for frame in reversed(self._state.stack) if frame.program != "steps"]
        caller = self._stack[0] if self._stack else FrameView("program", "", 0, {})
        views = [replace(caller, name=frame.name, variables={"task": frame.registers.intent}) for frame in working]
        calls = ", ".join(part.name for part in event.parts if isinstance(part, ToolCall))
        try:
            moment = DebugMoment("line", (*views, *self._stack), f"step {self._state.step}: {calls or 'a reply'}")
            self._watch(moment, self._state)
        except Halted as ending:  # the agent's frame cannot be stopped from here, so the program stops at its next line
            self._ending = ending
