"""Tests for a conversation at a real terminal."""

import json
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from textwrap import wrap

import pytest

from stackmem import TraceError, UsageError, open_run, replay
from stackmem.core.facts import ContextCompacted, FramePopped, RunForked, ToolReturned
from stackmem.core.person_facts import (
    PersonAccepted,
    PersonDecided,
    PersonRan,
    PersonSaid,
    PersonSteppedIn,
    PersonStopped,
)
from stackmem.doors.chat.line_editor import GRACE_SECONDS
from tests.cli.terminal import Terminal
from tests.stage import Stage, call, command, pop


def says(text: str) -> dict:
    return {"text": text}


def folder_of(stage: Stage) -> Path:
    mine = stage.root / "mine"
    if not mine.exists():
        mine.mkdir()
        (mine / "a.txt").write_text("one\n")
    return mine


def chat(stage: Stage, *arguments: str, replies: list | None = None, columns: int = 100) -> Terminal:
    given = ["--model", stage.script(*replies), "--network", "none"] if replies is not None else []
    line = [sys.executable, "-m", "stackmem", "chat", *given, *arguments]
    return Terminal(line, stage.environ({"TERM": "xterm-256color"}), folder_of(stage), columns)


def newest(stage: Stage) -> Path:
    return max((path for path in stage.runs.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)


def facts(stage: Stage, *kinds: type) -> list:
    if not stage.runs.exists() or not any(path.is_dir() for path in stage.runs.iterdir()):
        return []
    return [record.event for record in open_run(newest(stage)).records() if isinstance(record.event, kinds)]


def begun(stage: Stage) -> list[str]:
    """Return the requests of a run that may not have started yet."""
    with suppress(TraceError, UsageError):
        return [event.text for event in facts(stage, PersonSaid)]
    return []


ASKING = """
from typing import Annotated
from mcp.server.mcpserver import Elicit, MCPServer, Resolve
from pydantic import BaseModel

class Form(BaseModel):
    color: str

async def which() -> Elicit[Form]:
    return Elicit("Which color shall it be?", Form)

server = MCPServer("paint")

@server.tool()
async def paint(form: Annotated[Form, Resolve(which)]) -> str:
    "Paint it."
    return "painted " + form.color

server.run("stdio")
"""


def test_a_server_of_tools_asks_in_the_middle_of_a_call(stage: Stage):
    server = stage.root / "server.py"
    server.write_text(ASKING)
    own = Path(stage.environ({})["XDG_CONFIG_HOME"]) / "stackmem" / "mcp.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(f"[paint]\ncommand = {json.dumps([sys.executable, str(server)])}\n")
    replies = [call("paint__paint"), says("Done.")]
    with chat(stage, replies=replies) as terminal:
        terminal.wait_for("Type a request")
        terminal.type("Paint it.\r")
        at = terminal.wait_for("f every paint__paint of this request  s of this session")
        at = terminal.wait_for("allow?", at)
        time.sleep(GRACE_SECONDS + 0.1)
        terminal.type("y\r")
        at = terminal.wait_for("The server paint asks: Which color shall it be?", at)
        at = terminal.wait_for("answer>", at)
        terminal.type("blue\r")
        terminal.wait_for("Done.", at)
        terminal.type("\x04")
        assert terminal.end() == 0
    assert [event.text for event in facts(stage, ToolReturned)] == ["painted blue"]


def test_a_day_in_short_with_a_question_a_diff_an_undo_and_apply(stage: Stage):
    replies = [
        command("echo hello"), says("There is one file. Shall I add another?"),
        call("write_file", path="b.txt", content="b\n"), says("Added it."), says("Other words."),
    ]  # fmt: skip
    with chat(stage, replies=replies) as terminal:
        terminal.wait_for("Type a request")
        terminal.type("What is here?\r")
        at = terminal.wait_for("answer>")
        terminal.type("yes\r")
        at = terminal.wait_for("Added it.", at)
        terminal.type("/diff\r")
        at = terminal.wait_for("+b", at)
        terminal.type("/apply\r")
        at = terminal.wait_for("applied to", at)
        terminal.type("And more\r")
        at = terminal.wait_for("Other words.", at)
        terminal.type("/undo\r")
        at = terminal.wait_for("undone: And more", at)
        terminal.wait_for("And more", at)  # returned to the input line for editing
        terminal.type("\x03\x04")
        terminal.wait_for("continue with: stackmem chat --resume")
        assert terminal.end() == 0
    assert (folder_of(stage) / "b.txt").read_text() == "b\n"
    assert facts(stage, RunForked)
    assert [event.text for event in facts(stage, PersonSaid)] == ["What is here?"]
    replay(str(newest(stage)))


def test_a_command_says_what_it_changed_and_one_that_fails_changes_nothing(stage: Stage):
    prose = " ".join(f"word{number}" for number in range(40))
    code = " ".join(f"code{number}" for number in range(40))
    with chat(stage, replies=[command("echo hello"), says(f"One.\n{prose}\n```\n{code}\n```")]) as terminal:
        terminal.wait_for("Type a request")
        terminal.type("first\r")
        at = terminal.wait_for("```", terminal.wait_for("code39", terminal.wait_for("One.")))
        for line, answer in (
            ("/show", "One."), ("/show 1", "hello"), ("/strategy nope", "no strategy 'nope'"),
            ("/budget steps +5", "(at most 205 steps"), ("/budget steps x", "'x'"),
            ("/strategy isolated", "(continues in a copy with isolated;"), ("/fork", "(continues in a copy;"),
        ):  # fmt: skip
            terminal.type(f"{line}\r")
            at = terminal.wait_for(answer, at)
        terminal.type("\x04")
        terminal.wait_for("continue with: stackmem chat --resume")
        assert terminal.end() == 0
    shown = terminal.shown()
    assert "stopped>" not in shown
    assert code in shown  # so that it can be copied
    lines = [line.strip() for line in shown.splitlines()]
    assert lines.count(prose) == 1  # what /show prints
    assert set(wrap(prose, 100)) <= set(lines)


def test_second_apply_continues_from_the_first(stage: Stage):
    replies = [
        call("write_file", path="a.txt", content="two\n"), says("One."),
        call("write_file", path="a.txt", content="three\n"), says("Two."),
    ]  # fmt: skip
    with chat(stage, replies=replies) as terminal:
        at = terminal.wait_for("Type a request")
        for request, result in (("first", "One."), ("second", "Two.")):
            terminal.type(f"{request}\r")
            at = terminal.wait_for(result, at)
            terminal.type("/apply\r")
            at = terminal.wait_for("applied to", at)
        terminal.type("/undo\r")
        at = terminal.wait_for("undone: second", at)
        terminal.wait_for("second", at)
        terminal.type("\x03/apply\r")
        terminal.wait_for("applied to", at)
        terminal.type("\x04")
        assert terminal.end() == 0
    assert (folder_of(stage) / "a.txt").read_text() == "two\n"
    (folder_of(stage) / "a.txt").write_text("one\n")  # like git checkout
    again = stage.call("apply", newest(stage))
    assert "a.txt" in again.stdout
    assert (folder_of(stage) / "a.txt").read_text() == "two\n"


def test_apply_asks_about_each_hunk_in_the_terminal(stage: Stage):
    replies = [command("echo two > a.txt; echo new > b.txt"), says("Done.")]
    with chat(stage, replies=replies) as terminal:
        at = terminal.wait_for("Type a request")
        terminal.type("first\r")
        at = terminal.wait_for("Done.", at)
        terminal.type("/apply -p\r")
        at = terminal.wait_for("(1/1) apply this hunk", at)
        time.sleep(GRACE_SECONDS + 0.2)
        terminal.type("n\r")
        at = terminal.wait_for("+new", at)
        time.sleep(GRACE_SECONDS + 0.2)
        terminal.type("y\r")
        at = terminal.wait_for("applied to", at)
        terminal.type("\x04")
        assert terminal.end() == 0
    assert (folder_of(stage) / "a.txt").read_text() == "one\n"
    assert (folder_of(stage) / "b.txt").read_text() == "new\n"


@pytest.mark.parametrize("layer", ["auto", "copy"])
def test_an_apply_after_an_undo_says_what_it_took_back_and_an_undone_run_can_be_applied_again(stage: Stage, layer: str):
    mine = folder_of(stage)
    replies = [
        call("write_file", path="a.txt", content="two\n"), says("One."),
        call("write_file", path="a.txt", content="three\n"), call("write_file", path="b.txt", content="b\n"),
        says("Two."),
    ]  # fmt: skip
    with chat(stage, "--layer", layer, replies=replies) as terminal:
        at = terminal.wait_for("Type a request")
        for request, result in (("first", "One."), ("second", "Two.")):
            terminal.type(f"{request}\r")
            at = terminal.wait_for(result, at)
            terminal.type("/apply\r")
            at = terminal.wait_for("applied to", at)
        undone = newest(stage)
        terminal.type("/undo 2\r")
        at = terminal.wait_for("undone: first", at)
        terminal.wait_for("first", at)
        terminal.type("\x03/apply\r")
        at = terminal.wait_for("reverted the changes applied to", at)
        assert {path.name: path.read_text() for path in mine.iterdir()} == {"a.txt": "one\n"}
        terminal.type("again\r")  # the conversation continues although this run had no request yet
        at = terminal.wait_for("One.", at)
        terminal.type("/apply\r")
        terminal.wait_for("applied to", at)
        terminal.type("\x04")
        assert terminal.end() == 0
    assert {path.name: path.read_text() for path in mine.iterdir()} == {"a.txt": "two\n"}
    assert "changed no files" not in terminal.shown()
    redone = stage.call("apply", undone)
    assert redone.returncode == 0, redone.stderr
    assert {path.name: path.read_text() for path in mine.iterdir()} == {"a.txt": "three\n", "b.txt": "b\n"}


def test_conversation_resumes_after_exit_or_kill(stage: Stage):
    replies = [says("One."), says("Two.")]
    with chat(stage, replies=replies) as terminal:
        terminal.wait_for("Type a request")
        terminal.type("first\r")
        terminal.wait_for("One.")
        terminal.signal(signal.SIGKILL)
        assert terminal.end() == -signal.SIGKILL
    with chat(stage, "--continue") as terminal:
        terminal.wait_for("> first")
        at = terminal.wait_for("One.")
        terminal.wait_for(">", at)
        terminal.type("second\r")
        terminal.wait_for("Two.", at)
        terminal.type("\x04")
        assert terminal.end() == 0
    assert [event.text for event in facts(stage, PersonSaid)] == ["first", "second"]
    assert replay(str(newest(stage))).prompts == 2


def test_a_call_is_allowed_or_denied_with_words(stage: Stage):
    replies = [command("rm a.txt"), command("echo fine"), says("Left it.")]
    with chat(stage, "--approve", "commands", replies=replies) as terminal:
        terminal.wait_for("Type a request")
        terminal.type("Clean up\r")
        at = terminal.wait_for("rm a.txt")
        at = terminal.wait_for("allow?", at)
        terminal.type("y\r")  # typed too early to be an answer to this question
        time.sleep(2 * GRACE_SECONDS)
        terminal.type("n keep it\r")
        at = terminal.wait_for("allow?", terminal.wait_for("echo fine", at))
        time.sleep(2 * GRACE_SECONDS)
        terminal.type("y\r")
        terminal.wait_for("Left it.", at)
        terminal.type("\x04")
        assert terminal.end() == 0
    denied, allowed = facts(stage, PersonDecided)
    assert (denied.allow, allowed.allow, len(facts(stage, ToolReturned))) == (False, True, 1)
    assert "keep it" in denied.words


def test_words_and_a_stop_while_it_works(stage: Stage):
    replies = [command("echo begun; sleep 2"), command("echo half; touch half; sleep 600"), says("Never.")]
    with chat(stage, "--command-seconds", "600", replies=replies) as terminal:
        terminal.wait_for("Type a request")
        terminal.type("Do\r")
        at = terminal.wait_for("> Do")
        terminal.wait_until(lambda: begun(stage))
        assert begun(stage) == ["Do"]
        terminal.type("use tabs\r")
        at = terminal.wait_for("(sent before the next step) use tabs", at)
        at = terminal.wait_for("echo begun", at)
        terminal.wait_until(lambda: list(stage.work.glob("*/*/half")))  # the status is drawn in parts
        terminal.type("\x1b")
        at = terminal.wait_for("pausing", at)
        terminal.type("\x03")  # a second time
        at = terminal.wait_for("paused>", at)
        terminal.type("/stop\r")
        at = terminal.wait_for("the request ended: stopped", at)
        terminal.type("\x04")
        assert terminal.end() == 0
    assert [event.text for event in facts(stage, PersonSteppedIn)] == ["use tabs"]
    assert len(facts(stage, PersonStopped)) == 1
    assert facts(stage, ToolReturned)[-1].text.startswith("half\n[interrupted by the user")
    assert facts(stage, FramePopped)[-1].forced == "stopped"
    replay(str(newest(stage)))


def test_an_exclamation_mark_runs_a_command_in_the_sandbox_now_and_folds_long_output(stage: Stage):
    with chat(stage, replies=[says("Done.")]) as terminal:
        terminal.wait_for("Type a request")
        terminal.type("!printf '\\033]0;owned\\007'; echo made > b.txt; seq 1 500\r")
        at = terminal.wait_for("more lines, /show prints all", terminal.wait_for("]0;owned"))
        at = terminal.wait_for("500", at)
        terminal.type("/show 0\r")
        at = terminal.wait_for("\n250", at)
        terminal.type("Go on\r")
        at = terminal.wait_for("Done.", at)
        terminal.type("/diff\r")
        terminal.wait_for("+made", at)
        terminal.type("\x04")
        assert terminal.end() == 0
    assert b"\x1b]0;" not in terminal.raw
    assert [event.exit_code for event in facts(stage, PersonRan)] == [0]
    assert not (folder_of(stage) / "b.txt").exists()
    assert replay(str(newest(stage))).prompts == 1


def test_a_closed_terminal_leaves_a_conversation_that_can_be_taken_up(stage: Stage):
    with chat(stage, replies=[says("One."), says("Two.")]) as terminal:
        terminal.wait_for("Type a request")
        terminal.type("first\r")
        terminal.wait_for("One.")
        terminal.hang_up()
    taken_up = open_run(newest(stage)).state
    assert taken_up.session.requests == 1
    with chat(stage, "--continue") as terminal:
        at = terminal.wait_for("One.")
        terminal.wait_for(">", at)
        terminal.type("\x04")
        assert terminal.end() == 0


def test_nothing_that_a_model_or_a_file_says_reaches_the_terminal_as_a_command(stage: Stage):
    hostile = "\x1b]0;owned\x07\x1b[2J\x9b5A\x1b]52;c;ZXZpbA==\x07\u202egone"
    replies = [command("printf '\\033]0;owned\\007'"), says(f"said {hostile}"), says("Two.")]
    with chat(stage, replies=replies, columns=60) as terminal:
        terminal.wait_for("Type a request")
        terminal.type("Do\r")
        terminal.wait_for("gone")
        terminal.resize(40)
        terminal.type("more\r")
        terminal.wait_for("Two.")
        terminal.type("\x04")
        assert terminal.end() == 0
    for bad in (b"\x1b]0;owned", b"\x1b]52", b"\xc2\x9b", "\u202e".encode()):
        assert bad not in terminal.raw


def test_a_paste_of_100_kb_is_one_request(stage: Stage):
    text = "\n".join(f"line {number} äöü" for number in range(7_000))
    with chat(stage, replies=[says("Read it.")]) as terminal:
        terminal.wait_for("Type a request")
        terminal.type("\x1b[200~")
        for start in range(0, len(text), 2_000):
            terminal.type(text[start : start + 2_000])
            terminal.read()
        terminal.type("\x1b[201~")
        terminal.wait_for("[Pasted text, 7,000 lines]")
        terminal.type("\r")
        terminal.wait_for("line 6999")
        terminal.wait_for("Read it.")
        terminal.type("\x04")
        assert terminal.end() == 0
    assert [event.text for event in facts(stage, PersonSaid)] == [text]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "needs a terminal"),
        (["--approve", "some"], "needs a terminal"),
    ],
)
def test_without_a_terminal_it_says_what_to_do(stage: Stage, arguments, says):
    ran = stage.run("chat", str(folder_of(stage)), *arguments)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert "stackmem solve FOLDER -t TEXT" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--approve", "some"], "--approve must be one of never, writes, commands, all"),
        (["--policy", "tree"], "--policy must be one of frame, flat"),
        (["--policy", "frame", "--strategy", "full"], "the strategy full has no frames"),
        (["--continue"], "no conversation about"),
    ],
)
def test_impossible_options_are_refused_before_the_start(stage: Stage, arguments, says):
    with chat(stage, *arguments, replies=[]) as terminal:
        assert terminal.end() == 2
    assert says in terminal.shown()
    assert not stage.runs.exists() or not [path for path in stage.runs.iterdir() if path.is_dir()]


def test_resume_answers_a_question_of_an_agent(stage: Stage):
    script = stage.script(*[says("Which file do you mean?")] * 3, pop("Mended."))
    asked = stage.call("solve", folder_of(stage), "-t", "Mend it.", "--model", script, "--json")
    found = json.loads(asked.stdout)
    assert (asked.returncode, found["ending"], found["result"]) == (8, "input_needed", "Which file do you mean?")
    again = stage.call("resume", found["run"], "--say", "a.txt", "--json")
    assert (again.returncode, json.loads(again.stdout)["result"]) == (0, "Mended.")


def test_a_command_from_a_file_becomes_the_request_and_needs_trust_in_a_project(stage: Stage):
    mine = folder_of(stage)
    (mine / ".stackmem" / "commands").mkdir(parents=True)
    (mine / ".stackmem" / "commands" / "deploy.md").write_text("Deploy to $1.", encoding="utf-8")
    with chat(stage, replies=[says("Deployed.")]) as terminal:
        at = terminal.wait_for("brings 1 command that you do not trust yet")
        at = terminal.wait_for("Type a request", at)
        terminal.type("/deploy prod\r")
        at = terminal.wait_for("is not trusted; run stackmem trust", at)
        done = stage.run("trust", mine, "--yes")
        assert done.returncode == 0, done.stderr
        terminal.type("/deploy prod\r")
        terminal.wait_for("Deployed.", at)
        terminal.type("\x04")
        assert terminal.end() == 0
    assert begun(stage) == ["Deploy to prod."]


def test_a_plan_is_accepted_and_a_new_conversation_begins_in_the_same_terminal(stage: Stage):
    replies = [
        says("1. Write b.txt\n2. Say so"), call("write_file", path="b.txt", content="x"), says("Wrote it."),
        says("Said it."),
    ]  # fmt: skip
    with chat(stage, "--mode", "plan", replies=replies) as terminal:
        at = terminal.wait_for("plan>", terminal.wait_for("Type a request"))
        terminal.type("/accept\r")
        at = terminal.wait_for("no plan to accept", at)
        terminal.type("Make b.txt\r")
        at = terminal.wait_for("/accept carries the plan out", at)
        terminal.type("/accept\r")
        at = terminal.wait_for("Said it.", terminal.wait_for("> Step 2 of 2", terminal.wait_for("> Step 1 of 2", at)))
        first = newest(stage)
        terminal.type("/new\r")
        at = terminal.wait_for(f"chat --resume {first.name}", at)
        at = terminal.wait_for("plan>", at)
        terminal.type("/plan\r")
        at = terminal.wait_for("plan mode is off", at)
        terminal.type("\x04")
        assert terminal.end() == 0
    assert len([path for path in stage.runs.iterdir() if path.is_dir()]) == 2
    assert replay(first).prompts == 4


def test_an_edited_plan_is_carried_out(stage: Stage):
    with chat(stage, replies=[says("One thing."), says("Did it.")]) as terminal:
        terminal.wait_for("Type a request")
        terminal.type("/plan\r")
        at = terminal.wait_for("plan mode is on")
        terminal.type("Plan it\r")
        at = terminal.wait_for("/accept carries the plan out", at)
        terminal.type("/accept edit\r")
        at = terminal.wait_for("plan> One thing.", at)
        terminal.type(" And more.\r")
        terminal.wait_for("Did it.", at)
        terminal.type("\x04")
        assert terminal.end() == 0
    assert [event.plan for event in facts(stage, PersonAccepted)] == ["One thing. And more."]


def test_compact_summarizes_now_and_says_how_much_shorter_the_next_prompt_is(stage: Stage):
    reads = [call("list_files", path=".")] * 2
    replies = [*reads, says("Looked."), says("THE SUMMARY"), says("Bye.")]
    with chat(stage, "--strategy", "summary", replies=replies) as terminal:
        terminal.wait_for("Type a request")
        terminal.type("/compact\r")
        at = terminal.wait_for("nothing to summarize yet")
        terminal.type("Look\r")
        at = terminal.wait_for("Looked.", at)
        terminal.type("/compact\r")
        at = terminal.wait_for("summarized: the next prompt has about", at)
        terminal.type("/context\r")
        at = terminal.wait_for("next prompt: about", at)
        terminal.type("Leave\r")
        terminal.wait_for("Bye.", at)
        terminal.type("\x04")
        assert terminal.end() == 0
    assert [event.text for event in facts(stage, ContextCompacted)] == ["THE SUMMARY"]
    assert replay(newest(stage)).prompts == 5
