"""Runs shared by several tests, each made once, and a browser."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from stackmem.review.report.page import write_page

from . import runs

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
expect.set_options(timeout=120_000)  # the machine may be busy with other tests


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the runs' folders by name, which is also the id of each run."""
    root = tmp_path_factory.mktemp("made")
    return {
        "invoices": runs.showpiece(root / "invoices"),
        "system": runs.showpiece(root / "system", "stackheap:index=system"),
        "hostile": runs.hostile(root / "hostile"),
        "empty": runs.empty(root / "empty"),
    }


def chromium() -> str:
    """Return the browser program, preferably the one without a window, which takes half the processor time."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    assert found, "the viewer tests need Chromium: apt-get install chromium-headless-shell"
    return found


@pytest.fixture(scope="module")  # not longer, because its driver keeps an event loop running in this thread
def browser() -> Iterator[Browser]:
    program = chromium()
    before = os.environ.get("HOME")
    with tempfile.TemporaryDirectory(prefix="stackmem-chromium-") as home:
        os.environ["HOME"] = home  # the test's own folder is deleted before the browser ends
        with sync_playwright() as driver:
            started = driver.chromium.launch(executable_path=program, args=FLAGS)
            if before:
                os.environ["HOME"] = before
            yield started
            started.close()


class Shown:
    """A page in the browser, and its errors."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page, self.path = page, path
        self.wrong: list[str] = []
        page.on("console", lambda said: self.wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith("file:") else self.wrong.append(asked.url))
        page.on("dialog", lambda dialog: self.wrong.append(dialog.message))

    def open(self, hash_: str = "") -> Page:
        self.page.goto(self.path.as_uri() + hash_)
        self.page.wait_for_selector("html[data-ready]", state="attached", timeout=120_000)
        return self.page


Show = Callable[..., Shown]


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Create a page of runs and open it; fails the test if the page reports an error or contacts anything."""
    opened: list[Shown] = []

    def make(*folders: Path, dark: bool = False, width: int = 1360, height: int = 900) -> Shown:
        path = write_page(folders, str(tmp_path / f"page-{len(opened)}.html"))
        context = browser.new_context(
            color_scheme="dark" if dark else "light", viewport={"width": width, "height": height}
        )
        opened.append(Shown(context.new_page(), path))
        return opened[-1]

    yield make
    for one in opened:
        one.page.context.close()
    assert [one.wrong for one in opened] == [[] for _ in opened]
