"""The list of runs, made only from results, and its filters."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.messages import Usage
from stackmem.review.kept.run_list import FIELDS, RunRow, choose_runs, list_runs
from stackmem.run.result import RunResult, write_result
from stackmem.trace.lock import Lock, _self

RESULT = RunResult(
    run="", run_dir="", task="calculator", model="demo", strategy="stackheap", ending="popped", outcome="solved",
    steps=14, frames=2, usage=Usage(uncached=1_000, output=50), cost_usd=0.25, wall_seconds=2.5, isolation="landlock",
    result="done", workspace="",
)  # fmt: skip
ROWS = [
    RunRow("a", "2026-11-20T10:00:00+00:00", "solved", "calculator", "demo", "full", 14, 2, 900, 0.25, 3.0),
    RunRow("b", "2026-11-20T11:00:00+00:00", "unsolved", "Calc 2", "demo", "full", 3, 0, 70_000, None, 2.0),
    RunRow("c", "2026-11-20T12:00:00+00:00", "interrupted"),
]


def folder(runs: Path, name: str, trace: bytes = b"a line\n") -> Path:
    made = runs / name
    made.mkdir(parents=True)
    (made / "trace.jsonl").write_bytes(trace)
    return made


def names(*conditions: str, order: str = "run", limit: int | None = None) -> list[str]:
    return [row.run for row in choose_runs(ROWS, conditions, order, limit)]


def test_a_finished_run_is_listed_from_its_result_without_reading_its_trace(tmp_path):
    place = folder(tmp_path, "20261120T150223Z-calculator-full-bac658", b"no trace at all\n")
    write_result(RESULT, place / "result.json")
    assert list_runs(tmp_path) == [
        RunRow(
            place.name, "2026-11-20T15:02:23+00:00", "solved", "calculator", "demo", "stackheap", 14, 2, 1_050, 0.25,
            2.5,
        )
    ]  # fmt: skip


@pytest.mark.parametrize("kept", [None, b"", b"{", b"[]", b'{"run": 1}', b"\xff\xfe", b"null"])
def test_a_run_without_a_result_that_can_be_read_was_interrupted(tmp_path, kept):
    place = folder(tmp_path, "anything")
    (place / "run.json").write_bytes(b'{"task_name":"t","model":"m","strategy":"s","more":[1]}')
    if kept is not None:
        (place / "result.json").write_bytes(kept)
    assert list_runs(tmp_path) == [RunRow("anything", "", "interrupted", "t", "m", "s")]


def test_a_result_that_is_larger_than_any_is_not_read(tmp_path):
    place = folder(tmp_path, "anything")
    with (place / "result.json").open("wb") as result:
        result.truncate(1 << 40)
    assert list_runs(tmp_path) == [RunRow("anything", "", "interrupted")]


@pytest.mark.parametrize("start", [None, b"", b"{}", b"\xff", b'{"task_name":7,"model":"m","strategy":"s"}'])
def test_a_run_that_nothing_is_known_of_is_listed_by_its_name(tmp_path, start):
    place = folder(tmp_path, "99999999T999999Z-x")
    if start is not None:
        (place / "run.json").write_bytes(start)
    assert list_runs(tmp_path) == [RunRow("99999999T999999Z-x", "", "interrupted")]


def test_a_run_that_a_process_writes_is_running_whatever_it_came_to_before_and_then_it_is_not(tmp_path):
    place = folder(tmp_path, "anything")
    write_result(RESULT, place / "result.json")
    lock = Lock(place / "trace.jsonl")
    assert list_runs(tmp_path)[0].outcome == "running"
    lock.close()
    assert list_runs(tmp_path)[0].outcome == "solved"


def test_a_dead_processs_lock_file_does_not_mean_running(tmp_path):
    place = folder(tmp_path, "anything")
    for left in (b"", b"garbage", b'{"pid":1,"started":1,"boot":"x"}', msgspec.json.encode(_self())):
        (place / "trace.lock").write_bytes(left)
        assert list_runs(tmp_path)[0].outcome == "interrupted"


def test_only_folders_with_a_trace_are_runs_and_the_oldest_is_first(tmp_path):
    for name in ("20261120T150000Z-b", "20261119T150000Z-a"):
        folder(tmp_path, name)
    (tmp_path / "notes").mkdir()
    (tmp_path / "file").write_text("x")
    assert [row.run for row in list_runs(tmp_path)] == ["20261119T150000Z-a", "20261120T150000Z-b"]


def test_an_undecodable_name_is_shown_as_text(tmp_path):
    folder(tmp_path, "caf\udce9")
    assert msgspec.json.decode(msgspec.json.encode(list_runs(tmp_path)))[0]["run"] == r"caf\xe9"


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match="--runs-dir"):
        list_runs(tmp_path / "gone")


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("outcome=solved", "a"), ("outcome!=solved", "bc"), ("outcome=*SOLVED", "ab"), ("task=calc*", "ab"),
        ("steps>3", "a"), ("steps>=3", "ab"), ("steps<14", "b"), ("steps<=14", "ab"), ("steps=3", "b"),
        ("steps!=3", "ac"), ("tokens>1_000", "b"), ("cost_usd<0.50", "a"), (" steps > 3 ", "a"), ("task=", "c"),
        ("task=[c", ""), ("run=?", "abc"), ("model=demo", "ab"), ("wall_seconds>1e0", "ab"), ("cost_usd<nan", ""),
    ],
)  # fmt: skip
def test_a_condition_picks_the_runs_that_fulfil_it(condition, found):
    assert "".join(names(condition)) == found


def test_all_conditions_must_hold():
    assert names("outcome=*solved", "steps>3") == ["a"]


@pytest.mark.parametrize(
    ("order", "found"),
    [("run", "abc"), ("-run", "cba"), ("-started", "cba"), ("tokens", "abc"), ("-tokens", "bac"), ("cost_usd", "abc"),
     ("-cost_usd", "abc"), ("wall_seconds", "bac"), ("task", "bac")],
)  # fmt: skip
def test_runs_are_sorted_and_what_is_not_known_comes_last(order, found):
    assert "".join(names(order=order)) == found


def test_every_field_sorts():
    for field in FIELDS:
        assert sorted(names(order=field)) == ["a", "b", "c"]


def test_equal_values_are_sorted_by_the_run_in_the_same_direction():
    rows = [replace(ROWS[0], run=name) for name in "bca"]
    assert [row.run for row in choose_runs(rows, (), "-steps", None)] == ["c", "b", "a"]


def test_a_limit_keeps_the_first():
    assert names(order="-run", limit=2) == ["c", "b"]
    assert names(limit=99) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("conditions", "order", "limit", "says"),
    [
        (["solved"], "run", None, "FIELD=PATTERN"), (["colour=red"], "run", None, "known: run, started"),
        (["steps>many"], "run", None, "not a number"), (["outcome>3"], "run", None, "outcome=PATTERN"),
        ([""], "run", None, "FIELD=PATTERN"), ([], "colour", None, "known: run"), ([], "--run", None, "known: run"),
        ([], "", None, "known: run"), ([], "run", 0, "1 or more"), ([], "run", -3, "1 or more"),
    ],
)  # fmt: skip
def test_an_invalid_filter_is_refused_with_the_valid_ones(conditions, order, limit, says):
    with pytest.raises(UsageError, match=says):
        choose_runs(ROWS, conditions, order, limit)
