"""A page that follows a run receives only changes, and ends with the same content as a page of the whole run."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from stackmem.review.report.live import LiveRun
from stackmem.run.result import write_result
from tests.conftest import CAMPAIGN
from tests.review.kept.test_run_list import RESULT

from . import runs
from .test_fold import fork_of


def merged(held: dict[str, Any], change: dict[str, Any]) -> None:
    """Merge changes as the page does."""
    run = held["runs"][0]
    held["texts"] += change["texts"]
    held["parts"] += change["parts"]
    run["before"] += change["before"]
    run |= change["run"]
    if "last" in change:
        last = run["steps"][-1]
        last[7] = change["last"]["usd"]
        last[11] += change["last"]["facts"]
        last[12] += change["last"]["files"]
    run["steps"] += change["steps"]
    for at, frame in change["frames"]:
        run["frames"][at : at + 1] = [frame]
    for at, numbers in change["sequences"]:
        run["sequences"][at : at + 1] = [[*(run["sequences"][at] if at < len(run["sequences"]) else []), *numbers]]
    for told in change["lanes"]:
        lane = next((one for one in run["lanes"] if one["name"] == told["name"]), None)
        if lane is None:
            lane = {"name": told["name"], "versions": [], "reads": [], "stale": []}
            run["lanes"].append(lane)
        for at, name in zip(told["at"], ("versions", "reads", "stale"), strict=True):
            lane[name][at:] = told[name]


def content(live: LiveRun) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(live.content()[1])
    return decoded


@pytest.mark.parametrize("name", ["invoices", "hostile"])
def test_the_changes_come_to_the_whole(made, tmp_path, name):
    lines = (made[name] / "trace.jsonl").read_bytes().splitlines(keepends=True)
    folder = tmp_path / "run"
    folder.mkdir()
    if (made[name] / "history.git").exists():
        (folder / "history.git").symlink_to(made[name] / "history.git")
    trace = folder / "trace.jsonl"
    trace.write_bytes(lines[0])
    live = LiveRun(folder)
    version = live.refresh()
    held = content(live)
    for end in range(2, len(lines) + 1):
        trace.write_bytes(b"".join(lines[:end]))
        live.refresh()
        for number, change in live.since(version) or []:
            version = number
            merged(held, msgspec.json.decode(change))
    assert held == content(live)
    whole = LiveRun(folder)
    whole.refresh()
    assert held == content(whole)


def test_updates_of_a_page_do_not_grow_with_the_run(tmp_path):
    folder = runs.long_run(tmp_path / "run", 10_000 if CAMPAIGN else 600)
    lines = (folder / "trace.jsonl").read_bytes().splitlines(keepends=True)
    sizes = []
    for end in (len(lines) // 10, len(lines) - 40):
        (folder / "trace.jsonl").write_bytes(b"".join(lines[:end]))
        live = LiveRun(folder)
        version = live.refresh()
        (folder / "trace.jsonl").write_bytes(b"".join(lines[: end + 40]))
        live.refresh()
        ((_, change),) = live.since(version) or []
        sizes.append(len(change))
    assert sizes[1] < 2 * sizes[0]


def test_changes_that_are_not_kept_are_not_made_up(made):
    live = LiveRun(made["invoices"])
    assert live.refresh() == live.refresh() == 1
    assert live.since(1) == []
    assert [live.since(version) for version in (0, 2, -1)] == [None] * 3


def in_pieces(folder: Path, at_once: int = 500) -> tuple[dict[str, Any], LiveRun, list[str]]:
    """Return a run's page built piece by piece, and the intermediate updates."""
    live = LiveRun(folder, at_once)
    version = live.refresh(0)
    held, said = content(live), []
    while live.reading:
        said.append(held["runs"][0]["reading"])
        live.refresh(0)
        for number, change in live.since(version) or []:
            version = number
            merged(held, msgspec.json.decode(change))
    return held, live, said


def test_a_long_run_is_shown_at_once_and_comes_in_pieces_to_the_whole(tmp_path):
    folder = runs.long_run(tmp_path / "run", 600)
    held, live, said = in_pieces(folder)
    assert [text.split(" of ")[0] for text in said] == ["42%", "83%", "100%"]
    assert all(text.endswith("of the trace has been read so far.") for text in said)
    whole = LiveRun(folder)
    whole.refresh()
    assert held == content(whole) == content(live)
    assert (held["runs"][0]["outcome"], held["runs"][0]["reading"]) == ("limit:steps", "")


def test_a_page_that_fills_says_how_its_run_ended(made, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(made["invoices"], folder)
    write_result(replace(RESULT, outcome="unsolved", steps=1_234, result="No test\npassed."), folder / "result.json")
    live = LiveRun(folder, at_once=5)
    live.refresh(0)
    told = content(live)["runs"][0]
    assert told["outcome"] == "reading"
    assert told["reading"].endswith("has been read so far. It ended as unsolved after 1,234 steps: No test passed.")


def test_a_fork_that_is_read_in_pieces_goes_on_in_the_middle_of_its_parent(tmp_path):
    parent = runs.showpiece(tmp_path / "parent")
    (tmp_path / "child").mkdir()
    child = fork_of(parent, 30, tmp_path / "child")
    whole = LiveRun(child)
    whole.refresh()
    held, _, said = in_pieces(child, at_once=3)
    assert len(said) > 9
    assert held == content(whole)


def test_changes_of_a_run_that_fills_are_kept_within_bounds(tmp_path):
    folder = runs.long_run(tmp_path / "run", 600)
    live = LiveRun(folder, kept_bytes=10_000)
    first = live.refresh(0)
    while live.reading:
        live.refresh(0)
    assert live.since(first) is None, "an interrupted page requests everything"
    assert live.since(live.version) == []
