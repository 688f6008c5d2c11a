"""Which files a copy of the user's folder includes, and which never."""

import hashlib
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.history.exchange import STAGE
from stackmem.history.repository import copy_planned, plan_copy
from stackmem.workspace.tree import remove_tree
from tests.history.folders import folder, holds, names, repository, run_git
from tests.workspace.people import NOBODY, as_user

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can switch to another user")


def copied(source: Path, tmp_path: Path, *include: str, own: tuple[Path, ...] = ()) -> Path:
    into = tmp_path / "copies" / f"of-{source.name}"
    copy_planned(source, into, plan_copy(source, include, own))
    return into


def test_tracked_and_unignored_files_come_along_and_ignored_ones_do_not(tmp_path):
    source = repository(tmp_path / "p", {".gitignore": "*.log\nbuild/\n", "a.py": "a", "kept.log": "tracked"})
    folder(source, {"new.py": "n", "x.log": "x", "build/out": "o"})
    assert names(copied(source, tmp_path)) == {".gitignore", "a.py", "kept.log", "new.py"}


def test_a_folder_without_git_comes_along_whole_with_its_empty_folders(tmp_path):
    source = folder(tmp_path / "p", {".gitignore": "*.log\n", "x.log": "x", "sub/a": "a"})
    (source / "empty/deeper").mkdir(parents=True)
    copy = copied(source, tmp_path)
    assert names(copy) == {".gitignore", "x.log", "sub/a"}
    assert (copy / "empty/deeper").is_dir()


def test_a_part_of_a_repository_comes_along_without_the_rest(tmp_path):
    source = repository(tmp_path / "p", {".gitignore": "*.log\n", "outside": "o", "part/a": "a"})
    folder(source, {"part/x.log": "x", "part/new": "n"})
    assert names(copied(source / "part", tmp_path)) == {"a", "new"}


def test_a_folder_that_the_repository_above_ignores_is_on_its_own(tmp_path):
    home = repository(tmp_path / "home", {".gitignore": "*\n", ".profile": "p"})
    folder(home, {"project/a.py": "a"})
    assert names(copied(home / "project", tmp_path)) == {"a.py"}


def test_a_persons_own_ignore_rules_count(tmp_path, home):
    folder(home, {"config/git/ignore": "*.swp\n"})
    source = repository(tmp_path / "p", {"a": "a"})
    folder(source, {".a.swp": "s"})
    os.environ["XDG_CONFIG_HOME"] = str(home / "config")
    assert names(copied(source, tmp_path)) == {"a"}


def test_a_variable_that_names_another_repository_does_not_count(tmp_path):
    other = repository(tmp_path / "other", {"theirs": "t"})
    source = repository(tmp_path / "p", {"mine": "m"})
    os.environ["GIT_DIR"] = str(other / ".git")
    try:
        assert names(copied(source, tmp_path)) == {"mine"}
    finally:
        del os.environ["GIT_DIR"]


def test_ignored_dependency_folders_come_along_at_any_depth_and_are_named(tmp_path):
    source = repository(tmp_path / "p", {".gitignore": ".venv\nnode_modules\nout/\n", "web/package.json": "{}"})
    folder(source, {".venv/bin/tool": "#!x", "web/node_modules/left/i.js": "i", "out/node_modules/x": "no"})
    plan = plan_copy(source, ())
    assert plan.folders == (".venv", "web/node_modules")
    assert names(copied(source, tmp_path)) == {
        ".gitignore",
        "web/package.json",
        ".venv/bin/tool",
        "web/node_modules/left/i.js",
    }


def test_a_dependency_folder_that_ignores_itself_comes_along(tmp_path):
    source = repository(tmp_path / "p", {"a": "a"})
    folder(source, {".venv/.gitignore": "*\n", ".venv/pyvenv.cfg": "home = /usr\n", ".venv/lib/x.py": "x"})
    assert plan_copy(source, ()).folders == (".venv",)
    assert {".venv/lib/x.py", ".venv/pyvenv.cfg"} <= names(copied(source, tmp_path))


def test_tracked_source_in_a_folder_called_venv_is_not_a_dependency_folder(tmp_path):
    source = repository(tmp_path / "p", {"Lib/venv/__init__.py": "v", "fixtures/node_modules/a.js": "a"})
    assert plan_copy(source, ()).folders == ()


def test_env_files_never_come_along_at_any_depth_and_are_named(tmp_path):
    source = repository(tmp_path / "p", {"a": "a", ".env": "KEY=1", "sub/.env.local": "K=2"})
    folder(source, {".venv/x/.ENV": "K=3"})
    plan = plan_copy(source, (".venv",))
    assert set(plan.skipped) == {".env", "sub/.env.local", ".venv/x/.ENV"}
    assert names(copied(source, tmp_path, ".venv")) == {"a"}


@pytest.mark.parametrize("asked", [".env", "sub/.env", ".git", ".git/config", "sub/.env.d/x"])
def test_files_that_are_never_copied_cannot_be_included(tmp_path, asked):
    source = repository(tmp_path / "p", {"a": "a", ".env": "s", "sub/.env": "s", "sub/.env.d/x": "s"})
    with pytest.raises(UsageError, match="never copied"):
        plan_copy(source, (asked,))


def test_included_files_are_copied_even_if_ignored(tmp_path):
    source = repository(tmp_path / "p", {".gitignore": "data/\n*.bin\n"})
    folder(source, {"data/a/b": "b", "m.bin": "m", "n.bin": "n"})
    assert names(copied(source, tmp_path, "data", "m.bin")) == {".gitignore", "data/a/b", "m.bin"}


@pytest.mark.parametrize("asked", ["..", "../other", "/etc/passwd", ".", "", "a/../../x", "out/secret", "missing"])
def test_nothing_outside_can_be_included(tmp_path, asked):
    folder(tmp_path / "elsewhere", {"secret": "s"})
    source = repository(tmp_path / "p", {"a/b": "b", "out": f"->{tmp_path}/elsewhere"})
    with pytest.raises(UsageError, match="--include"):
        plan_copy(source, (asked,))


def test_git_folders_stay_and_nested_repositories_and_submodules_come_along_as_files(tmp_path):
    other = repository(tmp_path / "other", {"s": "s"})
    source = repository(tmp_path / "p", {"a": "a"})
    run_git(source, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    nested = repository(source / "nested", {".gitignore": "*.log\n", "n": "n"})
    folder(nested, {"x.log": "x", "new": "n"})
    copy = copied(source, tmp_path)
    assert names(copy) == {"a", ".gitmodules", "sub/s", "nested/.gitignore", "nested/n", "nested/new"}
    assert not any(".git" in at.parts for at in copy.rglob("*"))


def test_a_tracked_file_that_was_deleted_stays_away(tmp_path):
    source = repository(tmp_path / "p", {"a": "a", "gone": "g"})
    (source / "gone").unlink()
    assert names(copied(source, tmp_path)) == {"a"}


def test_a_tracked_folder_that_became_a_link_is_copied_as_the_link(tmp_path):
    outside = folder(tmp_path / "outside", {"f": "secret"})
    source = repository(tmp_path / "p", {"d/f": "f"})
    (source / "d/f").unlink()
    (source / "d").rmdir()
    (source / "d").symlink_to(outside)
    assert holds(copied(source, tmp_path)) == {"d": f"->{outside}"}


def test_links_come_along_as_links_and_those_that_lead_out_are_named(tmp_path):
    source = folder(tmp_path / "p", {"a": "a", "in": "->a", "out": "->/etc/passwd", "up": "->../x", "loop": "->loop"})
    folder(source, {"abs": f"->{source}/a"})
    assert plan_copy(source, ()).outside_links == ("out", "up")
    assert holds(copied(source, tmp_path))["out"] == "->/etc/passwd"


def test_executable_bits_and_times_are_kept_and_hard_links_broken(tmp_path):
    source = folder(tmp_path / "p", {"run": "#!/bin/sh", "plain": "p"})
    os.utime(source / "plain", ns=(10**18, 10**18 + 7))
    os.link(source / "plain", source / "twin")
    copy = copied(source, tmp_path)
    assert (copy / "run").stat().st_mode & 0o777 == 0o755
    assert (copy / "plain").stat().st_mtime_ns == 10**18 + 7
    (copy / "plain").write_text("changed")
    assert (copy / "twin").read_text() == (source / "plain").read_text() == "p"


def test_setuid_bits_do_not_come_along(tmp_path):
    source = folder(tmp_path / "p", {"run": "#!/bin/sh"})
    (source / "run").chmod(0o6755)
    assert (copied(source, tmp_path) / "run").stat().st_mode & 0o7777 == 0o755


def test_special_files_are_skipped_and_reported(tmp_path):
    source = folder(tmp_path / "p", {"a": "a"})
    os.mkfifo(source / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(source / "sock"))
        assert plan_copy(source, ()).skipped == ("fifo", "sock")
        assert names(copied(source, tmp_path)) == {"a"}


def test_names_of_any_bytes_come_along(tmp_path):
    strange = ["-rf", "a\nb", " ", '"q"', "\\x41", ":(top)x", os.fsdecode(b"\xff\xfe"), "é"]
    for source in (folder(tmp_path / "plain", {}), repository(tmp_path / "git", {})):
        folder(source, dict.fromkeys(strange, "x"))
        assert names(copied(source, tmp_path)) == set(strange)


def test_the_size_is_reported_before_copying(tmp_path):
    source = folder(tmp_path / "p", {"a": b"x" * 1000, "sub/b": b"y" * 24, "link": "->a"})
    plan = plan_copy(source, ())
    assert (plan.files, plan.bytes) == (3, 1024)


def test_large_files_are_the_same(tmp_path):
    content = os.urandom(300_000) + bytes(5_000_000)
    assert holds(copied(folder(tmp_path / "p", {"big": content}), tmp_path)) == {"big": content}


def test_nothing_is_overwritten(tmp_path):
    source = folder(tmp_path / "p", {"a": "a"})
    into = folder(tmp_path / "there", {"b": "b"})
    with pytest.raises(UsageError, match="already exists"):
        copy_planned(source, into, plan_copy(source, ()))
    assert names(into) == {"b"}


def test_a_copy_below_the_folder_does_not_copy_itself(tmp_path):
    source = folder(tmp_path / "p", {"a": "a"})
    copy_planned(source, source / "sandbox/one/workspace", plan_copy(source, ()))
    assert names(source / "sandbox/one/workspace") == {"a"}


def test_folders_of_stackmems_own_stay_behind(tmp_path):
    source = folder(tmp_path / "p", {"a": "a", "runs/old/trace.jsonl": "t", "sandbox/old/x": "x", "sub/runs/mine": "m"})
    own = (source / "runs", source / "sandbox", tmp_path / "elsewhere")
    assert plan_copy(source, (), own).skipped == ("runs", "sandbox")
    assert names(copied(source, tmp_path, own=own)) == {"a", "sub/runs/mine"}


def test_leftovers_of_a_killed_apply_are_not_copied(tmp_path):
    source = folder(tmp_path / "p", {"a": "a", f"{STAGE}/work/new0": "n"})
    assert names(copied(source, tmp_path)) == {"a"}


def test_a_folder_inside_a_sandbox_can_be_copied_itself(tmp_path):
    source = folder(tmp_path / "sandbox/p", {"a": "a"})
    assert names(copied(source, tmp_path, own=(tmp_path / "sandbox",))) == {"a"}


@pytest.mark.parametrize("missing", ["nowhere", "a-file"])
def test_there_must_be_a_folder(tmp_path, missing):
    (tmp_path / "a-file").write_text("x")
    with pytest.raises(UsageError, match="name"):
        plan_copy(tmp_path / missing, ())


def test_a_broken_repository_is_refused_since_its_ignore_rules_are_not_known(tmp_path):
    source = repository(tmp_path / "p", {"a": "a"})
    (source / ".git/HEAD").write_text("broken")
    with pytest.raises(UsageError, match="repair"):
        plan_copy(source, ())


def test_a_copy_that_cannot_be_written_leaves_nothing(tmp_path):
    source = folder(tmp_path / "p", {"a": "a"})
    with pytest.raises((UsageError, WorkspaceError)):
        copy_planned(source, source / "a" / "below-a-file", plan_copy(source, ()))
    assert names(source) == {"a"}


def test_hooks_monitors_and_filters_of_the_repository_are_not_run(tmp_path):
    source = repository(tmp_path / "p", {".gitattributes": "* filter=evil\n", "a": "a"})
    ran = tmp_path / "ran"
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "core.pager", "core.sshCommand"):
        run_git(source, "config", key, f"touch {ran}; cat")
    assert names(copied(source, tmp_path)) == {".gitattributes", "a"}
    assert not ran.exists()


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder that every user may enter."""
    place = Path(tempfile.mkdtemp(prefix="stackmem-test-"))
    place.chmod(0o755)
    yield place
    remove_tree(place)


@ROOT_ONLY
def test_unreadable_files_are_reported_before_copying(open_place):
    source = repository(open_place / "p", {f"f{number}": "x" for number in range(9)})
    folder(source, {"closed/inner": "x"})
    (source / "closed").chmod(0)
    for number in range(7):
        (source / f"f{number}").chmod(0o600)

    def refusal() -> str:
        os.environ["HOME"] = "/"
        with pytest.raises(UsageError) as caught:
            plan_copy(source, ())
        return str(caught.value)

    assert "closed, f0, f1, f2, f3 and 3 more" in as_user(NOBODY, refusal)


@ROOT_ONLY
def test_root_can_copy_a_repository_of_somebody_else(tmp_path):
    source = repository(tmp_path / "p", {".gitignore": "*.log\n", "a": "a"})
    folder(source, {"x.log": "x"})
    for at in (source, *source.rglob("*")):
        os.chown(at, NOBODY, NOBODY)
    assert names(copied(source, tmp_path)) == {".gitignore", "a"}


@pytest.mark.parametrize("path", [b"../secret", b"a/../../s", b"/etc/host", b"./aa/bbbb", b"a//bbcccc"])
def test_an_index_that_lists_files_outside_of_the_repository_is_refused(tmp_path, path):
    name = b"n" * len(path)
    source = repository(tmp_path / "p", {name.decode(): "a"})
    folder(tmp_path, {"secret": "s", "s": "s"})
    index = source / ".git" / "index"
    forged = index.read_bytes()[:-20].replace(name, path)
    index.write_bytes(forged + hashlib.sha1(forged, usedforsecurity=False).digest())
    with pytest.raises(UsageError, match="claims to track"):
        copied(source, tmp_path)
    assert not (tmp_path / "copies").exists()
