"""A fork's history is its parent's up to the cut, then its own; changes or losses are reported."""

from pathlib import Path

import pytest

from stackmem import TraceError
from stackmem.core.facts import ClockRead, RunForked
from stackmem.trace.lineage import RunReader
from stackmem.trace.store import TraceWriter
from tests.build import started


def run(runs: Path, name: str, count: int = 4) -> Path:
    folder = runs / name
    folder.mkdir()
    writer = TraceWriter(folder / "trace.jsonl", now=lambda: 0.0)
    writer.append(started())
    for number in range(1, count):
        writer.append(ClockRead(float(number)))
    writer.close()
    return folder


def forked(parent: Path, at: int, name: str, *, named: str = "") -> Path:
    reader, digest = RunReader(parent), ""
    for record in reader:
        if record.seq == at:
            digest = reader.digest
            break
    folder = parent.parent / name
    folder.mkdir()
    writer = TraceWriter(folder / "trace.jsonl", now=lambda: 0.0, after=at, digest=digest)
    writer.append(RunForked(named or parent.name, at, digest, started()))
    writer.append(ClockRead(100.0))
    writer.close()
    return folder


def seconds(folder: Path) -> list[float]:
    reader = RunReader(folder)
    records = list(reader)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert reader.digest
    return [record.event.elapsed_seconds for record in records if isinstance(record.event, ClockRead)]


def test_a_forks_history_is_its_parents_up_to_the_cut_then_its_own(tmp_path):
    assert seconds(forked(run(tmp_path, "a"), 2, "b")) == [1.0, 100.0]


@pytest.mark.parametrize(("at", "told"), [(1, [100.0]), (2, [1.0, 100.0]), (3, [1.0, 100.0]), (4, [1.0, 100.0, 100.0])])
def test_a_fork_of_a_fork_may_be_cut_anywhere_in_the_history_it_shares(tmp_path, at, told):
    middle = forked(run(tmp_path, "a"), 2, "b")
    assert seconds(forked(middle, at, "c")) == told


def test_the_digest_of_a_shared_record_is_known_while_it_is_read(tmp_path):
    parent = run(tmp_path, "a")
    child = forked(parent, 3, "b")
    told = [reader.digest for reader in [RunReader(parent)] for _ in reader]
    shared = [reader.digest for reader in [RunReader(child)] for _ in reader]
    assert shared[:3] == told[:3]
    assert len(set(shared)) == 5


def test_the_lines_up_to_the_cut_and_the_forks_own_are_one_whole_trace(tmp_path):
    parent = run(tmp_path, "a")
    child = forked(parent, 2, "b")
    alone = tmp_path / "elsewhere" / "b"
    alone.mkdir(parents=True)
    shared = (parent / "trace.jsonl").read_bytes().splitlines(keepends=True)[:2]
    (alone / "trace.jsonl").write_bytes(b"".join(shared) + (child / "trace.jsonl").read_bytes())
    assert list(RunReader(alone)) == list(RunReader(child))


def test_a_missing_parent_is_named(tmp_path):
    parent = run(tmp_path, "a")
    child = forked(parent, 2, "b")
    parent.rename(tmp_path / "moved")
    with pytest.raises(TraceError, match="forked from a, which is not in"):
        list(RunReader(child))


def test_a_parent_that_has_changed_is_named(tmp_path):
    parent = run(tmp_path, "a")
    child = forked(parent, 3, "b")
    (parent / "trace.jsonl").unlink()
    writer = TraceWriter(parent / "trace.jsonl", now=lambda: 1.0)
    for _ in range(4):
        writer.append(started())
    with pytest.raises(TraceError, match="forked from a at record 3, which has changed"):
        list(RunReader(child))


def test_a_parent_that_has_lost_records_is_named(tmp_path):
    parent = run(tmp_path, "a")
    child = forked(parent, 4, "b")
    lines = (parent / "trace.jsonl").read_bytes().splitlines(keepends=True)
    (parent / "trace.jsonl").write_bytes(b"".join(lines[:3]))
    with pytest.raises(TraceError, match="at record 4, which has changed"):
        list(RunReader(child))


@pytest.mark.parametrize("named", ["../a", ".", "..", "a/../a", "a\0b", "x" * 300])
def test_a_parent_is_a_name_in_the_same_folder_and_nothing_else(tmp_path, named):
    child = forked(run(tmp_path, "a"), 2, "b", named=named)
    with pytest.raises(TraceError, match="which is not in"):
        list(RunReader(child))


def test_a_run_that_is_its_own_parent_is_refused(tmp_path):
    child = forked(run(tmp_path, "a"), 2, "b", named="b")
    with pytest.raises(TraceError, match="generations"):
        list(RunReader(child))


def test_a_torn_end_of_the_forks_own_file_is_reported(tmp_path):
    child = forked(run(tmp_path, "a"), 2, "b")
    with (child / "trace.jsonl").open("ab") as file:
        file.write(b'{"seq"')
    reader = RunReader(child)
    assert (len(list(reader)), reader.torn_bytes) == (4, 6)
