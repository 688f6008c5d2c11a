"""The trace file: complete records, a named error for every broken line, and a reported torn end."""

import signal
import subprocess
import sys
import tracemalloc

import pytest

from stackmem.core.errors import TraceError
from stackmem.core.facts import ClockRead, ToolReturned
from stackmem.trace.store import TraceReader, TraceWriter
from tests.stage import ROOT


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.jsonl"


def written(path, count=5):
    writer = TraceWriter(path, now=lambda: 1_000.5)
    for number in range(count):
        writer.append(ClockRead(float(number)))
    writer.close()
    return path.read_bytes().splitlines(keepends=True)


def refusal(path) -> str:
    with pytest.raises(TraceError) as raised:
        list(TraceReader(path))
    return str(raised.value)


def test_what_was_appended_is_read_in_order_with_the_last_digest(path):
    writer = TraceWriter(path)
    appended = [writer.append(ClockRead(float(number))) for number in range(3)]
    writer.sync()
    writer.sync()
    reader = TraceReader(path)
    assert list(reader) == appended
    assert (reader.digest, reader.torn_bytes, writer.count) == (writer.digest, 0, 3)
    writer.close()
    writer.close()


def test_a_record_is_in_the_file_as_soon_as_it_is_appended(path):
    writer = TraceWriter(path)
    for number in range(1, 4):
        writer.append(ClockRead(0.0))
        assert len(list(TraceReader(path))) == number
    writer.close()


def test_a_trace_is_never_written_over(path):
    written(path)
    before = path.read_bytes()
    with pytest.raises(TraceError, match="cannot be created"):
        TraceWriter(path)
    assert path.read_bytes() == before


def test_a_trace_in_a_folder_that_is_gone_is_refused_with_the_way_out(path):
    with pytest.raises(TraceError, match="choose another --runs-dir"):
        TraceWriter(path.parent / "gone" / "trace.jsonl")


@pytest.mark.parametrize("number", range(5))
def test_a_flipped_byte_is_found_in_its_line(path, number):
    lines = written(path)
    for at in range(len(lines[number]) - 1):  # a missing line end is tested below
        flipped = bytearray(lines[number])
        flipped[at] ^= 1
        if flipped[at] == 10:
            continue
        path.write_bytes(b"".join([*lines[:number], flipped, *lines[number + 1 :]]))
        assert f"line {number + 1} " in refusal(path)


def test_a_line_end_that_is_gone_joins_two_lines_and_breaks_the_first(path):
    lines = written(path)
    path.write_bytes(lines[0] + lines[1][:-1] + b" " + b"".join(lines[2:]))
    assert "line 2 is broken" in refusal(path)


@pytest.mark.parametrize(
    ("order", "broken"),
    [([0, 1, 1, 2, 3, 4], 3), ([0, 1, 3, 4], 3), ([1, 2, 3, 4], 1), ([0, 2, 1, 3, 4], 2), ([0, 1, 2, 4, 3], 4)],
    ids=["doubled", "missing", "first missing", "swapped", "last two swapped"],
)
def test_a_line_doubled_missing_or_moved_is_found(path, order, broken):
    lines = written(path)
    path.write_bytes(b"".join(lines[number] for number in order))
    assert f"line {broken} is broken" in refusal(path)


def test_every_cut_of_the_last_line_counts_as_torn_not_as_an_error(path):
    lines = written(path, 3)
    whole = b"".join(lines[:2])
    for length in range(1, len(lines[2]) - 1):
        path.write_bytes(whole + lines[2][:length])
        reader = TraceReader(path)
        assert len(list(reader)) == 2
        assert reader.torn_bytes == length
    path.write_bytes(whole + lines[2][:-1])  # only the line end is missing; the record itself is complete
    reader = TraceReader(path)
    assert len(list(reader)) == 3
    assert reader.torn_bytes == 0


def test_a_cut_line_that_others_follow_is_broken_not_torn(path):
    lines = written(path)
    path.write_bytes(b"".join([*lines[:2], lines[2][:40] + b"\n", *lines[3:]]))
    assert "line 3 " in refusal(path)


def test_an_empty_trace_differs_from_a_missing_one(path):
    assert "cannot be read: No such file" in refusal(path)
    path.touch()
    assert "never began and has no records" in refusal(path)


@pytest.mark.parametrize("garbage", [b"\n", b"\n\n\n", b"garbage\n", b"\0" * 4096 + b"\n", b"{}\n", b"\x80\xff\n"])
def test_garbage_is_broken_in_its_first_line(path, garbage):
    path.write_bytes(garbage)
    assert "line 1 " in refusal(path)


def test_a_line_that_no_record_can_be_is_named_by_its_number(path, monkeypatch):
    lines = written(path)
    monkeypatch.setattr("stackmem.trace.store.LONGEST_BYTES", max(map(len, lines)) + 1)
    path.write_bytes(b"".join(lines) + b"x" * 2_000 + b"\n")
    assert "line 6 of the file is longer than any record" in refusal(path)


def test_a_last_line_of_zeros_as_a_power_loss_leaves_them_is_torn(path):
    lines = written(path, 2)
    path.write_bytes(b"".join(lines) + b"\0" * 700)
    reader = TraceReader(path)
    assert len(list(reader)) == 2
    assert reader.torn_bytes == 700


FULL = """
import resource, signal, sys
from pathlib import Path
from stackmem.core.facts import ToolReturned
from stackmem.core.errors import TraceError
from stackmem.trace.store import TraceWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
writer = TraceWriter(Path(sys.argv[1]))
try:
    while True:
        writer.append(ToolReturned("x" * 700))
except TraceError as error:
    print(writer.count, error)
"""


def test_a_disk_that_takes_only_a_part_of_a_record_leaves_the_records_before_it_whole(path):
    ran = subprocess.run([sys.executable, "-c", FULL, path], cwd=ROOT, capture_output=True, text=True, check=True)
    count = int(ran.stdout.split()[0])
    assert f"its first {count} records are intact" in ran.stdout
    reader = TraceReader(path)
    assert len(list(reader)) == count == 5
    assert reader.torn_bytes == 0
    assert path.read_bytes().endswith(b"\n")


def test_a_killed_writer_leaves_every_record_it_had_appended(path):
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom stackmem.core.facts import ClockRead\n"
        "from stackmem.trace.store import TraceWriter\nwriter = TraceWriter(Path(sys.argv[1]))\n"
        "for number in range(200): writer.append(ClockRead(float(number)))\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    ran = subprocess.run([sys.executable, "-c", code, path], cwd=ROOT, check=False)
    assert ran.returncode == -signal.SIGKILL
    assert len(list(TraceReader(path))) == 200


def test_a_trace_larger_than_memory_is_read_lazily(path):
    writer = TraceWriter(path)
    for _ in range(60):
        writer.append(ToolReturned("x" * 1_000_000))
    writer.close()
    tracemalloc.start()
    try:
        assert sum(1 for _ in TraceReader(path)) == 60
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
