"""The report of a bench begins with the strategy to take, and how sure that is."""

from pathlib import Path

import pytest

from stackmem.lab.bench.intervals import Interval
from stackmem.lab.bench.statistics import NONE_SHOWN, TOO_FEW, Comparison
from stackmem.lab.comparison.answer import answer, certainty
from stackmem.lab.comparison.figures import Line, Section, Wants
from stackmem.lab.comparison.write import write_report

from .bench_rows import bench, zoo
from .runs import PRICE

WANTS = Wants(PRICE, "a model")


def line(strategy: str, solved: float, cost: Comparison | None = None) -> Line:
    bill = Interval(1.0, None, None, 6)
    figures = {"solved": Interval(solved, None, None, 6), **dict.fromkeys(("bill", "bill_usd"), bill)}
    figures |= {f"bill_at_{multiple:g}": bill for multiple in WANTS.multiples}
    return Line(strategy, 6, 0, Known(figures), {"bill": cost} if cost else {}, 1)


class Known(dict):
    def __missing__(self, name: str) -> Interval:
        return Interval(1.0, None, None, 6)


def compared(ratio: float, low: float | None, high: float | None, units: int, verdict: str) -> Comparison:
    interval = Interval(ratio, low, high, units)
    return Comparison(interval, interval, 0.2, 0.2, verdict)


def section(*lines: Line) -> Section:
    return Section("All tasks", "m", "", "", float("nan"), lines)


def test_a_bench_names_the_cheapest_strategy_that_solves_as_much(tmp_path: Path):
    rows = zoo((300,), 1, strategies=("full", "rolling_summary", "stackheap"))
    page = write_report(bench(tmp_path / "bench", rows)).path.read_text("utf-8")
    first = page.index("<p class=answer>stackheap costs 6")
    assert "% less [" in page[first : first + 80]
    assert "both solve all.</p><p class=sure>The difference in cost is shown over 8 worlds" in page
    assert first < page.index("<ul class=findings>")


def test_a_strategy_that_solves_less_is_never_the_answer():
    cheaper = compared(0.3, 0.2, 0.4, 6, "better")
    text = answer(section(line("full", 1.0), line("mask", 0.8, cheaper)), WANTS)
    assert text.startswith("No strategy costs less than full and solves as much")


def test_an_interval_that_says_nothing_is_not_printed():
    wide = compared(0.5, 0.0, 377_038.0, 2, NONE_SHOWN)
    assert "50 % less than full" in answer(section(line("full", 1.0), line("stack", 1.0, wide)), WANTS)


@pytest.mark.parametrize(
    ("comparison", "needed"),
    [(compared(0.8, 0.5, 1.28, 4, NONE_SHOWN), "about 18 would be needed"),
     (compared(0.8, None, None, 1, TOO_FEW), "over 1 world: about 6 would be needed"),
     (compared(1.0, 0.9, 1.1, 9, NONE_SHOWN), "the costs are too alike, or vary too much")],
)  # fmt: skip
def test_it_says_how_many_worlds_would_do(comparison: Comparison, needed: str):
    assert needed in certainty(section(line("full", 1.0), line("stack", 1.0, comparison)), WANTS)


def test_a_bench_of_one_strategy_has_no_answer():
    assert answer(section(line("full", 1.0)), WANTS) == certainty(section(line("full", 1.0)), WANTS) == ""
