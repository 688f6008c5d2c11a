"""The day of 60 actions in tmux, with a kill in its middle; ``replay`` verifies every run of it."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from stackmem import open_run, replay
from stackmem.core.facts import ModelReplied
from stackmem.core.messages import Text
from stackmem.core.person_facts import PersonSaid
from stackmem.run.run_folder import is_run
from tests.conftest import CAMPAIGN
from tests.stage import Stage

from .day import REPLIES, Action, first_half, prepare, second_half
from .tmux import Tmux, until

SIZES = [(80, 24), (200, 50)] if CAMPAIGN else [(80, 24)]


class Day:
    """A shell in tmux, in which the program is started."""

    def __init__(self, stage: Stage, columns: int, rows: int) -> None:
        folder = stage.root / "mine"
        config = Path(os.environ["XDG_CONFIG_HOME"], "stackmem")
        more = prepare(stage.root, folder, config)
        environ = stage.environ({**more, "PATH": f"{more['PATH']}:{os.environ['PATH']}", "PS1": "shell$ "})
        self.stage, self.done = stage, 0
        self.window = Tmux(stage.root, ["bash", "--norc", "--noprofile", "-i"], folder, environ)
        self.window("resize-window", "-t", "t", "-x", str(columns), "-y", str(rows))
        self.program = shlex.join([sys.executable, "-m", "stackmem", "chat"])
        given = ["--model", stage.script(*REPLIES), "--network", "none", "--approve", "commands", "--vision", "on"]
        self.start = f"{self.program} {shlex.join(given)}"

    def play(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            self.act(action)

    def _is_ready(self) -> bool:
        """Return whether there is an empty prompt above the status line, which a running request also has."""
        lines = [line.rstrip() for line in self.window.screen() if line.strip()]
        return any(line == ">" and " | cost " in below for line, below in pairwise(lines))

    def act(self, action: Action) -> None:
        before = self.window.history().count(action.shows)
        for key in action.keys:
            if key == "@wait":
                time.sleep(1)  # a permission question ignores keys for a moment
            elif key.startswith("@paste "):
                # Before the prompt and its status line are drawn, a terminal sends a paste as typed keys.
                until(self._is_ready, lambda: f"{self.done} {action.does}: no prompt\n{self.window.history()[-3_000:]}")
                self.window.paste(key.removeprefix("@paste "))
            else:
                self.window.type(key)
        self.done += 1

        def is_shown() -> bool:
            if action.line:
                return any(line.startswith(action.shows) for line in self.window.screen())
            return self.window.history().count(action.shows) > (before if action.keys else 0)

        until(is_shown, lambda: f"{self.done} {action.does}: no {action.shows!r}\n{self.window.history()[-3_000:]}")

    def kill(self) -> None:
        """Kill the program; the shell goes on."""
        shell = self.window("display-message", "-p", "-t", "t", "#{pane_pid}").strip()
        for child in Path(f"/proc/{shell}/task/{shell}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)

    def end(self) -> None:
        subprocess.run(["tmux", "-S", self.window.socket, "kill-server"], capture_output=True, check=False)


def runs(stage: Stage) -> list[Path]:
    return sorted(path for path in stage.runs.iterdir() if is_run(path))


@pytest.fixture(params=SIZES, ids=str)
def day(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Day]:
    begun = Day(stage, *request.param)
    yield begun
    begun.end()


def test_a_day_of_60_actions_and_every_run_replays(stage: Stage, day: Day):
    day.window.type(day.start, "Enter")
    day.play(first_half(stage.root / "shot.png"))
    day.play(second_half(day.program))
    assert day.done == 60
    assert all(replay(run) for run in runs(stage))
    assert (stage.root / "mine" / "c.txt").read_text() == "c\n"
    assert [each.event.text for each in open_run(runs(stage)[0]).records() if isinstance(each.event, PersonSaid)]


KILLS = range(1, 57)
"""Numbers of actions after which the program is killed. The last ones stop, leave or restart it themselves."""


@pytest.mark.parametrize("after", KILLS if CAMPAIGN else [21, 52])
def test_a_kill_in_the_day_loses_nothing_that_was_shown(stage: Stage, day: Day, after: int):
    day.window.type(day.start, "Enter")
    day.play((*first_half(stage.root / "shot.png"), *second_half(day.program))[:after])
    day.kill()
    day.window.wait_for("Killed")
    # Words that were still streaming are not recorded. After a complete reply, the screen says what it cost.
    shown = day.window.history().rpartition("; the next prompt has about ")[0]
    begun = any(path.stat().st_size for path in stage.runs.glob("*/trace.jsonl"))  # not yet on the first screen
    answer = ">" if begun else "stackmem: no conversation about"
    day.act(Action("--continue", (f"clear; {day.program} --continue", "Enter"), answer, line=True))
    replied = [
        each.event for run in runs(stage) for each in open_run(run).records() if isinstance(each.event, ModelReplied)
    ]
    texts = " ".join(part.text for reply in replied for part in reply.parts if isinstance(part, Text))
    words = [reply["text"] for reply in REPLIES if "text" in reply]
    assert [each for each in words if each in shown and each not in texts] == []
    assert all(replay(run) for run in (runs(stage) if begun else []))
    assert after < 46 or (stage.root / "mine" / "c.txt").read_text() == "c\n"
