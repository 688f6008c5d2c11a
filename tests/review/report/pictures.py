"""The pictures of docs/view.md and the README. `python -m tests.review.report.pictures` renews them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from stackmem.review.report.page import write_page

from . import runs
from .conftest import FLAGS, chromium

IMAGES = Path(__file__).parents[3] / "docs" / "images"
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


def take_memory(browser: Browser, run: Path, folder: Path) -> list[Path]:
    """Write ``memory-*.png``, the memory picture right after the largest prompt, and ``compare-*.png`` with full."""
    page_file = write_page([run], str(folder / "memory.html"))
    taken = []
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme, viewport=SIZE, reduced_motion="reduce")
        page = context.new_page()
        page.goto(page_file.as_uri())
        page.get_by_role("button", name="largest context").click()
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(300)
        taken.append(folder / f"memory-{scheme}.png")
        page.locator(".memory").screenshot(path=taken[-1])
        page.get_by_role("group", name="Compare with").get_by_role("button", name="full").click()
        page.wait_for_timeout(300)
        taken.append(folder / f"compare-{scheme}.png")
        page.locator(".memory").screenshot(path=taken[-1])
        context.close()
    page_file.unlink()
    return taken


def world_run(folder: Path) -> Path:
    """Run the simulated model in a generated world whose first child makes many failed attempts."""
    said = b""
    for command in (
        ("worlds", "make", "env_trap", "--seed", "7", "--horizon", "60", "--noise", "1", "-o", "env_trap"),
        (
            "solve",
            "./env_trap",
            "--model",
            "sim/bounded-reader",
            "--strategy",
            "stackheap",
            "--isolation",
            "memory",
            "--json",
        ),
    ):
        said = subprocess.run(
            (sys.executable, "-m", "stackmem", *command), cwd=folder, check=True, capture_output=True
        ).stdout
    return Path(json.loads(said)["run_dir"])


def write() -> None:
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        IMAGES.mkdir(exist_ok=True)
        take(browser, runs.showpiece(Path(place, "invoices")), IMAGES)
        take_memory(browser, world_run(Path(place)), IMAGES)
        browser.close()


if __name__ == "__main__":
    write()
