"""Files of the memory tool that outlive a run."""

import os
from pathlib import Path

import pytest

import stackmem
from stackmem.core.facts import CallAnswered, RunStarted, ToolReturned
from stackmem.core.heap import KeptChunk
from stackmem.run.companion.kept_heap import HeapChange, heap_store
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
stackmem.solve(
    sys.argv[2], "Go on.", model=sys.argv[3], strategy="memory_files", heap="keep", isolation="none", observe=observe
)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    return place


def work(stage: Stage, folder: Path, *replies, strategy: str = "memory_files", **settings):
    script = stage.script(*replies, name=f"{len(list(stage.root.iterdir()))}.yaml")
    return stage.solve(folder, "Go on.", model=script, heap="keep", strategy=strategy, **settings)


def stored(folder: Path) -> dict[str, str]:
    entries = heap_store("keep", folder, folder, os.environ).read()
    return {name: entry.chunk.content for name, entry in entries.items() if entry.chunk}


def create(name: str, text: str):
    return call("memory", command="create", path=f"/memories/{name}", file_text=text)


def first_files(result) -> dict[str, str]:
    (start,) = events(result.run_dir, RunStarted)
    return dict(start.heap.files)


def test_the_next_run_has_the_files_and_changes_them_for_the_one_after(stage: Stage, folder: Path) -> None:
    first = work(stage, folder, create("env.md", "tests: make test\n"), create("old.md", "x"), pop())
    assert first_files(first) == {}
    change = call("memory", command="str_replace", path="/memories/env.md", old_str="make test", new_str="tox")
    gone = call("memory", command="delete", path="/memories/old.md")
    second = work(stage, folder, call("memory", command="view", path="/memories/env.md"), change, gone, pop())
    assert first_files(second) == {"/memories/env.md": "tests: make test\n", "/memories/old.md": "x"}
    third = work(stage, folder, pop())
    assert first_files(third) == {"/memories/env.md": "tests: tox\n"}
    assert len(events(second.run_dir, CallAnswered)) == 3, "the file of the first run can be viewed"


def test_replay_needs_nothing_but_the_run(stage: Stage, folder: Path) -> None:
    work(stage, folder, create("a", "kept text"), pop())
    second = work(stage, folder, call("memory", command="view", path="/memories/a"), pop())
    heap_store("keep", folder, folder, os.environ).remove()
    assert stage.call("replay", second.run_dir).returncode == 0
    assert verify(RunReader(Path(second.run_dir))).prompts == 2
    assert stackmem.Run(Path(second.run_dir)).moment(0).settled.directory.files == {"/memories/a": "kept text"}


def test_killed_after_a_write_the_file_is_kept(stage: Stage, folder: Path) -> None:
    script = stage.script(create("a", "x"), create("b", "y"), pop())
    before = os.environ.copy()
    os.environ |= {"STACKMEM_RUNS_DIR": str(stage.runs), "STACKMEM_SANDBOX_DIR": str(stage.work)}
    stage.runs.mkdir()
    try:
        assert dies(stage, CODE, 3, folder, script)  # the start, the reply and the answer
    finally:
        os.environ.clear()
        os.environ.update(before)
    assert stored(folder) == {"file:/memories/a": "x"}


def test_chunks_and_files_of_one_folder_do_not_mix(stage: Stage, folder: Path) -> None:
    work(stage, folder, call("heap_alloc", name="memories/a", content="chunk"), pop(), strategy="stackheap")
    work(stage, folder, create("a", "file"), pop())
    assert stored(folder) == {"memories/a": "chunk", "file:/memories/a": "file"}
    frames = work(stage, folder, call("heap_free", name="memories/a"), pop(), strategy="stackheap")
    (start,) = events(frames.run_dir, RunStarted)
    assert ([chunk.name for chunk in start.heap.chunks], start.heap.files) == (["memories/a"], ())
    assert stored(folder) == {"file:/memories/a": "file"}


def test_the_newest_files_that_fit_are_taken_over(stage: Stage, folder: Path) -> None:
    store = heap_store("keep", folder, folder, os.environ)
    for name in ("a", "b", "c"):
        path = f"file:/memories/{name}"
        store.write([HeapChange(path, 1.0, KeptChunk(path, name * 40_000))])
    last = work(stage, folder, pop())
    assert list(first_files(last)) == ["/memories/b", "/memories/c"]
    assert len(stored(folder)) == 3, "the others are not lost"


def test_a_secret_is_not_kept(stage: Stage, folder: Path) -> None:
    key = "sk-ant-" + "api03-" + "a1B2" * 20
    work(stage, folder, create("a", f"key = {key}"), pop())
    assert key not in stored(folder)["file:/memories/a"]


def test_the_user_lists_reads_and_frees_them(stage: Stage, folder: Path) -> None:
    work(stage, folder, create("a.md", "make test\n"), pop())
    listed = stage.call("heap", "list", "--folder", folder).stdout
    assert "file:/memories/a.md" in listed
    assert stage.call("heap", "read", "file:/memories/a.md", "--folder", folder).stdout == "make test\n"
    assert stage.call("heap", "free", "file:/memories/a.md", "--folder", folder).returncode == 0
    assert first_files(work(stage, folder, pop())) == {}


def test_without_the_flag_nothing_is_kept(stage: Stage, folder: Path) -> None:
    script = stage.script(create("a", "x"), pop())
    result = stage.solve(folder, "Go on.", model=script, strategy="memory_files")
    assert stored(folder) == {}
    assert events(result.run_dir, ToolReturned) == []


def test_a_run_says_how_many_files_it_starts_with(stage: Stage, folder: Path) -> None:
    work(stage, folder, create("a", "x"), pop())
    script = stage.script(pop(), name="second.yaml")
    given = ("--model", script, "--strategy", "memory_files", "--heap", "keep", "--isolation", "none", "--quiet")
    done = stage.call("solve", folder, "-t", "Go on.", *given)
    assert "the memory starts with 1 kept file" in done.stderr
