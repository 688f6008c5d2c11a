"""Tests for the `stackmem view` command."""

import stat
from pathlib import Path

import pytest

from tests.review.report import runs
from tests.review.report.opened import held
from tests.stage import ROOT


@pytest.fixture
def run(stage) -> Path:
    stage.runs.mkdir()
    return runs.showpiece(stage.runs / "20261120T150000Z-invoices-stackheap-abc123")


def test_a_page_is_written_next_to_the_trace(stage, run):
    ran = stage.call("view", "last")
    assert (ran.returncode, ran.stderr) == (0, "")
    page = run / "view.html"
    assert ran.stdout == f"wrote {page} ({page.stat().st_size / 1000:,.0f} kB)\n"
    assert held(page.read_bytes())["runs"][0]["task_name"] == "invoices"


def test_a_page_is_written_to_the_given_path_and_overwrites_an_older_one(stage, run):
    for _ in range(2):
        assert stage.call("view", run, "-o", "page.html").returncode == 0
    assert held((stage.elsewhere / "page.html").read_bytes())["runs"][0]["id"] == run.name
    assert [path.name for path in stage.elsewhere.iterdir()] == ["page.html"]
    assert not (run / "view.html").exists()


def test_two_runs_are_one_page(stage, run):
    other = runs.hostile(stage.runs / "20261120T160000Z-other")
    assert stage.call("view", run.name[:16], other.name).returncode == 0
    shown = held((run / f"view-{other.name}.html").read_bytes())
    assert [one["id"] for one in shown["runs"]] == [run.name, other.name]
    assert shown["parted"] == {"steps": 0, "forked": False}


@pytest.mark.parametrize("sample", ["atif.json", "claude_code.jsonl", "mini.traj.json"])
def test_a_recording_of_another_agent_is_shown_as_what_it_is(stage, sample):
    assert stage.call("import", ROOT / "tests" / "formats" / "samples" / sample).returncode == 0
    assert stage.call("view", "last").returncode == 0
    (run,) = held((stage.only_run() / "view.html").read_bytes())["runs"]
    assert run["steps"]
    assert run["unrendered"].startswith("imported from ")
    assert run["files_missing"]
    assert [step[13] for step in run["steps"] if step[13]] == []


def test_a_page_that_cannot_be_written_is_a_usage_error_and_leaves_nothing(stage, run):
    for place in ("no/such/folder.html", "/dev/null/page.html", ".", "x" * 300 + ".html"):
        ran = stage.call("view", "last", "-o", place)
        assert ran.returncode == 2, ran.stderr
        assert ran.stderr.startswith("stackmem: ")
        assert "choose another file with -o" in ran.stderr
    assert list(stage.elsewhere.iterdir()) == []


def test_a_device_is_written_to_and_stays_one(stage, run):
    assert stage.call("view", "last", "-o", "/dev/null").returncode == 0
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_run_that_is_not_there_or_broken_is_named(stage, run):
    assert stage.call("view", "nothing").returncode == 2
    assert stage.call("view", "last", "nothing").returncode == 2
    (run / "trace.jsonl").write_bytes((run / "trace.jsonl").read_bytes().replace(b"list_files", b"lost_files", 1))
    ran = stage.call("view", "last")
    assert (ran.returncode, "line 1 is broken" in ran.stderr) == (7, True)
    assert not (run / "view.html").exists()


def test_the_page_is_opened_in_the_browser_of_the_person(stage, run, tmp_path):
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}\n', encoding="utf-8")
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    ran = stage.call("view", "last", "--open", env={"BROWSER": f"{browser} %s"})
    assert ran.returncode == 0, ran.stderr
    assert seen.read_text(encoding="utf-8").strip() == (run / "view.html").as_uri()


def test_without_a_browser_the_path_to_open_is_printed(stage, run, tmp_path):
    environ = {"BROWSER": str(tmp_path / "gone"), "PATH": str(tmp_path)}
    ran = stage.run("view", "last", "--open", env=environ, fresh=True)  # Python looks for browsers once
    assert ran.returncode == 2
    assert f"open {run / 'view.html'} yourself" in ran.stderr
