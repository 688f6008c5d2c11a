"""Where a step is executed: the program, the agent, and the frames that are open for it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from stackmem.languages.effects import EnterFrame, Halted, LeaveFrame

from .faults import halted
from .state import AgentState, World
from .watching import WATCHERS, Moment, Place

Doing = Any
"""A generator of effects and notes; what it returns stands in each docstring."""


class Waiting(Struct, frozen=True):
    """An agent can go on only with a message from ``source``; sent its text by the scheduler."""

    agent: str
    source: str


class Failure(Struct, frozen=True):
    """A call came to nothing; the model is shown why."""

    why: str


class Here(Struct, frozen=True):
    """Whose playbook runs, and what is open on the shared stack.

    Attributes:
        opened: The frames that are open for the agent whose turn it is, outermost first.
        debug: Watchers are told.
        called_at: File and line of the call; empty where the program begins.

    """

    world: World
    agent: AgentState
    opened: list[EnterFrame]
    debug: bool = False
    called_at: str = ""

    def of(self, agent: str, called_at: str) -> Here:
        """Where a playbook of ``agent`` is executed that is called from here."""
        return Here(self.world, self.world.agents[agent], self.opened, self.debug, called_at)

    def enter(self, name: str, intent: str) -> Doing:
        """Open a frame on the shared stack.

        Raises:
            Halted: There are too many; it names the line of the call.

        """
        frame = EnterFrame(name, intent)
        try:
            yield frame
        except Halted as refused:
            raise halted(refused.kind, refused.report, self.called_at or self.world.path, f"call of {name}") from None
        self.opened.append(frame)

    def leave(self, result: str) -> Doing:
        self.opened.pop()
        yield LeaveFrame(result)

    def wait(self, source: str) -> Doing:
        """The messages of ``source``, as one text; other agents take their turns until there are some."""
        came = self.agent.inbox.pop(source, [])
        if came:
            return "\n".join(came)
        for _ in self.opened:
            yield LeaveFrame(f"waits for {source}")
        text = yield Waiting(self.agent.agent.name, source)
        yield from list(self.opened)
        return text

    def watched(self, kind: Any, text: str = "", line: int = 0) -> None:
        """Tell the debugger; ``line`` is the one that is about to be executed."""
        if not self.debug or not WATCHERS:
            return
        frames = list(reversed(self.agent.frames))
        places = [
            Place(frame.book.name, line if line and not index else frame.line, dict(self.agent.variables))
            for index, frame in enumerate(frames)
        ]
        for watcher in list(WATCHERS):
            watcher(Moment(kind, self.agent.agent.name, self.world.path, tuple(places), text))
