"""What a debugger sees of a program in any language: the line that is about to be executed, and the frames around it.

A watcher may block as long as it likes, and may raise ``Halted`` to stop the program. It changes nothing else: what
a program does is the same with one and without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.facts import Event, ModelReplied
from stackmem.core.messages import ToolCall
from stackmem.core.state import State
from stackmem.errors import Halted


class FrameView(Struct, frozen=True):
    """One frame as a debugger shows it; ``line`` is of the file ``path``, from 1."""

    name: str
    path: str
    line: int
    variables: dict[str, Any]


class DebugMoment(Struct, frozen=True):
    """What is about to happen.

    Attributes:
        kind: A frame began, a line is about to be executed, or a frame ended.
        stack: The frames of whoever runs, innermost first; there is at least one.
        text: The line, or what the frame came to.
        agent: Who runs, where a program has several.
    """

    kind: Literal["entered", "line", "left"]
    stack: tuple[FrameView, ...]
    text: str = ""
    agent: str = "program"


Watcher = Callable[[DebugMoment, State], object]
"""Told of each moment, and of the run's state at it."""


def together(watchers: Sequence[Watcher]) -> Watcher:
    """One watcher for several, which are told one after another."""

    def watch(moment: DebugMoment, state: State) -> None:
        for each in watchers:
            each(moment, state)

    return watch


class DebugPort:
    """Passes on to a watcher what an interpreter tells of its lines, with the state that the run has then."""

    def __init__(self, watch: Watcher, state: State) -> None:
        self._watch, self._state = watch, state
        self._stack: tuple[FrameView, ...] = ()
        self._ending: Halted | None = None

    def note(self, event: Event, after: State, *, working: bool) -> None:
        """Take the state that a fact makes, which the moments after it have; ``working``: in a frame of the agent's."""
        self._state = after
        if working and isinstance(event, ModelReplied):
            self._reply(event)

    def __call__(self, moment: DebugMoment) -> None:
        """Pass on a moment of the program.

        Raises:
            Halted: The watcher ends the program.
        """
        self._stack = moment.stack
        if self._ending is not None:
            raise self._ending
        self._watch(moment, self._state)

    def _reply(self, event: ModelReplied) -> None:
        """Pass on a reply in a frame that the program gave to the agent; its frames lie on the program's."""
        working = [frame for frame in reversed(self._state.stack) if frame.program != "steps"]
        caller = self._stack[0] if self._stack else FrameView("program", "", 0, {})
        views = [replace(caller, name=frame.name, variables={"task": frame.registers.intent}) for frame in working]
        calls = ", ".join(part.name for part in event.parts if isinstance(part, ToolCall))
        try:
            moment = DebugMoment("line", (*views, *self._stack), f"step {self._state.step}: {calls or 'a reply'}")
            self._watch(moment, self._state)
        except Halted as ending:  # the agent's frame cannot be left from here: the program ends at its next line
            self._ending = ending
