"""Runs on a folder whose chunks outlive them."""

import json
import os
from pathlib import Path

import pytest

import stackmem
from stackmem.core.errors import UsageError
from stackmem.core.facts import ChunkRead, RunStarted
from stackmem.core.heap import KeptChunk
from stackmem.run.companion.kept_heap import HeapChange, heap_store
from stackmem.run.resume import resume
from stackmem.trace.lineage import RunReader
from stackmem.trace.verify import verify
from tests.run.killed import dies
from tests.stage import Stage, call, events, pop

CODE = """
import os, signal, sys, stackmem
left = int(sys.argv[1])
def observe(event, state):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
stackmem.solve(sys.argv[2], "Go on.", model=sys.argv[3], heap="keep", isolation="none", observe=observe)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    (place / "spec.md").write_text("first", encoding="utf-8")
    return place


def work(stage: Stage, folder: Path, *replies, text: str = "Go on.", **settings):
    script = stage.script(*replies, name=f"{len(list(stage.root.iterdir()))}.yaml")
    return stage.solve(folder, text, model=script, heap="keep", **settings)


def kept(folder: Path) -> dict[str, str]:
    held = heap_store("keep", folder, folder, os.environ).read()
    return {name: one.chunk.content for name, one in held.items() if one.chunk}


def test_the_next_run_has_the_chunks_and_sees_which_are_stale(stage: Stage, folder: Path) -> None:
    work(
        stage, folder,
        call("heap_alloc", name="spec", content="All of it.", source="spec.md"),
        call("heap_alloc", name="env", content="make test"), pop(),
    )  # fmt: skip
    (folder / "spec.md").write_text("second", encoding="utf-8")
    second = work(stage, folder, call("heap_read", name="spec"), call("heap_free", name="env"), pop())
    (start,) = events(second.run_dir, RunStarted)
    assert [chunk.name for chunk in start.heap.chunks] == ["spec", "env"]
    assert events(second.run_dir, ChunkRead) != []
    opening = stackmem.Run(Path(second.run_dir)).moment(0).settled
    assert opening.heap.stale(opening.heap.chunks["spec"])
    assert kept(folder) == {"spec": "All of it."}
    assert verify(RunReader(Path(second.run_dir))).prompts == 3


def test_replay_needs_nothing_but_the_run(stage: Stage, folder: Path) -> None:
    work(stage, folder, call("heap_alloc", name="a", content="x"), pop())
    second = work(stage, folder, call("heap_read", name="a"), pop())
    heap_store("keep", folder, folder, os.environ).remove()
    assert stage.call("replay", second.run_dir).returncode == 0


def test_without_the_flag_nothing_is_kept_and_a_strategy_without_heap_is_refused(stage: Stage, folder: Path) -> None:
    stage.solve(folder, "Do.", model=stage.script(call("heap_alloc", name="a", content="x"), pop()))
    assert kept(folder) == {}
    with pytest.raises(UsageError, match="the strategy full has no heap"):
        work(stage, folder, pop(), strategy="full")
    with pytest.raises(UsageError, match="this is a task"):
        stage.solve(stage.task(pop()), heap="keep")


def test_a_file_of_ones_own_holds_the_chunks_of_tasks_too(stage: Stage, tmp_path: Path) -> None:
    heap = str(tmp_path / "heap.jsonl")
    stage.solve(stage.task(call("heap_alloc", name="a", content="x"), pop()), heap=heap)
    second = stage.solve(stage.task(pop(), name="second"), heap=heap)
    assert second.chunks == ("a",)


@pytest.mark.parametrize("after", [3, 6])
def test_what_a_killed_run_stored_is_there_and_it_goes_on_keeping(stage: Stage, folder: Path, after: int) -> None:
    script = stage.script(*(call("heap_alloc", name=f"c{n}", content="x") for n in range(3)), pop())
    stage.runs.mkdir()
    before = os.environ.copy()
    os.environ |= {"STACKMEM_RUNS_DIR": str(stage.runs), "STACKMEM_SANDBOX_DIR": str(stage.work)}
    try:
        assert dies(stage, CODE, after, folder, script)
        run = stage.only_run()
        stored = sum(type(event).__name__ == "ChunkAllocated" for event in events(run))
        assert list(kept(folder)) == [f"c{n}" for n in range(stored)]
        resume(run, {}, os.environ)
    finally:
        os.environ.clear()
        os.environ.update(before)
    assert list(kept(folder)) == ["c0", "c1", "c2"]
    verify(RunReader(run))


def test_a_fork_keeps_nothing(stage: Stage, folder: Path) -> None:
    first = work(stage, folder, call("heap_alloc", name="a", content="x"), call("heap_free", name="a"), pop())
    assert kept(folder) == {}
    script = stage.script(pop(), call("heap_alloc", name="b", content="x"), pop(), name="fork.yaml")
    forked = stage.call("fork", first.run, "--at", "1", "--model", script, "--runs-dir", stage.runs, "--json")
    assert forked.returncode == 0, forked.stderr
    assert "b" in stackmem.Run(Path(json.loads(forked.stdout)["run_dir"])).state.heap.chunks
    assert kept(folder) == {}


def test_the_person_is_told_what_a_run_takes_over(stage: Stage, folder: Path) -> None:
    heap = heap_store("keep", folder, folder, os.environ)
    for name, source in (("old", ""), ("spec", "spec.md"), ("env", "")):
        content = "x" * (60 if name == "old" else 30)
        heap.write([HeapChange(name, 1.0, KeptChunk(name, content, "", source, "another digest" if source else ""))])
    script = stage.script(pop())
    given = ("--model", script, "--heap", "keep", "--heap-chars", "80", "--isolation", "none", "--quiet")
    done = stage.call("solve", folder, "-t", "Go on.", *given)
    assert done.returncode == 0, done.stderr
    told = "the heap starts with 2 kept chunks, of which 1 STALE: spec; 1 more did not fit (stackmem heap list)"
    assert told in done.stderr
