"""The top of the list: what waits for the user, what runs, benches with their trials, and a first step."""

import json
import os
import shutil
import signal

import pytest
from playwright.sync_api import expect
from starlette.testclient import TestClient

from stackmem.core.facts import ModelReplied
from stackmem.doors.ui.app import Studio
from stackmem.doors.ui.places import Places
from tests.review.report import runs
from tests.review.report.axe import violations
from tests.review.report.bench_rows import row
from tests.stage import command, events, eventually, pop

ASKS = """
import stackmem


@stackmem.step
def main():
    stackmem.say("hello " + stackmem.ask_user("Which region?"))
"""
WAITS = "until [ -e go ]; do sleep 0.1; done"


def opened(*folders):
    studio = Studio(Places(folders))
    studio.places.refresh()
    token = "token-of-the-test"
    return TestClient(studio.app(token, frozenset({"127.0.0.1:8765"})), base_url=f"http://127.0.0.1:8765/{token}")


def bench_of(folder):
    trials = [row(seed=seed, strategy=strategy) for seed in (1, 2) for strategy in ("full", "stackheap")]
    shutil.copytree(runs.empty(folder.parent / "made" / "run"), folder / trials[0]["run"])
    (folder / "ledger.jsonl").write_text("".join(json.dumps(trial) + "\n" for trial in trials))


def test_a_question_waits_for_its_answer_and_a_running_run_says_what_it_does(stage, serve, visit):
    (stage.elsewhere / "region.py").write_text(ASKS)
    asked = stage.start("run", "region.py", "--non-interactive", "--quiet")
    asked.communicate()
    assert asked.returncode == 8
    running = stage.start("solve", stage.task(command(WAITS), pop(), name="long"), "--quiet")
    traces = "*-long-*/trace.jsonl"
    eventually(lambda: any(b'"ModelReplied"' in trace.read_bytes() for trace in stage.runs.glob(traces)))
    page = visit(serve(stage.runs)[0])
    needed, active = page.get_by_role("region", name="Needs you"), page.get_by_role("region", name="Running")
    expect(active).to_contain_text(f"runs run_command {WAITS}")
    expect(active).to_contain_text("1 step in")
    expect(needed).to_contain_text("has a question")
    expect(needed).to_contain_text("Which region?")
    assert violations(page) == []
    needed.get_by_role("button", name="Answer").press("Enter")
    dialog = page.get_by_role("dialog", name="Resume")
    dialog.get_by_label("Say").fill("north")
    expect(dialog.locator("code")).to_contain_text("--say=north")
    dialog.get_by_role("button", name="Resume").press("Enter")
    expect(dialog.locator(".output")).to_contain_text("[exit 0]")
    expect(dialog.locator(".output")).to_contain_text("hello north")
    page.keyboard.press("Escape")
    expect(needed).to_be_hidden()
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    expect(active).to_be_hidden()
    expect(needed).to_contain_text("was interrupted and can be resumed")


def test_trials_are_inside_their_bench(tmp_path, serve, visit):
    runs.empty(tmp_path / "runs" / "single")
    bench_of(tmp_path / "runs" / "zoo")
    page = visit(serve(tmp_path / "runs")[0])
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody")).to_contain_text("single")
    page.get_by_role("button", name="Show the trials of zoo").press("Enter")
    expect(page.get_by_label("Show", exact=True)).to_be_focused()
    expect(page.locator("tbody")).not_to_contain_text("single")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("Show", exact=True).select_option("all runs and trials")
    expect(page.locator("tbody tr")).to_have_count(2)
    assert violations(page) == []


def test_an_empty_folder_shows_a_first_step(tmp_path, serve, visit):
    page = visit(serve(tmp_path)[0])
    first = page.get_by_role("region", name="First step")
    expect(first).to_contain_text("stackmem solve calculator")
    first.get_by_role("button", name="Copy stackmem solve calculator").press("Enter")
    runs.empty(tmp_path / "run")
    expect(first).to_be_hidden()


def test_only_runs_outside_benches_that_nobody_continued_need_the_user(tmp_path):
    runs.empty(tmp_path / "runs" / "single")
    bench_of(tmp_path / "runs" / "zoo")
    client = opened(tmp_path / "runs")
    home = client.get("/home").json()
    assert [one["run"] for one in home["waiting"]] == ["single"]
    assert (home["waiting_count"], home["running"]) == (1, [])
    assert client.get("/rows?in=runs").json()["total"] == 1
    assert client.get("/rows?in=1").json()["total"] == 1
    assert client.get("/rows?in=all").json()["total"] == 2
    for scope in ("9", "x", "../runs"):
        assert "no such folder" in client.get(f"/rows?in={scope}").json()["unclear"]


def test_a_broken_trace_and_a_hostile_one_do_not_stop_the_page(stage, tmp_path):
    running = stage.start("solve", stage.task(command(WAITS), pop()), "--quiet")
    try:
        eventually(lambda: stage.written() and len(events(stage.only_run(), ModelReplied)) == 1)
        with (stage.only_run() / "trace.jsonl").open("a") as trace:
            trace.write('{"seq": 1, "event": {"type": "NoSuch"}}\n[[[\n{')
        client = opened(stage.runs)
        for _ in range(2):
            (one,) = client.get("/home").json()["running"]
            assert (one["steps"], one["doing"]) == (1, f"runs run_command {WAITS}")
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("outcome=inter* steps!=3", 2),
        ("--filter outcome=interrupted --filter 'task!=x'", 2),
        ('--filter "run=sin*"', 1),
        ("run=single outcome=solved", 0),
        ("run=two words", 1),
    ],
)
def test_the_filter_takes_what_the_command_takes(tmp_path, text, matched):
    runs.empty(tmp_path / "runs" / "single")
    runs.empty(tmp_path / "runs" / "two words")
    found = opened(tmp_path / "runs").get("/rows", params={"filter": text}).json()
    assert found["matched"] == matched
