"""A program's run on the page: its decisions, its tools' arguments and results, and its payload."""

import json
import os
from pathlib import Path

import pytest
from playwright.sync_api import expect

from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.languages.running.run import run_program
from stackmem.review.measure.moments import moments
from stackmem.review.measure.timeline import timeline
from stackmem.review.report.facts import BRIEF_AFTER, BRIEF_CHARS, MAX_CHARS
from stackmem.run.opened import Person
from stackmem.trace.open_run import Run

from .opened import opened, text

COUNT = 250
AGENT = """
name: looker
prompt: Look.
actions: [{name: Read, tool: read_file}, {name: Write, tool: write_file}, {name: Wait, tool: shell}]
payload: {items: []}
limits: {failures: 1}
"""
LOOP = {
    "collectionPath": "items",
    "maxIterations": COUNT,
    "continueOnError": True,
    "action": {"name": "Read", "params": {"path": "{{item}}"}},
}
REPLIES = (
    {
        "nextStep": {
            "type": "Actions",
            "actions": [{"name": "Write", "params": {"path": "long", "content": "y" * 9_000}}],
        }
    },
    {"nextStep": {"type": "ForEach", "forEach": LOOP}},
    {"message": "Which <b>one</b>?", "automaticCommands": [{"type": "notification", "message": "half done"}]},
    {"nextStep": {"type": "Actions", "actions": [{"name": "Read", "params": {"path": "gone"}}]}},
)


BROKEN = (
    "125 of 250 failed, iteration 2 first: 'gone' does not exist; list_files shows what does, write_file creates a file"
)


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("looked")
    folder = root / "here"
    folder.mkdir()
    (folder / "main.agent.yaml").write_text(AGENT, "utf-8")
    script = root / "script.yaml"
    script.write_text(json.dumps({"replies": [{"text": json.dumps(each)} for each in REPLIES]}), "utf-8")
    flags = {"model": f"script:{script}", "runs_dir": str(root / "runs"), "sandbox_dir": str(root / "work")}
    asked = ProgramArguments(
        str(folder), {"items": ["long", "gone"] * (COUNT // 2)}, workspace=str(folder), interactive=False
    )
    ready = prepare_program(asked, {**flags, "isolation": "none"}, dict(os.environ), root)
    return Path(run_program(ready, dict(os.environ), Person(lambda _: "the first")).run.run_dir)


def facts(shown, step):
    return shown["runs"][0]["steps"][step - 1][11]


def test_a_tool_is_shown_with_its_arguments(looked):
    shown = opened(looked)
    assert [fact[0] for fact in facts(shown, 1)] == ["step", "tool"]
    step, tool = facts(shown, 1)
    assert step == ["step", "looker/turn 1", "Actions Write"]
    assert tool[2:3] + tool[4:] == ["write_file", "", ""]
    given = text(shown, tool[3])
    assert given.startswith('{"path": "long", "content": "yyyy')
    assert MAX_CHARS // 2 < len(given) <= MAX_CHARS


def test_the_facts_of_a_long_loop_become_brief(looked):
    shown = opened(looked)
    tools = [fact for fact in facts(shown, 2) if fact[0] == "tool"]
    assert [tool[2] for tool in tools[COUNT:]] == ["write_file"]  # all results, since they are too long for the prompt
    assert (text(shown, tools[1][1]), tools[1][4]) == ("", "missing")
    assert "does not exist" in tools[1][5]
    assert len(text(shown, tools[0][1])) > MAX_CHARS // 2
    assert len(text(shown, tools[BRIEF_AFTER][1])) <= BRIEF_CHARS
    assert ["left", "looker/turn 2", "list", COUNT] in facts(shown, 2)
    noted = [text(shown, fact[2]) for fact in facts(shown, 2) if fact[0] == "failed"]
    assert noted == [BROKEN]


def test_questions_answers_and_the_halt_are_shown(looked):
    shown = opened(looked)
    (answer,) = [fact for fact in facts(shown, 3) if fact[0] == "answer"]
    assert (text(shown, answer[2]), text(shown, answer[1])) == ("Which <b>one</b>?", "the first")
    assert [text(shown, fact[1]) for fact in facts(shown, 3) if fact[0] == "said"] == ["[info] half done"]
    (halted,) = [fact for fact in facts(shown, 4) if fact[0] == "halted"]
    assert halted[2] == "Failed"
    assert [fact[0] for fact in shown["runs"][0]["before"]] == ["program"]


def test_a_row_says_what_was_decided_and_what_came_of_it(looked):
    rows = list(timeline(moments((record.at, record.event) for record in Run(looked).records())))
    told = [("ok", ""), ("ok", BROKEN), ("ok", ""), ("failed", "Failed")]
    assert [(row.outcome, row.detail) for row in rows] == told
    assert [row.about for row in rows] == ["Actions Write", "ForEach", "Chat: Which <b>one</b>?", "Actions Read"]


def test_the_browser_shows_decisions_payload_and_calls(looked, show):
    page = show(looked).open("#step=2")
    expect(page.get_by_role("region", name="Payload")).to_contain_text('"items": [')
    expect(page.get_by_role("region", name="Reply")).to_contain_text('"maxIterations": 250')
    came = page.get_by_role("region", name="Events")
    expect(came.locator(".fact")).to_have_count(200)
    came.get_by_role("button", name="show 55 more of 55").click()
    expect(came.locator(".fact")).to_have_count(COUNT + 5)
    expect(came).to_contain_text("read_file · 'gone' does not exist")
    page.keyboard.press("ArrowRight")
    expect(came).to_contain_text("Which <b>one</b>?")
    expect(page.locator("#spoken")).to_contain_text("step 3, frame root: Chat: Which <b>one</b>?")
    page.get_by_role("searchbox").fill("the first")
    expect(page.locator("#found li").first).to_contain_text("step 3")
