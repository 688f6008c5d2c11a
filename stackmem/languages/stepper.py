"""Decides when a debugger stops: at breakpoints, with conditions in the loop agent's syntax, and when stepping."""

from __future__ import annotations

import posixpath
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from .debugger import DebugMoment, FrameView
from .loop_agent.conditions.evaluator import verdict

Mode = Literal["run", "in", "over", "out"]
Lines = dict[int, str]
"""Maps a line number to the condition of its breakpoint; an empty condition always stops."""


class Stepper(Struct, eq=False):
    """Decides at each moment whether to stop."""

    breakpoints: dict[str, Lines] = {}  # file path to its breakpoint lines
    mode: Mode = "run"  # how execution continued after the last stop
    depth: int = 0  # number of open frames at the last stop
    fault: str = ""  # why the condition of the last breakpoint could not be evaluated
    inside: str | None = None  # the program's folder as the run sees it; set at the first moment
    display_folder: str = ""  # the same folder as the user sees it

    def locate(self, moment: DebugMoment) -> DebugMoment:
        """Return the moment with file paths as the user knows them."""
        if self.inside is None:
            self.inside = posixpath.dirname(moment.stack[-1].path)
        return replace(moment, stack=tuple(replace(each, path=self._path(each.path)) for each in moment.stack))

    def _path(self, path: str) -> str:
        inner = f"{self.inside}/"
        return posixpath.join(self.display_folder, path[len(inner) :]) if path.startswith(inner) else path

    def reason(self, moment: DebugMoment) -> str:
        """Return the reason to stop, in the terms of the debug adapter protocol; empty to continue."""
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
        """Return whether a breakpoint applies. A condition that cannot be evaluated also stops, and sets ``fault``."""
        condition = self.breakpoints.get(frame.path, {}).get(frame.line)
        self.fault = ""
        if not condition:
            return condition is not None
        result = verdict(condition, frame.variables)
        self.fault = result.fault
        return result.holds or bool(result.fault)

    def go_on(self, mode: Mode, moment: DebugMoment) -> None:
        self.mode, self.depth = mode, len(moment.stack)
