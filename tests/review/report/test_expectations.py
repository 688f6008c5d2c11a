"""Which strategies each family of worlds hurts, according to a bench's report."""

from stackmem.core.pricing import Price
from stackmem.lab.comparison.expectations import expectation_rows
from stackmem.lab.comparison.figures import Wants
from stackmem.lab.comparison.results import TrialRow
from stackmem.lab.comparison.write import write_report

from .bench_rows import bench, row

WANTS = Wants(
    Price(input=2.0, output=10.0, cache_write_5m=2.5, cache_write_1h=4.0, cache_read=0.1, source="a test"), "m"
)
FAMILIES = ("uneven", "relay", "survey", "ledger", "checklist")


def rows(hits: dict[str, str], *names: str) -> list[dict]:
    """Return trials in which a strategy fails, or pays twice as much, in the given family."""
    return [
        row(
            name, task=family, family=family, solved=int(hits.get(name) != family),
            bill_output=2_000_000 if hits.get(f"{name}$") == family else 1_000,
        )
        for family in FAMILIES
        for name in ("full", *names)
    ]  # fmt: skip


def told(found: list[dict]) -> dict[str, list[str]]:
    return {cells[1]: cells[2:] for cells in expectation_rows(list(map(TrialRow, found)), WANTS)[1:]}


def test_a_family_that_was_expected_to_hurt_and_does_says_so_and_another_that_it_does_not():
    table = told(rows({"window": "relay"}, "window", "summary"))
    assert table["relay"] == ["window", "", ""]
    assert table["uneven"] == ["", "window", "none"]


def test_a_bill_that_is_high_by_the_strategys_own_measure_hurts_too():
    assert told(rows({"summary$": "ledger"}, "summary", "window"))["ledger"] == ["", "", "summary"]


def test_a_family_that_hurts_everybody_is_named_as_such():
    table = told(rows({"window": "relay", "summary": "relay"}, "window", "summary"))
    assert table["relay"][2] == "summary (all)"


def test_fewer_than_four_families_or_no_baseline_make_no_table():
    few = [one for one in rows({}, "window") if one["family"] in FAMILIES[:3]]
    assert told(few) == {}
    assert told([one for one in rows({}, "window") if one["strategy"] != "full"]) == {}


def test_the_table_stands_in_the_report(tmp_path):
    folder = bench(tmp_path / "b", rows({"window": "relay"}, "window"))
    for kind in ("md", "html"):
        path = tmp_path / f"report.{kind}"
        write_report(folder, str(path))
        assert "Strategies that each family hurts" in path.read_text(encoding="utf-8")
