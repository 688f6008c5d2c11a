"""Applying a run's changes to the user's folder: next to the user's own work, and never over it."""

import errno
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.history.apply import Outcome, Patch, apply_patches, executed_by_host
from stackmem.history.exchange import STAGE, FileExchange, look
from stackmem.history.following.merging import merge_texts
from stackmem.history.history import History, PathChange
from stackmem.history.objects import FILE, Node, object_id
from stackmem.history.patching import sections
from stackmem.history.repository import copy_planned, plan_copy
from stackmem.history.restore import content_of
from tests.history.folders import Content, folder, holds, repository, run_git
from tests.workspace.people import NOBODY, as_user, for_everyone

START: dict[str, Content] = {
    "text": b"one\ntwo\nthree\n",
    "crlf": b"one\r\ntwo\r\n",
    "binary": bytes(range(256)) * 8,
    "gone": "g",
    "only/one/gone": "g",
    "run": "x",
    "stop": "#!x",
    "link": "->text",
    "to-link": "t",
    "from-link": "->../decoy",
    "to-folder": "t",
    "to-file/a/b": "b",
    "same": "same",
    ".gitattributes": "* text=auto eol=crlf\n*y filter=none diff=none\n",
}


def work_on(work: Path) -> None:
    """Make every kind of change."""
    for name in ("gone", "to-folder", "run"):
        (work / name).unlink()
    for name in ("only", "to-file"):
        shutil.rmtree(work / name)
    folder(
        work,
        {
            "text": b"one\nTWO\nthree\nfour",
            "crlf": b"one\r\ntwo\n",
            "binary": bytes(range(255, -1, -1)) * 9,
            "run": "#!x",
            "link": "->binary",
            "to-link": "->same",
            "from-link": "now a file",
            "to-folder/x": "x",
            "to-file": "f",
            "new": "n",
            "a/b/c/d": "deep",
            "empty": "",
            "new-run": "#!n",
            "new-link": "->../outside",
            "-rf": "x",
            "a\nb": "x",
            '"q" \\': "x",
            os.fsdecode(b"\xff"): "x",
            ".gitignore": "*.log\n",
        },
    )
    (work / "stop").chmod(0o644)


class Run:
    """A changed copy of a folder, with the resulting patch."""

    def __init__(self, origin: Path, work_on: Callable[[Path], object]) -> None:
        self.origin = origin
        self.work = origin.parent / "copy"
        copy_planned(origin, self.work, plan_copy(origin, ()))
        kept = History(origin.parent / "store", self.work)
        before = kept.snapshot()
        work_on(self.work)
        after = kept.snapshot()
        kept.write_patch(before, after, origin.parent / "patch")
        self.patch = (origin.parent / "patch").read_bytes()
        self.changes = kept.changed(before, after)

    def apply(self, **options: Any) -> Outcome:
        def read(name: str) -> bytes:
            return content_of(self.origin.parent / "store", name)

        return apply_patches([Patch(self.patch, self.changes)], self.origin, read, **options)

    def applied_except(self, *paths: str) -> None:
        """Require that the folder has the run's version of all changed files except these."""
        changed = {change.path for change in self.changes} - set(paths)
        here, there = holds(self.origin), holds(self.work)
        assert {path: here.get(path) for path in changed} == {path: there.get(path) for path in changed}


def writes(**files: Content) -> Callable[[Path], object]:
    return lambda work: folder(work, files)


def plain(place: Path) -> Path:
    return folder(place / "p", START)


def git(place: Path) -> Path:
    return repository(place / "p", START)


def part_of_git(place: Path) -> Path:
    repository(place, {**{f"p/{name}": content for name, content in START.items()}, "outside": "o"})
    return place / "p"


@pytest.mark.parametrize("made", [plain, git, part_of_git])
def test_every_kind_of_change_comes_back_into_any_folder(tmp_path, made):
    run = Run(made(tmp_path), work_on)
    run.apply()
    assert holds(run.origin) == holds(run.work)
    assert not (run.origin / STAGE).exists()
    assert not (run.origin / "only").exists()


@for_everyone
def test_every_kind_of_change_comes_back_for_everyone(place):
    os.environ["HOME"] = str(place)
    run = Run(plain(place), work_on)
    run.apply()
    assert holds(run.origin) == holds(run.work)


def test_a_second_apply_changes_nothing(tmp_path):
    run = Run(plain(tmp_path), work_on)
    run.apply()
    times = {path: path.lstat().st_mtime_ns for path in run.origin.rglob("*") if not path.is_dir()}
    run.apply()
    assert times == {path: path.lstat().st_mtime_ns for path in run.origin.rglob("*") if not path.is_dir()}


def test_a_patch_without_changes_is_nothing(tmp_path):
    apply_patches([Patch(b"", [])], tmp_path / "not even a folder")
    assert list(tmp_path.iterdir()) == []


def test_files_next_to_the_changed_ones_stay(tmp_path):
    run = Run(plain(tmp_path), work_on)
    folder(run.origin, {"mine": "m", ".env": "KEY", "only/one/mine": "m"})
    run.apply()
    assert {"mine", ".env", "only/one/mine"} <= set(holds(run.origin))


@pytest.mark.parametrize(
    ("path", "mine"),
    [("text", "mine"), ("gone", "mine"), ("new", "mine"), ("link", "->same"), ("run", "#!x2"), ("to-link", "mine")],
)
def test_a_file_that_both_changed_stays_and_the_others_are_applied(tmp_path, path, mine):
    run = Run(plain(tmp_path), work_on)
    folder(run.origin, {path: mine})
    before = holds(run.origin)[path]
    done = run.apply()
    assert (done.refused, done.merged) == ((path,), ())
    assert holds(run.origin)[path] == before
    run.applied_except(path)
    assert not (run.origin / STAGE).exists()


def test_each_file_that_both_changed_is_named(tmp_path):
    run = Run(plain(tmp_path), work_on)
    folder(run.origin, {"text": "mine", "a\nb": "mine"})
    (run.origin / "binary").unlink()
    done = run.apply()
    assert done.refused == ("a\\nb", "binary", "text")
    run.applied_except("a\nb", "binary", "text")
    assert not (run.origin / "binary").exists()


def test_edits_of_other_lines_are_merged(tmp_path):
    lines = [f"{number}\n" for number in range(9)]
    run = Run(
        folder(tmp_path / "p", {"f": "".join(lines), "g": "g"}), writes(f="".join([*lines[:8], "EIGHT\n"]), g="h")
    )
    folder(run.origin, {"f": "".join(["ZERO\n", *lines[1:]])})
    (run.origin / "f").chmod(0o755)
    done = run.apply()
    assert done == Outcome(("f", "g"), ("f",))
    assert holds(run.origin) == {"f": "".join(["ZERO\n", *lines[1:8], "EIGHT\n"]), "g": b"h"}


def test_a_file_with_an_unresolved_conflict_is_not_applied(tmp_path):
    merge = merge_texts(b"base\n", b"agent\n", b"mine\n")
    assert merge is not None
    assert merge.conflicts == 1
    run = Run(folder(tmp_path / "p", {"f": "mine\n", "g": "g"}), writes(f=merge.content, g="h"))
    assert run.apply() == Outcome(("g",), conflicts=("f",))
    assert holds(run.origin) == {"f": b"mine\n", "g": b"h"}


def test_only_wanted_files_are_applied(tmp_path):
    run = Run(folder(tmp_path / "p", {"a": "1", "b": "1"}), writes(a="2", b="2"))
    assert run.apply(selects="a".__eq__) == Outcome(("a",))
    assert holds(run.origin) == {"a": b"2", "b": b"1"}


def test_an_executable_bit_of_the_user_is_kept(tmp_path):
    run = Run(plain(tmp_path), work_on)
    (run.origin / "text").chmod(0o755)
    assert run.apply().merged == ("text",)
    assert holds(run.origin)["text"] == "one\nTWO\nthree\nfour"


@pytest.mark.parametrize("obstacle", ["a", "a/b", "a/b/c/d/", "to-file/mine", "new/", "a->"])
def test_files_in_the_way_are_never_removed(tmp_path, obstacle):
    outside = folder(tmp_path / "outside", {})
    run = Run(plain(tmp_path), work_on)
    if obstacle.endswith("/"):
        folder(run.origin, {obstacle + "mine": "m"})
    elif obstacle.endswith("->"):
        (run.origin / obstacle[:-2]).symlink_to(outside)
    else:
        folder(run.origin, {obstacle: "m"})
    mine = {path: content for path, content in holds(run.origin).items() if path.startswith(obstacle.rstrip("/->"))}
    done = run.apply()
    assert done.refused
    assert mine.items() <= holds(run.origin).items()
    run.applied_except(*done.refused)
    assert list(outside.iterdir()) == []


def test_nothing_is_written_through_a_folder_that_became_a_link(tmp_path):
    outside = folder(tmp_path / "outside", {"f": "1"})
    origin = folder(tmp_path / "p", {"d/f": "1"})
    run = Run(origin, writes(**{"d/f": "2", "d/new": "n"}))
    shutil.rmtree(origin / "d")
    (origin / "d").symlink_to(outside)
    assert run.apply().refused == ("d/f", "d/new")
    assert holds(outside) == {"f": b"1"}


def test_a_fifo_in_place_of_a_file_is_a_change_and_does_not_block(tmp_path):
    run = Run(plain(tmp_path), work_on)
    (run.origin / "text").unlink()
    os.mkfifo(run.origin / "text")
    assert run.apply().refused == ("text",)


@pytest.mark.parametrize("path", ["../x", "/etc/x", ".git/hooks/x", "sub/.GIT/config", "a//b", "./a", "", f"{STAGE}/x"])
def test_patches_with_foreign_paths_are_refused(tmp_path, path):
    origin = folder(tmp_path / "p", {})
    forged = PathChange(path, "added", "", object_id("blob", b"x\n"), "", FILE)
    patch = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(UsageError, match="the patch writes"):
        apply_patches([Patch(patch.encode(), [forged])], origin)
    assert list(tmp_path.iterdir()) == [origin]
    assert list(origin.iterdir()) == []


@pytest.mark.parametrize(
    "forge",
    [
        lambda patch: patch.replace(b"+TWO", b"+EVIL"),
        lambda patch: patch.replace(b"b/text", b"b/other").replace(b"a/text", b"a/other"),
        lambda patch: patch[: len(patch) // 2],
        lambda _: b"",
        lambda _: b"nonsense",
        lambda patch: patch + b"diff --git a/x b/x\nnew file mode 100644\n",
    ],
)
def test_a_patch_that_is_not_the_runs_own_is_refused(tmp_path, forge):
    run = Run(plain(tmp_path), work_on)
    before = holds(run.origin)
    with pytest.raises(UsageError, match="patch"):
        apply_patches([Patch(forge(run.patch), run.changes)], run.origin)
    assert holds(run.origin) == before


def test_changes_read_back_from_json_apply_as_well(tmp_path):
    run = Run(plain(tmp_path), work_on)
    run.changes = msgspec.json.decode(msgspec.json.encode(run.changes), type=list[PathChange])
    run.apply()
    assert holds(run.origin) == holds(run.work)


def test_git_sees_the_changes_and_nothing_else(tmp_path):
    run = Run(repository(tmp_path / "p", {"a": "1", "b": "1"}), writes(a="2"))
    run.apply()
    assert run_git(run.origin, "status", "--porcelain") == " M a\n"


def test_hooks_filters_and_configuration_of_the_folder_do_not_run(tmp_path):
    ran = tmp_path / "ran"
    origin = repository(tmp_path / "p", {"a": "1\n", ".gitattributes": "* filter=evil diff=evil merge=evil\n"})
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "diff.evil.command", "diff.evil.textconv"):
        run_git(origin, "config", key, f"touch {ran}; cat")
    folder(origin, {".git/hooks/post-checkout": f"#!/bin/sh\ntouch {ran}"})
    run = Run(origin, writes(a="2\n", new="n\n"))
    run.apply()
    assert (origin / "a").read_text() == "2\n"
    assert not ran.exists()


def test_permissions_stay_if_the_executable_bit_stays(tmp_path):
    origin = folder(tmp_path / "p", {"private": "1", "tool": "1", "loose": "1"})
    for name, mode in (("private", 0o600), ("tool", 0o640), ("loose", 0o666)):
        (origin / name).chmod(mode)

    def work_on(work: Path) -> None:
        folder(work, {"private": "2", "tool": "#!2", "loose": "2"})
        (work / "tool").chmod(0o750)

    Run(origin, work_on).apply()
    modes = {path.name: path.stat().st_mode & 0o777 for path in origin.iterdir()}
    assert modes == {"private": 0o600, "tool": 0o750, "loose": 0o666}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_leaves_the_files_to_their_owner(tmp_path):
    run = Run(plain(tmp_path), work_on)
    for at in (run.origin, *run.origin.rglob("*")):
        os.chown(at, NOBODY, NOBODY, follow_symlinks=False)
    run.apply()
    owners = {path.lstat().st_uid for path in run.origin.rglob("*") if not path.is_symlink()}
    assert owners == {NOBODY}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can switch to another user")
def test_a_folder_that_cannot_be_written_is_as_it_was(place):
    run = Run(folder(place / "p", {"a/x": "1", "b/x": "1", "c/x": "1"}), writes(**{f"{at}/x": "2" for at in "abc"}))
    for at in (run.origin, *run.origin.rglob("*")):
        os.chown(at, NOBODY, NOBODY)
    os.chown(run.origin / "c", 0, 0)
    before = holds(run.origin)

    def refusal() -> str:
        with pytest.raises(WorkspaceError) as caught:
            run.apply()
        return str(caught.value)

    assert "left unchanged" in as_user(NOBODY, refusal)
    assert holds(run.origin) == before
    assert not (run.origin / STAGE).exists()


def test_one_apply_at_a_time(tmp_path):
    run = Run(plain(tmp_path), work_on)
    (run.origin / STAGE).mkdir()
    fd = os.open(run.origin / STAGE, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another apply"):
            run.apply()
    finally:
        os.close(fd)
    run.apply()
    assert holds(run.origin) == holds(run.work)


def test_an_apply_killed_at_any_moment_can_be_run_again(tmp_path):
    run = Run(folder(tmp_path / "p", START), work_on)
    halves = 0
    for number in range(8):
        child = os.fork()
        if child == 0:
            try:
                run.apply()
            finally:
                os._exit(0)
        time.sleep(0.005 * number)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        halves += (run.origin / STAGE).exists()
        run.apply()
        assert holds(run.origin) == holds(run.work)
        shutil.rmtree(run.origin)
        folder(run.origin, START)
    assert halves, "no kill came in time, so the test is inconclusive"


@pytest.mark.parametrize("removal", [1, 2], ids=["before its work", "after it"])
def test_leftovers_of_a_killed_apply_are_removed_before_the_next_one(tmp_path, removal):
    slow = tmp_path / "bin" / "rm"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\necho >>{tmp_path}/began; sleep 0.4; /bin/rm "$@"; echo >>{tmp_path}/ended\n')
    slow.chmod(0o755)
    run = Run(folder(tmp_path / "p", START), work_on)
    child = os.fork()
    if child == 0:
        os.environ["PATH"] = f"{slow.parent}:{os.environ['PATH']}"
        try:
            run.apply()
        finally:
            os._exit(0)
    began, ended = tmp_path / "began", tmp_path / "ended"
    while not began.exists() or len(began.read_text()) < removal:
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    run.apply()
    assert len(ended.read_text()) == removal
    assert holds(run.origin) == holds(run.work)


def test_an_apply_that_ended_after_any_of_its_steps_can_be_run_again(tmp_path):
    run = Run(folder(tmp_path / "p", START), work_on)
    in_order = sorted(zip(run.changes, sections(run.patch), strict=True), key=lambda step: bool(step[0].after))
    for done in range(0, len(in_order) + 1, 3):
        steps = sorted(in_order[:done], key=lambda step: run.changes.index(step[0]))
        apply_patches([Patch(b"".join(part for _, part in steps), [change for change, _ in steps])], run.origin)
        run.apply()
        assert holds(run.origin) == holds(run.work)
        shutil.rmtree(run.origin)
        folder(run.origin, START)


@pytest.mark.parametrize("failing", range(6))
def test_an_exchange_that_fails_at_any_step_takes_back_the_others(tmp_path, failing):
    origin = folder(tmp_path / "p", {"a": "1", "b/c": "1", "d/e/f": "1", "link": "->a"})
    before = holds(origin)
    content = b"2"
    node = Node(FILE, object_id("blob", content))
    after: dict[bytes, Node | None] = {
        b"a": node,
        b"link": node,
        b"b/c": None,
        b"new/x/y": node,
        b"d/e/f": None,
        b"d": node,
    }
    blocked = list(after)[failing]
    root = os.open(origin, os.O_RDONLY)
    stage = os.open(folder(tmp_path / "stage", {}), os.O_RDONLY)
    try:
        here = {path: look(root, path) for path in after}
        where = origin / os.fsdecode(blocked)
        if after[blocked] is None or here[blocked].node:
            where.unlink()
        if after[blocked] is not None:  # a folder that is not empty, so a rename cannot replace it
            folder(origin, {os.fsdecode(blocked) + "/mine": "m"})
        start = holds(origin)
        with pytest.raises(OSError, match=r".") as caught:
            FileExchange(root, stage).run(here, after, dict.fromkeys(after, content))
        assert caught.value.errno in {errno.ENOENT, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.EPERM}
        assert holds(origin) == start
        assert start != before
    finally:
        os.close(root)
        os.close(stage)


RUN_BY_HOST = """
Makefile GNUmakefile sub/conftest.py setup.py pyproject.toml package.json .envrc .env .vscode/tasks.json
.npmrc .github/workflows/ci.yml .gitlab-ci.yml .gitattributes .gitmodules .husky/pre-commit hooks/x bin/tool
run.sh .git-hooks/x Dockerfile docker-compose.yml vite.config.ts build.rs tox.ini .pre-commit-config.yaml
x.pth .devcontainer/devcontainer.json .idea/workspace.xml stackmem.toml .mcp.json CMakeLists.txt build.gradle
.bashrc .vimrc .gdbinit sitecustomize.py .github .vscode scripts/x.py Jenkinsfile flake.nix
"""


def changed(*paths: str, executable: bool = False) -> list[PathChange]:
    mode = "100755" if executable else FILE
    return [PathChange(path, "modified", "1" * 40, "2" * 40, FILE, mode) for path in paths]


@pytest.mark.parametrize("path", RUN_BY_HOST.split())
def test_files_that_the_host_would_run_are_listed(path):
    assert executed_by_host(changed(path)) == [path]


@pytest.mark.parametrize(
    "path", ["src/app.py", "README.md", "binary", "tests/test_app.py", "makefiles.txt", "a/make.c"]
)
def test_files_that_the_host_would_not_run_are_not_listed(path):
    assert executed_by_host(changed(path)) == []


def test_an_executable_is_listed_and_a_deleted_file_is_not():
    assert executed_by_host(changed("a", executable=True)) == ["a"]
    gone = [replace(change, kind="deleted", after="", after_mode="") for change in changed("Makefile")]
    assert executed_by_host(gone) == []
