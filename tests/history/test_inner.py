"""The repository inside a copy: what git shows, what it hides, and that the user's own repository is only read."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.history.inner import InnerRepository, make_repository
from stackmem.history.origin import find_origin, work_tree_of
from stackmem.history.pack_cache import PackCache
from stackmem.history.repository import copy_planned, plan_copy
from stackmem.workspace.secrets import Scrubber

from .folders import folder, repository, run_git

KEY = f"key = 'sk-ant-{'abcdefgh' * 5}'\n"


def commit(root: Path, **files: str) -> None:
    folder(root, {name.replace("_", "."): text for name, text in files.items()})
    run_git(root, "add", "-A", "-f")
    run_git(root, "commit", "-qm", "more")


def inside(root: Path, tmp_path: Path, **limits: float) -> tuple[Path, InnerRepository]:
    """A copy of the folder with its repository, as in a run."""
    work = tmp_path / "work"
    copy_planned(root, work, plan_copy(root, ()))
    made = make_repository(find_origin(root), work / ".git", Scrubber({}), PackCache(tmp_path / "packs"), **limits)
    return work, made


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_history_is_what_head_reaches_and_nothing_else_and_the_persons_repository_is_not_written(tmp_path: Path):
    hers = repository(tmp_path / "hers", {"app.py": "1\n"})
    commit(hers, app_py="2\n")
    run_git(hers, "checkout", "-q", "-b", "other")
    commit(hers, other_py="elsewhere\n")
    run_git(hers, "checkout", "-q", "-")
    (hers / "app.py").write_text("stashed\n")
    run_git(hers, "stash")
    before = everything(hers)
    work, made = inside(hers, tmp_path)
    assert everything(hers) == before
    assert (made.commits, made.shortened, made.withheld) == (2, False, 0)
    assert run_git(work, "status", "--porcelain") == ""
    assert run_git(work, "log", "--format=%H %an %s") == run_git(hers, "log", "--format=%H %an %s")
    assert run_git(work, "rev-parse", "--abbrev-ref", "HEAD") == run_git(hers, "rev-parse", "--abbrev-ref", "HEAD")
    listed = run_git(work, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    reached = run_git(hers, "rev-list", "--objects", "HEAD").splitlines()
    assert sorted(listed) == sorted(line.split()[0] for line in reached)
    assert run_git(work, "remote") == ""
    assert not (work / ".git" / "objects" / "info" / "alternates").exists()


def test_omitted_and_secret_files_are_absent_and_git_still_works(tmp_path: Path):
    hers = repository(tmp_path / "hers", {".env": "PASSWORD=1\n", "app.py": "1\n", "local.cfg": "mine\n", "no": ""})
    commit(hers, key_py=KEY, _envrc="", _gitignore="local.cfg\n")
    run_git(hers, "rm", "-q", "--cached", "key.py", "local.cfg")
    (hers / "key.py").unlink()
    run_git(hers, "commit", "-qm", "neither is tracked any more")
    work, made = inside(hers, tmp_path)
    assert made.withheld == 3  # an empty .envrc has the blob of any empty file
    shown = run_git(work, "log", "-p")
    assert ("PASSWORD" in shown, "mine" in shown, "sk-ant" in shown, shown.count("+(withheld)")) == (
        False,
        False,
        False,
        3,
    )
    for name in ("HEAD:.env", "HEAD~1:key.py", "HEAD~2:local.cfg"):
        assert run_git(work, "--no-replace-objects", "rev-parse", name) == run_git(hers, "rev-parse", name)
        assert run_git(work, "show", name) == "(withheld)\n"
    assert run_git(work, "status", "--porcelain") == ""
    (work / "app.py").write_text("2\n")
    assert "-1\n+2\n" in run_git(work, "diff")
    run_git(work, "commit", "-qam", "the agent's")
    assert run_git(work, "show", "--name-only", "--format=%an") == "Test\n\napp.py\n"


def test_a_pack_is_built_once_per_set_of_withheld_files(tmp_path: Path):
    hers = repository(tmp_path / "hers", {"app.py": "1\n", "word.txt": "swordfish-and-more\n"})
    packs = tmp_path / "packs"

    def made(name: str, environ: dict[str, str]) -> tuple[str, int, set[str]]:
        into = tmp_path / name
        inner = make_repository(find_origin(hers), into, Scrubber(environ), PackCache(packs))
        made_packs = sorted((into / "objects" / "pack").glob("*.pack"))
        for pack in made_packs:
            pack.chmod(0o600)
            pack.write_bytes(b"")  # as a command might do; the next run has its own
        return made_packs[0].name, inner.withheld, {path.name for path in packs.iterdir()} - {"lock"}

    first, again = made("one", {}), made("two", {})
    assert first == again
    other = made("three", {"MY_PASSWORD": "swordfish-and-more"})
    assert (other[1], len(other[2])) == (1, 2)
    assert other[0] != first[0]
    (folder,) = (packs / name for name in first[2])
    (folder / "about.json").write_text("broken")
    assert made("four", {})[:2] == first[:2]
    for number in range(8):
        commit(hers, app_py=f"{number}\n")
        assert len(made(f"more{number}", {})[2]) <= 8


def detached(hers: Path) -> Path:
    run_git(hers, "checkout", "-q", "--detach", "HEAD~1")
    return hers


def cloned(*how: str) -> Callable[[Path], Path]:
    def clone(hers: Path) -> Path:
        run_git(hers, "config", "uploadpack.allowFilter", "true")
        run_git(hers.parent, "clone", "-q", *how, f"file://{hers}", "clone")
        return hers.parent / "clone"

    return clone


def beside(hers: Path) -> Path:
    run_git(hers, "worktree", "add", "-q", "-b", "beside", str(hers.parent / "beside"), "HEAD~1")
    return hers.parent / "beside"


def with_submodule(hers: Path) -> Path:
    part = repository(hers.parent / "part", {"part.py": "p\n"})
    run_git(hers, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(part), "lib")
    run_git(hers, "commit", "-qm", "with a part")
    return hers


def filtered(hers: Path) -> Path:
    """As LFS leaves it: the commit contains a pointer, the folder the file."""
    commit(hers, _gitattributes="*.bin filter=lfs\n", large_bin="pointer\n")
    (hers / "large.bin").write_bytes(b"\0" * 100)
    run_git(hers, "-c", "filter.lfs.clean=echo pointer", "add", "large.bin")
    return hers


def latin_and_crlf(hers: Path) -> Path:
    Path(os.fsdecode(os.fsencode(hers) + b"/caf\xe9.txt")).write_bytes(b"a\r\nb\r\n")
    commit(hers)
    return hers


KINDS = {
    "detached": (detached, 1), "shallow": (cloned("--depth=1"), 1), "partial": (cloned("--filter=blob:none"), 2),
    "worktree": (beside, 1), "submodule": (with_submodule, 3), "filter": (filtered, 3), "latin": (latin_and_crlf, 3),
    "inside a submodule": (lambda hers: with_submodule(hers) / "lib", 1),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_in_every_kind_of_repository_status_is_clean_and_log_is_there(tmp_path: Path, kind: str):
    make, commits = KINDS[kind]
    hers = repository(tmp_path / "hers", {"app.py": "1\n", "sub/b.py": "b\n"})
    commit(hers, app_py="2\n")
    place = make(hers)
    work, made = inside(place, tmp_path)
    assert made.commits == commits
    assert run_git(work, "status", "--porcelain") == ""
    assert len(run_git(work, "log", "--oneline").splitlines()) == commits
    run_git(work, "log", "-p")
    run_git(work, "commit", "-q", "--allow-empty", "-m", "the agent's")


def test_names_of_sha256_are_read_too(tmp_path: Path):
    hers = tmp_path / "hers"
    hers.mkdir()
    run_git(hers, "init", "-q", "--object-format=sha256")
    commit(hers, app_py="1\n", _env="x=1\n")
    work, made = inside(hers, tmp_path)
    assert (len(made.head), made.withheld, run_git(work, "status", "--porcelain")) == (64, 1, "")


def test_a_repository_without_a_commit_is_one_inside_too(tmp_path: Path):
    hers = folder(tmp_path / "hers", {"app.py": "1\n"})
    run_git(hers, "init", "-q", "-b", "fresh")
    work, made = inside(hers, tmp_path)
    assert made == InnerRepository("")
    assert run_git(work, "status", "--porcelain", "-b") == "## No commits yet on fresh\n?? app.py\n"


@pytest.mark.parametrize("limits", [{"most_commits": 2}, {"seconds": 0.0}])
def test_of_a_long_history_the_last_commits_are_there_and_their_number_is_known(
    tmp_path: Path, limits: dict[str, float]
):
    hers = repository(tmp_path / "hers", {"app.py": "0\n"})
    for number in range(4):
        commit(hers, app_py=f"{number + 1}\n")
    work, made = inside(hers, tmp_path, **limits)
    whole = "seconds" in limits  # the fallback if scanning takes too long contains these five
    assert (made.commits, made.shortened) == ((5, False) if whole else (3, True))
    assert len(run_git(work, "log", "-p", "--oneline", "--", "app.py").split("diff --git")) == made.commits + 1
    assert run_git(work, "status", "--porcelain") == ""


def linked_refs(hers: Path, private: Path) -> None:
    head = run_git(hers, "symbolic-ref", "HEAD").strip()
    (hers / ".git" / head).unlink()
    (hers / ".git" / head).symlink_to(private / ".git" / head)
    borrowing(hers, private)


def borrowing(hers: Path, private: Path) -> None:
    (hers / ".git" / "objects" / "info" / "alternates").write_text(f"{private}/.git/objects\n")


def led_elsewhere(hers: Path, private: Path) -> None:
    shutil.rmtree(hers / ".git")
    (hers / ".git").write_text(f"gitdir: {private}/.git\n")


def linked_whole(hers: Path, private: Path) -> None:
    shutil.rmtree(hers / ".git")
    (hers / ".git").symlink_to(private / ".git")


def common_elsewhere(hers: Path, private: Path) -> None:
    (hers / ".git" / "commondir").write_text(f"{private}/.git\n")


@pytest.mark.parametrize("hostile", [linked_refs, borrowing, led_elsewhere, linked_whole, common_elsewhere])
def test_a_repository_that_would_bring_in_another_one_is_not_read(
    tmp_path: Path, hostile: Callable[[Path, Path], None]
):
    private = repository(tmp_path / "private", {"diary.txt": "hers alone\n"})
    hers = repository(tmp_path / "hers", {"app.py": "1\n"})
    hostile(hers, private)
    assert work_tree_of(hers) == hers
    with pytest.raises(UsageError, match="so the run does not get its history"):
        find_origin(hers)


def test_a_broken_repository_is_one_sentence(tmp_path: Path):
    hers = repository(tmp_path / "hers", {"app.py": "1\n"})
    (hers / ".git" / "HEAD").write_text("ref: refs/heads/../../../../outside\n")
    with pytest.raises(UsageError, match="does not name a branch"):
        find_origin(hers)
    (hers / ".git" / "HEAD").write_text(f"{'1' * 40}\n")
    with pytest.raises(UsageError, match="git cannot read"):
        find_origin(hers)


def test_programs_named_by_a_repository_are_not_run(tmp_path: Path):
    hers, marker = (
        repository(tmp_path / "hers", {"app.py": "1\n", ".gitattributes": "* filter=x diff=x\n"}),
        tmp_path / "ran",
    )
    program = f"touch {marker}; false"
    for name in ("filter.x.clean", "filter.x.smudge", "diff.x.textconv", "diff.x.command", "core.fsmonitor",
                 "core.sshCommand", "core.pager", "core.alternateRefsCommand", "gpg.program"):  # fmt: skip
        run_git(hers, "config", name, program)
    run_git(hers, "config", "log.showSignature", "true")
    hook = hers / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{program}\n")
    hook.chmod(0o755)
    work, _ = inside(hers, tmp_path)
    assert not marker.exists()
    assert subprocess.run(["git", "status"], cwd=work, check=True, capture_output=True).stdout
    assert not marker.exists()


def test_only_tags_reachable_from_head_are_kept_without_messages(tmp_path: Path):
    hers = repository(tmp_path / "hers", {"app.py": "1\n"})
    run_git(hers, "tag", "v1")
    run_git(hers, "tag", "-a", "v1.1", "-m", KEY)
    run_git(hers, "tag", "of-a-tree", "HEAD^{tree}")
    run_git(hers, "checkout", "-q", "-b", "other")
    commit(hers, other_py="elsewhere\n")
    run_git(hers, "tag", "elsewhere")
    run_git(hers, "checkout", "-q", "-")
    commit(hers, app_py="2\n")
    odd = hers / ".git" / "refs" / "tags" / "a..b"
    odd.write_text(run_git(hers, "rev-parse", "HEAD"))
    work, _ = inside(hers, tmp_path)
    assert run_git(work, "tag").split() == ["v1", "v1.1"]
    assert run_git(work, "describe", "--tags", "--always").startswith("v1")
    assert run_git(work, "cat-file", "-t", "v1.1") == "commit\n"
    assert run_git(work, "status", "--porcelain") == ""
