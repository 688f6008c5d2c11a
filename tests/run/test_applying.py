"""Applying after undos and redos: the folder gets the run's own tree, and the user's edits stay."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stackmem import Record, UsageError
from stackmem.core.facts import RunForked
from stackmem.history.history import History, share
from stackmem.run.ending import Brought, Kept, apply_run
from stackmem.run.following.family import Applied
from stackmem.run.run_folder import APPLIED, CHANGES, HISTORY, PATCH
from stackmem.run.stored_request import StoredRequest, write_request
from stackmem.trace.store import write_line
from tests.build import started
from tests.history.folders import Content, folder, holds

Files = dict[str, bytes]
START: Files = {"a": b"a\n", "b": b"b\n", "d/c": b"c\n"}
NAMES = ["a", "b", "d/c", "d/new", "new"]
TEXTS = [b"1\n", b"2\n", b"3\n"]


class Family:
    """The runs of one conversation about a folder, without a model: each has a history, a patch and its parent.

    Attributes:
        trees: Each run's workspace content, by the run's name.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = folder(root / "mine", dict(START))
        self.trees: dict[str, Files] = {}
        self.begun: dict[str, str] = {}
        self.now = self.begin("run0", None)

    def begin(self, name: str, parent: str | None, at: Files | None = None) -> str:
        run, work = self.root / "runs" / name, self.root / "work" / name
        run.mkdir(parents=True)
        folder(work, dict(at if at is not None else START))
        records = b""
        if parent is not None:
            records, _ = write_line(Record(2, 0.0, RunForked(parent, 1, "0" * 64, started())), "")
            share(self.root / "runs" / parent / HISTORY, run / HISTORY, self.begun[parent])
        (run / "trace.jsonl").write_bytes(records)
        write_request(StoredRequest(str(self.folder), "Do it.", {}, str(self.root), str(work)), run)
        self.begun[name] = self.begun[parent] if parent else History(run / HISTORY, work).snapshot()
        self.trees[name] = dict(at if at is not None else START)
        return name

    def work(self, path: str, content: bytes | None) -> None:
        write(self.root / "work" / self.now, path, content)
        write_in(self.trees[self.now], path, content)

    def undo(self, parent: str, at: Files) -> None:
        """Continue in a new run from an earlier state of the conversation's files."""
        self.now = self.begin(f"run{len(self.trees)}", parent, at)

    def apply(self, only: Sequence[str] = ()) -> Brought:
        run = self.root / "runs" / self.now
        history = History(run / HISTORY, self.root / "work" / self.now)
        before, after = self.begun[self.now], history.snapshot()
        history.write_patch(before, after, run / PATCH)
        kept = Kept(str(self.folder), tuple(history.changed(before, after)), after)
        (run / CHANGES).write_bytes(msgspec.json.encode(kept))
        return apply_run(run, only)

    def held(self) -> dict[str, Content]:
        return holds(self.folder)


def write(place: Path, path: str, content: bytes | None) -> None:
    if content is not None:
        folder(place, {path: content})
    else:
        (place / path).unlink(missing_ok=True)


def write_in(files: dict[str, Any], path: str, content: bytes | None) -> None:
    if content is None:
        files.pop(path, None)
    else:
        files[path] = content


def expected(here: Files, last: Files, after: Files) -> tuple[Files, set[str]]:
    """Return the folder after an apply, and the files that the user changed as well.

    All texts are single lines, so two changes of a file always conflict.
    """
    made, refused = dict(here), set()
    start = last if any(last.get(path) != after.get(path) for path in NAMES) else START
    for path in NAMES:
        if start.get(path) == after.get(path) or here.get(path) == after.get(path):
            continue
        restored = START.get(path) != after.get(path) and here.get(path) == START.get(path)
        if here.get(path) == start.get(path) or restored:
            write_in(made, path, after.get(path))
        else:
            refused.add(path)
    return made, refused


edits = st.tuples(st.just("work"), st.sampled_from(NAMES), st.none() | st.sampled_from(TEXTS))
own_edits = st.tuples(st.just("own"), st.sampled_from(NAMES), st.none() | st.sampled_from([*TEXTS, b"mine\n"]))
moves = st.tuples(st.sampled_from(["undo", "redo"]), st.integers(0, 20))
steps = st.lists(edits | st.just(("apply",)) | st.just(("apply",)) | moves | own_edits, min_size=1, max_size=14)


@example([("work", "a", b"1\n"), ("apply",), ("undo", 0), ("own", "a", b"a\n"), ("work", "b", b"2\n"), ("apply",)])
@example([("work", "a", b"1\n"), ("apply",), ("undo", 0), ("own", "a", b"mine\n"), ("apply",), ("apply",)])
@example([("work", "a", b"1\n"), ("apply",), ("undo", 0), ("work", "new", b"2\n"), ("apply",), ("redo", 0), ("apply",)])
@given(steps)
def test_every_apply_leads_from_what_was_applied_last_to_the_runs_own_tree(todo: list[tuple[Any, ...]]):
    root = Path(tempfile.mkdtemp())
    try:
        family, last = Family(root), dict(START)
        moments = [("run0", dict(START))]
        for step in todo:
            match step:
                case "work", path, content:
                    family.work(path, content)
                    moments.append((family.now, dict(family.trees[family.now])))
                case "own", path, content:
                    write(family.folder, path, content)
                case "undo", number:
                    parent, files = moments[number % len(moments)]
                    family.undo(parent, files)
                case "redo", number:
                    family.now = sorted(family.trees)[number % len(family.trees)]
                case _:
                    before = family.held()
                    wanted, refused = expected(before, last, family.trees[family.now])  # type: ignore[arg-type]
                    brought = family.apply()
                    assert family.held() == wanted
                    assert set(brought.done.refused) == refused
                    assert set(brought.changed) == {path for path in NAMES if before.get(path) != wanted.get(path)}
                    assert ("changed no files" in brought.describe()) <= (before == wanted)
                    previous, last = last, dict(family.trees[family.now])
                    for path in refused:
                        write_in(last, path, previous.get(path))
    finally:
        shutil.rmtree(root)


def test_an_apply_after_everything_was_undone_says_that_it_took_files_back(tmp_path: Path):
    """Regression test: it reverted the file and reported that the run had changed none."""
    family = Family(tmp_path)
    family.work("a", b"1\n")
    assert family.apply().describe() == f"applied to {family.folder}: 1 file"
    family.undo("run0", dict(START))
    brought = family.apply()
    assert brought.describe() == f"reverted the changes applied to {family.folder}: 1 file"
    assert family.held() == START
    assert family.apply().describe() == f"nothing to apply to {family.folder}: the run changed no files"


def test_a_file_that_the_user_edited_after_the_apply_is_named_and_is_not_counted_as_taken_back(tmp_path: Path):
    """Regression test: apply reported that there was nothing to do, and recorded itself as done."""
    family = Family(tmp_path)
    family.work("a", b"1\n")
    family.work("b", b"1\n")
    family.apply()
    write(family.folder, "a", b"mine\n")
    family.undo("run0", dict(START))
    brought = family.apply()
    assert brought.describe().startswith(
        f"reverted the changes applied to {family.folder}: 1 file; a stays as you left it"
    )
    assert family.held() == {**START, "a": b"mine\n"}
    assert family.apply().describe().startswith(f"nothing was applied to {family.folder}; a stays")
    write(family.folder, "a", b"1\n")
    assert family.apply().changed == ("a",)
    assert family.held() == START


def test_edits_of_other_lines_survive_an_apply_and_its_reversal(tmp_path: Path):
    family = Family(tmp_path)
    family.work("a", b"a\nb\nc\nd\n")
    family.apply()
    write(family.folder, "a", b"mine\na\nb\nc\nd\n")
    family.work("a", b"a\nb\nc\nD\n")
    brought = family.apply()
    assert brought.done.merged == ("a",)
    assert brought.describe() == f"applied to {family.folder}: 1 file; merged with your edits: a"
    assert family.held()["a"] == b"mine\na\nb\nc\nD\n"


def test_named_files_and_folders_are_applied_and_the_others_wait(tmp_path: Path):
    family = Family(tmp_path)
    for name in ("a", "d/c", "d/new"):
        family.work(name, b"1\n")
    assert family.apply(["d"]).changed == ("d/c", "d/new")
    assert family.held() == {**START, "d/c": b"1\n", "d/new": b"1\n"}
    with pytest.raises(UsageError, match="no changes to apply in d;"):
        family.apply(["d"])
    assert family.apply().changed == ("a",)


def test_a_run_that_was_undone_knows_what_the_run_after_it_applied(tmp_path: Path):
    family = Family(tmp_path)
    family.work("a", b"1\n")
    family.apply()
    family.undo("run0", dict(START))
    family.work("a", b"2\n")
    family.work("new", b"2\n")
    family.apply()
    family.now = "run0"
    assert family.apply().changed == ("a", "new")
    assert family.held() == {**START, "a": b"1\n"}


def test_a_record_that_names_a_place_elsewhere_is_not_followed(tmp_path: Path):
    family = Family(tmp_path)
    family.work("a", b"1\n")
    decoy = tmp_path / "decoy"
    shutil.copytree(tmp_path / "runs" / "run0", decoy, ignore=lambda *_: ["work"])
    for name in ("../decoy", str(decoy), "..", "a\0b"):
        record = msgspec.json.encode(Applied("0" * 40, name))
        (tmp_path / "runs" / "run0" / APPLIED).write_bytes(record)
        write(family.folder, "a", b"a\n")
        assert family.apply().changed == ("a",)
    assert not (decoy / APPLIED).exists()
    assert os.listdir(tmp_path / "runs") == ["run0"]
