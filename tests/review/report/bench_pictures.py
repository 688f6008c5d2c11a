"""The pictures of docs/report.md. `python -m tests.review.report.bench_pictures BENCH` makes them from a bench."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from stackmem.lab.comparison.write import write_report

from .conftest import FLAGS, chromium
from .pictures import IMAGES

SIZE = {"width": 1240, "height": 1330}


def take(browser: Browser, bench: Path, folder: Path) -> list[Path]:
    """Write ``report-light.png`` and ``report-dark.png``, starting at the plot of bill against success."""
    with tempfile.TemporaryDirectory() as place:
        file = write_report(bench, str(Path(place, "report.html"))).path
        taken = []
        for scheme in ("light", "dark"):
            context = browser.new_context(color_scheme=scheme, viewport=SIZE, reduced_motion="reduce")
            page = context.new_page()
            page.goto(file.as_uri())
            page.wait_for_selector("html[data-ready]", state="attached")
            page.get_by_role("heading", name="Bill against success").evaluate(
                "head => head.closest('section').scrollIntoView()"
            )
            taken.append(folder / f"report-{scheme}.png")
            page.screenshot(path=taken[-1])
            context.close()
    return taken


def write(bench: Path) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        IMAGES.mkdir(exist_ok=True)
        take(browser, bench, IMAGES)
        browser.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
