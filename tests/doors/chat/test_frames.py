"""A conversation whose agent works in parallel frames, in tmux: their lines, a question, keys and Ctrl-C."""

import time

from stackmem import replay
from stackmem.core.facts import RunEnded
from stackmem.core.person_facts import PersonStopped
from stackmem.doors.chat.line_editor import GRACE_SECONDS
from stackmem.run.run_folder import is_run
from tests.groups import group_script, together
from tests.stage import Stage, command, events, mounted, pop

from .tmux import Tmux, until


def arguments(stage: Stage, frames, *more: str) -> list[str]:
    script = group_script(stage, [together("a", "b"), pop("All done.")], frames)
    return [
        "--model", script, "--network", "none", "--strategy", "stackheap", "--parallel-frames", "2",
        "--command-seconds", "600", *more,
    ]  # fmt: skip


def begins(window: Tmux, text: str) -> None:
    until(lambda: any(line.startswith(text) for line in window.screen()), lambda: "\n".join(window.screen()))


@mounted
def test_the_lines_of_frames_stay_while_a_question_is_open(stage: Stage, tmux):
    gate = "while [ ! -e go ]; do sleep 0.1; done"
    frames = {"a": [command("echo a"), pop("Did a.")], "b": [command(gate), pop("Did b.")]}
    window = tmux(*arguments(stage, frames, "--approve", "commands"))
    window.wait_for("Type a request")
    window.type("Do it", "Enter")
    until(lambda: sum("waiting" in line for line in window.screen()) == 2, lambda: "\n".join(window.screen()))
    begins(window, "allow?")
    until(  # a screen that is just drawn again has no lines for a moment
        lambda: any(line.startswith("b  waiting  1 step") and "allow run_command" in line for line in window.screen()),
        lambda: "\n".join(window.screen()),
    )
    time.sleep(2 * GRACE_SECONDS)
    window.type("half of a reason")  # keys work while both frames wait
    begins(window, "allow? half of a reason")
    window.type("C-u", "y", "Enter")
    until(lambda: sum("waiting" in line for line in window.screen()) == 1, lambda: "\n".join(window.screen()))
    window.wait_for("allow? y")
    begins(window, "allow?")
    time.sleep(2 * GRACE_SECONDS)
    window.type("y", "Enter")
    until(lambda: any(line.startswith("a  done") for line in window.screen()), lambda: "\n".join(window.screen()))
    begins(window, "b  running")
    window.wait_for("[a] done, 2 steps, ")
    window.type("typed meanwhile")
    window.wait_for_line("> typed meanwhile")
    window.type("C-u", "/stop", "Enter", "Escape")
    window.wait_for_line("paused>")
    window.type("/stop", "Enter")
    window.wait_for("the request ended: stopped")
    until(lambda: not any(line.startswith(("a  ", "b  ")) for line in window.screen()), window.history)
    parent, *children = sorted((path for path in stage.runs.iterdir() if is_run(path)), key=lambda path: len(path.name))
    assert len(events(parent, PersonStopped)) == 1
    until(lambda: all(events(child, RunEnded) for child in children), window.history)
    assert [events(child, RunEnded)[-1].ending for child in sorted(children)] == ["popped", "interrupted"]
    window.type("C-d")
    until(lambda: not window.lives(), window.history)
    for run in (parent, *children):
        replay(run)


@mounted
def test_a_plain_screen_prints_lines_and_changes_none(stage: Stage, tmux):
    frames = {name: [command("true"), pop(f"Did {name}.")] for name in "ab"}
    window = tmux(*arguments(stage, frames, "--plain"))
    window.wait_for("Type a request")
    window.type("Do it", "Enter")
    window.wait_for("All done.")
    text = window.history()
    for name in "ab":
        assert f"[{name}] run_command true" in text
        assert f"[{name}] done, 2 steps, " in text
    assert not any(line.startswith(("a  ", "b  ")) for line in window.screen())
