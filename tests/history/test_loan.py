"""What a run's history borrows from the repository that it works on, and what it keeps itself."""

import os
import shutil
from pathlib import Path

import pytest

from stackmem.errors import TraceError
from stackmem.history.history import History, share
from stackmem.history.loan import loan_of
from stackmem.trace.objects import Objects
from stackmem.trace.snapshot import Snapshot
from tests.history.folders import folder, repository, run_git

FILES = {"a.txt": "a\n" * 500, "d/b.txt": b"\r\n\xff", "d/run": "#!/bin/sh\n", "link": "->a.txt", "d/e/f": ""}


def copied(tmp_path: Path, name: str) -> History:
    """The history of a copy of ``tmp_path / "hers"``, which may borrow."""
    shutil.copytree(tmp_path / "hers", tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    kept = History(tmp_path / f"{name}.git", tmp_path / name)
    kept.borrow(tmp_path / "hers")
    return kept


def kept_objects(git_dir: Path) -> int:
    return sum(len(os.listdir(each)) for each in (git_dir / "objects").iterdir() if len(each.name) == 2)


@pytest.mark.parametrize("packed", [False, True])
def test_a_history_keeps_only_what_the_commit_does_not_hold(tmp_path, packed):
    hers = repository(tmp_path / "hers", FILES)
    if packed:
        run_git(hers, "gc", "-q")
    kept = copied(tmp_path, "w")
    before = kept.snapshot()
    alone = History(tmp_path / "alone.git", tmp_path / "w")
    assert before == alone.snapshot() == run_git(hers, "rev-parse", "HEAD^{tree}").strip()
    assert kept_objects(tmp_path / "w.git") == 0
    folder(tmp_path / "w", {"d/b.txt": "changed\n"})
    after = kept.snapshot()
    assert kept_objects(tmp_path / "w.git") == 3  # the file and the two folders above it
    kept.write_patch(before, after, tmp_path / "patch")
    assert b"-a\n" not in (tmp_path / "patch").read_bytes()
    (tmp_path / "out").mkdir()
    Snapshot(tmp_path / "w.git", after).write_into(tmp_path / "out")
    assert (tmp_path / "out" / "d" / "b.txt").read_text() == "changed\n"
    assert (tmp_path / "out" / "link").read_text() == FILES["a.txt"]


def test_who_goes_on_or_forks_borrows_too_and_writes_nothing_again(tmp_path):
    run_git(repository(tmp_path / "hers", FILES), "gc", "-q")
    kept = copied(tmp_path, "w")
    tree = kept.snapshot()
    again = History(tmp_path / "w.git", tmp_path / "w")
    share(tmp_path / "w.git", tmp_path / "fork.git", tree)
    forked = History(tmp_path / "fork.git", tmp_path / "w")
    assert again.snapshot() == forked.snapshot() == tree
    assert kept_objects(tmp_path / "w.git") == kept_objects(tmp_path / "fork.git") == 0
    assert Snapshot(tmp_path / "fork.git", tree)["d/b.txt"] == FILES["d/b.txt"]


def test_what_the_repository_has_lost_is_named(tmp_path):
    hers = repository(tmp_path / "hers", FILES)
    kept = copied(tmp_path, "w")
    folder(tmp_path / "w", {"new": "n"})
    tree = kept.snapshot()
    shutil.rmtree(hers / ".git" / "objects")
    with pytest.raises(TraceError, match="repository of a run"):
        Snapshot(tmp_path / "w.git", tree)["a.txt"]


@pytest.mark.parametrize("change", ["no repository", "no commit", "a partial clone"])
def test_nothing_is_borrowed_from(tmp_path, change):
    hers = folder(tmp_path / "hers", FILES)
    if change != "no repository":
        run_git(hers, "init", "-q")
    if change == "a partial clone":
        repository(hers, FILES)
        run_git(hers, "config", "remote.origin.promisor", "true")
    assert loan_of(hers) is None
    kept = copied(tmp_path, "w")
    kept.snapshot()
    assert kept_objects(tmp_path / "w.git") == 8


def test_a_file_that_holds_a_secret_is_left_out_though_it_is_committed(tmp_path):
    repository(tmp_path / "hers", {"a": "a", "key": "hidden"})
    kept = copied(tmp_path, "w")
    kept.withhold(lambda content: b"hidden" in content)
    tree = kept.snapshot()
    assert list(Snapshot(tmp_path / "w.git", tree)) == ["a"]
    assert [left.path for left in kept.left_out] == ["key"]


def test_every_object_of_a_pack_is_read_as_git_does_and_a_damaged_one_is_named(tmp_path):
    hers = repository(tmp_path / "hers", {**FILES, "long": ""})
    for number in range(1, 6):  # long lists that differ a little: git packs them as deltas of each other
        folder(hers, {"long": "".join(f"{line} {line * number % 7}\n" for line in range(2000))})
        run_git(hers, "commit", "-qam", str(number))
    run_git(hers, "gc", "-q", "--aggressive")
    listed = run_git(hers, "cat-file", "--batch-all-objects", "--batch-check").split("\n")[:-1]
    objects = Objects(hers / ".git")
    for name, kind, size in map(str.split, listed):
        assert len(objects.read(name, kind)) == int(size)
    (pack,) = (hers / ".git" / "objects" / "pack").glob("*.pack")
    pack.chmod(0o600)
    whole = pack.read_bytes()
    wrong = 0
    for at in range(12, len(whole), max(1, len(whole) // 12)):
        pack.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        for name, kind, _ in map(str.split, listed):
            try:
                Objects(hers / ".git").read(name, kind)  # whatever comes has the name's digest
            except TraceError:
                wrong += 1
    assert wrong
