"""The packs shared by a folder's runs: no run writes them, and each object matches its name."""

import os
import subprocess
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from stackmem.core.errors import WorkspaceError
from stackmem.history.hidden import plan_layer
from stackmem.history.inner import InnerRepository, make_repository
from stackmem.history.layer import REPOSITORY, Overlay, make_upper
from stackmem.history.origin import find_origin
from stackmem.history.pack_cache import PackCache
from stackmem.workspace.secrets import Scrubber
from stackmem.workspace.tree import remove_tree
from tests.history.folders import folder, repository, run_git
from tests.workspace.people import for_everyone

KEY = "sk-ant-" + "abcdefgh" * 5


def commit(root: Path, files: dict[str, str]) -> None:
    folder(root, files)
    run_git(root, "add", "-A", "-f")
    run_git(root, "commit", "-qm", "more")


def git_in(over: Overlay, *words: str) -> str:
    entered = over.view.entered("git", "-C", str(over.view.root), *words)
    return subprocess.run(entered, check=True, pass_fds=over.view.fds, capture_output=True, text=True).stdout


class Run:
    """A run's layer over a folder, with the repository it receives."""

    def __init__(self, hers: Path, place: Path, packs: Path) -> None:
        place.mkdir(mode=0o700)
        self.packs = packs
        self.repository = place / REPOSITORY / ".git"
        self.given: InnerRepository = make_repository(
            find_origin(hers), self.repository, Scrubber({}), PackCache(packs, links=True)
        )
        make_upper(hers, place)
        self.over = Overlay(hers, place, plan_layer(hers).hidden)

    def git(self, *words: str) -> str:
        return git_in(self.over, *words)

    def kept(self) -> set[str]:
        return {str(path.relative_to(self.over.upper)) for path in self.over.upper.rglob("*") if path.is_file()}


def contents(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file() and path.name != "lock"}


@for_everyone
def test_a_run_reads_the_history_and_keeps_nothing_of_it_but_what_it_changes(place: Path):
    os.environ["HOME"] = str(place)
    hers = repository(place / "hers", {"a.txt": "a\n", "d/b.txt": "b\n"})
    first = Run(hers, place / "one", place / "packs")
    with closing(first.over):
        assert first.git("log", "--format=%s") == run_git(hers, "log", "--format=%s")
        assert first.git("--no-optional-locks", "status", "--porcelain") == ""
        before = contents(place / "packs")
        assert first.kept() == set()
        at = Path(f"/proc/self/fd/{first.over.view.fd}")
        (at / "a.txt").write_text("changed\n")
        first.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "mine")
        (pack,) = (at / ".git" / "objects" / "pack").glob("*.pack")
        pack.chmod(0o600)
        pack.write_bytes(b"spoilt")
        assert contents(place / "packs") == before
    second = Run(hers, place / "two", place / "packs")
    with closing(second.over):
        assert second.git("log", "--format=%s") == run_git(hers, "log", "--format=%s")
        shared = [path for path in second.repository.rglob("*") if path.is_file() and path.stat().st_nlink > 2]
        assert {path.suffix for path in shared} - {".rev"} == {".pack", ".idx", ""}  # git writes .rev files since 2.41


@for_everyone
def test_a_run_continues_if_the_cache_is_deleted(place: Path):
    os.environ["HOME"] = str(place)
    hers = repository(place / "hers", {"a.txt": "a\n"})
    first = Run(hers, place / "one", place / "packs")
    first.over.close()
    assert PackCache(place / "packs").prune(0, dry_run=False) == 0
    remove_tree(place / "packs")
    with closing(Overlay(hers, place / "one", plan_layer(hers).hidden)) as over:
        assert git_in(over, "log", "--format=%s") == run_git(hers, "log", "--format=%s")


def test_packs_without_runs_are_removed_and_others_stay(tmp_path: Path):
    hers = repository(tmp_path / "hers", {"a.txt": "a\n"})
    run = Run(hers, tmp_path / "one", tmp_path / "packs")
    run.over.close()
    cache = PackCache(tmp_path / "packs")
    assert cache.prune(-1, dry_run=False) == 0
    remove_tree(tmp_path / "one")
    assert cache.prune(3600, dry_run=False) == 0
    assert cache.prune(-1, dry_run=True) == cache.prune(-1, dry_run=False) > 0
    assert [path.name for path in (tmp_path / "packs").iterdir()] == ["lock"]


def test_a_later_commit_costs_its_own_objects_and_a_rewritten_history_all_of_them(tmp_path: Path):
    hers = repository(tmp_path / "hers", {"a.txt": "a\n", "b.txt": "b\n"})
    Run(hers, tmp_path / "one", tmp_path / "packs").over.close()
    commit(hers, {"a.txt": "second\n", "key.txt": KEY})
    second = Run(hers, tmp_path / "two", tmp_path / "packs")
    with closing(second.over):
        assert len(list(second.repository.glob("objects/pack/*.pack"))) == 2
        assert second.given.withheld == 1
        assert second.git("show", "HEAD:key.txt") == "(withheld)\n"
        assert second.git("log", "--format=%s") == run_git(hers, "log", "--format=%s")
    run_git(hers, "reset", "-q", "--hard", "HEAD~1")
    commit(hers, {"a.txt": "other\n"})
    third = Run(hers, tmp_path / "three", tmp_path / "packs")
    with closing(third.over):
        listed = third.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
        assert sorted(listed) == sorted(
            line.split()[0] for line in run_git(hers, "rev-list", "--objects", "HEAD").splitlines()
        )


def test_an_object_that_does_not_match_its_name_is_not_packed(tmp_path: Path):
    hers = repository(tmp_path / "hers", {"a.txt": "a\n"})
    name = run_git(hers, "rev-parse", "HEAD:a.txt").strip()
    place = hers / ".git" / "objects" / name[:2] / name[2:]
    place.chmod(0o600)
    place.write_bytes(zlib.compress(b"blob 5\0other"))
    with pytest.raises(WorkspaceError, match="is damaged"):
        Run(hers, tmp_path / "one", tmp_path / "packs")
    assert not list((tmp_path / "packs").rglob("*.pack"))
