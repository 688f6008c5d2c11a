"""Only one process writes a run at a time, and a dead process releases its lock."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from stackmem.core.errors import TraceError
from stackmem.core.facts import ClockRead, FramePopped
from stackmem.trace.lock import Lock, is_held
from stackmem.trace.store import End, TraceReader, TraceWriter
from tests.stage import ROOT

HOLD = """
import sys
from pathlib import Path
from stackmem.trace.lock import Lock
lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.jsonl"


@pytest.fixture
def holder(path):
    """Another process that has the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_living_process_is_named_by_its_id_and_not_waited_for(path, holder, monkeypatch):
    monkeypatch.setattr("stackmem.trace.lock.time.sleep", lambda _: pytest.fail("the lock attempt must not wait"))
    with pytest.raises(TraceError, match=f"process {holder.pid} is writing the run {path.parent.name}"):
        Lock(path)
    with pytest.raises(TraceError, match=f"process {holder.pid}"):
        TraceWriter(path)
    assert not path.exists()


def test_a_process_that_was_killed_holds_nothing(path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert path.with_suffix(".lock").exists()
    Lock(path).close()
    assert not path.with_suffix(".lock").exists()


def test_a_process_that_ended_holds_nothing(path, holder):
    holder.communicate("")
    Lock(path).close()


ORPHAN = HOLD.replace(
    "sys.stdin.read()",
    """
import os, signal, time
if os.fork() == 0:
    os.set_inheritable(1, False)
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
""",
)


def test_a_child_that_outlives_its_killed_parent_for_a_moment_is_waited_for(path):
    command = [sys.executable, "-c", ORPHAN, path]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.wait(100) == -signal.SIGKILL
    let_go = threading.Timer(0.7, process.stdin.close)
    let_go.start()
    Lock(path).close()
    assert process.stdin.closed  # held until then, or else this test would prove nothing
    let_go.join()
    process.stdout.close()


def test_two_writers_in_one_process_are_two(path):
    lock = Lock(path)
    with pytest.raises(TraceError, match=f"process {os.getpid()}"):
        Lock(path)
    lock.close()
    lock.close()
    Lock(path).close()


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b'{"pid":"x"}', b"\0" * 5000, b'{"pid":1,"started":1,"boot":"b"}']
)
def test_an_unheld_lock_file_is_overwritten(path, content):
    path.with_suffix(".lock").write_bytes(content)
    lock = Lock(path)
    assert f'"pid":{os.getpid()}' in path.with_suffix(".lock").read_text()
    lock.close()


def test_a_lock_file_that_is_a_link_is_not_followed(path, tmp_path):
    (tmp_path / "mine").write_text("precious")
    path.with_suffix(".lock").symlink_to(tmp_path / "mine")
    with pytest.raises(TraceError, match="cannot be created"):
        Lock(path)
    assert (tmp_path / "mine").read_text() == "precious"


def test_of_many_at_once_one_has_it(path):
    had, together, most = [], 0, 0
    counted = threading.Lock()

    def take():
        nonlocal together, most
        for _ in range(60):
            try:
                lock = Lock(path)
            except TraceError:
                continue
            with counted:
                together += 1
                most = max(most, together)
                had.append(1)
            with counted:
                together -= 1
            lock.close()

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert len(had) > 6


def test_a_writer_that_goes_on_cuts_what_is_torn_and_continues_the_chain(path):
    writer = TraceWriter(path)
    writer.append(ClockRead(1.0))
    writer.append(ClockRead(2.0))
    end = End(writer.count, writer.digest, path.stat().st_size)
    writer.close()
    with path.open("ab") as trace:
        trace.write(b'{"seq":3')
    again = TraceWriter(path, resume_from=(Lock(path), end))
    again.append(ClockRead(3.0))
    again.close()
    assert [record.event.elapsed_seconds for record in TraceReader(path)] == [1.0, 2.0, 3.0]
    assert not path.with_suffix(".lock").exists()


def test_a_record_without_its_line_end_is_given_one(path):
    writer = TraceWriter(path)
    writer.append(ClockRead(1.0))
    writer.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    again = TraceWriter(path, resume_from=(Lock(path), End(1, writer.digest, len(whole) - 1, terminated=False)))
    again.append(ClockRead(2.0))
    again.close()
    assert path.read_bytes().startswith(whole)
    assert len(list(TraceReader(path))) == 2


def test_a_trace_that_went_away_gives_the_lock_back(path):
    with pytest.raises(TraceError, match="cannot be written"):
        TraceWriter(path, resume_from=(Lock(path), End(1, "", 10)))
    Lock(path).close()


def test_frames_decide_when_the_trace_is_forced_to_the_disk(path):
    writer = TraceWriter(path)
    sync = writer.syncs("frame")
    writer.append(ClockRead(1.0))
    sync()
    assert writer.synced == 0
    writer.append(FramePopped("frame-1", "Done."))
    sync()
    assert writer.synced == 2
    writer.append(ClockRead(2.0))
    writer.syncs("none")()
    sync()
    assert writer.synced == 2
    writer.syncs("step")()
    assert writer.synced == 3
    writer.close()


def test_who_only_looks_takes_nothing_and_keeps_no_writer_out(path):
    looking = threading.Event()

    def look() -> None:
        while not looking.is_set():
            is_held(path)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(200):
            lock = Lock(path)
            assert is_held(path)
            lock.close()
    finally:
        looking.set()
        for thread in threads:
            thread.join()
    assert not is_held(path)


def test_a_lock_is_held_as_long_as_its_process_lives(path, holder):
    assert is_held(path)
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert not is_held(path)
    assert path.with_suffix(".lock").exists()
