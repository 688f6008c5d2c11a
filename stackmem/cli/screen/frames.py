"""The parallel frames of a run, a line each: what each frame does, its steps and its time. A fold over their facts.

Rule 1: The frames call from their own threads, so every method takes the lock.
Rule 2: A frame's line ends with its group, at the merge. Conflicts appear at the merge.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from stackmem.core import facts
from stackmem.core.parallel.facts import FramesMerged, FramesPushed
from stackmem.core.requests import AskPermission, AskUser
from stackmem.core.state import State
from stackmem.core.text import quantity

from .progress import Progress
from .text import align, fitted, one_line, spell_seconds

FrameStatus = Literal["running", "waiting", "done", "ended", "merged", "conflict"]
"""``waiting`` is for the user; ``ended`` is any end without a result, such as a limit."""

FrameNews = facts.Event | AskUser | AskPermission
"""A fact of a frame, or a question of it to the user."""

_MIN_ROWS = 2


class FrameLine(Struct):
    """The line of one frame."""

    # frame, name: its id and its name
    frame: str
    name: str
    began: float  # the time of the clock when it began, or when this process continued it
    progress: Progress
    status: FrameStatus = "running"
    steps: int = 0  # the model's replies in it
    seconds: float | None = None  # how long it took; None while it runs
    doing: str = ""  # the call that runs, the question to the user, the ending, or the files in conflict
    printed: tuple[str, ...] = ()  # the lines about the last fact, as a run prints them

    def elapsed(self, now: float) -> float:
        return now - self.began if self.seconds is None else self.seconds

    def summary(self, now: float) -> str:
        """Return the status, steps and time, as in ``running, 3 steps, 12 s``."""
        return f"{self.status}, {quantity(self.steps, 'step')}, {spell_seconds(self.elapsed(now))}"

    def sentence(self, now: float) -> str:
        """Return the line to print when the status changes."""
        return f"[{self.name}] {self.summary(now)}{f': {self.doing}' if self.doing else ''}"


class FrameBoard:
    """The lines of the frames that run together."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._lines: dict[str, FrameLine] = {}
        self._step = 0  # the step of the run at which the frames began

    @property
    def lines(self) -> list[FrameLine]:
        with self._lock:
            return list(self._lines.values())

    def observe(self, event: facts.Event, state: State) -> list[FrameLine]:
        """Take a fact of the run itself. Return the lines that have begun or ended with it."""
        with self._lock:
            return self._observe(event, state)

    def _observe(self, event: facts.Event, state: State) -> list[FrameLine]:
        group = state.parallel.group
        if group is None or group.opening:
            ended, self._lines = list(self._lines.values()), {}
            return _merged(ended, event) if isinstance(event, FramesMerged) else []
        if not isinstance(event, FramesPushed) and self._lines:
            return []
        self._step = state.step
        returned, now = {each.frame for each in group.returned}, self.clock()
        new = [
            FrameLine(each.frame, one_line(each.name), now, Progress(label=f"[{one_line(each.name)}] "))
            for each in group.frames
            if each.frame not in returned
        ]
        self._lines = {each.name: line for each in group.frames for line in new if line.frame == each.frame}
        return new

    def observe_frame(self, name: str, news: FrameNews, state: State) -> FrameLine | None:
        """Take what happened in a frame. Return its line, or None if no such frame runs."""
        with self._lock:
            line = self._lines.get(name)
            if line is not None:
                self._take(line, news, state)
            return line

    def _take(self, line: FrameLine, news: FrameNews, state: State) -> None:
        line.printed = ()
        match news:
            case AskPermission():
                line.status, line.doing = "waiting", one_line(f"allow {news.tool} {news.about}")
            case AskUser():
                line.status, line.doing = "waiting", one_line(news.question)
            case facts.RunEnded():
                line.seconds = self.clock() - line.began
                line.steps = max(line.steps, state.step - self._step)
                done = news.ending == "popped"
                line.status, line.doing = ("done", "") if done else ("ended", news.ending)
            case facts.RunForked() | facts.FramePushed() if state.step <= self._step:
                pass  # the frame begins
            case _:
                line.status, line.seconds = "running", None
                line.steps = max(0, state.step - self._step)
                line.printed = tuple(line.progress.lines(news, state))
                line.doing = line.progress.call if state.pending is not None else ""

    def rows(self, cells: int, most: int) -> list[str]:
        """Return at most ``most`` lines that fit a terminal; the frames that run come first if there are more."""
        lines, now = self.lines, self.clock()
        most = max(_MIN_ROWS, most)
        visible = lines
        if len(lines) > most:
            first = sorted(lines, key=lambda line: line.seconds is not None)[: most - 1]
            visible = [line for line in lines if line in first]
        table = [
            (line.name, line.status, quantity(line.steps, "step"), spell_seconds(line.elapsed(now)), line.doing)
            for line in visible
        ]
        rows = align(table, (0, 1), width=cells) if table else []
        hidden = len(lines) - len(visible)
        return [*(fitted(row, cells) for row in rows), *([f"and {quantity(hidden, 'more frame')}"] if hidden else [])]


def _merged(lines: list[FrameLine], event: FramesMerged) -> list[FrameLine]:
    for line in lines:
        files = [each.path for each in event.files if each.frame == line.name and each.kind != "merged"]
        line.status, line.doing = ("conflict", one_line(", ".join(files))) if files else ("merged", "")
        line.printed = ()
    return lines
