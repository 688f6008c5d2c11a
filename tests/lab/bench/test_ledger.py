"""The results of a bench so far, and which plans can continue it."""

import msgspec
import pytest
from msgspec.structs import replace

from stackmem.core.errors import TraceError, UsageError
from stackmem.core.version import VERSION
from stackmem.lab.bench.ledger import PLAN, Ledger, latest_rows, read_plan, read_rows
from stackmem.lab.bench.plan import BenchPlan, TrialSubject, Variant, trials
from stackmem.lab.bench.results import read_results, write_results
from stackmem.run.run_folder import LEDGER

PLANNED = BenchPlan(
    (TrialSubject("calculator"),), ("demo",), (Variant("full", "full"),), trials=2, settings={"depth": 3}
)
FIRST, SECOND = (trial.id for trial in trials(PLANNED))


def row(name: str, outcome: str = "solved", **more) -> dict:
    return {"id": name, "task": "calculator", "model": "demo", "strategy": "full", "outcome": outcome, **more}


def begun(folder, *rows) -> None:
    with Ledger(folder, PLANNED) as ledger:
        for row in rows:
            ledger.add(row)


def test_a_written_row_is_present_when_the_bench_resumes(tmp_path):
    begun(tmp_path / "new" / "bench", row(FIRST))
    with Ledger(tmp_path / "new" / "bench", PLANNED) as ledger:
        assert ledger.rows == {FIRST: row(FIRST)}
    assert read_plan(tmp_path / "new" / "bench") == PLANNED


def test_a_trial_never_has_two_rows(tmp_path):
    begun(tmp_path, row(FIRST), row(FIRST, "error"))
    begun(tmp_path, row(FIRST, "unsolved"))
    assert [row["outcome"] for row in read_rows(tmp_path)] == ["solved"]


def test_of_a_trial_that_is_made_again_after_an_error_the_last_row_holds_and_both_were_paid(tmp_path):
    begun(tmp_path, row(FIRST, "error", cost_usd=1.0), row(SECOND))
    with Ledger(tmp_path, PLANNED, without_errors=True) as ledger:
        assert set(ledger.rows) == {SECOND}
        ledger.add(row(FIRST, "unsolved", cost_usd=2.0))
        assert ledger.paid_usd == 3.0
    assert {name: one["outcome"] for name, one in latest_rows(tmp_path).items()} == {
        FIRST: "unsolved",
        SECOND: "solved",
    }
    write_results(tmp_path, read_rows(tmp_path), {})
    assert sorted(one["outcome"] for one in read_results(tmp_path)) == ["solved", "unsolved"]


@pytest.mark.parametrize("torn", [b'{"id": "x", "out', b'{"id": "x"}', b"\0\0\0", b"{" * 200_000])
def test_a_line_torn_by_a_crash_is_removed(tmp_path, torn):
    begun(tmp_path, row(FIRST))
    whole = (tmp_path / LEDGER).read_bytes()
    with (tmp_path / LEDGER).open("ab") as file:
        file.write(torn)
    assert [row["id"] for row in read_rows(tmp_path)] == [FIRST]
    begun(tmp_path, row(SECOND))
    assert (tmp_path / LEDGER).read_bytes() == whole + msgspec.json.encode(row(SECOND)) + b"\n"


@pytest.mark.parametrize(
    "line",
    [
        *(b"[]", b"1", b'{"id": 3}', b'{"id": "x"}', b"{}", b"\xff", b"{" * 50_000),
        *(
            msgspec.json.encode(row("x", **wrong))
            for wrong in (
                {"solved": "q"}, {"bill_usd": "1e5"}, {"steps": 1 << 63}, {"peak_context_tokens": [1]}, {"error": 3},
                {"horizon": {}}, {"model": None},
            )
        ),
    ],
)  # fmt: skip
def test_another_broken_line_is_named(tmp_path, line):
    begun(tmp_path, row(FIRST))
    with (tmp_path / LEDGER).open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(TraceError, match=r"line 2 of .* is not a valid row; remove the line"):
        begun(tmp_path)


@pytest.mark.parametrize("name", ["../elsewhere", "/elsewhere", "a b", "x/../y"])
def test_a_plan_whose_world_names_a_folder_elsewhere_is_refused(tmp_path, name):
    hostile = replace(PLANNED, subjects=(TrialSubject(name, name, horizon=10, noise=1.0),))
    (tmp_path / PLAN).write_bytes(msgspec.json.encode(hostile))
    with pytest.raises(TraceError, match="is not a world"):
        read_plan(tmp_path)


def test_a_plan_may_grow(tmp_path):
    begun(tmp_path, row(FIRST))
    more = BenchPlan(
        (TrialSubject("calculator"), TrialSubject("other")), ("demo",), PLANNED.variants, 9, PLANNED.settings
    )
    with Ledger(tmp_path, more) as ledger:
        assert set(ledger.rows) == {FIRST}
    assert read_plan(tmp_path) == more


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (BenchPlan(PLANNED.subjects, ("demo",), PLANNED.variants, 1, PLANNED.settings), "contains 1 trial"),
        (BenchPlan(PLANNED.subjects, ("demo",), PLANNED.variants, 2, {"depth": 4}), "contains 2 trials"),
        (
            BenchPlan(PLANNED.subjects, ("demo",), PLANNED.variants, 2, PLANNED.settings, "claude-opus-5-5"),
            "another price",
        ),
        (
            BenchPlan(PLANNED.subjects, ("demo",), PLANNED.variants, 2, PLANNED.settings, latency_seconds=1),
            "another latency",
        ),
    ],
)
def test_a_plan_that_changes_what_is_there_is_refused_and_changes_nothing(tmp_path, other, said):
    begun(tmp_path, row(FIRST))
    before = (tmp_path / PLAN).read_bytes()
    with pytest.raises(UsageError, match=said):
        Ledger(tmp_path, other)
    assert (tmp_path / PLAN).read_bytes() == before


def test_two_processes_cannot_run_one_bench(tmp_path):
    with Ledger(tmp_path, PLANNED), pytest.raises(TraceError, match=f"is writing the bench {tmp_path.name}; wait"):
        Ledger(tmp_path, PLANNED)


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="is not empty and does not contain a bench"):
        Ledger(tmp_path, PLANNED)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_where_the_folder_should_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="choose another -o DIR"):
        Ledger(tmp_path / "file", PLANNED)


def test_a_plan_that_cannot_be_read_is_named(tmp_path):
    begun(tmp_path, row(FIRST))
    (tmp_path / PLAN).write_text("{")
    with pytest.raises(TraceError, match=r"plan\.json cannot be read"):
        begun(tmp_path)


def test_another_version_does_not_go_on_with_it(tmp_path):
    begun(tmp_path, row(FIRST))
    path = tmp_path / PLAN
    path.write_text(path.read_text().replace(f'"version": "{VERSION}"', '"version": "0.0.1"'))
    with pytest.raises(UsageError, match=r"was started by stackmem 0\.0\.1"):
        begun(tmp_path)
