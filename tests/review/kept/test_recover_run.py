"""If the file layer fails, damage is named, valid records are saved, and no false record is accepted."""

import subprocess
import sys

import pytest

from stackmem.core.errors import TraceError, UsageError
from stackmem.core.facts import ChunkAllocated, ClockRead, ToolReturned
from stackmem.review.kept.recover import recover
from stackmem.trace.store import TraceReader, TraceWriter
from tests.stage import ROOT


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.jsonl"


@pytest.fixture
def lines(path):
    writer = TraceWriter(path, now=lambda: 1_000.5)
    for number in range(6):
        writer.append(ToolReturned("text\n\u2028é" * number, digests={"a": "b"}))
        writer.append(ChunkAllocated("name", number))
        writer.append(ClockRead(float(number)))
    writer.close()
    return path.read_bytes().splitlines(keepends=True)


def read(path) -> list:
    return [record.event for record in TraceReader(path)]


def test_a_flipped_bit_in_any_record_is_named_and_all_before_it_saved(path, lines, tmp_path):
    events = read(path)
    for number, line in enumerate(lines):
        for at in range(0, len(line), 7):
            for bit in (0, 3, 6):
                flipped = bytearray(line)
                flipped[at] ^= 1 << bit
                path.write_bytes(b"".join([*lines[:number], flipped, *lines[number + 1 :]]))
                target = tmp_path / "saved"
                if number == 0:
                    with pytest.raises(TraceError, match="line 1 "):
                        read(path)
                    continue
                saved = recover(path, target)
                assert read(target) == events[: saved.lines]
                assert saved.lines == number
                assert f"line {number + 1} " in saved.reason
                target.unlink()


def test_the_last_record_torn_at_every_length_is_told_and_never_half_believed(path, lines, tmp_path):
    events = read(path)
    whole = b"".join(lines[:-1])
    for length in range(1, len(lines[-1]) - 1):
        path.write_bytes(whole + lines[-1][:length])
        assert read(path) == events[:-1]
        saved = recover(path, tmp_path / f"saved-{length}")
        assert (saved.lines, saved.lost_bytes) == (len(lines) - 1, length)
        assert (tmp_path / f"saved-{length}").read_bytes() == whole


@pytest.mark.parametrize("end", [b" ", b"\r", b"\x0b", b'{"seq":7'])
def test_a_whole_record_with_a_wrong_line_end_is_an_error_and_not_torn(path, lines, tmp_path, end):
    path.write_bytes(b"".join(lines)[:-1] + end)
    with pytest.raises(TraceError, match=f"line {len(lines)} "):
        read(path)
    assert recover(path, tmp_path / "saved").lines == len(lines) - 1


@pytest.mark.parametrize("end", [b"\0", b"\0" * 600])
def test_zeros_in_place_of_the_line_end_are_what_a_power_cut_leaves(path, lines, tmp_path, end):
    events = read(path)
    path.write_bytes(b"".join(lines)[:-1] + end)
    assert read(path) == events[:-1]
    assert recover(path, tmp_path / "saved").lines == len(lines) - 1


def test_a_whole_trace_needs_no_recovery(path, lines, tmp_path):
    with pytest.raises(UsageError, match="is intact"):
        recover(path, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize("garbage", [b"", b"\n", b"nothing\n", b"\0" * 5000, b"\xff\n\xfe"])
def test_without_valid_records_nothing_is_saved(path, tmp_path, garbage):
    path.write_bytes(garbage)
    with pytest.raises(TraceError):
        recover(path, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_a_target_that_is_there_is_not_written_over(path, lines, tmp_path):
    path.write_bytes(b"".join(lines) + b"broken\n")
    (tmp_path / "saved").write_text("mine")
    with pytest.raises(TraceError, match="cannot be saved"):
        recover(path, tmp_path / "saved")
    assert (tmp_path / "saved").read_text() == "mine"


FAILING = """
import os, sys
from pathlib import Path
from stackmem.core.facts import ClockRead
from stackmem.core.errors import TraceError
from stackmem.trace.store import TraceWriter
writer = TraceWriter(Path(sys.argv[1]))
for number in range(3):
    writer.append(ClockRead(float(number)))
failing = os.open(sys.argv[2], os.O_WRONLY)
os.dup2(failing, writer._file)
for attempt in (lambda: writer.append(ClockRead(9.0)), writer.sync):
    try:
        attempt()
    except TraceError as error:
        print(writer.count, error)
"""


@pytest.mark.parametrize(
    ("device", "says"),
    [("/dev/full", "No space left on device"), ("/proc/self/mem", "Input/output error")],
    ids=["full", "EIO"],
)
def test_a_device_that_refuses_a_write_is_one_sentence_and_no_record(path, device, says):
    ran = subprocess.run(
        [sys.executable, "-c", FAILING, path, device], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert f"3 the trace {path} cannot be written ({says}); its first 3 records are intact" in ran.stdout
    assert ran.stderr == ""
    assert [event.elapsed_seconds for event in read(path)] == [0.0, 1.0, 2.0]


def test_a_trace_that_cannot_be_read_any_more_is_one_sentence(path):
    path.mkdir()
    with pytest.raises(TraceError, match="cannot be read"):
        read(path)
