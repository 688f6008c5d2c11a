"""Hostile paths: what may be read, written and listed, as root and as a user, with both resolvers."""

import hashlib
import os
import resource
import signal
import socket
import stat
from pathlib import Path

import pytest

from stackmem.core.errors import WorkspaceError
from stackmem.workspace.file_tools import DIGESTED_BYTES
from stackmem.workspace.files import Files
from stackmem.workspace.outcome import ToolOutcome
from tests.workspace.people import for_everyone
from tests.workspace.scenes import SECRET, on_each_ground, scene

OUTSIDE = [
    "../outside/file", "d/../../outside/file", "../" * 40 + "etc/passwd", "/etc/passwd", "/", "..",
    "/workspace/../outside/file", "/workspace-evil/file", "/work", "//etc/passwd", "/etc/../workspace/d/file",
    "link_rel", "link_abs", "link_dir/file", "link_up/outside/file", "link_zero", "link_self/d/file", "link_gone",
]  # fmt: skip
LITERAL = ["~", "~/x", "$HOME", "d/*", "%2e%2e/outside/file", "d\\..\\file", "${HOME}", "`id`", "file://etc/passwd"]


def hostile(place, opener=None):
    at = scene(place, opener)
    evil = place / "ws-evil"
    evil.mkdir()
    (evil / "file").write_text(SECRET)
    links = {"link_rel": "../outside/file", "link_abs": at.outside / "file", "link_dir": "../outside", "link_up": "..",
             "link_zero": "/dev/zero", "link_self": at.ws, "link_gone": "../outside/new"}  # fmt: skip
    for name, target in links.items():
        (at.ws / name).symlink_to(target)
    return at


def refused(outcome, words):
    """Return a refusal after checking that it is a single line with a reason and a fix."""
    assert outcome.failed, outcome
    assert words in outcome.text, outcome.text
    assert "\n" not in outcome.text
    assert ";" in outcome.text
    assert len(outcome.text) < 500
    assert SECRET not in outcome.text
    return True


@on_each_ground
@for_everyone
def test_outside_paths_are_not_read_listed_or_digested(place, opener):
    at = hostile(place, opener)
    for path in OUTSIDE:
        assert refused(at.read(path), "outside the workspace"), path
        assert refused(at.list(path), "outside the workspace"), path
        assert at.digest(path) == "outside", path


@on_each_ground
@for_everyone
def test_outside_paths_are_not_written(place, opener):
    at = hostile(place, opener)
    before = sorted(os.listdir(place))
    for path in [*OUTSIDE, "../ws-evil/new", "link_dir/new", "/workspace/link_dir/new"]:
        refused(at.write(path), "")
        assert at.untouched(), path
    assert sorted(os.listdir(place)) == before
    assert os.listdir(place / "ws-evil") == ["file"]


@for_everyone
def test_a_sibling_whose_name_begins_like_the_workspace_is_outside(place):
    at = hostile(place)
    files = Files(at.ws, str(at.ws))
    assert refused(files.read(f"{at.ws}-evil/file", None, None, 999), "outside")
    assert files.read(f"{at.ws}/d/file", None, None, 999) == ToolOutcome("inside")


@for_everyone
def test_the_absolute_path_of_the_workspace_is_as_good_as_a_relative_one(place):
    at = scene(place)
    for prefix in ("/workspace/", "//workspace//", "/./workspace/./", "./", ""):
        assert at.read(prefix + "d/file") == ToolOutcome("inside")
        assert at.list(prefix + "d").text == "d/file  (6 bytes)"
        assert at.digest(prefix + "d/file") == hashlib.sha256(b"inside").hexdigest()
    assert at.list("/workspace") == at.list("/workspace/") == at.list(".") == at.list("./")
    assert not at.write("/workspace/d/new").failed
    assert (at.ws / "d" / "new").read_text() == "new"


@on_each_ground
@for_everyone
def test_a_symlink_within_the_workspace_is_read_through_and_not_written_through(place, opener):
    at = scene(place, opener)
    (at.ws / "link").symlink_to("d/file")
    (at.ws / "dirlink").symlink_to("d")
    assert at.read("link") == at.read("dirlink/file") == ToolOutcome("inside")
    assert refused(at.write("link"), "is a symlink")
    assert not at.write("dirlink/new").failed
    assert (at.ws / "link").is_symlink()
    assert (at.ws / "d" / "file").read_text() == "inside"


@on_each_ground
@for_everyone
def test_a_loop_of_symlinks_ends(place, opener):
    at = scene(place, opener)
    (at.ws / "a").symlink_to("b")
    (at.ws / "b").symlink_to("a")
    for outcome in (at.read("a"), at.list("a"), at.write("a/x")):
        assert refused(outcome, "loop of symlinks")
    assert at.digest("a") == "unknown"


@on_each_ground
@for_everyone
def test_a_fifo_and_a_socket_are_refused_at_once(place, opener):
    at = scene(place, opener)
    os.mkfifo(at.ws / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(at.ws / "sock"))
        server.listen()
        server.settimeout(0)
        for path in ("fifo", "sock"):  # opening it and waiting would block forever
            assert refused(at.read(path), "not a regular file")
            assert refused(at.write(path), "not a regular file")
            assert refused(at.list(path), "not a directory")
            assert at.digest(path) == "unknown"
        with pytest.raises(BlockingIOError):
            server.accept()  # nobody connected
    assert at.list().text.splitlines()[2:] == ["fifo  (FIFO)", "sock  (socket)"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device node")
def test_a_device_is_refused(tmp_path):
    at = scene(tmp_path)
    os.mknod(at.ws / "zero", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    assert refused(at.read("zero"), "is not a regular file, but a device")
    assert refused(at.write("zero"), "is not a regular file, but a device")
    assert "zero  (device)" in at.list().text


@for_everyone
def test_a_directory_is_not_read_and_a_file_is_not_listed(place):
    at = scene(place)
    for path in ("d", "d/", "."):
        assert refused(at.read(path), "is a directory; list_files")
        assert at.digest(path) == "unknown"
    # a small model that met a program alternated between both calls until its steps ran out
    assert refused(at.list("d/file"), "is not a directory, or leads through a file; read_file reads it, run_command")


@for_everyone
def test_each_way_to_write_where_nothing_can_be_written_is_told_apart(place):
    at = scene(place)
    assert refused(at.write("d"), "'d' is a directory")
    assert refused(at.write("d/"), "names a directory")
    assert refused(at.write("d/.."), "names a directory")
    assert refused(at.write("."), "names a directory")
    assert refused(at.write("d/file/new"), "leads through something that is not a directory; list_files with path . ")
    assert refused(at.write("n" * 256), "too long")
    assert sorted(os.listdir(at.ws)) == ["d"]


@on_each_ground
@for_everyone
def test_an_impossible_path_is_refused_in_one_line(place, opener):
    at = scene(place, opener)
    for path in (
        "",
        "bad\0name",
        "n" * 256,
        "x/" * 3000,
        "\ud800",
        "x" * 10_000_000,
        "d/file/",
        "d/file/.",
        "\x1b[31m\n\u202e",
    ):
        for outcome in (at.read(path), at.list(path), at.write(path + "/" if path.startswith("\x1b") else path)):
            refused(outcome, "")
            outcome.text.encode()
            assert not set(outcome.text) & set("\x1b\n\u202e\0")
        assert at.digest(path) == "missing"


@for_everyone
def test_nothing_in_a_path_is_expanded(place):
    at = scene(place)
    for path in LITERAL:
        assert refused(at.read(path), "does not exist"), path
    assert not at.write("~").failed
    assert not at.write("d/*.$HOME %2e").failed
    assert sorted(os.listdir(at.ws)) == ["d", "~"]
    assert sorted(os.listdir(at.ws / "d")) == ["*.$HOME %2e", "file"]


@on_each_ground
@for_everyone
def test_a_hostile_name_is_listed_escaped_and_works_as_it_is_listed(place, opener):
    at = scene(place, opener)
    names = [
        b"line\nfeed",
        b"esc\x1b[31m",
        b"-rf",
        "bidi\u202e".encode(),
        b"invalid\xff\xfe",
        b"back\\slash",
        b" space ",
        b"in\\nside",
    ]
    (at.ws / "we\nird").mkdir()
    for name in names:
        for directory in (os.fsencode(at.ws), os.fsencode(at.ws / "we\nird")):
            with Path(os.fsdecode(directory + b"/" + name)).open("wb") as file:
                file.write(name)
    listed = [line.split("  (")[0] for line in at.list().text.splitlines()]
    shown = [name for name in listed if not name.endswith("/")]
    assert len(shown) == 2 * len(names) + 1
    for name in shown:
        assert not at.read(name).failed, name
        assert at.digest(name) not in {"missing", "unknown"}
        assert at.write(name, "again").text.endswith(" bytes"), name
        assert at.read(name).text == "again"
    assert [line.split("  (")[0] for line in at.list().text.splitlines()] == listed
    assert len(at.list(r"we\nird").text.splitlines()) == len(names)
    assert not at.write(r"we\nird/new\x1b").failed
    assert (at.ws / "we\nird" / "new\\x1b").exists()


@for_everyone
def test_a_file_that_is_spelled_like_an_escaped_name_is_the_one_that_is_meant(place):
    at = scene(place)
    (at.ws / "a\nb").write_text("escaped")
    assert at.read(r"a\nb").text == "escaped"
    (at.ws / r"a\nb").write_text("literal")
    assert at.read(r"a\nb").text == "literal"
    assert at.read(r"a\\nb").text == "literal"
    assert not at.write(r"a\nb", "changed").failed
    assert (at.ws / "a\nb").read_text() == "escaped"


@for_everyone
def test_an_escaped_spelling_leads_nowhere_that_a_plain_one_does_not(place):
    at = scene(place)
    for path in (r"\x2e\x2e/outside/file", r"..\x2foutside\x2ffile", r"\x2fetc\x2fpasswd", r"d\x00/x", r"a\x00"):
        assert refused(at.read(path), "does not exist")
        at.write(path)
    assert at.untouched()


@for_everyone
def test_a_write_keeps_the_mode_and_drops_what_raises_privileges(place):
    at = scene(place)
    for before, after in ((0o755, 0o755), (0o600, 0o600), (0o6755, 0o755), (0o1644, 0o644), (0o444, 0o444)):
        (at.ws / "f").touch()
        (at.ws / "f").chmod(before)
        assert not at.write("f").failed
        assert stat.S_IMODE((at.ws / "f").stat().st_mode) == after
    assert not at.write("g").failed
    assert stat.S_IMODE((at.ws / "g").stat().st_mode) == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write other users' files")
def test_a_file_keeps_its_owner_when_root_writes_it(tmp_path):
    at = scene(tmp_path)
    os.chown(at.ws / "d" / "file", 12345, 54321)
    assert not at.write("d/file").failed
    status = (at.ws / "d" / "file").stat()
    assert (status.st_uid, status.st_gid) == (12345, 54321)


@for_everyone
def test_a_hard_link_to_a_file_outside_is_broken_and_the_file_stays(place):
    at = scene(place)
    os.link(at.outside / "file", at.ws / "linked")
    assert not at.write("linked").failed
    assert (at.ws / "linked").read_text() == "new"
    assert at.untouched()


@for_everyone
def test_a_write_says_what_it_did_and_leaves_nothing_else_behind(place):
    at = scene(place)
    assert at.write("d/new", "é\n") == ToolOutcome("wrote 3 bytes to 'd/new'; it is new")
    assert at.write("d/new", "é\n") == ToolOutcome(
        "nothing changed: 'd/new' has exactly this content already; run it, or do what remains"
    )
    assert at.write("d/new", "") == ToolOutcome("wrote 0 bytes to 'd/new'; it had 3 bytes")
    assert refused(at.write("d/half", "ab\ud800"), "character 3 of the content is half a character")
    assert sorted(os.listdir(at.ws / "d")) == ["file", "new"]


@for_everyone
def test_a_write_that_fails_half_way_leaves_the_file_as_it_was(place):
    at = scene(place)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        outcome = at.write("d/file", "x" * 200_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert refused(outcome, "larger than a file may be")
    assert at.read("d/file").text == "inside"
    assert os.listdir(at.ws / "d") == ["file"]


@for_everyone
def test_files_without_permission_are_refused_to_a_user(place):
    at = scene(place)
    (at.ws / "d" / "file").chmod(0)
    (at.ws / "shut").mkdir(0o500)
    read, write = at.read("d/file"), at.write("shut/new")
    if os.geteuid() == 0:
        assert (read.text, write.failed) == ("inside", False)
    else:
        assert refused(read, "no permission to read 'd/file'")
        assert refused(write, "no permission to write 'shut/new'")
        assert at.digest("d/file") == "unknown"


PROTECTED = [
    ".git/hooks/pre-commit", ".git/config", ".git/CONFIG", ".git/hooks", ".git", "d/../.git/hooks/x",
    "d/../.git/config", "to_hooks/x", "to_git/config", "/workspace/.git/hooks/x", ".git/./hooks//x",
    "stackmem.toml", "d/../stackmem.toml",
]  # fmt: skip


@on_each_ground
@for_everyone
def test_files_that_git_would_run_on_the_host_are_not_written(place, opener):
    at = scene(place, opener)
    (at.ws / ".git" / "hooks").mkdir(parents=True)
    (at.ws / "to_hooks").symlink_to(".git/hooks")
    (at.ws / "to_git").symlink_to(".git")
    for path in PROTECTED:
        assert refused(at.write(path), "is protected"), path
    assert os.listdir(at.ws / ".git" / "hooks") == []
    assert os.listdir(at.ws / ".git") == ["hooks"]
    for path in (".git/COMMIT_EDITMSG", "d/config", "hooks", ".gitignore", "d/stackmem.toml"):
        assert not at.write(path).failed, path
    assert not at.read(".git/COMMIT_EDITMSG").failed


@for_everyone
def test_a_repository_is_not_set_up_by_writing_its_git_file(place):
    at = scene(place)
    assert refused(at.write(".git", "gitdir: d"), "is protected")
    (at.ws / ".git").write_text("gitdir: elsewhere")  # a worktree
    assert refused(at.write(".git", "gitdir: d"), "is protected")
    assert not at.write("d/file").failed


@for_everyone
def test_the_tools_stay_with_the_directory_when_the_workspace_is_renamed(place):
    at = scene(place)
    at.ws.rename(place / "moved")
    (place / "ws").mkdir()
    assert at.read("d/file").text == "inside"
    assert not at.write("d/new").failed
    assert (place / "moved" / "d" / "new").exists()
    assert os.listdir(place / "ws") == []


@for_everyone
def test_the_tools_fail_cleanly_when_the_workspace_is_gone(place):
    at = scene(place)
    (at.ws / "d" / "file").unlink()
    (at.ws / "d").rmdir()
    at.ws.rmdir()
    assert refused(at.read("d/file"), "does not exist")
    assert refused(at.write("new"), "does not exist")
    assert at.list().text == "[empty directory]"


@for_everyone
def test_a_digest_is_of_the_content_and_known_only_for_files_of_moderate_size(place):
    at = scene(place)
    assert at.digest("d/file") == hashlib.sha256(b"inside").hexdigest()
    assert at.digest("d/gone") == at.digest("d/file/x") == "missing"
    with (at.ws / "big").open("wb") as file:
        file.truncate(DIGESTED_BYTES)
    assert len(at.digest("big")) == 64
    with (at.ws / "big").open("ab") as file:
        file.write(b"x")
    assert at.digest("big") == "unknown"


def test_a_workspace_that_is_not_a_directory_is_an_error_with_a_fix(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for path in ("gone", "file", "link"):
        with pytest.raises(WorkspaceError, match=r"is not a directory that can be opened .*; start the run"):
            Files(tmp_path / path, "/workspace")


@on_each_ground
def test_no_descriptor_is_left_open(tmp_path, opener):
    at = hostile(tmp_path, opener)
    before = os.listdir("/proc/self/fd")
    for path in [*OUTSIDE, *LITERAL, *PROTECTED, "d", "d/file", "."]:
        at.read(path), at.list(path), at.write(path), at.digest(path)
    assert os.listdir("/proc/self/fd") == before
    at.files.close()
    at.files.close()
    assert len(os.listdir("/proc/self/fd")) == len(before) - 1
