"""A page's first screen, or the stated number of clicks, answers each of the ten questions in docs/questions.md."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from stackmem.lab.comparison.write import write_report
from stackmem.review.report.page import write_page
from tests.house.sources import ROOT

from .bench_rows import bench, zoo
from .conftest import Shown

ROW = re.compile(r"^\| ([^|]+\?) \| (run|bench) \| [^|]+ \| (\d) \|$", re.M)


class Reader:
    """A reader who looks at a page, clicks, and counts the clicks."""

    def __init__(self, page: Page) -> None:
        self.page, self.clicks = page, 0

    def press(self, what: Locator) -> None:
        what.click()
        self.clicks += 1

    def happened(self, text: str) -> Locator:
        return self.page.get_by_role("list", name="What happened").get_by_role("button", name=text)

    def sees(self, what: Locator, text: str) -> None:
        """Return whether the text is visible in the window."""
        expect(what.first).to_contain_text(text)
        expect(what.first).to_be_in_viewport()

    def at_step(self, number: int) -> None:
        self.sees(self.page.locator(".memory h2"), f"Memory at step {number} of")


def solved(reader: Reader) -> None:
    reader.sees(reader.page.locator(".pill"), "solved")


def cost(reader: Reader) -> None:
    for figure in ("$0.14", "8 min 52 s"):
        reader.sees(reader.page.get_by_text(figure, exact=True), figure)


def trouble(reader: Reader) -> None:
    for text in ("4 calls refused", "1 result failed", "1 frame popped by force"):
        reader.sees(reader.happened(text), text)


def asked(reader: Reader) -> None:
    reader.press(reader.page.locator("summary", has_text="Task").first)
    reader.sees(reader.page.locator("details[open]"), "invoices")


def cache_broke(reader: Reader) -> None:
    reader.press(reader.happened("2 broken cache prefixes"))
    reader.at_step(33)
    reader.sees(reader.page.locator(".memory .since"), "minutes ago, but entries expire after 5")


def changed(reader: Reader) -> None:
    reader.press(reader.happened("5 steps that changed files"))
    reader.sees(reader.page.locator(".where h2"), "Step 6")
    reader.sees(reader.page.get_by_role("region", name="Files changed"), "invoices/totals.py")


def largest(reader: Reader) -> None:
    reader.press(reader.happened("largest context"))
    reader.at_step(18)


def cheapest(reader: Reader) -> None:
    says = reader.page.locator(".findings li", has_text="Cheaper than full")
    reader.sees(says, "and solved no fewer: stackheap")


def lost(reader: Reader) -> None:
    reader.press(reader.page.get_by_role("link", name="First loss", exact=True))
    reader.sees(reader.page.get_by_role("heading", name="When the first fact was lost"), "lost")


def made_of(reader: Reader) -> None:
    table = reader.page.get_by_role("region", name=re.compile("^All tasks"))
    reader.press(table.locator("tbody tr", has_text="rolling_summary").locator("td a").first)
    reader.sees(reader.page.locator("details.trials[open] summary b"), "rolling_summary")


ANSWERS: dict[str, Callable[[Reader], None]] = {
    "Was it solved?": solved,
    "What did it cost, and how long did it take?": cost,
    "What went wrong on the way?": trouble,
    "What was it asked to do?": asked,
    "Why did the cache break at step 33?": cache_broke,
    "What did it change in my files?": changed,
    "Where was its context largest?": largest,
    "Which strategy is cheapest and as good?": cheapest,
    "Where did it lose the fact?": lost,
    "Which trials is that number made of?": made_of,
}
LISTED = ROW.findall((ROOT / "docs" / "questions.md").read_text("utf-8"))


@pytest.fixture(scope="module")
def pages(
    made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, browser: Browser
) -> Iterator[dict[str, Shown]]:
    root = tmp_path_factory.mktemp("questions")
    rows = zoo((300,), 2, strategies=("full", "rolling_summary", "stackheap"))
    paths = {"run": write_page([made["invoices"]], str(root / "run.html")),
             "bench": write_report(bench(root / "bench", rows)).path}  # fmt: skip
    context = browser.new_context(viewport={"width": 1360, "height": 900})
    shown = {name: Shown(context.new_page(), path) for name, path in paths.items()}
    yield shown
    context.close()
    assert [one.wrong for one in shown.values()] == [[], []]


def test_the_page_lists_the_ten_questions_that_are_asked_here():
    assert [question for question, _, _ in LISTED] == list(ANSWERS)
    assert len(ANSWERS) == 10
    assert {clicks for _, _, clicks in LISTED} == {"0", "1"}


@pytest.mark.parametrize(("question", "page", "clicks"), LISTED)
def test_a_question_is_answered_by_the_first_screen_or_one_click(pages, question, page, clicks):
    pages[page].page.goto("about:blank")
    reader = Reader(pages[page].open())
    ANSWERS[question](reader)
    assert reader.clicks == int(clicks)
