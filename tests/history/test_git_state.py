"""The repository of a run has the staged changes and interrupted operations of the user's repository."""

import subprocess
from pathlib import Path

import pytest

from stackmem.history.following.git_state import GitState, read_state
from stackmem.history.inner import make_repository
from stackmem.history.origin import find_origin
from stackmem.history.pack_cache import PackCache
from stackmem.history.repository import copy_planned, plan_copy
from stackmem.workspace.secrets import Scrubber
from tests.history.folders import folder, repository, run_git

KEY = "key = 'sk-ant-api03-" + "A1b2" * 12 + "'\n"


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A repository with two branches that changed the same line, and HEAD at ``main``."""
    root = repository(tmp_path / "theirs", {"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "b.txt": "b\n"})
    run_git(root, "branch", "-M", "main")
    run_git(root, "switch", "-q", "-c", "topic")
    for number in (1, 2):
        (root / "a.txt").write_text(f"topic {number}\n2\n3\n4\n5\n6\n7\n8\n9\n")
        run_git(root, "commit", "-q", "-a", "-m", f"topic {number}")
    run_git(root, "switch", "-q", "main")
    (root / "a.txt").write_text("main\n2\n3\n4\n5\n6\n7\n8\n9\n")
    run_git(root, "commit", "-q", "-a", "-m", "main")
    return root


def inside(theirs: Path, tmp_path: Path) -> Path:
    """Return a copy as a run gets it, with its repository."""
    work = tmp_path / "work"
    copy_planned(theirs, work, plan_copy(theirs, ()))
    make_repository(find_origin(theirs), work / ".git", Scrubber({}), PackCache(tmp_path / "packs"))
    return work


def fails(root: Path, *arguments: str) -> None:
    assert subprocess.run(["git", *arguments], cwd=root, check=False, capture_output=True).returncode != 0


STATUS = ("status", "--porcelain=v2", "--branch")


def same(work: Path, theirs: Path) -> str:
    run_git(work, "fsck")
    assert run_git(work, *STATUS) == run_git(theirs, *STATUS)
    assert run_git(work, "diff") == run_git(theirs, "diff")
    assert run_git(work, "diff", "--cached") == run_git(theirs, "diff", "--cached")
    return run_git(work, "status")


def test_staged_hunks_and_announced_files_come_along(theirs: Path, tmp_path: Path):
    (theirs / "a.txt").write_text("staged\n2\n3\n4\n5\n6\n7\n8\n9\n")
    run_git(theirs, "add", "a.txt")
    (theirs / "a.txt").write_text("staged\n2\n3\n4\n5\n6\n7\n8\nnot staged\n")
    folder(theirs, {"new.txt": "new\n", "announced.txt": "later\n"})
    run_git(theirs, "add", "new.txt")
    run_git(theirs, "add", "-N", "announced.txt")
    run_git(theirs, "rm", "-q", "b.txt")
    work = inside(theirs, tmp_path)
    same(work, theirs)
    run_git(work, "commit", "-q", "-m", "the staged part")
    assert run_git(work, "show", "--name-status", "--format=") == "M\ta.txt\nD\tb.txt\nA\tnew.txt\n"
    assert run_git(theirs, "log", "--format=%s", "-1") == "main\n"


@pytest.mark.parametrize("how", ["merge", "cherry-pick", "revert", "rebase", "rebase --apply"])
def test_an_interrupted_operation_can_be_continued_in_the_run(theirs: Path, tmp_path: Path, how: str):
    if how.startswith("rebase"):
        run_git(theirs, "switch", "-q", "topic")
        fails(theirs, *how.split(), "main")
    elif how == "revert":
        fails(theirs, "revert", "topic")
    else:
        fails(theirs, how, "topic")
    work = inside(theirs, tmp_path)
    if how != "revert":
        assert "both modified:   a.txt" in same(work, theirs)
    else:
        same(work, theirs)
        return
    (work / "a.txt").write_text("both\n2\n3\n4\n5\n6\n7\n8\n9\n")
    run_git(work, "add", "a.txt")
    words = ["git", "-c", "core.editor=true", how.split(maxsplit=1)[0], "--continue"]
    done = subprocess.run(words, cwd=work, check=False, capture_output=True, text=True)
    if how.startswith("rebase"):  # the second commit conflicts, too
        assert "topic 2" in done.stdout + done.stderr
        run_git(work, "rebase", "--abort")
        assert run_git(work, "log", "--format=%s") == "topic 2\ntopic 1\nstart\n"
        return
    assert done.returncode == 0, done.stderr
    assert len(run_git(work, "log", "-1", "--format=%P").split()) == (2 if how == "merge" else 1)


def test_a_merge_can_be_aborted_in_the_run(theirs: Path, tmp_path: Path):
    fails(theirs, "merge", "topic")
    work = inside(theirs, tmp_path)
    run_git(work, "merge", "--abort")
    assert run_git(work, "status", "--porcelain") == ""
    assert "MERGE_HEAD" in {path.name for path in (theirs / ".git").iterdir()}


def test_hidden_files_and_secrets_stay_out_of_the_index_and_a_line_says_so(theirs: Path, tmp_path: Path):
    folder(theirs, {".env": "PASSWORD=hidden\n", "key.py": KEY})
    run_git(theirs, "add", "-f", ".env", "key.py")
    origin = find_origin(theirs)
    assert origin.unfinished() == ("staged files that the run cannot see: .env; its index has them as in HEAD",)
    work = inside(theirs, tmp_path)
    names = [line.split() for line in run_git(theirs, "ls-files", "-s", ".env", "key.py").splitlines()]
    for _, name, *_ in names:
        fails(work, "--no-replace-objects", "cat-file", "-e", name)
    assert run_git(work, "diff", "--cached", "--name-only") == ""


def test_a_detached_head_stays_detached(theirs: Path, tmp_path: Path):
    run_git(theirs, "switch", "-q", "--detach", "topic")
    assert "Not currently on any branch" in same(inside(theirs, tmp_path), theirs)


def test_words_of_a_message_name_no_commit(theirs: Path, tmp_path: Path):
    """A todo line quotes a commit message, which may mention a commit of another branch."""
    run_git(theirs, "switch", "-q", "-c", "private", "main~1")
    folder(theirs, {"private.txt": "secret plan\n"})
    run_git(theirs, "add", "-A")
    run_git(theirs, "commit", "-q", "-m", "private")
    private = run_git(theirs, "rev-parse", "HEAD").strip()
    run_git(theirs, "switch", "-q", "topic")
    run_git(theirs, "commit", "-q", "--allow-empty", "-m", f"like {private}")
    fails(theirs, "rebase", "main")
    assert private in (theirs / ".git" / "rebase-merge" / "git-rebase-todo").read_text()
    assert private not in read_state(find_origin(theirs)).commits
    fails(inside(theirs, tmp_path), "cat-file", "-e", private)


def test_links_and_odd_files_among_the_operation_files_are_left_out(theirs: Path, tmp_path: Path):
    outside = folder(tmp_path / "outside", {"text": "private\n", "msg": "private\n"})
    fails(theirs, "merge", "topic")
    git = theirs / ".git"
    (git / "MERGE_MSG").unlink()
    (git / "MERGE_MSG").symlink_to(outside / "msg")
    (git / "sequencer").symlink_to(outside)
    (git / "REBASE_HEAD").write_text("f" * 40 + "\n")
    (git / "MERGE_MODE").write_bytes(b"x" * ((1 << 20) + 1))
    state = read_state(find_origin(theirs))
    assert sorted(state.files) == ["MERGE_HEAD", "ORIG_HEAD", "REBASE_HEAD"]
    assert state.commits == (run_git(theirs, "rev-parse", "topic").strip(),)


def test_a_folder_without_work_in_progress_has_no_state(theirs: Path):
    state = read_state(find_origin(theirs))
    assert (state, state.fingerprint) == (GitState(), "")
