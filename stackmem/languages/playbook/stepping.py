"""Where a debugger stops: at breakpoints, and by the rules of stepping in, over and out."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .watching import Moment

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

    def reason(self, moment: Moment) -> str:
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

    def go_on(self, mode: Mode, moment: Moment) -> None:
        self.mode, self.depth = mode, len(moment.stack)
