"""The pictures of docs/view.md. `python -m tests.report.pictures` renews them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from stackmem.report.page import write_page
from tests.report import runs
from tests.report.conftest import FLAGS, chromium

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SIZE = {"width": 1240, "height": 1110}


def take(browser: Browser, run: Path, folder: Path) -> list[Path]:
    """Write ``view-light.png`` and ``view-dark.png`` of a run at its step 14."""
    page_file = write_page([run], str(folder / "view.html"))
    taken = []
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme, viewport=SIZE, reduced_motion="reduce")
        page = context.new_page()
        page.goto(page_file.as_uri() + "#step=14")
        page.wait_for_selector("html[data-ready]", state="attached")
        page.wait_for_timeout(300)
        taken.append(folder / f"view-{scheme}.png")
        page.screenshot(path=taken[-1])
        context.close()
    page_file.unlink()
    return taken


def write() -> None:
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        IMAGES.mkdir(exist_ok=True)
        take(browser, runs.showpiece(Path(place, "invoices")), IMAGES)
        browser.close()


if __name__ == "__main__":
    write()
