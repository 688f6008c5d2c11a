"""Attacks on a layer over the user's folder: by its files, by a concurrent process, and by kill -9."""

import os
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from stackmem.history.hidden import plan_layer
from stackmem.history.layer import Overlay, make_upper
from stackmem.history.repository import plan_copy
from stackmem.workspace.files import Files
from stackmem.workspace.tree import remove_tree
from tests.conftest import CAMPAIGN
from tests.history.folders import folder, holds
from tests.history.test_layer import START, laid, make, overlay, seen
from tests.workspace.people import for_everyone
from tests.workspace.sandboxes import soon

MARKS = ("opaque", "whiteout", "redirect", "metacopy", "origin", "impure", "nlink")


def works(hers: Path, scratch: Path) -> None:
    """Mount a layer and write to it forever."""
    over = Overlay(hers, scratch, (b".hidden",))
    at = Path(f"/proc/self/fd/{over.view.fd}")
    while True:
        (at / "a.txt").write_text("mine\n" * 1000)
        (at / "a.txt").rename(at / "b.txt")
        (at / "b.txt").unlink()


def writes(file: Path) -> None:
    while True:
        with file.open("a") as end:
            end.write("hers\n" * 100)


@contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[int]:
    """Run this in another process until it is killed."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            work()
        os._exit(1)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL  # it was still running when killed


def mounting(place: Path) -> list[str]:
    """Return the processes that see a mount below a path, or have the path among their arguments."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            texts = (Path(f"/proc/{name}/{file}").read_bytes() for file in ("mountinfo", "cmdline"))
            if any(os.fsencode(place) in text for text in texts):
                found.append(name)
    return found


@for_everyone
@pytest.mark.parametrize("pause", [0.0, 0.01, 0.03, 0.1] + [number / 250 for number in range(100)] * CAMPAIGN)
def test_a_killed_process_leaves_no_mount_and_files_that_can_be_mounted_again(place: Path, pause):
    hers = folder(place / "hers", START)
    before, scratch = holds(hers), make(place / "scratch")
    make_upper(hers, scratch)
    with meanwhile(lambda: works(hers, scratch)):
        time.sleep(pause)
    assert soon(lambda: not mounting(place))
    assert holds(hers) == before
    with closing(Overlay(hers, scratch, (b".hidden",))) as over:
        assert seen(over) - {"a.txt", "b.txt"} == {"d", "run.sh", "out"}
    remove_tree(scratch)
    assert not scratch.exists()


@for_everyone
def test_marks_of_the_kernels_that_the_folder_brings_may_close_a_file_and_lead_nowhere_else(place: Path):
    hers = folder(place / "hers", START)
    before = holds(hers)
    folder(place / "outside", {"one.txt": "hidden words"})
    folder(place, {"decoy": "untouched"})
    for name in ("d", "d/one.txt", "a.txt"):
        for mark in MARKS:
            value = os.fsencode(place / "outside") if mark == "redirect" else b"y"
            os.setxattr(hers / name, f"user.overlay.{mark}", value)
    with closing(overlay(hers, make(place / "scratch"), ())) as over:
        at = Path(f"/proc/self/fd/{over.view.fd}")
        assert holds(at).items() <= before.items()
        for name in START:
            with (
                suppress(OSError),
                os.fdopen(os.open(at / name, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW), "w") as file,
            ):
                file.write("changed")
    assert holds(hers) == before
    assert (place / "decoy").read_text() == "untouched"


@for_everyone
def test_file_tools_stay_in_the_layer_if_a_folder_becomes_a_link(place: Path):
    outside = folder(place / "outside", {"one.txt": "hidden words\n"})
    with laid(place) as here:
        (here.hers / "d").rename(here.hers / "was")
        (here.hers / "d").symlink_to(outside)
        (here.hers / "e").symlink_to(outside)
        with closing(Files(here.over.view.fd, "/workspace")) as files:
            for name in ("d/one.txt", "e/one.txt", "was/one.txt"):
                assert "hidden words" not in files.read(name, None, None, 1000).text
                files.write(name, "mine")
            assert "hidden words" not in files.list(".").text
        here.history.snapshot()
        assert "hidden words" not in here.patch().decode()
        assert {"d", "e", "was/"} <= set(here.history.changed_meanwhile())
    assert holds(outside) == {"one.txt": b"hidden words\n"}


@for_everyone
def test_special_files_that_appear_in_the_folder_do_not_block(place: Path):
    with laid(place) as here:
        os.mkfifo(here.hers / "pipe")
        if os.geteuid() == 0:
            os.mknod(here.hers / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
            os.mknod(here.hers / "gone", stat.S_IFCHR, os.makedev(0, 0))
            with pytest.raises(PermissionError):
                os.open("zero", os.O_RDONLY, dir_fd=here.over.view.fd)
        with closing(Files(here.over.view.fd, "/workspace")) as files:
            for name in ("pipe", "zero", "gone"):
                assert files.read(name, None, None, 1000).failed
                assert files.write(name, "mine").failed == (here.hers / name).exists() or name == "gone"
        assert here.changes("echo b >> a.txt")["a.txt"] == "modified"


def test_a_folder_that_holds_whiteouts_and_devices_shows_none_of_them(tmp_path: Path):
    if os.geteuid() != 0:
        pytest.skip("only root can create devices")
    hers = folder(tmp_path / "hers", START)
    os.mknod(hers / "disk", stat.S_IFBLK, os.makedev(8, 0))
    os.mknod(hers / "d" / "white", stat.S_IFCHR, os.makedev(0, 0))
    plan = plan_layer(hers)
    assert set(plan.skipped) == {"disk", "d/white"} == set(plan_copy(hers, ()).skipped)
    with closing(overlay(hers, make(tmp_path / "scratch"))) as over:
        assert seen(over) == {"a.txt", "d", "run.sh", "out"}
        assert set(os.listdir(f"/proc/self/fd/{over.view.fd}/d")) == {"one.txt", "two.txt"}


@for_everyone
def test_a_file_written_during_its_copy_up_is_reported_and_not_patched(place: Path):
    with laid(place) as here:
        with meanwhile(lambda: writes(here.hers / "a.txt")):
            assert soon(lambda: (here.hers / "a.txt").stat().st_size > 10_000)
            here.run("echo mine >> a.txt")
        assert here.changes()["a.txt"] == "modified"
        assert [left.path for left in here.history.left_out] == ["a.txt"]
        assert "a.txt" in here.history.changed_meanwhile()


@for_everyone
def test_a_lower_file_that_vanishes_meanwhile_is_named_as_it_is_gone(place: Path):
    with laid(place) as here:
        (here.hers / "d" / "one.txt").unlink()
        assert "d/" in here.history.changed_meanwhile()
        with closing(Files(here.over.view.fd, "/workspace")) as files:
            files.read("d/one.txt", None, None, 1000)
            assert not files.write("d/one.txt", "mine").failed
        here.history.snapshot()
        assert b"mine" in here.patch()


@for_everyone
def test_a_folder_is_renamed_by_what_copies_and_the_refusal_of_the_kernel_is_the_one_that_programs_know(place: Path):
    with laid(place) as here:
        fails = (
            "import os, errno\ntry: os.rename('d', 'e')\nexcept OSError as e: raise SystemExit(e.errno != errno.EXDEV)"
        )
        assert here.changes(f'/usr/bin/python3 -c "{fails}"') == {}
        assert here.changes("mv d e") == {
            "d/one.txt": "deleted", "d/two.txt": "deleted", "e/one.txt": "added", "e/two.txt": "added",
        }  # fmt: skip
        assert here.changes("mv e d") == {}
