"""Tests for choosing, naming and revisiting conversations."""

import time
from pathlib import Path

import pytest

from stackmem import replay
from stackmem.cli.placement import with_choice
from stackmem.run.companion.conversations import kept_sessions
from stackmem.run.companion.find import newest_session
from stackmem.run.run_folder import TRACE
from stackmem.trace.lock import is_held
from tests.stage import Stage, call

from .test_chat import chat, folder_of, newest, says


def ask(stage: Stage, text: str, *replies: str) -> Path:
    """Make one request in a new conversation; return its run."""
    script = stage.script(*(says(reply) for reply in replies))
    ran = stage.run("chat", str(folder_of(stage)), "--model", script, "--network", "none", "-p", text, "--quiet")
    assert ran.returncode == 0, ran.stderr
    return newest(stage)


def test_continue_takes_the_newest_conversation_that_no_process_has_open(stage: Stage):
    free = ask(stage, "first", "One.")
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
        until = time.monotonic() + 30  # for a moment after the old run has closed, the fork is not open yet
        while (newest(stage) == busy or not is_held(newest(stage) / TRACE)) and time.monotonic() < until:
            time.sleep(0.05)
        none = stage.run("chat", str(folder_of(stage)), "--continue", "-p", "more", "--quiet")
        assert none.returncode == 2
        assert "is open in another process" in none.stderr
        terminal.type("\x04")
        assert terminal.end() == 0


def test_conversations_of_the_same_second_are_ordered_by_their_first_records(stage: Stage):
    older, newer = ask(stage, "first", "One."), ask(stage, "second", "Two.")
    second = newer.name.partition("-")[0]
    older = older.rename(stage.runs / f"{second}-mine-adaptive-ffffff")
    newer = newer.rename(stage.runs / f"{second}-mine-adaptive-000000")
    assert [path for path, _ in kept_sessions(stage.runs)] == [newer, older]
    assert newest_session(stage.runs, folder_of(stage)) == (newer, ())


def test_resume_without_an_id_lists_and_searches_what_was_said(stage: Stage):
    first = ask(stage, "about \x1b[31mpears and plums", "One.")
    second = ask(stage, "about apples", "One.")
    listed = stage.run("chat", str(folder_of(stage)), "-p", "more", "--quiet", "--resume")
    assert listed.returncode == 2
    assert f"choose one: stackmem chat --resume {second.name}" in listed.stderr
    assert listed.stderr.index(second.name) < listed.stderr.index(first.name)
    assert "\x1b" not in listed.stderr
    piped = stage.run("chat", str(folder_of(stage)), "--resume")
    assert first.name in piped.stderr
    with chat(stage, "--resume") as terminal:
        at = terminal.wait_for("Enter leaves:")
        terminal.type("nowhere\r")
        at = terminal.wait_for("no conversation contains nowhere", at)
        at = terminal.wait_for("Enter leaves:", at)
        terminal.type("PLUMS pears\r")
        at = terminal.wait_for(f"1  {first.name}", at)
        at = terminal.wait_for("Enter leaves:", at)
        terminal.type("1\r")
        terminal.wait_for("One.", terminal.wait_for("pears and plums", at))
        terminal.type("\x04")
        terminal.wait_for(f"continue with: stackmem chat --resume {first.name}")
        assert terminal.end() == 0
    with chat(stage, "--resume") as terminal:
        terminal.wait_for("Enter leaves:")
        terminal.type("\r")
        assert terminal.end() == 2
    assert "no conversation was chosen" in terminal.shown()


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["chat", "--resume"], ["chat", "--resume="]),
        (["chat", "--resume", "--plain"], ["chat", "--resume=", "--plain"]),
        (["chat", ".", "--resume", "2026"], ["chat", ".", "--resume", "2026"]),
        (["resume", "--resume"], ["resume", "--resume"]),
        ([], []),
    ],
)
def test_only_a_resume_of_chat_without_a_value_gets_an_empty_one(given: list[str], passed: list[str]):
    assert with_choice(given) == passed


def test_a_name_is_listed_kept_by_a_fork_and_accepted_by_resume(stage: Stage):
    with chat(stage, replies=[says("One."), says("Two.")]) as terminal:
        terminal.wait_for("Type a request")
        terminal.type("first\r")
        at = terminal.wait_for("One.")
        for wrong in ("", " -x", " last", f" {'x' * 61}", " /a"):
            terminal.type(f"/rename{wrong}\r")
            at = terminal.wait_for("cannot be a name", at)
        terminal.type("/rename old\r")
        at = terminal.wait_for("--resume old", at)
        terminal.type("/rename my fruit\r")
        at = terminal.wait_for("--resume 'my fruit'", at)
        terminal.type("/fork\r")
        terminal.wait_for("(continues in a copy;", at)
        terminal.type("\x04")
        assert terminal.end() == 0
    listed = stage.run("chat", str(folder_of(stage)), "--resume")
    assert listed.stderr.count("my fruit  first") == 2
    again = stage.run("chat", str(folder_of(stage)), "--resume", "my fruit", "-p", "more", "--quiet")
    assert (again.returncode, again.stdout) == (0, "Two.\n"), again.stderr
    assert replay(str(newest(stage))).prompts == 2
    missing = stage.run("chat", str(folder_of(stage)), "--resume", "old", "-p", "more", "--quiet")
    assert missing.returncode == 2
    assert "no run 'old'" in missing.stderr


def test_redo_takes_back_undo_and_rewind_until_the_next_request(stage: Stage):
    replies = [call("write_file", path="b.txt", content="b\n"), says("One."), says("Two."), says("Three.")]
    with chat(stage, replies=replies) as terminal:
        at = terminal.wait_for("Type a request")
        terminal.type("/redo\r")
        at = terminal.wait_for("nothing to redo", at)
        for request, result in (("first", "One."), ("second", "Two.")):
            terminal.type(f"{request}\r")
            at = terminal.wait_for(result, at)
        whole = newest(stage)
        terminal.type("/rewind\r")
        at = terminal.wait_for("2  second", terminal.wait_for("1  first", at))
        terminal.type("/rewind 1\r")
        at = terminal.wait_for("first", terminal.wait_for("undone: first", at))
        terminal.type("\x03/redo\r")
        at = terminal.wait_for("redone", at)
        terminal.type("third\r")
        at = terminal.wait_for("Three.", at)
        terminal.type("/diff\r")
        at = terminal.wait_for("+b", at)
        terminal.type("/redo\r")
        at = terminal.wait_for("nothing to redo", at)
        terminal.type("\x04")
        terminal.wait_for(f"continue with: stackmem chat --resume {whole.name}")
        assert terminal.end() == 0
    assert replay(str(whole)).prompts == 4
