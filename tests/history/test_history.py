"""Trees of a workspace are byte-exact, whatever it contains or declares."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stackmem.core.errors import WorkspaceError
from stackmem.history.history import History, PathChange
from tests.history.folders import folder, holds, repository, run_git
from tests.workspace.people import for_everyone

CONVERTING = (
    "* text=auto eol=crlf\n*.dat filter=lfs diff=lfs merge=lfs -text\n*.id ident\n"
    "*.enc working-tree-encoding=UTF-16\n*.secret export-ignore\n*.evil diff=evil filter=evil\n"
)
STRANGE = ["-rf", "a\nb", " ", '"q"', "\\x41", ":(top)x", "!neg", "#hash", os.fsdecode(b"\xff\xfe"), "é", "*", "\t"]


def history(work: Path, **options) -> History:
    return History(work.parent / f"{work.name}.git", work, **options)


def patch_of(kept: History, before: str, after: str, place: Path) -> bytes:
    kept.write_patch(before, after, place / "patch")
    return (place / "patch").read_bytes()


def restored(kept: History, tree: str, into: Path) -> dict:
    """Return the folder that git restores from a tree, without attributes that could alter it."""
    empty = history(folder(into, {})).snapshot()
    patch = patch_of(kept, empty, tree, into.parent)
    if patch:
        subprocess.run(["git", "apply", "--binary", "--whitespace=nowarn", "-"], cwd=into, input=patch, check=True)
    return holds(into)


def changes(kept: History, before: str) -> dict[str, str]:
    return {change.path: change.kind for change in kept.changed(before, kept.snapshot())}


def test_files_are_kept_byte_for_byte_whatever_attributes_say(tmp_path):
    files = {
        "a.txt": b"one\r\ntwo\nthree\r",
        "b.dat": b"version https://git-lfs\n",
        "c.id": b"$Id$ $Id: x $\n",
        "d.enc": "h\u00e9\n".encode("utf-16"),
        "e.secret": b"s",
        "f.evil": b"f",
        "g.bin": bytes(range(256)),
    }
    work = folder(tmp_path / "w", {".gitattributes": CONVERTING, **files})
    kept = history(work)
    tree = kept.snapshot()
    ids = {change.path: change.after for change in kept.changed(history(folder(tmp_path / "0", {})).snapshot(), tree)}
    for name, content in files.items():
        stored = run_git(work, "--git-dir", str(tmp_path / "w.git"), "cat-file", "-s", ids[name])
        assert int(stored) == len(content)
    assert restored(kept, tree, tmp_path / "again").items() >= files.items()


def test_nothing_that_a_workspace_names_is_run(tmp_path):
    ran = tmp_path / "ran"
    work = repository(tmp_path / "w", {"a.evil": "a", ".gitattributes": CONVERTING})
    for key in ("core.fsmonitor", "diff.evil.command", "diff.evil.textconv", "filter.evil.clean", "diff.external"):
        run_git(work, "config", key, f"touch {ran}; cat")
    folder(
        work, {".git/hooks/post-index-change": f"#!/bin/sh\ntouch {ran}", ".gitconfig": f"[diff]\nexternal=touch {ran}"}
    )
    kept = history(work)
    before = kept.snapshot()
    folder(work, {"a.evil": "b", "new.evil": "n"})
    patch = patch_of(kept, before, kept.snapshot(), tmp_path)
    assert b"+b" in patch
    assert b"+n" in patch
    assert not ran.exists()


def test_the_same_files_have_the_same_tree_and_git_agrees_about_its_id(tmp_path):
    files = {"a/b": "x", "a.b": "y", "a-b": "z", "a0": "->a/b", "run": "#!x", "deep/er/f": b"\0"}
    work = repository(tmp_path / "w", files)
    assert history(work).snapshot() == run_git(work, "rev-parse", "HEAD^{tree}").strip()


def test_executable_bits_and_links_are_kept(tmp_path):
    files = {"run": "#!/bin/sh", "link": "->run", "dangling": "->/nowhere", "loop": "->loop"}
    kept = history(folder(tmp_path / "w", files))
    assert restored(kept, kept.snapshot(), tmp_path / "again") == files


def test_a_change_has_its_kind_and_its_contents(tmp_path):
    work = folder(tmp_path / "w", {"edited": "1", "gone": "g", "run": "x", "kind": "k"})
    kept = history(work)
    before = kept.snapshot()
    folder(work, {"edited": "2", "new": "#!n", "kind": "->edited"})
    (work / "gone").unlink()
    (work / "run").chmod(0o755)
    found = {change.path: change for change in kept.changed(before, kept.snapshot())}
    assert {path: change.kind for path, change in found.items()} == {
        "edited": "modified",
        "gone": "deleted",
        "kind": "modified",
        "new": "added",
        "run": "mode",
    }
    assert (found["gone"].after, found["gone"].after_mode, found["new"].before) == ("", "", "")
    assert (found["kind"].before_mode, found["kind"].after_mode) == ("100644", "120000")
    assert [path for path, change in found.items() if change.executable] == ["new", "run"]


def test_changes_outlive_the_process_as_json(tmp_path):
    work = folder(tmp_path / "w", {"a": "1"})
    kept = history(work)
    before = kept.snapshot()
    folder(work, dict.fromkeys(STRANGE, "x"))
    found = kept.changed(before, kept.snapshot())
    assert len(found) == len(STRANGE)
    assert msgspec.json.decode(msgspec.json.encode(found), type=list[PathChange]) == found


def test_names_of_any_bytes_are_kept(tmp_path):
    files = {name: name.encode("utf-8", "surrogateescape") for name in STRANGE}
    work = folder(tmp_path / "w", {})
    kept = history(work)
    kept.snapshot()
    folder(work, files)
    assert restored(kept, kept.snapshot(), tmp_path / "again") == files


def test_program_inputs_and_loop_results_are_stored_but_are_not_changes(tmp_path):
    work = folder(tmp_path / "w", {"a": "1"})
    kept = history(work)
    before = kept.snapshot()
    folder(work, {".stackmem/in/f/x": "long", ".stackmem/loop/1.jsonl": "{}\n", ".stackmem/mine": "m", "b": "2"})
    assert changes(kept, before) == {".stackmem/mine": "added", "b": "added"}
    assert b".stackmem/loop" not in patch_of(kept, before, kept.snapshot(), tmp_path)
    stored = run_git(work, "--git-dir", str(tmp_path / "w.git"), "ls-tree", "-r", "--name-only", kept.snapshot())
    assert {".stackmem/in/f/x", ".stackmem/loop/1.jsonl"} <= set(stored.split())


def test_without_changes_the_tree_is_the_same_and_the_patch_empty(tmp_path):
    kept = history(folder(tmp_path / "w", {"a": "1"}))
    before = kept.snapshot()
    assert kept.snapshot() == before
    assert kept.changed(before, before) == []
    assert patch_of(kept, before, before, tmp_path) == b""


def test_an_empty_workspace_has_a_tree(tmp_path):
    kept = history(folder(tmp_path / "w", {}))
    before = kept.snapshot()
    (tmp_path / "w/empty").mkdir()
    assert kept.snapshot() == before
    folder(tmp_path / "w", {"a": "a"})
    assert changes(kept, before) == {"a": "added"}


def test_nested_repositories_are_kept_as_files_without_their_git_folders(tmp_path):
    work = folder(tmp_path / "w", {"a": "a"})
    kept = history(work)
    before = kept.snapshot()
    repository(work / "nested", {"n": "n"})
    folder(work, {"pointer/.git": "gitdir: /etc", "pointer/p": "p", ".git": "gitdir: ..", "odd/.GIT/config": "c"})
    run_git(work / "nested", "init", "-q", "inner")
    folder(work, {"nested/inner/i": "i"})
    assert set(changes(kept, before)) == {"nested/n", "nested/inner/i", "pointer/p"}


def test_initial_files_are_tracked_even_if_ignored_later_ones_follow_gitignore(tmp_path):
    work = folder(tmp_path / "w", {".gitignore": "*.log\nout/\n", "old.log": "1", "out/kept": "k"})
    kept = history(work)
    before = kept.snapshot()
    folder(work, {"old.log": "2", "new.log": "n", "out/kept": "2", "later/out/x": "x", "out/more": "m", "new": "n"})
    assert changes(kept, before) == {"old.log": "modified", "out/kept": "modified", "new": "added"}
    (work / "old.log").unlink()
    assert changes(kept, before)["old.log"] == "deleted"


def test_later_rules_count_for_later_files_and_nested_rules_too(tmp_path):
    work = folder(tmp_path / "w", {"a": "a"})
    kept = history(work)
    before = kept.snapshot()
    folder(
        work, {".gitignore": "*.tmp\n!keep.tmp\n", "x.tmp": "x", "keep.tmp": "k", "sub/.gitignore": "y\n", "sub/y": "y"}
    )
    assert set(changes(kept, before)) == {".gitignore", "keep.tmp", "sub/.gitignore"}
    (work / ".gitignore").unlink()
    assert "x.tmp" in changes(kept, before)


def test_the_persons_own_ignore_rules_do_not_count(tmp_path, home):
    folder(home, {"config/git/ignore": "*\n", ".gitconfig": "[core]\nexcludesFile = ~/config/git/ignore\n"})
    kept = history(folder(tmp_path / "w", {}))
    before = kept.snapshot()
    folder(tmp_path / "w", {"a": "a"})
    assert changes(kept, before) == {"a": "added"}


def test_caches_and_installed_dependencies_are_left_out(tmp_path):
    installed = {
        ".venv/pyvenv.cfg": "",
        ".venv/lib/x.py": "x",
        "node_modules/.package-lock.json": "",
        "node_modules/i": "",
    }
    work = folder(tmp_path / "w", {"a": "a", "__pycache__/a.pyc": "p", **installed})
    kept = history(work)
    before = kept.snapshot()
    folder(work, {"__pycache__/b.pyc": "b", ".pytest_cache/x": "", "web/node_modules/x": "", ".venv/lib/x.py": "y"})
    folder(work, {"venv/pyvenv.cfg": "", "venv/x": ""})
    assert changes(kept, before) == {}
    assert restored(kept, before, tmp_path / "again") == {"a": b"a"}


def test_source_in_folders_of_such_names_is_kept(tmp_path):
    work = folder(tmp_path / "w", {"Lib/venv/__init__.py": "1", "fixtures/node_modules/a.js": "1"})
    kept = history(work)
    before = kept.snapshot()
    folder(work, {"Lib/venv/__init__.py": "2", "fixtures/node_modules/a.js": "2", "Lib/venv/new.py": "n"})
    assert len(changes(kept, before)) == 3


def test_folders_named_at_the_start_are_never_looked_into(tmp_path):
    work = folder(tmp_path / "w", {"a": "a", "deps\n/x": "x"})
    kept = history(work, leave_out=("deps\\n",))
    before = kept.snapshot()
    folder(work, {"deps\n/y": "y"})
    again = history(work)
    assert again.snapshot() == before


def test_a_file_that_grows_too_large_is_named_and_its_old_content_kept(tmp_path):
    work = folder(tmp_path / "w", {"grows": "small", "a": "a"})
    kept = history(work, largest_bytes=1000)
    before = kept.snapshot()
    folder(work, {"grows": b"x" * 1001, "huge": b"y" * 5000, "fits": b"z" * 1000})
    assert changes(kept, before) == {"fits": "added"}
    assert sorted((left.path, left.bytes) for left in kept.left_out) == [("grows", 1001), ("huge", 5000)]


def test_special_files_are_skipped_without_blocking(tmp_path):
    work = folder(tmp_path / "w", {"was": "w"})
    kept = history(work)
    before = kept.snapshot()
    (work / "was").unlink()
    os.mkfifo(work / "was")
    (work / "endless").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(work / "sock"))
        assert changes(kept, before) == {"was": "deleted", "endless": "added"}


def test_a_gitignore_that_is_a_fifo_does_not_block(tmp_path):
    work = folder(tmp_path / "w", {"a": "a"})
    kept = history(work)
    before = kept.snapshot()
    os.mkfifo(work / ".gitignore")
    folder(work, {"b": "b"})
    assert changes(kept, before) == {"b": "added"}
    assert [left.path for left in kept.left_out] == [".gitignore"]


def test_a_link_out_of_the_workspace_is_never_followed(tmp_path):
    outside = folder(tmp_path / "outside", {"secret": "s3cret"})
    work = folder(tmp_path / "w", {"d/secret": "mine"})
    kept = history(work)
    before = kept.snapshot()
    shutil.rmtree(work / "d")
    folder(work, {"d": f"->{outside}", ".gitignore": f"->{outside}/secret"})
    after = kept.snapshot()
    assert b"s3cret" not in patch_of(kept, before, after, tmp_path)
    assert changes(kept, before) == {"d": "added", "d/secret": "deleted", ".gitignore": "added"}


def test_a_workspace_that_became_a_link_is_refused(tmp_path):
    work = folder(tmp_path / "w", {"a": "a"})
    kept = history(work)
    kept.snapshot()
    work.rename(tmp_path / "moved")
    work.symlink_to("/etc")
    with pytest.raises(WorkspaceError, match="cannot be opened"):
        kept.snapshot()


def test_a_tree_of_endless_depth_is_left_out_and_named(tmp_path):
    work = folder(tmp_path / "w", {"a": "a"})
    kept = history(work)
    before = kept.snapshot()
    fd = os.open(work, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    try:
        assert changes(kept, before) == {}
        assert kept.left_out[0].reason == "below 256 folders"
    finally:
        subprocess.run(["rm", "-rf", str(work)], check=True)


@for_everyone
def test_unreadable_files_are_reported_and_not_treated_as_deleted(place):
    os.environ["HOME"] = str(place)
    work = folder(place / "w", {"closed/inner": "i", "open": "o", "f": "f"})
    kept = history(work)
    before = kept.snapshot()
    (work / "closed").chmod(0)
    folder(work, {"f": "changed"})
    (work / "f").chmod(0)
    if os.geteuid() == 0:  # root can read everything
        assert changes(kept, before) == {"f": "modified"}
        return
    assert changes(kept, before) == {}
    assert sorted(left.path for left in kept.left_out) == ["closed", "f"]
    (work / "closed").chmod(0o755)
    (work / "f").chmod(0o644)
    assert changes(kept, before) == {"f": "modified"}


def test_a_change_of_the_same_length_with_its_time_set_back_is_seen(tmp_path):
    work = folder(tmp_path / "w", {"a": "old"})
    os.utime(work / "a", ns=(10**18, 10**18))
    kept = history(work)
    before = kept.snapshot()
    time.sleep(0.05)
    kept.snapshot()
    (work / "a").write_text("new")
    os.utime(work / "a", ns=(10**18, 10**18))
    assert changes(kept, before) == {"a": "modified"}


def test_changes_in_quick_succession_are_all_seen(tmp_path):
    work = folder(tmp_path / "w", {"a": "000"})
    kept = history(work)
    trees = {kept.snapshot()}
    for number in range(1, 100):
        (work / "a").write_text(f"{number:03}")
        trees.add(kept.snapshot())
    assert len(trees) == 100


def test_a_reopened_history_continues(tmp_path):
    work = folder(tmp_path / "w", {".gitignore": "*.log\n", "old.log": "1"})
    before = history(work).snapshot()
    folder(work, {"old.log": "2", "new.log": "n"})
    assert changes(history(work), before) == {"old.log": "modified"}


def test_an_object_left_half_written_by_a_killed_process_does_no_harm(tmp_path):
    work = folder(tmp_path / "w", {"a": "1"})
    before = history(work).snapshot()
    (tmp_path / "w.git/objects" / f"unfinished_{os.getpid()}").write_bytes(b"half")
    folder(work, {"a": "2"})
    assert changes(history(work), before) == {"a": "modified"}


def test_an_unknown_tree_is_named_by_git(tmp_path):
    kept = history(folder(tmp_path / "w", {}))
    with pytest.raises(WorkspaceError, match="diff-tree"):
        kept.write_patch(kept.snapshot(), "1" * 40, tmp_path / "patch")
    assert not (tmp_path / "patch").exists()


def test_a_broken_state_is_named(tmp_path):
    work = folder(tmp_path / "w", {})
    history(work).snapshot()
    (tmp_path / "w.git/stackmem.json").write_text("{")
    with pytest.raises(WorkspaceError, match="start a new run"):
        history(work)


def test_a_store_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorkspaceError, match="another directory"):
        History(tmp_path / "file/git", tmp_path)


def test_a_store_whose_path_is_relative_works(tmp_path):
    work = folder(tmp_path / "w", {"a": "1"})
    place = os.path.relpath(tmp_path)
    kept = History(Path(place) / "store", Path(place) / "w")
    before = kept.snapshot()
    folder(work, {"a": "2", "b": "new"})
    assert changes(kept, before) == {"a": "modified", "b": "added"}


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=4).filter(
    lambda name: name not in {".", ".."} and name.lower() not in {".git", ".gitignore"}
)
FILES = st.dictionaries(NAMES, st.binary(max_size=20), max_size=4)


@given(FILES, FILES)
@settings(max_examples=25)
def test_a_patch_leads_from_one_state_to_the_other(tmp_path_factory, first, second):
    place = tmp_path_factory.mktemp("any")
    work = folder(place / "w", first)
    kept = history(work)
    before = kept.snapshot()
    for name in first:
        (work / name).unlink()
    folder(work, second)
    after = kept.snapshot()
    start = restored(kept, before, place / "0")
    assert start == first
    subprocess.run(
        ["git", "apply", "--binary", "--whitespace=nowarn", "--allow-empty", "-"],
        cwd=place / "0",
        input=patch_of(kept, before, after, place),
        check=True,
    )
    assert holds(place / "0") == second
