"""Runs with skills: listed in the index, loaded when read, STALE after a change, and replayed exactly."""

import os
from pathlib import Path

import pytest
from msgspec import UNSET

from stackmem import open_run, replay
from stackmem.core.facts import CallRejected, ChunkRead, RunStarted, SourcesDigested, ToolReturned
from stackmem.run.companion.kept_heap import heap_store
from stackmem.run.opened import Person
from stackmem.run.resume import resume
from stackmem.trace.moments import prompt_of
from tests.run.people import Scripted, replayed, talk
from tests.stage import Stage, call, command, events, pop, push
from tests.workspace.test_skills import write

SKILL = ".claude/skills/review/SKILL.md"
READ = call("heap_read", name="skill/review")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "mine"
    place.mkdir()
    (place / "a.txt").write_text("one\n", encoding="utf-8")
    write(place / ".claude/skills", "review", "How to review here.", "Look for tabs.")
    return place


def solve(stage: Stage, folder: Path, *replies, **more):
    script = stage.script(*replies, name=f"{len(list(stage.root.iterdir()))}.yaml")
    return stage.solve(folder, "Review it.", model=script, **more)


def prompt(result, step: int) -> str:
    view = prompt_of(open_run(result.run_dir).moment(step))
    return "\n".join(getattr(part, "text", "") for message in view.messages for part in message.parts)


def test_the_first_prompt_has_only_the_name_and_a_read_adds_the_content(stage: Stage, folder: Path):
    result = solve(stage, folder, READ, push("child"), READ, pop(), pop())
    first, second = prompt(result, 1), prompt(result, 2)
    assert "- skill/review | " in first
    assert "How to review here." in first
    assert "read it with heap_read" in first
    assert "Look for tabs." not in first
    assert "Look for tabs." in second
    assert [event.name for event in events(result.run_dir, ChunkRead)] == ["skill/review"] * 2
    assert len(events(result.run_dir, SourcesDigested)) == 1  # later results have the digest of a skill that was read
    assert result.chunks == ()
    replay(result.run_dir)


def test_a_changed_skill_is_stale_when_it_is_read_and_in_the_index(stage: Stage, folder: Path):
    change = command(f"echo more >> {SKILL}")
    result = solve(stage, folder, READ, change, READ, pop())
    assert "STALE" not in prompt(result, 2)
    assert "STALE" in prompt(result, 3)
    assert f"STALE: {SKILL} has changed" in prompt(result, 4)
    unread = solve(stage, folder, change, READ, pop())
    assert "STALE" not in prompt(unread, 2)  # nothing is computed about skills that the agent does not use
    assert "STALE" in prompt(unread, 3)
    replay(result.run_dir)
    replay(unread.run_dir)


@pytest.mark.parametrize("tool", ["heap_write", "heap_free"])
def test_a_skill_cannot_be_changed_and_does_not_fill_the_heap(stage: Stage, folder: Path, tool: str):
    more = {"content": "Mine."} if tool == "heap_write" else {}
    store = push(store=[{"name": "skill/review", "content": "Mine."}])
    full = call("heap_alloc", name="notes", content="x" * 50)
    result = solve(stage, folder, call(tool, name="skill/review", **more), store, full, pop(), heap_chars=50)
    refused = events(result.run_dir, CallRejected)
    assert [event.code for event in refused] == ["heap_refused", "push_refused"]
    assert all("is a skill" in event.reason for event in refused)
    assert result.chunks == ("notes",)


def test_the_users_own_skill_shows_its_files_to_commands_and_becomes_stale(
    stage: Stage, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    home = stage.root / "my home"
    monkeypatch.setenv("HOME", str(home))
    own = write(home / ".claude/skills", "deploy", "How to deploy.")
    (own / "steps.txt").write_text("step one", encoding="utf-8")
    grows = call("heap_read", name="skill/deploy")
    result = solve(stage, folder, grows, command(f"cat '{own}/steps.txt'; echo x > '{own}/x'"), pop(), isolation="auto")
    assert f"in {own} (read-only" in prompt(result, 2)
    (returned,) = events(result.run_dir, ToolReturned)
    assert "step one" in returned.text
    assert not (own / "x").exists()
    assert returned.digests["~/.claude/skills/deploy/SKILL.md"] != "missing"
    replay(result.run_dir)


def test_an_agent_learns_no_digest_of_another_file_of_the_user(
    stage: Stage, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    home = stage.root / "my home"
    monkeypatch.setenv("HOME", str(home))
    write(home / "private", "secret")
    spy = call("heap_alloc", name="spy", content="x", source="~/private/secret/SKILL.md")
    result = solve(stage, folder, spy, pop())
    (refused,) = events(result.run_dir, CallRejected)
    assert "does not exist" in refused.reason


def test_skills_can_be_left_out_and_a_task_has_none(stage: Stage, folder: Path):
    off = solve(stage, folder, pop(), skills="off")
    assert events(off.run_dir, RunStarted)[0].skills is UNSET
    task = stage.solve(stage.task(pop()))
    assert events(task.run_dir, RunStarted)[0].skills is UNSET


def test_a_strategy_without_a_heap_names_the_files(stage: Stage, folder: Path):
    result = solve(stage, folder, pop(), strategy="full")
    assert f"- review: How to review here. ({SKILL})" in prompt(result, 1)
    assert events(result.run_dir, RunStarted)[0].skills is UNSET
    replay(result.run_dir)


def test_a_skill_is_not_saved_in_a_heap_that_outlives_the_run(stage: Stage, folder: Path):
    solve(stage, folder, READ, call("heap_alloc", name="note", content="x"), pop(), heap="keep")
    assert list(heap_store("keep", folder, folder, os.environ).read()) == ["note"]


def test_a_conversation_has_skills_and_keeps_them_when_it_is_resumed(stage: Stage, folder: Path):
    script = stage.script(READ, pop("Tabs."), call("heap_load", names=["skill/review"]), pop("Again."))
    result = talk(stage, Scripted("Review."), script, strategy="stackheap")
    (folder / SKILL).write_text("changed", encoding="utf-8")
    again = resume(Path(result.run_dir), {}, os.environ, person=Person(port=Scripted("Once more."))).result
    reads = [event.name for event in events(again.run_dir, ChunkRead)]
    assert reads == ["skill/review"] * 2
    assert "Look for tabs." in prompt(again, 4)
    assert replayed(again) == 4


def test_the_user_learns_which_skills_the_project_brings_and_which_are_broken(stage: Stage, folder: Path):
    write(folder / ".codex/skills", "review", "Another one.")
    done = stage.call("solve", folder, "-t", "Review it.", "--model", stage.script(pop()))
    assert done.returncode == 0, done.stderr
    assert "the project brings skills, which the agent reads as text: review (--skills off" in done.stderr
    assert (
        ".codex/skills/review/SKILL.md is not offered: .claude/skills/review/SKILL.md has the same name" in done.stderr
    )
