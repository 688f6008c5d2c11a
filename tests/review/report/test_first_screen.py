"""The first screen of a run's page at 1280 by 800 answers the questions about that run, for runs of six kinds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from stackmem.formats.import_ import import_file
from stackmem.review.report.page import write_page
from stackmem.trace.lineage import TRACE
from stackmem.trace.lock import Lock
from tests.house.sources import ROOT

from .conftest import Shown
from .runs import long_run
from .test_answers import broken

# For each run: what happened, how sure it is and what to do, where the tokens and the money went, what to look at.
SEEN = {
    "small": (
        "Solved in 39 steps for $0.14 and 8 min 52 s.", "The task's own checks decided this. It is one run",
        ["33 % tools", "34 % results"], "1 result failed step 26", "Memory at step 1 of 39",
    ),
    "large": (
        "Failed at step 3,000 of 3,000 steps for $", "Next: stackmem resume large --max-steps +50.",
        ["% results"], "largest context", "Memory at step 3,000 of 3,000",
    ),
    "imported": (
        "Finished in 5 steps for $0.0441 and 17.0 s.", "The recording does not say whether the work is right.",
        ["% rules and registers"], "1 result failed step 1", "Memory at step 1 of 5",
    ),
    "scripted": (
        "Finished in 9 steps", "The model has no known price; --price sets one.",
        ["% "], "largest context", "Memory at step 1 of 9",
    ),
    "failed": (
        "Stopped at step 3 of 3 steps: run_command pytest -q exits 1.", "Next: stackmem resume failed.",
        ["% tools"], "1 result failed step 3", "Memory at step 3 of 3",
    ),
    "live": (
        "Running for 2.4 s: after step 3, the next request is under way.", "",
        ["% tools"], "1 result failed step 3", "Memory at step 3 of 3",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def screens(
    made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, browser: Browser
) -> Iterator[dict[str, Shown]]:
    root = tmp_path_factory.mktemp("screens")
    sample = ROOT / "tests" / "formats" / "samples" / "claude_code.jsonl"
    (imported,) = import_file(sample, None, root / "imported")
    folders = {
        "small": made["invoices"], "large": long_run(root / "large", 3_000), "imported": Path(imported.run_dir),
        "scripted": made["hostile"], "failed": broken(root / "failed"), "live": broken(root / "live"),
    }  # fmt: skip
    lock = Lock(folders["live"] / TRACE)
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    paths = {name: write_page([folder], str(root / f"{name}.html")) for name, folder in folders.items()}
    lock.close()
    shown = {name: Shown(context.new_page(), path) for name, path in paths.items()}
    yield shown
    context.close()
    assert [one.wrong for one in shown.values()] == [[] for _ in shown]


def sees(page: Page, selector: str, text: str) -> None:
    """Check that the text is in the window without scrolling."""
    found = page.locator(selector, has_text=text).first
    expect(found).to_contain_text(text)
    box = found.bounding_box()
    assert box is not None
    assert box["y"] >= 0, text
    assert box["y"] + box["height"] <= 800, text


@pytest.mark.parametrize("name", SEEN)
def test_the_first_screen_answers(screens, name):
    page = screens[name].open()
    happened, sure, went, look, step = SEEN[name]
    sees(page, ".verdict strong", happened)
    if sure:
        sees(page, ".certainty", sure)
    for text in went:
        sees(page, ".tile .most", text)
    sees(page, ".happened button", look)
    sees(page, ".memory h2", step)
    sees(page, ".memory h3", "Prompt")  # what was in the prompt, on the stack and on the heap
    sees(page, ".memory .legend", "system prompt")
    sees(page, ".memory h3", "Heap")
    sees(page, ".frame-box", "root")
    sees(page, ".other .modes", "\u00d7")  # which strategy would have cost less
    assert page.evaluate("scrollY") == 0
