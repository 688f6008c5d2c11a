"""A bench's report: figures, verdicts, Markdown and the spreadsheet."""

import csv
import json
import re
from io import StringIO
from math import inf, nan
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stackmem.core.errors import StackmemError, UsageError
from stackmem.core.pricing import Price
from stackmem.lab.bench.intervals import Interval
from stackmem.lab.bench.statistics import ALIKE, TOO_FEW
from stackmem.lab.comparison.anchors import FAMILIES, Anchors, family_of
from stackmem.lab.comparison.columns import as_text, range_text
from stackmem.lab.comparison.figures import Line, Section, Wants, bill, sections
from stackmem.lab.comparison.findings import findings, remarks
from stackmem.lab.comparison.results import TrialRow, read_bench
from stackmem.lab.comparison.stability import map_rows, stability_maps
from stackmem.lab.comparison.write import escaped, write_report
from stackmem.models.catalog import lookup

from .bench_rows import SHAPES, bench, row, zoo

PRICE = Price(input=2.0, output=10.0, cache_write_5m=2.5, cache_write_1h=4.0, cache_read=0.1, source="a test")
WANTS = Wants(PRICE, "a model")
HOSTILE = '<script>alert("1")</script>|`x`'


def shown(folder: Path, rows, wants: Wants = WANTS) -> list[Section]:
    return sections(read_bench(bench(folder, rows)), wants)


def line(section: Section, strategy: str) -> Line:
    return next(one for one in section.lines if one.strategy == strategy)


def pairs(count: int = 8, **more):
    """Return the baseline and one other strategy on the same tasks, with the other's fields from ``more``."""
    for seed in range(count):
        yield row("full", seed=seed)
        yield row("other", seed=seed, **more)


def test_a_bill_is_made_of_the_tokens_by_class_with_reads_at_the_multiple():
    tokens = {
        "bill_usd": 9.0,
        "bill_uncached": 1e6,
        "bill_read": 2e6,
        "bill_write_5m": 3e6,
        "bill_write_1h": 4e6,
        "bill_output": 5e6,
    }
    assert bill(TrialRow(tokens), PRICE, 0.1) == pytest.approx(2 + 2 * 2 * 0.1 + 3 * 2.5 + 4 * 4 + 5 * 10)
    assert bill(TrialRow(tokens), PRICE, 0.0) == pytest.approx(2 + 3 * 2.5 + 4 * 4 + 5 * 10)


def test_a_trial_without_tokens_has_no_bill():
    assert str(bill(TrialRow({"bill_read": 5}), PRICE, 0.1)) == "nan"


def test_the_whole_comes_first_then_horizons_then_tasks(tmp_path):
    rows = [row(task=task, horizon=horizon) for task in ("ledger", "conflict") for horizon in (10, 60)]
    assert [one.title for one in shown(tmp_path, rows)] == [
        "All tasks and horizons", "Horizon 10", "Horizon 60", "conflict, horizon 10", "conflict, horizon 60",
        "ledger, horizon 10", "ledger, horizon 60",
    ]  # fmt: skip


def test_one_task_at_one_horizon_is_one_table(tmp_path):
    assert [one.title for one in shown(tmp_path, [row()])] == ["All tasks"]


def test_models_and_noises_are_never_put_in_one_table(tmp_path):
    found = shown(tmp_path, [row(model="a"), row(model="b"), row(model="b", noise=4.0, seed=2)])
    assert [(one.model, one.noise, one.lines[0].trials) for one in found] == [
        ("a", "1.0", 1), ("b", "1.0", 1), ("b", "4.0", 1),
    ]  # fmt: skip


def test_fixed_tasks_have_neither_horizon_nor_noise(tmp_path):
    rows = [row(task=task, family="", horizon=None, noise=None) for task in ("calculator", "parser")]
    assert [one.title for one in shown(tmp_path, rows)] == ["All tasks", "calculator", "parser"]


def test_the_best_stands_first_and_the_cheaper_of_equals(tmp_path):
    rows = [row("dear", bill_output=9_000_000), row("cheap", bill_output=1), row("failing", solved=0)]
    assert [one.strategy for one in shown(tmp_path, rows)[0].lines] == ["cheap", "dear", "failing"]


def test_a_trial_that_broke_is_counted_and_tells_nothing_of_its_strategy(tmp_path):
    rows = [row(seed=1), row(seed=2, outcome="error", error="the worker died", solved=None, steps=None)]
    found = shown(tmp_path, rows)[0].lines[0]
    assert (found.trials, found.errors) == (1, 1)
    solved = found.figures["solved"]
    assert solved is not None
    assert (solved.value, solved.count) == (1.0, 1)


def test_a_run_that_a_limit_ended_is_not_solved(tmp_path):
    solved = shown(tmp_path, [row(outcome="limit:steps", ending="limit:steps", solved=0)])[0].lines[0].figures["solved"]
    assert solved is not None
    assert solved.value == 0.0


def test_the_cost_of_a_solved_task_carries_the_failures(tmp_path):
    rows = [row(seed=seed, solved=seed % 2) for seed in range(4)]
    found = shown(tmp_path, rows)[0].lines[0].figures
    cost, mean = found["cost_per_solved"], found["bill_0.05"]
    assert cost is not None
    assert mean is not None
    assert cost.value == pytest.approx(2 * mean.value)


def test_trials_of_a_task_are_what_pass_at_k_speaks_of(tmp_path):
    rows = [row(task=task, seed=seed, solved=int(seed > 0)) for task in ("a", "b") for seed in range(3)]
    found = shown(tmp_path, rows)[0].lines[0]
    at_k, hat_k = found.figures["pass_at_k"], found.figures["pass_hat_k"]
    assert found.k == 3
    assert at_k is not None
    assert hat_k is not None
    assert (at_k.value, hat_k.value) == (1.0, 0.0)


def test_a_strategy_is_held_against_the_baseline_in_pairs(tmp_path):
    found = line(shown(tmp_path, pairs(solved=0, peak_context_tokens=10_000))[0], "other")
    assert found.against["solved"].verdict == "worse"
    assert found.against["solved"].effect.value == -1.0
    assert found.against["peak"].verdict == "better"
    assert found.against["peak"].effect == Interval(pytest.approx(0.25), pytest.approx(0.25), pytest.approx(0.25), 8)
    assert found.against["bill"].verdict == ALIKE
    assert line(shown(tmp_path, pairs())[0], "full").against == {}


def test_another_baseline_turns_the_verdicts_round(tmp_path):
    other = Wants(PRICE, "a model", baseline="other")
    found = line(shown(tmp_path, pairs(peak_context_tokens=10_000), other)[0], "full")
    assert found.against["peak"].verdict == "worse"


def test_unpaired_trials_are_left_out_of_the_comparison(tmp_path):
    rows = [*pairs(4), row("other", seed=99), row("full", seed=98)]
    found = line(shown(tmp_path, rows)[0], "other").against["bill"]
    assert found.effect.count == 4


def test_the_price_of_reads_decides_whose_bill_is_better(tmp_path):
    rows = list(pairs(bill_read=100_000, bill_write_5m=90_000))
    dear, free = (line(shown(tmp_path, rows, Wants(PRICE, "m", asked_multiple=at))[0], "other") for at in (0.1, 0.0))
    assert (dear.against["bill"].verdict, free.against["bill"].verdict) == ("better", "worse")


def test_the_unit_is_the_world_and_eight_of_them_are_too_few_for_twenty_strategies(tmp_path):
    whole = shown(tmp_path, zoo((60,), 3))[0]
    general = [one for line in whole.lines for name, one in line.against.items() if name != "solved_here"]
    assert {one.verdict for one in general} == {TOO_FEW}
    assert {line.against["bill"].effect.count for line in whole.lines if line.against} == {8}
    assert any("too few units to compare 20 strategies" in sentence for sentence in findings(whole, WANTS))


def test_eight_worlds_can_be_enough_for_a_verdict_about_their_own_trials(tmp_path):
    whole = shown(tmp_path, zoo((60,), 3))[0]
    here = {line.strategy: line.against["solved_here"] for line in whole.lines if "solved_here" in line.against}
    worse = [name for name, one in here.items() if one.verdict == "worse"]
    assert worse
    assert all(here[name].lost > here[name].gains and here[name].effect.count == 24 for name in worse)
    assert f"on these trials, which says nothing about other worlds: {worse[0]} (" in "\n".join(findings(whole, WANTS))


def test_a_verdict_that_turns_with_the_price_of_reads_is_said_first(tmp_path):
    rows = list(pairs(bill_read=100_000, bill_write_5m=70_000))
    said = findings(shown(tmp_path, rows)[0], WANTS)
    assert said[0] == (
        "The verdict on the bill depends on the price of cached reads: "
        "other (better at 0.1, alike at 0.05, worse at 0.025)."
    )


def test_the_figures_are_the_same_each_time(tmp_path):
    rows = zoo((60,), 4, ("ledger",), ("full", "stackheap", "window"))
    assert shown(tmp_path / "a", rows) == shown(tmp_path / "b", rows)


def test_every_strategy_has_a_family_and_other_names_have_one_too():
    assert {family_of(name) for name in SHAPES} == set(FAMILIES) - {"other"}
    assert family_of("mask:10,poll=10") == "masking"
    assert family_of(HOSTILE) == family_of("") == "other"


def test_a_variant_has_the_family_of_what_it_is_a_variant_of(tmp_path):
    results = read_bench(bench(tmp_path, [row("no index", spelled="stackheap:index=none"), row("full")]))
    assert [Anchors(results).family(name) for name in ("no index", "full")] == ["stackheap", "linear"]


def test_an_ablation_without_full_is_held_against_what_it_varies(tmp_path):
    rows = [row(name, seed=seed) for name in ("stackheap", "stackheap:index=tail") for seed in range(3)]
    text = write_report(bench(tmp_path, rows), str(tmp_path / "r.md")).path.read_text(encoding="utf-8")
    assert "- **baseline**: stackheap" in text
    assert "Bill: to stackheap" in text


def test_without_the_baseline_it_says_how_to_choose_another(tmp_path):
    results = read_bench(bench(tmp_path, [row("stack"), row("heap")]))
    assert "try --baseline heap" in remarks(results, WANTS)[1]


def test_values_are_short_and_say_their_unit():
    told = [as_text(0.123, "share"), as_text(-0.12, "share", signed=True), as_text(0.01234, "usd")]
    told += [
        as_text(12_345, "tokens"),
        as_text(123_456, "tokens"),
        as_text(3.0, "count"),
        as_text(inf, "usd"),
    ]
    assert told == ["12 %", "−12", "0.0123", "12.3k", "123k", "3", "∞"]
    assert [as_text(0.314, "ratio"), as_text(12.4, "ratio")] == ["0.31×", "12×"]


def test_an_interval_of_one_value_is_not_shown_twice():
    assert range_text(Interval(1.0, 1.0, 1.0, 9), "count") == ""
    assert range_text(Interval(1.0, None, None, 1), "count") == ""
    assert range_text(Interval(0.5, 0.25, 0.75, 9), "share") == "25–75"
    assert range_text(Interval(1.2, 0.000004, 377_038.0, 2), "ratio") == "too wide"
    assert range_text(Interval(1.2, 0.0, 3.0, 9), "ratio") == "0.00–3.00×".rstrip("×")


def test_markdown_has_a_table_for_the_whole_and_for_each_task(tmp_path):
    written = write_report(bench(tmp_path, zoo((60,), 2, ("ledger", "conflict"))), str(tmp_path / "r.md"))
    text = written.path.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## All tasks · sim/bounded-reader · noise 1.0", "## conflict · sim/bounded-reader · noise 1.0",
        "## ledger · sim/bounded-reader · noise 1.0",
    ]  # fmt: skip
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len({one.count(" | ") for one in rows[:23]}) == 1
    assert "simulated: a fixed policy whose only memory is its prompt" in text
    assert r"stackheap\_lossless" in text


def readers():
    """Return two readers: the first solves everything with either strategy, the second only with the expensive one."""
    for model, solved in (("sim/a", 1), ("sim/b", 0)):
        for task in ("ledger", "conflict"):
            yield row("full", task, model=model, bill_read=2_000_000)
            yield row("cheap", task, model=model, solved=solved, bill_read=1_000_000)
            yield row("same", task, model=model, bill_read=2_010_000)


def test_what_hangs_on_the_model_is_counted_over_the_models(tmp_path):
    (shown_map,) = stability_maps(shown(tmp_path, readers()), WANTS)
    assert shown_map.models == ("sim/a", "sim/b")
    assert {pair for pair, count in shown_map.better.items() if count} == {("cheap", "full"), ("cheap", "same")}
    heads, *rows = map_rows(shown_map, WANTS)
    cells = {one[0]: dict(zip(heads, one, strict=True)) for one in rows}
    assert cells["cheap"]["over full"] == "depends, 1 of 2"
    assert cells["full"]["over same"] == cells["same"]["over full"] == "none"
    assert cells["cheap"]["solved"] == "0 % to 100 %"
    assert cells["same"]["bill to full"] == "1.00×"


def test_one_model_has_no_such_map(tmp_path):
    assert stability_maps(shown(tmp_path, pairs()), WANTS) == []


@pytest.mark.parametrize("kind", ["html", "md"])
def test_the_map_stands_before_the_tables_and_its_names_are_text(tmp_path, kind):
    rows = [row(name, task, model=model) for model in ("sim/a", HOSTILE) for task in "xy" for name in ("full", HOSTILE)]
    text = write_report(bench(tmp_path, rows), str(tmp_path / f"r.{kind}")).path.read_text(encoding="utf-8")
    assert text.index("Which verdicts depend on the model") < text.index("All tasks ·")
    assert "<script>alert" not in text


def test_names_are_escaped_in_markdown():
    assert escaped("a|b\n# c <b>`") == r"a\|b \# c \<b\>\`"


def test_the_spreadsheet_holds_the_same_unrounded(tmp_path):
    written = write_report(bench(tmp_path, list(pairs(peak_context_tokens=10_000.5))), str(tmp_path / "r.csv"))
    (full, other) = csv.DictReader(StringIO(written.path.read_text(encoding="utf-8")))
    assert (full["strategy"], other["strategy"]) == ("full", "other")
    assert (other["peak_context_tokens"], other["trials"], other["peak_to_baseline_verdict"]) == (
        "10000.5",
        "8",
        "better",
    )
    assert full["peak_to_baseline"] == ""


def test_names_are_not_spreadsheet_formulas(tmp_path):
    written = write_report(bench(tmp_path, [row("=1+1")]), str(tmp_path / "r.csv"))
    (one,) = csv.DictReader(StringIO(written.path.read_text(encoding="utf-8")))
    assert one["strategy"] == "'=1+1"


@pytest.mark.parametrize("kind", ["html", "md", "csv"])
@pytest.mark.parametrize(
    "rows",
    [
        [],
        [row()],
        [row(seed=seed) for seed in range(5)],
        [row(name, outcome="error", solved=None, steps=None, bill_read=None, run="") for name in ("full", "window")],
        [row(HOSTILE, HOSTILE, error=HOSTILE, outcome=HOSTILE, model=HOSTILE, isolation=HOSTILE, run=HOSTILE)],
        [row("full", seed=1), row("other", seed=2)],
        [row(name, horizon=horizon, peak_context_tokens=0, bill_read=nan) for name in "ab" for horizon in (0, 5)],
        [row("x" * 500, solved=7, first_loss_step=3), row("ünï\u202e", steps="many", first_loss_step=900)],
    ],
    ids=["empty", "one trial", "one strategy", "all errors", "hostile", "no pairs", "zeros", "odd"],
)
def test_any_bench_has_a_report(tmp_path, rows, kind):
    written = write_report(bench(tmp_path, rows), str(tmp_path / f"r.{kind}"))
    assert written.trials == len(rows)
    text = written.path.read_text(encoding="utf-8")
    assert re.search(r"\bnan\b", text) is None
    if kind == "html":
        assert "<script>alert" not in text


ELEMENT = re.compile(
    "/?(a|b|button|circle|dd|details|div|dl|dt|em|figcaption|figure|h1|h2|header|i|li|line|main|nav|p|path|section|small"
    "|span|summary|svg|table|tbody|td|text|th|thead|title|tr|ul)"
)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30) | st.sampled_from(
    ["</a><script>", "<!--", "]]>", "&lt;", "' onload='x", "</style>", "|", "{0}", "%s"]
)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=4))
def test_no_text_of_a_bench_becomes_part_of_the_page(tmp_path_factory, words):
    folder = tmp_path_factory.mktemp("fuzz")
    rows = [row(one, two, seed, error=three, run=three, id=f"{seed}") for seed, (one, two, three) in enumerate(words)]
    text = write_report(bench(folder, rows)).path.read_text(encoding="utf-8")
    tags = re.findall(r"<(/?[a-zA-Z!][\w-]*)", text.split("<body>")[1].split("<script>")[0])
    assert {tag.removeprefix("/") for tag in tags if not ELEMENT.fullmatch(tag)} == set()
    assert text.count("<script") == text.count("</script") == 1


def test_a_missing_bench_is_reported(tmp_path):
    with pytest.raises(UsageError, match=r"has no results\.sqlite; stackmem bench -o DIR creates one"):
        write_report(tmp_path)


def test_a_file_that_is_not_a_database_is_reported(tmp_path):
    (tmp_path / "results.sqlite").write_text("no database")
    with pytest.raises(StackmemError, match=r"results\.sqlite cannot be read"):
        write_report(tmp_path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"output": "report.pdf"}, r"does not end in one of \.html, \.md, \.csv"),
        ({"output": "/nowhere/at/all.md"}, "cannot be written"),
        ({"read_multiple": -0.1}, "give 0 to 1"),
        ({"read_multiple": nan}, "give 0 to 1"),
    ],
)
def test_a_wrong_wish_is_refused_with_the_way_out(tmp_path, options, says):
    folder = bench(tmp_path, [row()])
    with pytest.raises(UsageError, match=says):
        write_report(folder, **options)


def test_a_running_bench_is_reported_so_far(tmp_path):
    whole = '{"id":"a","strategy":"full","solved":1,"task":"t","model":"demo","outcome":"solved"}\n'
    (tmp_path / "ledger.jsonl").write_text(whole + '{"id":"b","str')
    assert write_report(tmp_path, str(tmp_path / "r.md")).trials == 1


def test_a_bench_priced_as_an_unknown_model_is_refused(tmp_path):
    with pytest.raises(UsageError, match="which are unknown here"):
        write_report(bench(tmp_path, [row()], {"price": "nobody-1"}))
    assert lookup("claude-sonnet-5-5") is not None


def test_a_strategy_that_never_acted_says_so_in_its_row_and_in_words(tmp_path):
    rows = [*pairs(4, acted=0), *(row("third", seed=seed, acted=seed % 2) for seed in range(4))]
    whole = shown(tmp_path, rows)[0]
    shares = {name: line(whole, name).figures["never_acted"] for name in ("full", "other", "third")}
    assert (shares["full"], shares["other"].value, shares["third"].value) == (None, 1.0, 0.5)
    said = [sentence for sentence in findings(whole, WANTS) if sentence.startswith("Never acted")]
    assert said == ["Never acted, so these trials do not show their differences: other."]
    write_report(tmp_path / "bench" if (tmp_path / "bench").exists() else tmp_path, str(tmp_path / "report.md"))
    assert "| Work: never acted |" in (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("column", ["horizon", "bill_usd", "steps", "peak_context_tokens", "first_loss_step"])
@pytest.mark.parametrize("value", [1e308, -1e308, 2.0**64])
def test_a_figure_that_nothing_measured_can_be_counts_as_none(tmp_path, column, value):
    """``results.sqlite`` may come from anybody; the ledger itself refuses such a row."""
    rows = [row("full"), row("stackheap", **{column: value}), row("mask", seed=2, **{column: value})]
    for end in (".html", ".md", ".csv"):
        assert write_report(bench(tmp_path / "b", rows), str(tmp_path / f"report{end}")).trials == 3


def test_requests_whose_lists_have_unequal_lengths_or_odd_numbers_are_left_out(tmp_path):
    lists = {name: [9] * 7 for name in ("uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output")}
    odd = (
        {**lists, "output": [9] * 6},
        {**lists, "output": [-1] * 7},
        {**lists, "output": [10**30] * 7},
        {**lists, "steps": [1]},
    )
    rows = [row("full", seed=seed, requests=json.dumps(told)) for seed, told in enumerate(odd, 1)]
    assert write_report(bench(tmp_path / "b", rows), str(tmp_path / "report.html")).trials == 4
