"""Recordings of real runs under strategies: the entries, the figures with their intervals, and the pages."""

import csv
import random
import re
from functools import partial
from io import StringIO

import pytest
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.formats.import_ import sessions_of
from stackmem.lab.bench.evidence import (
    CASES,
    PRICED_AS,
    READS,
    STRATEGIES,
    RecordingEntry,
    StrategyBill,
    distinct_files,
    entries_of,
    read_entries,
    study,
)
from stackmem.lab.bench.evidence_figures import over_tasks, table, tables
from stackmem.lab.comparison.evidence import summary, write_evidence
from stackmem.lab.comparison.evidence_verdict import verdict
from stackmem.lab.whatif.hypothetical import start_with_frames
from stackmem.lab.whatif.recorded import WhatIfQuestion, tell_again
from stackmem.memory import open_strategy
from stackmem.review.measure.moments import moments
from stackmem.run.prompts import prompt_text
from tests.formats.foreign_runs import mini_1, swe_agent, tau


def laid_out(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    files = {
        "model-a@suite/django__1.traj": swe_agent(20),
        "model-b@suite/django__1.traj": swe_agent(12),
        "model-b@suite/same.traj": swe_agent(12),
        "model-c@suite/all.json": tau(),
        "suite/one.traj.json": mini_1(),
        "model-d@suite/nonsense.txt": "nothing of the kind",
        ".git/config": "hidden",
    }
    return laid_out(tmp_path_factory.mktemp("recordings"), files)


@pytest.fixture(scope="module")
def entries(folder, tmp_path_factory):
    return study(folder, tmp_path_factory.mktemp("rows") / "rows.jsonl", 1, quiet)


@pytest.fixture
def small(tmp_path):
    """Short runs, which are enough to show that the figures exist."""
    files = {f"model-{name}@suite/task.traj": swe_agent(number) for number, name in enumerate("abc", 1)}
    return laid_out(tmp_path / "recordings", {**files, "model-d@suite/nonsense.txt": "nothing of the kind"})


def quiet(entry):
    pass


def test_the_same_bytes_count_once_and_hidden_files_never(folder):
    assert [path.name for path in distinct_files(folder)] == [
        "django__1.traj", "django__1.traj", "all.json", "nonsense.txt", "one.traj.json",
    ]  # fmt: skip


def test_each_session_is_an_entry_with_its_model_its_task_and_every_strategy(entries, folder):
    assert [(entry.model, entry.task) for entry in entries if entry.bills] == [
        ("model-a", "django__1"), ("model-b", "django__1"), ("model-c", "tau-7"), ("model-c", "tau-7"),
        ("model-9", "t1"),
    ]  # fmt: skip
    (bad,) = [entry for entry in entries if entry.unread]
    assert "has an unknown format" in bad.unread
    assert str(folder) not in bad.unread
    first = entries[0].bills
    assert set(first) == {
        "full", "stackheap fixed", *(f"{name} {case}" for name in STRATEGIES for case in CASES),
    }  # fmt: skip
    assert first["stackheap best"].frames == 3
    assert first["stackheap worst"].rereads >= first["stackheap middle"].rereads >= first["stackheap best"].rereads
    assert all(list(one.usd) == sorted(one.usd, reverse=True) for one in first.values())
    assert (entries[0].estimated, entries[0].steps) == (21, 21)


def told_again(folder):
    ((_, facts),) = sessions_of(folder / "model-a@suite/django__1.traj")
    events = tuple((fact.at, fact.event) for fact in facts)
    asked = WhatIfQuestion(("mask", "isolated", "stackheap", "adaptive"), PRICED_AS, 10.0)
    return events, tell_again("it", partial(moments, events), asked)


def test_every_strategy_marks_for_as_long_as_the_recorded_agent(folder):
    _, told = told_again(folder)
    assert {row.outcome.usage.cache_write_1h for row in told.rows} == {0}
    assert all(row.outcome.usage.cache_write_5m for row in told.rows)


@pytest.mark.parametrize("name", ["isolated", "fold", "stackheap", "adaptive"])
def test_a_foreign_agent_gets_no_additional_coding_prompt(folder, name):
    events, _ = told_again(folder)
    own = next(moments(events)).after.begun
    given = start_with_frames(own, open_strategy(name))
    assert given.system.startswith(own.system)
    assert "You are a coding agent" not in given.system.removeprefix(own.system)
    assert "run_command" not in given.system.removeprefix(own.system)
    assert "You are a coding agent" in prompt_text(open_strategy(name).prompt)


def test_a_study_resumes_and_a_torn_line_is_redone(small, tmp_path):
    rows = tmp_path / "rows.jsonl"
    whole = study(small, rows, 1, quiet)
    lines = rows.read_bytes().splitlines(keepends=True)
    rows.write_bytes(b"".join(lines[:2]) + lines[2][:40])
    made = []
    again = study(small, rows, 1, made.append)
    assert again == whole
    assert len(made) == len(whole) - 2
    for broken in (b"{}", b'{"file":"\xff"}', b'{"x":' + b"[" * 5_000):
        rows.write_bytes(broken + b"\n" + b"".join(lines))
        with pytest.raises(UsageError, match="line 1 is not an entry"):
            read_entries(rows)


def entry(model, task, bill, *, base=1.0, lost=0, facts=1, steps=20):
    told = {"full": StrategyBill((base,) * 3, 1, facts, 0), "other": StrategyBill((bill,) * 3, 1, facts, lost)}
    return RecordingEntry(f"{model}/{task}", "s", model, task, steps=steps, bills=told)


def bills(one):
    return one.bills["other"].usd[0], one.bills["full"].usd[0]


def test_each_model_has_the_same_weight():
    many = [entry("a", f"t{number}", 0.5) for number in range(99)]
    assert over_tasks([*many, entry("b", "t0", 1.5)], bills).value == pytest.approx(1.0)


def test_a_figure_is_a_ratio_of_sums_within_a_model():
    found = over_tasks([entry("a", "t0", 9.0, base=10.0), entry("a", "t1", 3.0, base=1.0)], bills)
    assert found.value == pytest.approx(12 / 11)
    assert (found.low, found.high, found.count) == (None, None, 2)


def test_runs_of_one_task_are_one_unit():
    luck = random.Random(1)
    tasks = [entry("a", f"t{number}", luck.uniform(0.5, 1.5)) for number in range(80)]
    repeated = [replace(one, file=f"{one.file} {copy}") for one in tasks for copy in range(3)]
    once, often = over_tasks(tasks, bills), over_tasks(repeated, bills)
    assert often.high - often.low == pytest.approx(once.high - once.low, rel=1e-6)


def test_an_interval_covers_what_it_should():
    luck = random.Random(2)
    covered = 0
    for _ in range(100):
        sample = [entry(model, f"t{number}", luck.gauss(0.9, 0.2)) for number in range(75) for model in "ab"]
        found = over_tasks(sample, bills)
        covered += found.low <= 0.9 <= found.high
    assert 0.87 <= covered / 100 <= 1.0


def test_a_model_without_any_fact_is_in_no_share_of_facts():
    sample = [entry("a", "t0", 1, facts=4, lost=1), entry("b", "t0", 1, facts=0)]
    assert table("all", sample).lines[1].lost.value == pytest.approx(0.25)
    assert table("all", sample[1:]).lines[1].lost is None


def test_tables_are_of_all_of_each_length_and_of_each_model():
    found = tables([entry("a", "t0", 1, steps=3), entry("b", "t1", 1, steps=70), RecordingEntry("x", unread="why")])
    assert [(one.title, one.runs) for one in found] == [
        ("All recordings", 2), ("1 to 15 steps", 1), ("61 or more steps", 1), ("a", 1), ("b", 1),
    ]  # fmt: skip


def three_cases(*bills):
    told = {f"other {case}": StrategyBill((bill,) * 3, 1, 1, 1) for case, bill in zip(CASES, bills, strict=True)}
    whole = {"full": StrategyBill((1.0,) * 3, 1, 1, 0), **told}
    return table("all", [RecordingEntry("f", "s", "a", "t0", steps=20, bills=whole)])


@pytest.mark.parametrize(
    ("bills", "turn"),
    [((0.8, 0.9, 1.1), 0.75), ((0.8, 1.2, 1.4), 0.25), ((0.7, 0.8, 0.9), None), ((1.1, 1.2, 1.3), 0.0)],
)
def test_the_share_of_lookups_at_which_the_whole_history_costs_less_is_printed(bills, turn):
    lines = {line.name: line for line in three_cases(*bills).lines}
    assert lines["other middle"].turns[0] == (turn if turn is None else pytest.approx(turn))
    assert lines["other best"].turns == () == lines["full"].turns


def test_agents_have_tables_of_their_own():
    both = [replace(entry("a", f"t{number}", 1), origin=f"{name} 1") for number, name in enumerate(("codex", "mini"))]
    assert [one.title for one in tables(both)][:3] == ["All recordings", "Agent codex", "Agent mini"]


def test_a_run_is_dearer_above_its_bound_only():
    found = table("all", [entry("a", "t0", 1.02), entry("a", "t1", 1.021)])
    assert found.lines[1].dearer[0].value == 0.5


@pytest.mark.parametrize("ending", ["html", "md", "csv"])
def test_names_from_recordings_are_shown_and_never_obeyed(tmp_path, ending):
    hostile = "=cmd|<script>alert(1)</script>"
    path = tmp_path / f"out.{ending}"
    write_evidence([entry(hostile, "t0", 0.9)], path)
    text = path.read_text("utf-8")
    assert "<script>alert" not in text or ending == "csv"
    if ending == "csv":
        rows = list(csv.DictReader(StringIO(text)))
        assert {row["set"] for row in rows} == {"All recordings", "16 to 30 steps", f"'{hostile}"}
        assert float(rows[1]["bill_0.1"]) == 0.9
    if ending == "html":
        assert "default-src 'none'" in text


def test_the_page_begins_with_the_cheapest_strategy_and_a_plot(tmp_path):
    name = next(name for name in entry("a", "t0", 0.7).bills if name != "full")
    path = tmp_path / "out.html"
    write_evidence([entry("a", f"t{number}", 0.7 + number / 1_000) for number in range(80)], path)
    text = path.read_text("utf-8")
    answer = text.index(f"<p class=answer>{name} costs 2")
    assert re.search(r"costs 26 % less than full \[2\d, [23]\d\] at cached reads of 0\.1\.", text)
    assert "This covers 80 runs of 80 tasks." in text
    assert (
        answer
        < text.index(f'aria-label="Bill relative to full at cached reads of 0.1: {name} 0.7')
        < text.index("<h2>")
    )
    assert text.index("All models have the same weight") > text.index("<table")


@pytest.mark.parametrize(
    ("tasks", "differing", "why"),
    [
        (40, 40, "An interval of a sum needs at least 75 tasks, because a few large ones decide it."),
        (90, 3, "The bills differ in 3 of 90 tasks: too few for an interval."),
    ],
)
def test_a_sum_without_an_interval_says_why(tasks, differing, why):
    sample = [entry("a", f"t{number}", 0.5 if number < differing else 1.0) for number in range(tasks)]
    assert why in verdict(table("all", sample))[1]


@pytest.mark.parametrize("models", ["a", "ab"])
def test_every_table_names_its_estimand(tmp_path, models):
    path = tmp_path / "out.md"
    write_evidence([entry(model, f"t{n}", 0.5 + n / 100, base=1 + n) for model in models for n in range(30)], path)
    first, second = path.read_text("utf-8").partition("\n## ")[2].split("\n## ")[0].split("\nBills: ")[1:]
    of_each = " of each model, averaged over the models" if len(models) > 1 else ""
    assert first.startswith(f"the sum over all runs, divided by that of full{of_each}.")
    assert second.startswith(f"the mean of the tasks' own ratios to full{of_each}, so that")
    assert f"| other | {sum(0.5 + n / 100 for n in range(30)) / sum(range(1, 31)):.3f} |" in first
    mean = sum((0.5 + n / 100) / (1 + n) for n in range(30)) / 30
    assert re.search(rf"\| other \| {mean:.3f} \S+, \S+ .* \| 30 of 30 \|", second)


def test_the_plot_has_a_row_per_strategy_with_its_cases_and_the_table_is_sorted(tmp_path):
    cases = zip(("best", "middle", "worst"), (0.6, 0.7, 0.9), strict=True)
    told = {f"stackheap {case}": StrategyBill((bill,) * 3, 1, 1, 0) for case, bill in cases}
    told |= {"mask": StrategyBill((0.5,) * 3, 1, 1, 0), "full": StrategyBill((1.0,) * 3, 1, 1, 0)}
    path = tmp_path / "out.html"
    write_evidence([RecordingEntry("f", "s", "a", "t0", steps=20, bills=told)], path)
    text = path.read_text("utf-8")
    assert 'aria-label="Bill relative to full at cached reads of 0.1: mask 0.50; stackheap 0.70; full 1.00"' in text
    assert text.count('class="bounds"') == 1
    names = re.findall(r'class="who">([^<]+)<', text.partition("<details>")[0])
    assert names == ["mask", "stackheap best", "stackheap middle", "stackheap worst", "full"]


def test_a_study_in_which_nothing_is_cheaper_says_so():
    first, sure = verdict(table("all", [entry("a", "t0", 1.4)]))
    assert first.startswith("No strategy costs less than full at cached reads of 0.1;")
    assert first.endswith("costs 40 % more.")
    assert "An interval of a sum needs at least 75 tasks" in sure


def test_a_study_is_written_by_the_end_of_its_name_only(tmp_path):
    with pytest.raises(UsageError, match=r"does not end in one of"):
        write_evidence([], tmp_path / "out.pdf")


def test_the_summary_counts_what_was_not_read_by_its_reason(entries):
    text = "\n".join(summary(entries))
    assert "5 recordings of 4 models and 3 tasks" in text
    assert "1 files or sessions were not read: has an unknown format (1)" in text


def test_the_command_writes_the_page_and_says_what_was_not_read(stage, small, tmp_path):
    out = tmp_path / "out.md"
    ran = stage.call("evidence", small, "-o", out, "--jobs", "1")
    assert ran.returncode == 0
    assert "not read: model-d@suite/nonsense.txt" in ran.stderr
    assert "| adaptive middle |" in out.read_text("utf-8")
    kept = [entry for entry in read_entries(tmp_path / "out.jsonl") if entry.bills]
    assert [len(entry.bills["full"].usd) for entry in kept] == [len(READS)] * 3
    assert stage.call("evidence", tmp_path / "nowhere", "-o", out).returncode == 2


def test_two_processes_find_what_one_finds(small, tmp_path):
    one, two = (study(small, tmp_path / f"{jobs}.jsonl", jobs, quiet) for jobs in (1, 2))
    assert one == two


def test_a_file_that_cannot_be_read_is_an_entry_that_says_so(folder):
    (found,) = entries_of(folder, folder / "gone.json")
    assert "cannot be read" in found.unread


SHOWN = '[{"type": "function", "function": {"name": "book", "description": "%s", "parameters": {"type": "object"}}}]'


def told_beside(root, tools):
    place = laid_out(root, {"m@s/all.json": tau(), **({"m@s/tools.json": tools} if tools else {})})
    return study(place, root / "rows.jsonl", 1, quiet)


def test_tool_descriptions_stored_separately_are_billed(tmp_path):
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
    (told, *_), (bare, *_) = (
        told_beside(tmp_path / "with", SHOWN % ("a flight " * 400)),
        told_beside(tmp_path / "without", ""),
    )
    assert told.file == bare.file
    assert told.bills["full"].peak_tokens > bare.bills["full"].peak_tokens + 400
    assert told.bills["adaptive middle"].usd[0] / told.bills["full"].usd[0] < (
        bare.bills["adaptive middle"].usd[0] / bare.bills["full"].usd[0]
    )


@pytest.mark.parametrize("tools", ["{}", "[{}]", "[1", '[{"function": {"name": 1, "parameters": {}}}]'])
def test_tools_that_are_none_are_named_in_a_sentence(tmp_path, tools):
    (one, *_) = told_beside(tmp_path, tools)
    assert "tools.json is not a list of tools" in one.unread
    assert str(tmp_path) not in one.unread
