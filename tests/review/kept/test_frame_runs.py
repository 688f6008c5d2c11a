"""The runs of parallel frames belong to their parent's run: lists, searches, removal and figures keep them together."""

import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from stackmem import TraceError, UsageError, replay
from stackmem.review.kept.pack import pack, unpack
from stackmem.review.kept.removal import prune, remove_run
from stackmem.review.kept.run_list import find_runs
from stackmem.run.companion.find import find_run, newest_session
from stackmem.run.fork import ForkChanges, fork
from stackmem.run.run_folder import frame_parent
from stackmem.trace.open_run import Run
from tests.groups import group_script, together
from tests.run.people import Scripted, talk
from tests.stage import Stage, call, mounted, pop


def played(stage: Stage, requests: int = 1) -> Path:
    """Play a conversation whose two frames are in conflict, and return its run."""
    frames = {name: [call("write_file", path="a.txt", content=name), pop(f"Did {name}.")] for name in "ab"}
    script = group_script(stage, [together("a", "b"), pop("Done.")], frames)
    person = Scripted(*["Do it."] * requests)
    return Path(talk(stage, person, script, strategy="stackheap", parallel_frames="2").run_dir)


@mounted
def test_a_name_finds_the_run_and_not_its_frames(stage: Stage):
    run = played(stage)
    frames = sorted(path for path in stage.runs.iterdir() if path != run)
    assert [frame_parent(path.name) for path in frames] == [run.name] * 2
    assert find_run("last", stage.runs) == run
    assert find_run(run.name[:20], stage.runs) == run
    assert find_run(frames[0].name, stage.runs) == frames[0]
    assert newest_session(stage.runs, stage.root / "mine") == (run, ())


@mounted
def test_frames_are_listed_below_their_run_and_do_not_count_for_the_limit(stage: Stage):
    older, newer = played(stage), played(stage)
    rows = find_runs(stage.runs, (), "started", 1)
    first = min(older.name, newer.name)
    assert [(row.run, row.frame) for row in rows] == [
        (first, ""), (f"{first}.frame-2", "frame-2"), (f"{first}.frame-3", "frame-3"),
    ]  # fmt: skip
    assert len(find_runs(stage.runs, (), "-started", None)) == 6
    assert [row.frame for row in find_runs(stage.runs, ["frame=frame-3"], "-started", None)] == ["frame-3"] * 2
    lines = stage.call("runs", "--runs-dir", stage.runs).stdout.splitlines()[1:]
    assert [line.split()[0] for line in lines[1:3]] == ["frame-2", "frame-3"]
    assert all(line.startswith("  frame-") for line in lines[1:3])


@mounted
def test_a_run_is_removed_with_its_frames_unless_a_fork_needs_one_of_them(stage: Stage):
    run = played(stage)
    forked = Path(fork(stage.runs / f"{run.name}.frame-2", 2, ForkChanges(), os.environ).result.run_dir)
    with pytest.raises(UsageError, match=forked.name):
        remove_run(run)
    assert len(list(stage.runs.iterdir())) == 4
    remove_run(forked)
    assert remove_run(run) == [f"{run.name}.frame-2", f"{run.name}.frame-3", run.name]
    assert list(stage.runs.iterdir()) == []
    assert list(stage.work.iterdir()) == []


@mounted
def test_old_runs_are_removed_with_their_frames(stage: Stage):
    older, newer = played(stage), played(stage)
    for path in stage.runs.glob(f"{older.name}*"):
        os.utime(path / "trace.jsonl", (1, 1))
    gone = list(prune(stage.runs, 0.0, 1, dry_run=False))
    assert [row.run for row in gone if row.removed] == [f"{older.name}.frame-2", f"{older.name}.frame-3", older.name]
    assert {path.name for path in stage.runs.iterdir()} == {
        newer.name,
        f"{newer.name}.frame-2",
        f"{newer.name}.frame-3",
    }


@mounted
def test_the_figures_of_a_run_name_the_runs_of_its_frames_and_a_frame_names_its_run(stage: Stage):
    run = played(stage)
    rows = json.loads(stage.call("trace", "stats", run, "--json").stdout)["parallel"]
    assert [(row["name"], row["run"], row["steps"], row["ending"], row["conflicts"]) for row in rows] == [
        ("a", f"{run.name}.frame-2", 2, "popped", []), ("b", f"{run.name}.frame-3", 2, "popped", ["a.txt"]),
    ]  # fmt: skip
    assert "popped, conflict in a.txt" in stage.call("trace", "show", run).stdout
    shown = stage.call("trace", "show", stage.runs / f"{run.name}.frame-3").stdout
    assert f"parallel frame-3 of {run.name}, from record " in shown
    assert "parallel frame  " not in shown


@mounted
def test_a_packed_run_contains_its_frames_and_verifies_elsewhere(stage: Stage, tmp_path):
    run = played(stage)
    packed = pack(run, tmp_path / "x.zip")
    assert (packed.frames, packed.missing, packed.missing_frames) == (
        (f"{run.name}.frame-2", f"{run.name}.frame-3"), 0, (),
    )  # fmt: skip
    there = unpack(tmp_path / "x.zip", tmp_path / "far")
    remove_run(run)
    assert (replay(there).parallel, replay(there).missing_frames) == (2, ())
    assert replay(there.parent / f"{run.name}.frame-3").frames == 3
    merged = Run(there).files_at(2)
    assert b"<<<<<<<" in merged["a.txt"]
    assert Run(there.parent / f"{run.name}.frame-3").files_at(2)["a.txt"] == b"b"
    assert [row.frame for row in find_runs(there.parent, (), "started", None)] == ["", "frame-2", "frame-3"]
    assert "2 parallel frames verified" in stage.call("replay", tmp_path / "x.zip").stdout


@mounted
def test_a_packed_fork_contains_the_frames_of_the_run_that_it_shares(stage: Stage, tmp_path):
    run = played(stage)
    forked = Path(fork(run, 2, ForkChanges(), os.environ).result.run_dir)
    packed = pack(forked, tmp_path / "x.zip")
    assert packed.frames == (f"{run.name}.frame-2", f"{run.name}.frame-3")
    there = unpack(tmp_path / "x.zip", tmp_path / "far")
    assert replay(there).parallel == 2
    assert Run(there.parent / f"{run.name}.frame-2").files_at(2)["a.txt"] == b"a"
    shutil.rmtree(stage.runs / f"{run.name}.frame-3")
    assert pack(forked, tmp_path / "y.zip").missing_frames == (f"{run.name}.frame-3",)


@mounted
def test_replay_refuses_a_run_in_the_place_of_a_frame(stage: Stage):
    run, other = played(stage), played(stage)
    shutil.rmtree(stage.runs / f"{run.name}.frame-3")
    assert replay(run).missing_frames == (f"{run.name}.frame-3",)
    shutil.copytree(stage.runs / f"{other.name}.frame-3", stage.runs / f"{run.name}.frame-3")
    with pytest.raises(TraceError, match="is not the parallel frame that returned"):
        replay(run)


@mounted
def test_an_archive_whose_frame_reads_objects_elsewhere_is_refused(stage: Stage, tmp_path):
    run = played(stage)
    pack(run, tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "x.zip") as whole, zipfile.ZipFile(tmp_path / "evil.zip", "w") as evil:
        for name in whole.namelist():
            shares = name.endswith("/alternates")
            evil.writestr(name, b"/etc\n" if shares else whole.read(name))
    with pytest.raises(UsageError, match="reads objects from outside"):
        unpack(tmp_path / "evil.zip", tmp_path / "far")
    assert not (tmp_path / "far").exists()
