"""Parallel frames on the screen: a line each, with its steps, its time and what it is doing."""

import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from stackmem.cli.screen.frames import FrameBoard, FrameLine
from stackmem.cli.screen.live import LiveScreen, PlainScreen
from stackmem.core.facts import RunEnded
from stackmem.core.parallel.facts import FramesPushed, ParallelFrame, ParallelGroup, ParallelWork
from stackmem.core.person_facts import PersonDecided, SessionRules
from stackmem.core.requests import AskPermission
from stackmem.core.state import State
from stackmem.run.prepare import prepare
from stackmem.run.result import RunResult
from stackmem.run.solve import solve
from tests.groups import group_script, together
from tests.run.people import Scripted
from tests.stage import Stage, call, command, mounted, pop


def write(path: str, content: str) -> dict[str, Any]:
    return call("write_file", path=path, content=content)


def play(stage: Stage, screen: Any, replies: Any, frames: Any, **more: Any) -> RunResult:
    """Play a run with parallel frames, seen by a screen with ``observe`` and ``observe_frame``."""
    mine = stage.root / "mine"
    mine.mkdir(exist_ok=True)
    (mine / "base.txt").write_text("one\n")
    person, rules = more.pop("person", None), more.pop("rules", None)
    flags = {
        "model": group_script(stage, replies, frames), "runs_dir": str(stage.runs), "sandbox_dir": str(stage.work),
        "fsync": "none", "network": "none", "strategy": "stackheap", "parallel_frames": "3", **more,
    }  # fmt: skip
    prepared = prepare(str(mine), "Do it.", flags, os.environ, Path.cwd(), rules)
    observe = screen.observe if isinstance(screen, Watched) else screen
    return solve(prepared, os.environ, observe, person=person, observe_frame=screen.observe_frame)


class Watched:
    """A board that notes every line, and the status of each frame whenever it changes."""

    def __init__(self) -> None:
        self.board, self.lines = FrameBoard(), list[str]()
        self.statuses: dict[str, list[str]] = {}
        self.threads: set[str] = set()

    def observe(self, event, state) -> None:
        for line in self.board.observe(event, state):
            self._note(line)

    def observe_frame(self, name, news, state) -> None:
        self.threads.add(threading.current_thread().name)
        line = self.board.observe_frame(name, news, state)
        assert line is not None
        self._note(line)

    def _note(self, line: FrameLine) -> None:
        seen = self.statuses.setdefault(line.name, [])
        if seen[-1:] != [line.status]:
            seen.append(line.status)
        self.lines.append(line.sentence(self.board.clock()))


@mounted
def test_each_frame_has_a_line_from_its_start_to_the_merge(stage: Stage):
    frames = {
        "a": [write("base.txt", "a\n"), pop("A.")],
        "b": [command("true"), write("base.txt", "b\n"), pop("B.")],
        "c": [command("true")] * 9,
    }
    watched = Watched()
    result = play(stage, watched, [together("a", "b", "c"), pop()], frames, max_steps="21")
    assert result.ending == "popped"
    assert watched.statuses == {
        "a": ["running", "done", "merged"],
        "b": ["running", "done", "conflict"],
        "c": ["running", "ended", "merged"],
    }
    last = {line[1]: line for line in watched.lines}
    assert last["b"].startswith("[b] conflict, 3 steps, ")
    assert last["b"].endswith(": base.txt")
    assert last["a"].startswith("[a] merged, 2 steps, ")
    assert any(line.startswith("[c] ended, 5 steps, ") and line.endswith(": limit:steps") for line in watched.lines)
    assert any(line.endswith(": write_file base.txt") for line in watched.lines)
    assert watched.board.lines == []
    assert watched.threads == {"frame a", "frame b", "frame c"}


@mounted
def test_a_frame_waits_for_the_user_and_goes_on(stage: Stage):
    person = Scripted("Do it.", answers=["this"], decisions=[PersonDecided(allow=True)])
    frames = {"a": [call("ask_user", question="Which?"), pop("A.")], "b": [command("true"), pop("B.")]}
    watched = Watched()
    rules = SessionRules(approve="commands")
    result = play(stage, watched, [together("a", "b"), pop()], frames, person=person, rules=rules)
    assert (result.ending, result.failure) == ("left", "")
    assert watched.statuses == {name: ["running", "waiting", "running", "done", "merged"] for name in "ab"}
    assert any(line.startswith("[a] waiting, 1 step, ") and line.endswith(": Which?") for line in watched.lines)
    assert any(line.endswith(": allow run_command true") for line in watched.lines)


def board_of(count: int) -> FrameBoard:
    """Return a board after 4,000 seconds, whose first three frames are done."""
    now = [0.0]
    board = FrameBoard(lambda: now[0])
    frames = tuple(
        ParallelFrame(f"frame-{number}", f"frame-{number}-漢字", "Do.", "", "", "") for number in range(count)
    )
    pushed = FramesPushed(frames)
    board.observe(pushed, replace(State(), parallel=ParallelWork(ParallelGroup(frames))))
    for number, frame in enumerate(frames):
        news = RunEnded("popped", "") if number < 3 else AskPermission("run_command", "word " * 40)
        board.observe_frame(frame.name, news, replace(State(), step=number))
    now[0] = 4_000.0
    return board


@pytest.mark.parametrize("cells", [20, 40, 80, 200])
def test_the_rows_fit_the_terminal_and_running_frames_come_first(cells):
    board = board_of(8)
    rows = board.rows(cells, 8)
    assert len(rows) == 8
    assert max(map(cell_len, rows)) <= cells
    few = board.rows(cells, 4)
    assert few[-1] == "and 5 more frames"
    assert [row[:7] for row in few[:-1]] == ["frame-3", "frame-4", "frame-5"]
    assert len(board.rows(cells, 0)) == 2
    assert board_of(0).rows(cells, 8) == []


@mounted
def test_without_a_terminal_each_step_of_a_frame_has_a_line_with_its_name(stage: Stage, capsys):
    frames = {name: [write(f"{name}.txt", name), pop(f"Did {name}.")] for name in "ab"}
    play(stage, PlainScreen(quiet=False), [together("a", "b"), pop()], frames)
    lines = capsys.readouterr().err.splitlines()
    for name in "ab":
        own = [" ".join(line.split()) for line in lines if f"[{name}] " in line]
        assert own[:-1] == [f"2 [{name}] write_file {name}.txt", f"3 [{name}] pop_frame Did {name}."]
        assert own[-1].startswith(f"[{name}] done, 2 steps, ")
    assert "        R0 a: Do a." in lines
    assert "   1  merged the frames" in lines


@mounted
def test_on_a_terminal_the_frames_are_above_the_status_line(stage: Stage, monkeypatch):
    frames = {"a": [command("true"), pop("A.")], "b": [command("true"), pop("B.")]}
    screen, drawn = LiveScreen(), list[str]()
    console = Console(file=io.StringIO(), width=60, height=24)
    monkeypatch.setattr(screen, "_console", console)

    class Drawn:
        def __call__(self, event, state) -> None:
            screen(event, state)

        def observe_frame(self, name, news, state) -> None:
            screen.observe_frame(name, news, state)
            drawn.append(str(screen.__rich__()))

    play(stage, Drawn(), [together("a", "b"), pop()], frames)
    whole = next(text for text in drawn if "run_command true" in text)
    first, second, status = whole.splitlines()
    assert (first[:10], second[:10]) == ("a  running", "b  running")
    assert status.startswith(("push_frames", "root | step 1"))
    assert all(len(line) <= 60 for text in drawn for line in text.splitlines())
    assert "running" not in str(screen.__rich__())
