"""Where a debugger looks in and stops: it is told of every line before it is executed, and of every frame.

A watcher may block as long as it likes, and may raise ``Halted`` to stop the program. It changes nothing else: what
a program does is the same with one and without.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from msgspec import Struct


class FrameView(Struct, frozen=True):
    """One frame as a debugger shows it; ``line`` is of the file, from 1."""

    name: str
    line: int
    variables: dict[str, Any]


class DebugMoment(Struct, frozen=True):
    """What is about to happen.

    Attributes:
        kind: A frame began, a line is about to be executed, or a frame ended.
        stack: The frames of the agent that runs, innermost first.
        text: The line, or what the frame came to.

    """

    kind: Literal["entered", "line", "left"]
    agent: str
    path: str
    stack: tuple[FrameView, ...]
    text: str = ""


class Watcher(Protocol):
    def __call__(self, moment: DebugMoment) -> None: ...


WATCHERS: list[Watcher] = []
"""Those of this process; a program asks for them only where it was started with the option ``debug``."""


Mode = Literal["run", "in", "over", "out"]


class Stepper(Struct, eq=False):
    """Decides at each moment whether to stop.

    Attributes:
        breakpoints: Lines of the program's file.
        mode: How it went on from the last stop.
        depth: Frames that were open there.

    """

    breakpoints: set[int] = set()
    mode: Mode = "run"
    depth: int = 0

    def reason(self, moment: DebugMoment) -> str:
        """Why to stop here, as a debugger's protocol names it; empty to go on."""
        depth = len(moment.stack)
        if moment.kind == "entered":
            return "entry" if self.mode == "in" else ""
        if moment.kind == "left":
            return ""
        if moment.stack and moment.stack[0].line in self.breakpoints:
            return "breakpoint"
        stops = self.mode == "in" or (self.mode == "over" and depth <= self.depth)
        return "step" if stops or (self.mode == "out" and depth < self.depth) else ""

    def go_on(self, mode: Mode, moment: DebugMoment) -> None:
        self.mode, self.depth = mode, len(moment.stack)
