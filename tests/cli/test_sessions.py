"""Tests for choosing, naming and revisiting conversations."""

import time
from pathlib import Path

from tests.cli.test_chat import chat, folder_of, newest, says
from tests.stage import Stage


def ask(stage: Stage, text: str, *replies: str) -> Path:
    """Make one request in a new conversation that starts later than the others; return its run."""
    if stage.runs.exists():
        time.sleep(1.1)  # ids have seconds
    script = stage.script(*(says(reply) for reply in replies))
    ran = stage.run("chat", str(folder_of(stage)), "--model", script, "--network", "none", "-p", text, "--quiet")
    assert ran.returncode == 0, ran.stderr
    return newest(stage)


def test_continue_takes_the_newest_conversation_that_no_process_has_open(stage: Stage):
    free = ask(stage, "first", "One.")
    time.sleep(1.1)
    with chat(stage, replies=[says("Three."), says("Two.")]) as terminal:
        terminal.wait_for("Type a request")
        terminal.type("second\r")
        at = terminal.wait_for("Three.")
        busy = newest(stage)
        again = stage.run("chat", str(folder_of(stage)), "--continue", "-p", "more", "--quiet")
        assert (again.returncode, again.stdout) == (0, "Two.\n"), again.stderr
        assert f"another process has {busy.name} open; continuing {free.name}" in again.stderr
        terminal.type("/fork\r")
        terminal.wait_for("(continues in a copy;", at)
        free.rename(stage.root / "elsewhere")
        none = stage.run("chat", str(folder_of(stage)), "--continue", "-p", "more", "--quiet")
        assert none.returncode == 2
        assert "is open in another process" in none.stderr
        terminal.type("\x04")
        assert terminal.end() == 0
