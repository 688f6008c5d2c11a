"""A report about conversations: the cost of the n-th request, omitting rows that do not record it."""

import json

import pytest

from stackmem.core.pricing import Price
from stackmem.lab.comparison.figures import Wants
from stackmem.lab.comparison.plots import loss_curves
from stackmem.lab.comparison.requests import request_costs, request_rows, request_slopes
from stackmem.lab.comparison.results import TrialRow, read_bench
from stackmem.lab.comparison.write import write_report

from .bench_rows import bench, row

PRICE = Price(input=2.0, output=10.0, cache_write_5m=2.5, cache_write_1h=4.0, cache_read=0.1, source="a test")
WANTS = Wants(PRICE, "a model")


def told(*output: int, **more: object) -> str:
    """Requests that cost only this many output tokens each."""
    zeros = [0] * len(output)
    kinds = dict.fromkeys(("uncached", "cache_read", "cache_write_5m", "cache_write_1h"), zeros)
    return json.dumps({**kinds, "output": output, "steps": [len(output), *zeros[1:]], **more})


def rows(tmp_path, *found) -> list[dict[str, str]]:
    table = request_rows(read_bench(bench(tmp_path, found)).trials, WANTS)
    return [dict(zip(table[0], cells, strict=True)) for cells in table[1:]]


def test_a_request_costs_its_tokens_by_class():
    tokens = {"uncached": [1_000_000], "cache_read": [2_000_000], "cache_write_5m": [0], "cache_write_1h": [0]}
    trial = TrialRow({"requests": json.dumps({**tokens, "output": [100_000]})})
    assert request_costs(trial, PRICE, 0.1) == [pytest.approx(2 + 2 * 2 * 0.1 + 1)]


def test_the_last_is_held_against_the_fifth_and_growth_is_an_exponent(tmp_path):
    grows = [1_000 * n for n in range(1, 51)]
    same = [7_000] * 50
    found = rows(
        tmp_path,
        *(row("full", seed=seed, requests=told(*grows)) for seed in (1, 2)),
        *(row("stackheap", seed=seed, requests=told(*same)) for seed in (1, 2)),
    )
    shown = {one["strategy"]: one for one in found}
    assert shown["full"]["last over 5th, reads at 0.05"] == "10×"
    assert shown["full"]["exponent"].startswith("1.00")
    assert shown["stackheap"]["last over 5th, reads at 0.05"] == "1.00×"
    assert shown["stackheap"]["exponent"].startswith("0.00")
    assert (shown["full"]["requests"], shown["full"]["last"]) == ("50", "0.500")


def test_the_curve_has_the_mean_of_each_request_and_the_fit_begins_at_the_fifth():
    grows, dear = [100 * n for n in range(1, 51)], [300 * n for n in range(1, 51)]
    dear[0] = 10**9  # data before the fifth request does not change the line
    (slope,) = request_slopes(
        [TrialRow(row(seed=n, requests=told(*one))) for n, one in enumerate((grows, dear))], WANTS
    )
    assert slope.points[1] == (2.0, pytest.approx(400 * 10 / 1_000_000))
    assert slope.exponent is not None
    assert slope.exponent.value == pytest.approx(1.0)


@pytest.mark.parametrize("requests", ["", "[]", "{", '{"output": ["x"]}', told(1, 2, 3), told(*range(9), uncached=[1])])
def test_a_row_that_tells_no_requests_or_too_few_is_in_no_table(tmp_path, requests: str):
    assert rows(tmp_path, row("full", requests=requests)) == []


def test_rows_without_steps_still_tell_their_costs(tmp_path):
    (found,) = rows(tmp_path, row("full", requests=told(*range(1_000, 1_010), steps=[])))
    assert (found["steps"], found["request 5"]) == ("", "0.0100")


@pytest.mark.parametrize("kind", ["html", "md"])
def test_the_report_has_the_table_and_its_names_are_text(tmp_path, kind: str):
    hostile = '<script>alert("1")</script>'
    folder = bench(tmp_path, [row(name, requests=told(*range(1, 51))) for name in ("full", hostile)])
    text = write_report(folder, str(tmp_path / f"r.{kind}")).path.read_text(encoding="utf-8")
    assert "Cost of the n-th request" in text
    assert kind == "md" or "mean cost of a request, USD, reads at 0.05 against the request" in text
    assert "<script>alert" not in text


def test_where_models_differ_the_rows_name_them(tmp_path):
    found = rows(tmp_path, *(row("full", model=name, requests=told(*range(1, 51))) for name in ("sim/a", "sim/b")))
    assert [one["strategy"] for one in found] == ["full (sim/a, 1.0, 60)", "full (sim/b, 1.0, 60)"]


def test_where_each_request_has_its_own_session_nobody_looked_for_a_loss():
    known = TrialRow(row("full", session="flat", first_loss_step=7))
    unknown = TrialRow(row("anew", session="new"))
    assert [curve.name for curve in loss_curves([known, unknown], "first_loss_step")] == ["full"]
