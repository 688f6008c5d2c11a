"""The facts that a page says were lost, next to those that ``first_loss`` finds."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from msgspec.json import encode
from playwright.sync_api import expect

from stackmem.core.facts import ToolReturned
from stackmem.review.kept.cache_bill import moments_of
from stackmem.review.measure.first_loss import first_loss
from stackmem.review.report.view import read_runs
from tests.build import World, alloc, do, pop, push, started
from tests.node import node

from . import runs
from .test_estimate import page_modules

PROGRAM = """
import { readFileSync } from "node:fs";
import { Run } from "./store.js";
import { lossesOf, literals } from "./losses.js";

const held = JSON.parse(readFileSync(0, "utf8"));
const words = [...literals("see src/app/main.py, port 48731, nothing of note, userName -x.y- HTTP Title")].sort();
console.log(JSON.stringify({ losses: lossesOf(new Run(held, held.runs[0], 0)), words }));
"""
FOUND = {"cat config": "port 48731 in src/app/main.py\n[exit 0]", "cat notes": "token_limit_9 is 12\n[exit 0]"}


def forgetful(folder: Path, strategy: str) -> Path:
    """A run that uses two facts again: one from a frame that has ended, one that is also on the heap."""
    replies = [
        push(name="look", objective="Look around."),
        do("run_command", command="cat config"),
        do("run_command", command="cat notes"),
        alloc("limit", "token_limit_9"),
        pop("Looked."),
        *(do("run_command", command=f"make part {number}") for number in range(4)),
        do("run_command", command="curl localhost:48731"),
        do("run_command", command="grep token_limit_9"),
        pop("Done."),
    ]
    outputs = {command: ToolReturned(text, exit_code=0) for command, text in FOUND.items()}
    return runs.record(folder, started(strategy), replies, World(outputs=outputs), runs.Clock())


def losses(run: Path, place: Path) -> dict:
    page_modules(place, ("store", "text", "parts", "life", "losses"))
    (place / "program.js").write_text(PROGRAM)
    shown = encode(read_runs([run]))
    return json.loads(
        subprocess.run([node(), place / "program.js"], input=shown, stdout=subprocess.PIPE, check=True).stdout
    )


@pytest.mark.parametrize("strategy", ["stackheap", "full"])
def test_the_page_finds_the_losses_that_first_loss_finds(tmp_path, strategy):
    run = forgetful(tmp_path / "run", strategy)
    expected = first_loss(moments_of(run))
    found = losses(run, tmp_path / "js")
    assert {"src/app/main.py", "main.py", "48731", "userName"} == set(found["words"]) - {"x.y"}
    gone = [one["gone"] for one in found["losses"] if one["gone"] is not None]
    assert (len(found["losses"]), len(gone)) == (expected.lost, expected.gone)
    assert min((one["step"] for one in found["losses"]), default=None) == expected.step
    assert min(gone, default=None) == expected.gone_step
    if strategy == "stackheap":
        assert expected.gone


def test_the_first_screen_says_which_fact_was_lost_and_shows_its_life(show, tmp_path):
    page = show(forgetful(tmp_path / "run", "stackheap"), width=1280, height=800).open()
    lost = page.get_by_role("list", name="What happened").get_by_role(
        "button", name=re.compile("^1 fact lost 48731 at step 6")
    )
    lost.press("Enter")
    expect(page.locator(".memory h2")).to_contain_text("step 6 of")
    lived = page.get_by_role("list", name="Its life").locator("button")
    expect(lived.first).to_have_text("step 2 found in a result")
    expect(lived.filter(has_text="lost: out of the prompt and not on the heap")).to_have_count(1)
