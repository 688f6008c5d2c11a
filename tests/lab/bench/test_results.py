"""Tests for the SQLite file of a bench."""

import sqlite3

import pytest

from stackmem.core.errors import TraceError
from stackmem.lab.bench.results import RESULTS, columns, read_results, read_suite, write_results
from stackmem.review.measure.metrics import METRICS

ROWS = [
    {
        "id": "b",
        "model": "m",
        "strategy": "full",
        "outcome": "solved",
        "solved": 1,
        "steps": 10,
        "settings": {"depth": 2},
    },
    {"id": "a", "model": "m", "strategy": "full", "outcome": "unsolved", "solved": 0, "steps": 20},
    {
        "id": "c",
        "model": "m",
        "strategy": "full",
        "outcome": "error",
        "error": "no\nroom'; DROP TABLE trials",
        "steps": 999,
    },
]


def test_rows_come_back_under_their_columns_in_the_order_of_their_names(tmp_path):
    write_results(tmp_path, ROWS, {"command": "stackmem bench"})
    found = read_results(tmp_path)
    assert [row["id"] for row in found] == ["a", "b", "c"]
    assert list(found[0]) == list(columns())
    assert (found[1]["settings"], found[2]["error"], found[0]["horizon"]) == ('{"depth": 2}', ROWS[2]["error"], None)
    assert read_suite(tmp_path) == {"command": "stackmem bench"}


def test_every_metric_is_a_column():
    assert set(METRICS) < set(columns())


def test_an_error_is_counted_but_not_averaged(tmp_path):
    write_results(tmp_path, ROWS, {})
    with sqlite3.connect(tmp_path / RESULTS) as database:
        (found,) = database.execute("SELECT trials, errors, solved, steps FROM means").fetchall()
    assert found == (3, 1, 0.5, 15)


def test_results_are_rebuilt_each_time(tmp_path):
    write_results(tmp_path, ROWS, {})
    write_results(tmp_path, ROWS[:1], {})
    assert len(read_results(tmp_path)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [RESULTS]


def test_a_bench_without_rows_has_an_empty_table(tmp_path):
    write_results(tmp_path, [], {})
    assert read_results(tmp_path) == []


@pytest.mark.parametrize("content", [None, b"this is no database, and longer than a hundred bytes" * 4])
def test_a_file_that_is_none_is_one_sentence(tmp_path, content):
    if content is not None:
        (tmp_path / RESULTS).write_bytes(content)
    for read in (read_results, read_suite):
        with pytest.raises(TraceError, match="stackmem bench -o"):
            read(tmp_path)


def test_a_folder_with_an_odd_name_is_opened_correctly(tmp_path):
    odd = tmp_path / "what?mode=rwc#100%"
    odd.mkdir()
    write_results(odd, ROWS, {})
    assert len(read_results(odd)) == 3
