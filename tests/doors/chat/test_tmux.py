"""A conversation in tmux, a terminal by others: it types, resizes, pastes, closes, and reports the screen."""

from pathlib import Path

import pytest

from stackmem import open_run, replay
from stackmem.core.facts import RunEnded, ToolReturned
from stackmem.core.person_facts import PersonAttached, PersonSaid, PersonSteppedIn
from stackmem.run.run_folder import is_run
from tests.stage import Stage, command

from .tmux import until

TEXT = "\n".join(f"line {number} äöü 漢字" for number in range(5_000))
"""100 kB of pasted text."""


def only_run(stage: Stage) -> Path:
    (run,) = (path for path in stage.runs.iterdir() if is_run(path))
    return run


def facts(stage: Stage, *kinds: type) -> list:
    return [record.event for record in open_run(only_run(stage)).records() if isinstance(record.event, kinds)]


def test_a_conversation_in_tmux_with_typing_resizing_pastes_and_a_closed_window(stage: Stage, tmux):
    hostile = "\x1b]0;owned\x07\x1b[2J\x1b[5A\x1b]52;c;ZXZpbA==\x07 said 漢字 to its end."
    replies = [
        command("i=0; while [ $i -lt 4000 ]; do i=$((i+1)); echo out $i; done; sleep 6; echo late"),
        command("echo half; touch half; sleep 600"), {"text": hostile}, {"text": "Read."}, command("sleep 4"),
        {"text": "Back."},
    ]  # fmt: skip
    given = ["--model", stage.script(*replies), "--network", "none", "--command-seconds", "600"]
    window = tmux(*given)
    title = window("display-message", "-p", "-t", "t", "#{pane_title}")
    window.wait_for("Type a request")
    window.type("Do it, grüße", "Enter")
    window.wait_for("> Do it, grüße")
    until(lambda: any("run_command i=0" in line for line in window.screen()), window.history)
    window.type("use 漢字")
    window("resize-window", "-t", "t", "-x", "60", "-y", "20")
    window.wait_for_line("> use 漢字")  # typed text survives the resize
    window.type("Enter")
    window.wait_for("(sent before the next step) use 漢字")
    until(lambda: any("run_command echo half" in line for line in window.screen()), window.history)
    window.type("/show 1", "Enter")
    window.wait_for("out 3999")
    until(lambda: list(stage.work.glob("*/*/half")), window.history)
    window.type("Escape")
    window.wait_for("pausing")
    window.type("Escape")
    window.wait_for_line("paused>")
    window.type("Enter")
    window.wait_for("said 漢字 to its end.")
    assert max(map(len, window.screen())) <= 60
    assert window("display-message", "-p", "-t", "t", "#{pane_title}") == title
    assert window("list-buffers") == ""  # text printed by a model never reaches the clipboard
    window.wait_for_line(">")
    window.paste(TEXT)
    window.wait_for("[Pasted text, 5,000 lines]")
    window.type("Enter")
    window.wait_for("line 4999")
    window.wait_for("Read.")
    window.type("more", "Enter")
    until(lambda: len(facts(stage, PersonSaid)) == 3, window.history)
    window.close()
    until(lambda: facts(stage, RunEnded), lambda: "the run goes on after its window was closed")
    assert facts(stage, RunEnded)[-1].ending in ("interrupted", "left")
    again = tmux("--continue")
    again.wait_for("Back.")
    again.wait_for_line(">")
    again.type("C-d")
    until(lambda: not again.lives(), lambda: "the program is still running")
    assert [event.text for event in facts(stage, PersonSaid)] == ["Do it, grüße", TEXT, "more"]
    assert facts(stage, ToolReturned)[1].text.startswith("half\n[interrupted by the user")
    assert [event.text for event in facts(stage, PersonSteppedIn)] == ["use 漢字"]
    assert replay(only_run(stage)).prompts


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 50)])
def test_menus_of_commands_and_files_and_a_command_of_the_user(stage: Stage, tmux, columns: int, rows: int):
    window = tmux("--model", stage.script({"text": "Seen."}), "--network", "none")
    window("resize-window", "-t", "t", "-x", str(columns), "-y", str(rows))
    window.wait_for("Type a request")
    window.type("/co")
    until(lambda: any("show tokens and cost" in line for line in window.screen()), window.history)
    window.type("Escape")
    until(lambda: not any("show tokens and cost" in line for line in window.screen()), window.history)
    window.type("C-c", "!echo from-the-user > b.txt; cat b.txt", "Enter")
    window.wait_for("from-the-user\n")
    window.wait_for_line(">")
    window.type("look at @a.")
    until(lambda: any(line.strip() == "a.txt" for line in window.screen()), window.history)
    window.type("Tab", " and @b.txt", "Enter")
    window.wait_for("(attached a.txt:")
    window.wait_for("(attached b.txt:")
    window.wait_for("Seen.")
    window.type("C-d")
    until(lambda: not window.lives(), lambda: "the program is still running")
    assert [event.text for event in facts(stage, PersonSaid)] == ["look at @a.txt and @b.txt"]
    assert [event.path for event in facts(stage, PersonAttached)] == ["a.txt", "b.txt"]
    assert replay(only_run(stage)).prompts == 1
