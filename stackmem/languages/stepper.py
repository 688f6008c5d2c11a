"""Where a debugger stops: at breakpoints, whose conditions are the loop agent's, and step by step."""

from __future__ import annotations

import posixpath
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from .debugger import DebugMoment, FrameView
from .loop_agent.conditions.evaluator import verdict

Mode = Literal["run", "in", "over", "out"]
Lines = dict[int, str]
"""Line of a file to the condition of its breakpoint; empty where there is none."""


class Stepper(Struct, eq=False):
    """Decides at each moment whether to stop."""

    breakpoints: dict[str, Lines] = {}  # path of a file to its lines
    mode: Mode = "run"  # how it went on from the last stop
    depth: int = 0  # frames that were open there
    fault: str = ""  # why the condition of the breakpoint at which it stopped last cannot be evaluated
    inside: str | None = None  # the program's folder as the run sees it; known from the first moment on
    shown: str = ""  # the same folder as the person sees it

    def locate(self, moment: DebugMoment) -> DebugMoment:
        """The moment with the paths of its files as the person knows them."""
        if self.inside is None:
            self.inside = posixpath.dirname(moment.stack[-1].path)
        return replace(moment, stack=tuple(replace(each, path=self._path(each.path)) for each in moment.stack))

    def _path(self, path: str) -> str:
        inner = f"{self.inside}/"
        return posixpath.join(self.shown, path[len(inner) :]) if path.startswith(inner) else path

    def reason(self, moment: DebugMoment) -> str:
        """Why to stop here, as a debugger's protocol names it; empty to go on."""
        if moment.kind == "entered":
            return "entry" if self.mode == "in" else ""
        if moment.kind == "left":
            return ""
        if self._breaks(moment.stack[0]):
            return "breakpoint"
        depth = len(moment.stack)
        stops = self.mode == "in" or (self.mode == "over" and depth <= self.depth)
        return "step" if stops or (self.mode == "out" and depth < self.depth) else ""

    def _breaks(self, frame: FrameView) -> bool:
        """Whether a breakpoint holds; one with a condition that cannot be evaluated does, and says why."""
        condition = self.breakpoints.get(frame.path, {}).get(frame.line)
        self.fault = ""
        if not condition:
            return condition is not None
        found = verdict(condition, frame.variables)
        self.fault = found.fault
        return found.holds or bool(found.fault)

    def go_on(self, mode: Mode, moment: DebugMoment) -> None:
        self.mode, self.depth = mode, len(moment.stack)
