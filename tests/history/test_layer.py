"""A layer over the user's folder, as root and as a user: what a run sees, leaves behind, and cannot do."""

import os
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from stackmem.core.errors import WorkspaceError
from stackmem.history.apply import Outcome, Patch, apply_patches
from stackmem.history.hidden import plan_layer
from stackmem.history.history import History, folder_under, share
from stackmem.history.layer import Overlay, make_upper, why_no_layer
from stackmem.history.restore import restore
from stackmem.workspace.overlay.mount import refresh
from tests.history.folders import folder, holds, repository
from tests.workspace.people import for_everyone

# The link leads out of the folder to a decoy next to it. It must never name a file of the machine: a test once wrote
# through it as root and destroyed /etc/passwd.
START = {"a.txt": "a\n", "d/one.txt": "one\n", "d/two.txt": "two\n", "run.sh": "#!/bin/sh\n", "out": "->../decoy"}


def overlay(hers: Path, scratch: Path, hidden: tuple[bytes, ...] | None = None) -> Overlay:
    make_upper(hers, scratch)
    return Overlay(hers, scratch, plan_layer(hers).hidden if hidden is None else hidden)


class Laid:
    """A folder, a layer over it, and the history of its changes."""

    def __init__(self, place: Path) -> None:
        self.place, self.hers = place, place / "hers"
        self.over = overlay(self.hers, make(place / "scratch"))
        self.history = History(place / "history.git", place / "scratch" / "workspace", overlay=self.over)
        self.start = self.history.snapshot()

    def run(self, script: str) -> None:
        """Change the files as a command would, but without a sandbox."""
        words = self.over.view.entered("/bin/sh", "-ec", f"cd '{self.over.view.root}'\n{script}")
        subprocess.run(words, check=True, pass_fds=self.over.view.fds)

    def changes(self, script: str = "") -> dict[str, str]:
        self.run(script)
        return {change.path: change.kind for change in self.history.changed(self.start, self.history.snapshot())}

    def patch(self) -> bytes:
        self.history.write_patch(self.start, self.history.snapshot(), self.place / "patch")
        return (self.place / "patch").read_bytes()


def apply(here: Laid) -> Outcome:
    changes = here.history.changed(here.start, here.history.snapshot())
    return apply_patches([Patch(here.patch(), changes)], here.hers)


def make(path: Path) -> Path:
    path.mkdir(mode=0o700)
    return path


@contextmanager
def laid(place: Path, files: dict[str, str] | None = None) -> Iterator[Laid]:
    folder(place / "hers", files or START)
    made = Laid(place)
    with closing(made.over):
        yield made


def seen(over: Overlay) -> set[str]:
    return set(os.listdir(f"/proc/self/fd/{over.view.fd}"))


@for_everyone
def test_the_patch_contains_exactly_the_changes_of_the_run(place: Path):
    with laid(place) as here:
        before = holds(here.hers)
        kinds = here.changes("echo b >> a.txt; rm d/one.txt; mkdir n; echo new > n/new.txt; chmod -x run.sh; : >> out2")
        assert kinds == {
            "a.txt": "modified", "d/one.txt": "deleted", "n/new.txt": "added", "out2": "added", "run.sh": "mode",
        }  # fmt: skip
        assert holds(here.hers) == before
        assert {path.name for path in here.over.upper.iterdir()} == {"a.txt", "d", "n", "out2", "run.sh"}
        apply(here)
        assert holds(here.hers) == holds_merged(here)


def holds_merged(here: Laid) -> dict:
    copy = here.place / "merged"
    words = here.over.view.entered("/bin/cp", "-a", str(here.over.view.root), str(copy))
    subprocess.run(words, check=True, pass_fds=here.over.view.fds)
    return holds(copy)


@for_everyone
def test_files_that_a_copy_omits_are_not_visible(place: Path):
    rules = "*.log\nbuild/\n.venv/\n"
    here = repository(place / "hers", {"a.txt": "a\n", ".gitignore": rules, "d/kept.log": "kept\n"})
    folder(here, {
        ".env": "KEY=1", "d/.env.local": "KEY=2", "x.log": "log", "build/deep/o": "o",
        ".venv/pyvenv.cfg": "home = /usr", ".venv/.env": "KEY=3", ".venv/lib/x.log": "log", "build/deep/wanted": "yes",
    })  # fmt: skip
    os.mkfifo(here / "pipe")
    repository(here / "inner", {".gitignore": "secret\n", "shown": "yes\n"})
    folder(here / "inner", {"secret": "no"})
    plan = plan_layer(here, ("build/deep/wanted",), (place / "scratch",))
    assert plan.folders == (".venv",)
    assert {b".git", b".env", b"d/.env.local", b"x.log", b"build/deep/o", b"pipe", b"inner/.git", b"inner/secret"} <= {
        *plan.hidden
    }
    with closing(overlay(here, make(place / "scratch"), plan.hidden)) as over:
        assert seen(over) == {"a.txt", ".gitignore", "d", "build", ".venv", "inner"}
        below = {name: set(os.listdir(f"/proc/self/fd/{over.view.fd}/{name}")) for name in ("d", ".venv", "inner")}
        assert below == {"d": {"kept.log"}, ".venv": {"pyvenv.cfg", "lib"}, "inner": {".gitignore", "shown"}}
        assert os.listdir(f"/proc/self/fd/{over.view.fd}/build/deep") == ["wanted"]
        assert os.stat("d", dir_fd=over.view.fd).st_mode == (here / "d").stat().st_mode
    assert list((place / "scratch" / "workspace").iterdir()) == []


@for_everyone
def test_a_replaced_folder_loses_its_content_and_a_restored_file_is_unchanged(place: Path):
    with laid(place) as here:
        assert here.changes("rm -r d; mkdir d; echo three > d/three.txt; mv a.txt b.txt") == {
            "a.txt": "deleted", "b.txt": "added", "d/one.txt": "deleted", "d/three.txt": "added",
            "d/two.txt": "deleted",
        }  # fmt: skip
        assert here.changes("rm -r d; echo now a file > d")["d"] == "added"
        put_back = "rm -r d; mkdir d; echo one > d/one.txt; echo two > d/two.txt; mv b.txt a.txt"
        assert here.changes(put_back) == {}
        assert here.history.snapshot() == here.start


@for_everyone
def test_special_files_are_reported_never_opened_and_links_not_followed(place: Path):
    folder(place / "outside", {"secret.txt": "hidden words\n"})
    with laid(place) as here:
        kinds = here.changes(
            f"mkfifo pipe d/.gitignore; ln -s '{place}/outside' way; rm -r d; ln -s '{place}/outside' d"
        )
        assert kinds == {"d": "added", "d/one.txt": "deleted", "d/two.txt": "deleted", "way": "added"}
        assert [left.path for left in here.history.left_out] == ["pipe"]
        assert b"hidden words" not in here.patch()
        if os.geteuid() == 0:
            os.mknod(here.over.upper / "disk", stat.S_IFBLK, os.makedev(8, 0))  # allowed in a namespace owned by root
            here.history.snapshot()
            assert {left.path for left in here.history.left_out} == {"pipe", "disk"}


@for_everyone
def test_whiteouts_cannot_be_created_and_forged_marks_hide_nothing(place: Path):
    with laid(place) as here:
        with pytest.raises(PermissionError):
            os.mknod("a2", stat.S_IFCHR, os.makedev(0, 0), dir_fd=here.over.view.fd)
        forge = "import os; os.setxattr('d', 'user.overlay.opaque', b'y')"
        here.run(f'/usr/bin/python3 -c "{forge}" || true')
        assert set(os.listdir(f"/proc/self/fd/{here.over.view.fd}/d")) == {"one.txt", "two.txt"}
        assert here.changes() == {}


@for_everyone
def test_concurrent_changes_in_the_folder_are_reported_and_not_overwritten(place: Path):
    with laid(place) as here:
        folder(here.hers, {"d/two.txt": "hers\n", "new.txt": "hers\n"})
        before = holds(here.hers)
        kinds = here.changes("echo b >> a.txt; echo mine > d/two.txt")
        assert kinds == {"a.txt": "modified", "d/two.txt": "modified"}
        assert {"d/two.txt", "new.txt"} <= set(here.history.changed_meanwhile())
        assert [left.path for left in here.history.left_out] == ["d/two.txt"]
        assert apply(here) == Outcome(("a.txt",), refused=("d/two.txt",))
        assert holds(here.hers) == {**before, "a.txt": b"a\nb\n"}


@for_everyone
def test_a_layer_is_mounted_again_over_what_was_changed_in_it(place: Path):
    with laid(place) as here:
        here.changes("echo b >> a.txt; rm d/one.txt; echo new > new.txt")
        tree = here.history.snapshot()
    folder(place / "hers", {".env": "KEY=1"})
    over = overlay(place / "hers", place / "scratch")
    with closing(over):
        assert seen(over) == {"a.txt", "d", "run.sh", "out", "new.txt"}
        assert folder_under(place / "history.git") == place / "hers"
        again = History(place / "history.git", over.view.root, overlay=over)
        assert again.snapshot() == tree
        (over.upper / "a.txt").write_text("killed in a call\n")
        assert restore(again, place / "history.git", over.view.root, tree, time.time()) == ()
        assert (over.upper / "a.txt").read_text() == "a\nb\n"


@for_everyone
def test_a_fork_has_its_own_layer_at_its_first_step(place: Path):
    with laid(place) as here:
        here.changes("echo b >> a.txt; rm d/one.txt")
        middle = here.history.snapshot()
        here.changes("echo c >> a.txt; rm -r d; echo new > new.txt")
        share(place / "history.git", make(place / "fork") / "history.git", middle)
        with closing(overlay(here.hers, place / "fork")) as over:
            history = History(place / "fork" / "history.git", over.view.root, overlay=over)
            restore(history, place / "fork" / "history.git", over.view.root, middle, time.time())
            assert history.snapshot() == middle
            assert seen(over) == {"a.txt", "d", "run.sh", "out"}
            assert {change.path for change in history.changed(here.start, middle)} == {"a.txt", "d/one.txt"}


@for_everyone
def test_a_check_works_on_a_layer_of_its_own(place: Path):
    with laid(place) as here:
        here.changes("echo b >> a.txt; rm -r d")
        before = holds(here.over.upper)
        with closing(here.over.copy(make(place / "check"))) as copy:
            assert seen(copy) == {"a.txt", "run.sh", "out"}
            script = f"cd '{copy.view.root}'; rm a.txt; mkdir d; echo x > run.sh"
            subprocess.run(copy.view.entered("/bin/sh", "-ec", script), check=True, pass_fds=copy.view.fds)
        assert holds(here.over.upper) == before


def test_a_missing_layer_is_reported_with_the_reason(tmp_path: Path):
    here = folder(tmp_path / "hers", START)
    assert why_no_layer(here, tmp_path) == ""
    assert list(tmp_path.iterdir()) == [here]
    why = plan_layer(Path("/dev")).obstacle
    if os.geteuid():
        assert why == "/dev belongs to another user"
    else:
        assert "is a mount point" in why or why.startswith("/dev/shm/")  # which contains another user's leftovers


@pytest.mark.campaign
def test_a_layer_belongs_to_one_process_at_a_time(tmp_path: Path):
    with laid(tmp_path) as here, pytest.raises(WorkspaceError, match="another process uses the overlay"):
        Overlay(here.hers, tmp_path / "scratch", ())


@for_everyone
def test_a_refreshed_layer_shows_what_changed_in_the_folder(place: Path):
    with laid(place) as here:
        here.run("cat a.txt d/one.txt; ! cat new.txt; ls d")  # the kernel keeps these names
        folder(here.hers, {"new.txt": "new\n", "fresh.txt": "fresh\n"})
        (here.hers / "fresh.txt").rename(here.hers / "a.txt")
        (here.hers / "d" / "one.txt").unlink()
        refresh(here.over.view)
        here.run("[ $(cat a.txt) = fresh ]; [ $(cat new.txt) = new ]; [ ! -e d/one.txt ]")
        assert seen(here.over) == {"a.txt", "new.txt", "d", "run.sh", "out"}
