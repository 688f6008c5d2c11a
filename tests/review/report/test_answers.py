"""The first lines of a run's page: the answer with its size, then how sure it is; a failed run opens at its failure."""

from pathlib import Path

from playwright.sync_api import Page, expect

from stackmem.core.facts import ToolReturned
from stackmem.trace.lineage import TRACE
from stackmem.trace.lock import Lock
from tests.build import World, do, started

from . import runs


def broken(folder: Path) -> Path:
    """A run that stops after its third step, whose command fails."""
    replies = (do("list_files"), do("write_file", path="a.py", content="1"), do("run_command", command="pytest -q"))
    world = World({}, {"pytest -q": ToolReturned("1 failed\n[exit 1]", failed=True, exit_code=1)})
    return runs.record(folder, started("stackheap", task="# Mend a.py\n"), replies, world, runs.Clock())


def lines(page: Page) -> tuple[str, str]:
    return page.locator(".verdict strong").inner_text(), page.locator(".certainty").inner_text()


def test_a_solved_run_says_its_size_and_who_decided(show, made):
    first, second = lines(show(made["invoices"]).open())
    assert first == "Solved in 39 steps for $0.14 and 8 min 52 s."
    assert second.startswith("The task's own checks decided this.")


def test_a_run_that_stopped_opens_at_its_failure_and_names_it(show, tmp_path):
    page = show(broken(tmp_path / "run")).open()
    first, _ = lines(page)
    assert first.startswith("Stopped at step 3 of 3 steps: run_command pytest -q exits 1. The run's process is gone.")
    expect(page.locator(".memory h2")).to_have_text("Memory at step 3 of 3")
    expect(page.locator("h1 .subtitle")).to_have_text("Mend a.py")


def test_a_running_run_says_what_it_does(show, tmp_path):
    folder = broken(tmp_path / "run")
    lock = Lock(folder / TRACE)
    try:
        first, second = lines(show(folder).open())
    finally:
        lock.close()
    assert first.startswith("Running for ")
    assert "after step 3, the next request is under way." in first
    assert "It is one run" not in second


def test_a_run_whose_cost_is_unknown_says_how_to_know_it(show, made):
    first, second = lines(show(made["hostile"]).open())
    assert "$" not in first
    assert "--price sets one" in second
