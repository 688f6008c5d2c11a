"""From a user's arguments to a runnable plan, before any file is created."""

import os
import socket

import pytest

from stackmem import UsageError
from stackmem.core.person_facts import SessionRules
from stackmem.run.folder_choice import profile_in_force, with_copy
from stackmem.run.prepare import prepare
from stackmem.run.request import Request
from tests.stage import Stage, pop

LIMITED = "[metadata.stackmem]\nmax_steps = 7\n[agent]\ntimeout_sec = 90.0\n"


def prepared(stage: Stage, subject: object, text: str | None = None, environ=None, **flags) -> Request:
    places = {"runs_dir": str(stage.runs), "sandbox_dir": str(stage.work)}
    return prepare(str(subject), text, places | flags, {**os.environ, **(environ or {})}, stage.elsewhere)


def test_without_a_model_the_demo_is_taken_and_said_so_and_with_a_key_claude_is(stage: Stage):
    task = stage.task(pop())
    found = prepared(stage, task)
    assert found.model == "demo"
    assert any("no model selected" in warning for warning in found.warnings)
    found = prepared(stage, task, environ={"ANTHROPIC_API_KEY": "sk-ant-somebodys-key"})
    assert (found.model, found.warnings) == ("claude-sonnet-5-5", ())
    found = prepared(stage, task, environ={"ANTHROPIC_API_KEY": " "})
    assert found.model == "demo"


def test_where_no_script_could_play_the_model_somebody_must_be_named(stage: Stage):
    folder = stage.root / "hers"
    folder.mkdir()
    with pytest.raises(UsageError, match=r"no model selected and ANTHROPIC_API_KEY is not set; .*human to play"):
        prepared(stage, folder, "tidy up")
    assert prepared(stage, folder, "tidy up", model="human").warnings == ()


def test_a_named_model_is_taken_over_every_default(stage: Stage):
    task = stage.task(pop())
    key = {"ANTHROPIC_API_KEY": "sk-ant-somebodys-key"}
    assert prepared(stage, task, environ=key, model="demo").model == "demo"
    assert prepared(stage, task, environ={**key, "STACKMEM_MODEL": "human"}).model == "human"
    assert prepared(stage, task, environ={"STACKMEM_MODEL": "human"}, model="demo").model == "demo"


def test_a_task_limits_its_run_and_a_person_over_it(stage: Stage):
    task = stage.task(pop(), more=LIMITED)
    settings = prepared(stage, task).resolved.settings
    assert (settings.max_steps, settings.max_seconds) == (7, 90.0)
    settings = prepared(stage, task, max_steps="50", max_seconds="none").resolved.settings
    assert (settings.max_steps, settings.max_seconds) == (50, None)


def test_a_task_is_checked_and_a_folder_only_where_she_says_by_what(stage: Stage):
    assert prepared(stage, stage.task(pop())).checked
    assert not prepared(stage, ".", "Do it.", model="human").checked
    assert prepared(stage, ".", "Do it.", model="human", check="true").checked


def test_folders_are_relative_to_the_users_folder(stage: Stage):
    below = stage.elsewhere / "below"
    below.mkdir()
    assert prepared(stage, "below", "Do it.", model="human").subject.folder == below
    assert prepared(stage, ".", "Do it.", model="human").subject.name == "elsewhere"
    assert prepared(stage, "below/..", "Do it.", model="human").subject.folder == stage.elsewhere
    found = with_copy(prepared(stage, below, "Do it.", model="human"))
    assert (found.subject.inside, found.copy.files) == (str(below), 0)


def test_the_folders_of_the_runs_are_made_and_tried_before_anything_else(stage: Stage):
    prepared(stage, stage.task(pop()), runs_dir=str(stage.root / "a" / "b"), sandbox_dir=str(stage.root / "c"))
    assert (stage.root / "a" / "b").is_dir()
    assert list((stage.root / "a" / "b").iterdir()) == list((stage.root / "c").iterdir()) == []


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_a_text_of_nothing_is_none(stage: Stage, text):
    with pytest.raises(UsageError, match="-t TEXT"):
        prepared(stage, ".", text)


def test_no_name_that_the_trace_could_not_hold_is_taken(stage: Stage):
    broken = os.fsdecode(b"caf\xe9")
    for flags in ({"model": f"script:{broken}"}, {"model": "human", "runs_dir": str(stage.root / broken)}):
        with pytest.raises(UsageError, match="UTF-8"):
            prepared(stage, stage.elsewhere, "Do it.", **flags)


def test_a_socket_that_a_mount_shows_is_named_at_the_start(stage: Stage):
    shown = stage.root / "shown" / "deep"
    shown.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(shown / "agent.sock"))
        (shown / "link").symlink_to(shown / "agent.sock")
        profile = stage.root / "profile.toml"
        profile.write_text(f'[[mounts]]\nhost = "{shown.parent}"\ninside = "/opt/shown"\n', encoding="utf-8")
        warnings = prepared(stage, stage.task(pop()), profile=str(profile)).warnings
    assert [one for one in warnings if "sock" in one] == [
        f"commands can connect to the socket {shown}/agent.sock, because a mount of the profile exposes it"
    ]


def test_commands_of_a_conversation_may_take_two_minutes_unless_the_user_says_otherwise(stage: Stage):
    def seconds(session: SessionRules | None, **flags: str) -> float:
        flags |= {"model": "human", "runs_dir": str(stage.runs), "sandbox_dir": str(stage.work)}
        text = None if session else "Do it."
        request = prepare(".", text, flags, os.environ, stage.elsewhere, session)
        return profile_in_force(request.resolved, stage.elsewhere).command_seconds

    assert seconds(None) == 30.0
    assert seconds(SessionRules()) == 120.0
    assert seconds(SessionRules(), command_seconds="600") == 600.0
    profile = stage.root / "profile.toml"
    profile.write_text("command_seconds = 7.0\n")
    assert seconds(SessionRules(), profile=str(profile)) == 7.0
