"""A full disk produces one sentence and the right exit code, and loses no earlier data."""

import os
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from stackmem import TraceError, UsageError, WorkspaceError, replay
from stackmem.core.facts import Event
from stackmem.core.state import State
from stackmem.review.kept.pack import unpack
from stackmem.run.companion.find import find_run
from stackmem.run.result import read_result
from stackmem.trace.store import RESERVE_BYTES, TraceWriter
from stackmem.workspace.tree import remove_tree
from tests.run.killed import resumed, told
from tests.stage import Stage, call, command, pop

LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
del sys.argv[1]
from stackmem.cli.main import main
main()
"""


def limited(stage: Stage, most_bytes: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the program with a limit on the size of files."""
    return subprocess.run(
        [sys.executable, "-c", LIMITED, str(most_bytes), *map(str, arguments)], cwd=stage.elsewhere,
        env=stage.environ(), capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


def test_a_trace_that_cannot_grow_ends_the_run_with_7_and_replays_up_to_there(stage: Stage):
    stage.solve(stage.task(pop(), name="first"))  # the sandbox's Python is built without the file size limit
    chatty = [call("write_file", path="made", content="x" * 30_000) for number in range(8)]
    ran = limited(stage, 200_000, "solve", stage.task(*chatty, pop()), "--model", "demo", "--json", "--quiet")
    assert ran.returncode == 7, ran.stderr
    assert ran.stderr.count("\n") == 1
    assert "cannot be written" in ran.stderr
    assert "records are intact" in ran.stderr
    assert ran.stdout.startswith('{"outcome": "error"')
    found = replay(find_run("last", stage.runs))
    assert found.outcome == "interrupted"
    assert 0 < found.steps < 9
    assert found.torn_bytes == 0


def mounted(place: Path, size: str) -> None:
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], check=True, capture_output=True)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk to fill")


@pytest.fixture
def small_disk(stage: Stage):
    place = stage.root / "disk"
    try:
        mounted(place, "3m")
    except subprocess.CalledProcessError:
        pytest.skip("root may not mount here (as in a container)")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@needs_root
def test_a_full_disk_in_mid_run_is_reported_and_earlier_records_are_complete(stage: Stage, small_disk: Path):
    def fill(event, state) -> None:
        if state.step == 3 and not (small_disk / "filler").exists():
            left = os.statvfs(small_disk)
            (small_disk / "filler").write_bytes(b"x" * (left.f_bavail * left.f_frsize))

    task = stage.task(*[call("heap_alloc", name=f"c{number}", content="x" * 900) for number in range(9)], pop())
    result = stage.solve(task, runs_dir=str(small_disk), observe=fill)
    assert (result.ending, result.exit_code) == ("workspace_error", 5)
    assert result.failure.endswith("is full; free disk space, then continue with stackmem resume")
    run = Path(result.run_dir)
    assert read_result(run / "result.json") == result
    assert replay(run).steps == result.steps >= 3
    with pytest.raises(TraceError, match="has no space for the end of a run"):
        resumed(run)
    (small_disk / "filler").unlink()
    assert resumed(run).result.outcome == "solved"


@needs_root
def test_a_patch_that_cannot_be_written_takes_no_result_away_and_resume_makes_it(stage: Stage, small_disk: Path):
    def fill(event, state) -> None:
        if state.checks is not None:
            left = os.statvfs(small_disk)
            with (small_disk / "filler").open("ab") as filler:
                filler.write(b"x" * (left.f_bavail * left.f_frsize))

    with pytest.raises(WorkspaceError, match="its result is saved, but its patch cannot be written"):
        stage.solve(stage.task(command("echo made > made"), pop()), runs_dir=str(small_disk), observe=fill)
    (run,) = (path for path in small_disk.iterdir() if path.is_dir())
    assert replay(run).outcome == read_result(run / "result.json").outcome == "solved"
    (small_disk / "filler").unlink()
    assert resumed(run).missing == ("changes.patch",)
    assert "+made" in (run / "changes.patch").read_text("utf-8")
    assert read_result(run / "result.json").changed == ("made",)
    assert resumed(run).result is None


@pytest.mark.parametrize("ends", [{}, {"max_steps": 2}], ids=["popped", "by a limit"])
def test_an_end_that_could_not_be_written_is_made_by_resume_without_a_sandbox(stage: Stage, ends: dict[str, int]):
    def block(event: Event, state: State) -> None:
        if state.checks is not None:
            (stage.only_run() / "result.json.new").mkdir()

    task = stage.task(command("echo made > made"), command("true"), pop())
    with pytest.raises(TraceError, match=r"its trace is complete, .* and stackmem resume \S+ writes it"):
        stage.solve(task, observe=block, **ends)
    run = stage.only_run()
    (run / "result.json.new").rmdir()
    remove_tree(stage.work)
    before = (run / "trace.jsonl").read_bytes()
    ran = stage.call("resume", run.name)
    assert (ran.returncode, ran.stderr) == (0, f"completed the end of {run.name}: changes.patch, result.json\n")
    assert read_result(run / "result.json").changed == ("made",)
    assert (run / "trace.jsonl").read_bytes() == before
    assert replay(run).outcome == read_result(run / "result.json").outcome


def test_a_result_of_an_earlier_end_is_none_of_this_one(stage: Stage):
    run = Path(stage.solve(stage.task(command("echo made > made"), pop()), max_steps=1).run_dir)
    earlier = (run / "result.json").read_bytes()
    whole = resumed(run, max_steps="+5").result
    (run / "result.json").write_bytes(earlier)  # killed after the last record
    assert told(resumed(run).result) == told(whole)


def test_room_that_is_set_aside_is_never_left_over(tmp_path: Path):
    def reserves() -> set[tuple[int, int]]:
        """Return this process's reserve files by device and inode; other threads open and close files meanwhile."""
        found = set()
        for fd in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                one = fd.stat()
                if one.st_size == RESERVE_BYTES and one.st_nlink == 0:
                    found.add((one.st_dev, one.st_ino))
        return found

    before = reserves()
    writer = TraceWriter(tmp_path / "trace.jsonl", reserves=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace.jsonl", "trace.lock"]
    (reserve,) = reserves() - before
    writer.close()
    assert reserve not in reserves()


@needs_root
def test_a_workspace_that_does_not_fit_leaves_nothing_behind(stage: Stage, small_disk: Path):
    task = stage.task(pop(), files={"large": "x" * 4_000_000})
    with pytest.raises(WorkspaceError, match="free disk space"):
        stage.solve(task, sandbox_dir=str(small_disk))
    assert stage.left_behind() == []
    assert list(small_disk.iterdir()) == []


@needs_root
def test_runs_that_have_no_room_to_begin_are_refused_at_the_start(stage: Stage, small_disk: Path):
    left = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(b"x" * (left.f_bavail * left.f_frsize))
    with pytest.raises(UsageError, match=r"cannot be written to \(No space left on device\); use --runs-dir"):
        stage.solve(stage.task(pop()), runs_dir=str(small_disk))
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_a_check_that_fills_the_folder_it_may_write_is_no_verdict_but_no_crash(stage: Stage):
    task = stage.task(pop(), test='rm -rf "$VERIFIER_DIR"/*; ln -s /etc/passwd "$VERIFIER_DIR/reward.txt"\n')
    result = stage.solve(task)
    assert (result.outcome, result.exit_code) == ("unsolved", 1)
    assert "reward.txt cannot be read" in result.check_error


@needs_root
def test_a_pack_that_does_not_fit_is_refused_before_it_is_unpacked(tmp_path: Path, small_disk: Path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as opened:
        opened.writestr("x/trace.jsonl", b"x" * 4_000_000)
    with pytest.raises(UsageError, match=r"would unpack to 4,000,000 bytes, and .* has .* free; free disk space there"):
        unpack(tmp_path / "x.zip", small_disk / "far")
    assert list(small_disk.iterdir()) == []
