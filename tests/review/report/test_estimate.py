"""The prompts that a page estimates for another strategy, next to those that ``stackmem whatif`` renders."""

import json
import subprocess
from pathlib import Path

import pytest
from msgspec.json import encode

from stackmem.lab.whatif.recorded import WhatIfQuestion, what_if
from stackmem.review.measure.phases import PhaseRule
from stackmem.review.report.view import read_runs
from tests.house.sources import ROOT
from tests.node import node

from .runs import long_run, showpiece

ASSETS = ROOT / "stackmem" / "review" / "report" / "assets"
STRATEGIES = {
    "full": "full",
    "mask": "mask",
    "summary": "summary",
    "summary:tokens=8000": "summary",
    "adaptive": "adaptive",
}
PROGRAM = """
import { readFileSync } from "node:fs";
import { Run } from "./store.js";
import { Sizes } from "./sizes.js";
import { Estimate } from "./estimate.js";

const held = JSON.parse(readFileSync(0, "utf8"));
const run = new Run(held, held.runs[0], 0);
const [read, write, output] = run.rates;
const told = ([spelled, name]) => {
  const tokens = Number(spelled.split("tokens=")[1] ?? 24_000);
  const rates = { read, write, output };
  const { sent, peak, cost, requests } = new Estimate(run, new Sizes(run), name, { rates, pauses: "PAUSES", tokens });
  return [spelled, { sent, peak, cost, requests: requests.length }];
};
console.log(JSON.stringify(Object.fromEntries(Object.entries(STRATEGIES).map(told))));
"""


def page_modules(place: Path, names: tuple[str, ...]) -> None:
    """Copy modules of the page to a folder from which Node.js can import them."""
    place.mkdir(exist_ok=True)
    (place / "package.json").write_text('{"type": "module"}')
    for name in names:
        (place / f"{name}.js").write_bytes((ASSETS / f"{name}.js").read_bytes())


def estimates(run: Path, place: Path, strategies: dict[str, str] = STRATEGIES, pauses: str = "recorded") -> dict:
    """Return what the page's own program estimates for each strategy."""
    page_modules(place, ("store", "text", "sizes", "estimate"))
    program = PROGRAM.replace("STRATEGIES", json.dumps(strategies)).replace("PAUSES", pauses)
    (place / "program.js").write_text(program)
    ran = subprocess.run(
        [node(), place / "program.js"], input=encode(read_runs([run])), stdout=subprocess.PIPE, check=True
    )
    return json.loads(ran.stdout)


@pytest.mark.parametrize("strategy", ["stackheap", "full"])
def test_it_agrees_with_the_prompts_that_whatif_renders(tmp_path, strategy):
    run = long_run(tmp_path / "run", 150, strategy)
    found = estimates(run, tmp_path / "js")
    question = WhatIfQuestion(tuple(STRATEGIES), phases=PhaseRule("fixed"), reread_shares=(0.0,), latency_seconds=0.4)
    (rendered,) = what_if(str(run), tmp_path, question)
    base = rendered.rows[0].outcome
    assert base is not None
    counted = read_runs([run]).runs[0]
    scale = sum(step.prompt for step in counted.steps) / base.usage.prompt  # the run's tokens for each counted one
    for row in rendered.rows:
        if row.strategy not in found:
            continue
        estimate, outcome = found[row.strategy], row.outcome
        assert outcome is not None
        cost = 0.1 * outcome.usage.cache_read + 5 * outcome.usage.output / scale
        cost += 1.25 * (outcome.usage.prompt - outcome.usage.cache_read)
        assert estimate["sent"] == pytest.approx(scale * outcome.usage.prompt, rel=0.15), row.strategy
        assert estimate["peak"] == pytest.approx(scale * outcome.peak_tokens, rel=0.15), row.strategy
        assert estimate["cost"] == pytest.approx(scale * cost, rel=0.15), row.strategy
        assert abs(estimate["requests"] - outcome.requests) <= 0.1 * outcome.requests, row.strategy


def test_pauses_are_paid_for_by_long_prompts(tmp_path):
    run = showpiece(tmp_path / "run")
    found = {
        pauses: estimates(run, tmp_path / "js", {"full": "full", "adaptive": "adaptive"}, pauses)
        for pauses in ("none", "2")
    }
    added = {name: found["2"][name]["cost"] - found["none"][name]["cost"] for name in ("full", "adaptive")}
    assert added["full"] > 2 * added["adaptive"] > 0
    assert found["2"]["full"]["sent"] == found["none"]["full"]["sent"]
