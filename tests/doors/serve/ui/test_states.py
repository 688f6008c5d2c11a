"""Every state of every page, in a real browser, at three widths and in both color schemes.

CI checks a dozen important states, a campaign all of them. ``STACKMEM_PICTURES=DIR`` keeps the pictures.
"""

import json
import os
import shutil
import struct
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from stackmem.core.facts import RunEnded
from stackmem.core.messages import Usage
from stackmem.lab.comparison.write import write_report
from stackmem.review.report.page import write_page
from stackmem.run.result import RunResult, write_result
from stackmem.run.run_folder import RESULT, TRACE
from stackmem.trace.lineage import RunReader
from stackmem.trace.lock import Lock
from tests.conftest import CAMPAIGN
from tests.review.report import runs
from tests.review.report.axe import violations
from tests.review.report.bench_rows import bench, zoo
from tests.stage import Stage, rechain

WIDTHS, SCHEMES = (390, 1280, 2560), ("light", "dark")
STATES = (
    "index", "index-empty", "live", "finished", "failed", "interrupted", "empty", "hostile", "long", "two", "compared",
    "bench", "bench-of-one",
)  # fmt: skip
TELLING = {
    ("index", 390, "dark"), ("index", 1280, "light"), ("index-empty", 1280, "dark"), ("live", 1280, "light"),
    ("finished", 390, "light"), ("finished", 2560, "dark"), ("failed", 1280, "dark"), ("interrupted", 390, "light"),
    ("hostile", 1280, "light"), ("compared", 1280, "dark"), ("bench", 1280, "light"), ("bench-of-one", 390, "dark"),
}  # fmt: skip
ALL = [(state, width, scheme) for state in STATES for width in WIDTHS for scheme in SCHEMES]


def cut(run: Path, folder: Path, *, records: int | None = None, ending: str = "") -> Path:
    """Copy a run with a trace that ends early or differently."""
    shutil.copytree(run, folder)
    kept = list(RunReader(run))[:records]
    if ending:
        kept[-1] = type(kept[-1])(kept[-1].seq, kept[-1].at, RunEnded(ending, "I could not go on."))
    rechain(folder / "trace.jsonl", kept)
    return folder


def ended(run: Path, outcome: str, cost_usd: float | None) -> None:
    """Put a result next to a trace, as the end of a run does."""
    usage = Usage(uncached=900, cache_read=120_000, cache_write_5m=9_000, output=3_000)
    write_result(
        RunResult(
            run.name, str(run), run.name, "claude-sonnet-5-5", "stackheap", "popped", outcome, 39, 4, usage, cost_usd,
            532.0, "bubblewrap", "Done.", "/workspace",
        ),
        run / RESULT,
    )  # fmt: skip


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return the address of each state: a file, or a server that runs meanwhile."""
    root = tmp_path_factory.mktemp("states")
    whole = runs.showpiece(root / "runs" / "invoices")
    shown = {
        "finished": [whole],
        "failed": [cut(whole, root / "runs" / "failed", ending="limit:steps")],
        "interrupted": [cut(whole, root / "runs" / "interrupted", records=60)],
        "empty": [runs.empty(root / "runs" / "empty")],
        "hostile": [runs.hostile(root / "runs" / "hostile")],
        "long": [runs.long_run(root / "runs" / "long", 10_000 if CAMPAIGN else 300)],
    }
    shown["two"] = [whole, shown["interrupted"][0]]
    running = Lock(cut(whole, root / "runs" / "live", records=60) / TRACE)
    for name, outcome, cost in (
        ("invoices", "solved", 0.14),
        ("failed", "limit:steps", 0.14),
        ("long", "unsolved", None),
    ):
        ended(root / "runs" / name, outcome, cost)
    found = {name: write_page(folders, str(root / f"{name}.html")).as_uri() for name, folders in shown.items()}
    trials = zoo((20, 200), 2, ("env_trap", "ledger"), ("full", "mask", "rag", "stackheap"))
    several = bench(root / "runs" / "several", trials)
    (several / "ledger.jsonl").write_text("".join(json.dumps(trial) + "\n" for trial in trials))
    one = bench(root / "one", zoo((20,), 2, ("env_trap",), ("full",)))
    found |= {name: write_report(folder).path.as_uri() for name, folder in (("bench", several), ("bench-of-one", one))}
    (root / "none").mkdir()
    stage = Stage(root)
    started = [stage.start("ui", folder, stderr=subprocess.DEVNULL) for folder in (root / "runs", root / "none")]
    found["index"], found["index-empty"] = (str(one.stdout and one.stdout.readline()).strip() for one in started)
    found["live"] = f"{found['index']}run?id=0/live"
    found["compared"] = f"{found['index']}run?id=0/invoices&id=0/failed&id=0/live"
    yield found
    running.close()
    for process in started:
        process.kill()
        process.communicate()


def colors(picture: bytes) -> int:
    """Return how many distinct pixel rows a picture has; a blank page has one."""
    (height,) = struct.unpack(">I", picture[20:24])
    at, packed = 8, b""
    while at < len(picture):
        (length,) = struct.unpack(">I", picture[at : at + 4])
        packed += picture[at + 8 : at + 8 + length] if picture[at + 4 : at + 8] == b"IDAT" else b""
        at += length + 12
    rows = zlib.decompress(packed)
    each = len(rows) // height
    return len({rows[start : start + each] for start in range(0, len(rows), each)})


def opened(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector("html[data-ready]", state="attached", timeout=120_000)
    page.wait_for_timeout(150)


@pytest.mark.parametrize(("state", "width", "scheme"), ALL if CAMPAIGN else sorted(TELLING))
def test_a_state_is_whole_at_its_width_and_axe_finds_nothing(browser: Browser, addresses, state, width, scheme):
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, reduced_motion="reduce"
    )
    try:
        page, wrong = context.new_page(), list[str]()
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        opened(page, addresses[state])
        picture = page.screenshot()
        if kept := os.environ.get("STACKMEM_PICTURES"):
            Path(kept, f"{state}-{width}-{scheme}.png").write_bytes(picture)
        assert colors(picture) > 20
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page) == []
        assert wrong == []
    finally:
        context.close()


def test_the_telling_ones_are_states():
    assert set(ALL) >= TELLING
    assert {state for state, _, _ in TELLING} >= {
        "index",
        "live",
        "finished",
        "failed",
        "compared",
        "bench",
        "bench-of-one",
    }
    assert {width for _, width, _ in TELLING} == set(WIDTHS)
