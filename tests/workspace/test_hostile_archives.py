"""Hostile archives cannot write or read outside, or change modes of existing files, as any user."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.formats.images.bases import add_base
from stackmem.formats.images.copying import copy_in, leave_nothing, unpacked
from stackmem.formats.images.store import ImageStore, tree_digest
from tests.conftest import CAMPAIGN
from tests.workspace.hostile_archives import FAMILIES, SECRET, HostileArchive, file, folder, hard, link
from tests.workspace.people import for_everyone


def decoy_in(place: Path) -> Path:
    """Create a folder like a home, with secrets, next to the unpacking folder."""
    decoy = place / "decoy"
    (decoy / "keys").mkdir(parents=True)
    for name, mode in ((".profile", 0o644), ("id", 0o400), ("keys/id", 0o600), ("evil", 0o640)):
        (decoy / name).write_text(f"{SECRET} {name}")
        (decoy / name).chmod(mode)
    decoy.chmod(0o700)
    (place / "evil").write_text("decoy")
    return decoy


def outside(place: Path) -> dict[str, tuple[object, ...]]:
    """Return everything in the place outside the unpacked folder: kinds, modes, link counts, times and contents."""
    found = {}
    for at, folders, files in os.walk(place):
        if at == str(place):
            folders.remove("work")
        for name in (".", *folders, *files):
            path = Path(at, name)
            status = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
            links = status.st_nlink if stat.S_ISREG(status.st_mode) else 0
            times = status.st_mtime_ns if name != "." or at != str(place) else 0
            found[str(path)] = (status.st_mode, status.st_ino, links, times, content)
    return found


def faults(folder: Path) -> Iterator[str]:
    """Return entries that an unpacked folder must not contain."""
    for at, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(at, name)
            mode = path.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                yield f"{path} is neither a file nor a folder nor a link"
            elif not stat.S_ISLNK(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                yield f"{path} has mode {mode:o}"
            elif stat.S_ISREG(mode) and mode & stat.S_ISVTX:
                yield f"{path} is sticky"
            elif stat.S_ISREG(mode) and SECRET.encode() in path.read_bytes():
                yield f"{path} holds the secret"


def unpack_by(door: str, archive: HostileArchive, place: Path) -> None:
    """Unpack an archive; any refusal is acceptable."""
    if door == "add":
        context, root = place / "context", place / "root"
        for each in (context, root, place / "scratch"):
            each.mkdir()
        archive.root(context / "a.tar")
        fd = os.open(root, os.O_PATH | os.O_DIRECTORY)
        try:
            with suppress(UsageError):
                found = unpacked(context / "a.tar", context, place / "scratch")
                tree_digest(found)
                copy_in([found], fd, "/", many=False, mode=None, leaves=leave_nothing)
        finally:
            os.close(fd)
        return
    path = place / "a.tar"
    with suppress(UsageError, WorkspaceError):
        add_base(ImageStore(place / "store"), f"x={getattr(archive, door)(path)}")


DOORS = ("root", "saved", "add")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@for_everyone
def test_an_archive_changes_and_reads_nothing_outside(place, family):
    """Each archive goes through every door in the campaign, and through one of them in CI."""
    decoy, work = decoy_in(place), place / "work"
    work.mkdir()
    before = outside(place)
    for number, archive in enumerate(family(decoy)):
        for door in DOORS if CAMPAIGN else (DOORS[number % len(DOORS)],):
            unpack_by(door, archive, work)
            assert outside(place) == before, (archive.name, door)
            assert list(faults(work)) == [], (archive.name, door)
            shutil.rmtree(work)
            work.mkdir()


def test_there_are_hundreds_of_archives():
    assert sum(len(list(family(Path("/place/decoy")))) for family in FAMILIES) >= 300


@for_everyone
def test_a_later_layer_does_not_write_through_a_link_of_an_earlier_one(place):
    decoy = decoy_in(place)
    layers = ((link("h", str(decoy)), link("s", str(decoy))), (file("h/.profile"), hard("id", "bin/x")))
    archive = HostileArchive("layers", layers).saved(place / "a.tar")
    base = add_base(ImageStore(place / "store"), f"x={archive}")
    assert (Path(base.root) / "h" / ".profile").read_text() == "overwritten"
    assert not (Path(base.root) / "h").is_symlink()
    assert (Path(base.root) / "s").is_symlink()
    assert Path(base.root, "id").stat().st_ino == Path(base.root, "bin", "x").stat().st_ino
    assert (decoy / ".profile").read_text() == f"{SECRET} .profile"


@for_everyone
def test_a_hard_link_through_a_link_is_refused_and_the_mode_of_its_target_stays(place):
    decoy = decoy_in(place)
    layers = ((link("s", str(decoy)),), (hard("stolen", "s/id"),))
    archive = HostileArchive("layers", layers).saved(place / "a.tar")
    with pytest.raises(WorkspaceError, match="hard link to 's/id', which is not in the archive"):
        add_base(ImageStore(place / "store"), f"x={archive}")
    assert stat.S_IMODE((decoy / "id").stat().st_mode) == 0o400
    assert (decoy / "id").stat().st_nlink == 1


@for_everyone
def test_a_folder_as_a_base_keeps_its_links_and_loses_pipes_and_privileges(place):
    decoy = decoy_in(place)
    (place / "base" / "bin").mkdir(parents=True)
    (place / "base" / "bin" / "su").write_text("su")
    (place / "base" / "bin" / "su").chmod(0o6755)
    (place / "base" / "link").symlink_to(decoy)
    os.mkfifo(place / "base" / "pipe")
    root = Path(add_base(ImageStore(place / "store"), f"x={place / 'base'}").root)
    assert sorted(path.name for path in root.iterdir()) == ["bin", "link"]
    assert (root / "link").readlink() == decoy
    assert stat.S_IMODE((root / "bin" / "su").stat().st_mode) == 0o755


@for_everyone
def test_an_archive_that_is_a_link_out_of_the_build_is_refused(place):
    (place / "context").mkdir()
    (place / "scratch").mkdir()
    HostileArchive("secret", ((file("secret", SECRET.encode()),),)).root(place / "x.tar")
    (place / "context" / "x.tar").symlink_to("../x.tar")
    with pytest.raises(UsageError, match=r"ADD x.tar: .*leads out"):
        unpacked(place / "context" / "x.tar", place / "context", place / "scratch")
    assert list((place / "scratch").iterdir()) == []
    (place / "x.tar").rename(place / "context" / "y.tar")
    (place / "context" / "x.tar").unlink()
    (place / "context" / "x.tar").symlink_to("y.tar")
    found = unpacked(place / "context" / "x.tar", place / "context", place / "scratch")
    assert (found / "secret").read_text() == SECRET


@for_everyone
def test_a_layer_takes_away_only_what_was_there_before_it(place):
    first = (folder("d"), file("d/old"), file("d/both"), file("gone"))
    second = (file("d/new"), file("d/both", b"2"), file("d/.wh..wh..opq", b""), file(".wh.gone", b""), file("gone/x"))
    archive = HostileArchive("layers", (first, second)).saved(place / "a.tar")
    root = Path(add_base(ImageStore(place / "store"), f"x={archive}").root)
    found = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    assert found == ["bin/x", "d/both", "d/new", "gone/x"]
    assert (root / "d" / "both").read_text() == "2"
