"""A growing trace is read once: each record arrives when its line is complete."""

import pytest

from stackmem.core.errors import TraceError
from stackmem.review.report.tail import RunTail
from stackmem.trace.lineage import RunReader
from tests.review.report import runs


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    folder = runs.long_run(tmp_path_factory.mktemp("tail") / "run", 20)
    return (folder / "trace.jsonl").read_bytes().splitlines(keepends=True)


def test_each_record_comes_once_however_its_line_was_cut(lines, tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(b"".join(lines[:3]) + lines[3][:10])
    tail = RunTail(tmp_path)
    assert (tail.read_bytes, tail.torn_bytes) == (0, 0)
    found = list(tail.fresh())
    assert (len(found), tail.torn_bytes) == (3, 10)
    assert list(tail.fresh()) == []
    trace.write_bytes(b"".join(lines[:6]) + lines[6][:-1])
    found += tail.fresh()
    assert (len(found), tail.torn_bytes) == (6, len(lines[6]) - 1)
    trace.write_bytes(b"".join(lines))
    found += tail.fresh()
    assert found == list(RunReader(tmp_path))


def test_a_last_line_that_is_whole_but_for_its_newline_comes_once(lines, tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(b"".join(lines[:3])[:-1])
    tail = RunTail(tmp_path)
    assert len(list(tail.fresh())) == 3
    trace.write_bytes(b"".join(lines[:5]))
    assert [record.seq for record in tail.fresh()] == [4, 5]


def test_a_file_that_became_another_is_refused(lines, tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(b"".join(lines[:8]))
    tail = RunTail(tmp_path)
    assert len(list(tail.fresh())) == 8
    trace.write_bytes(b"".join(lines[:4]))
    with pytest.raises(TraceError, match="shorter than it was"):
        list(tail.fresh())
    trace.write_bytes(b"".join(lines[:8]) + lines[9])
    with pytest.raises(TraceError, match="line 9 is broken"):
        list(tail.fresh())
