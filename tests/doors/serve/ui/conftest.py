"""The server as a user starts it, and a browser at its address."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.review.report.conftest import browser, made
from tests.stage import Stage

__all__ = ["browser", "made"]

Serve = Callable[..., tuple[str, "subprocess.Popen[str]"]]


@pytest.fixture
def serve(stage: Stage) -> Iterator[Serve]:
    """Start the server for some folders; return its address and its process."""
    started: list[subprocess.Popen[str]] = []

    def start(*folders: Path) -> tuple[str, subprocess.Popen[str]]:
        process = stage.start("ui", *folders)
        started.append(process)
        assert process.stdout is not None
        return process.stdout.readline().strip(), process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open an address; fails the test if the page reports an error or contacts anything else."""
    opened: list[tuple[Page, list[str]]] = []

    def open_page(address: str, *, width: int = 1280, dark: bool = False) -> Page:
        context = browser.new_context(
            color_scheme="dark" if dark else "light",
            viewport={"width": width, "height": 900},
            permissions=["clipboard-write"],  # a visible browser asks the user; the headless one refuses
        )
        page, wrong = context.new_page(), list[str]()
        opened.append((page, wrong))
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(address.partition("?")[0][:22]) else wrong.append(asked.url),
        )
        page.goto(address)
        page.wait_for_selector("html[data-ready]", state="attached", timeout=120_000)
        return page

    yield open_page
    for page, _ in opened:
        page.context.close()
    assert [wrong for _, wrong in opened] == [[] for _ in opened]
