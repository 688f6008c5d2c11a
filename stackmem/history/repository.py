"""Plans and makes a copy of the user's folder."""

# Paths are bytes here, since a name need not be text.
# ruff: noqa: PTH101, PTH102, PTH115, PTH116, PTH118, PTH120, PTH211

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from msgspec import Struct

from stackmem.core.errors import StackmemError, UsageError, WorkspaceError
from stackmem.foreign.files import descriptor_of_regular, open_regular
from stackmem.workspace.clip import shown_name
from stackmem.workspace.tree import remove_tree

from .hidden import mounts_below
from .lent_folders import How
from .selection import DEPENDENCIES, Selection, own_below, real_folder, select

_FICLONE = 0x40049409  # ioctl_ficlone(2): share blocks until one side writes
_SMALL_BYTES = 128 * 1024  # for small files, one read and one write are fastest
_PART_BYTES = 64 * 1024 * 1024
_NOTICE_SECONDS = 2.0


class CopyPlan(Struct, frozen=True):
    """What a copy will contain. Paths are relative to the folder and spelled by ``shown_name``."""

    files: int  # number of regular files and links
    bytes: int  # total length of regular files; sparse files may use less space
    folders: tuple[str, ...] = ()  # dependency folders that are included (``.venv``, ``venv``, ``node_modules``)
    # left out on purpose: ``.env*``, sockets, FIFOs, devices, stackmem's folders
    skipped: tuple[str, ...] = ()
    # copied links to targets outside the folder, which may be missing in the sandbox
    outside_links: tuple[str, ...] = ()
    selected: Selection = Selection({}, [], [], [])  # the files, so that the folder is scanned only once
    reason: str = ""  # why it is a copy instead of an overlay; empty if the user asked for a copy
    lent: tuple[str, ...] = ()  # the folders of ``folders`` that are used in place instead of copied


def plan_copy(folder: Path, include: tuple[str, ...], own: tuple[Path, ...] = (), *, lend: How = "copy") -> CopyPlan:
    """Return what a copy would contain now.

    Raise UsageError if the folder does not exist, part of it cannot be read, or ``include`` names a path that cannot be
    copied.

    Args:
        folder: Any folder: a git work tree, a part of one, or neither.
        include: Paths below it that are copied even if git ignores them.
        own: stackmem's runs and sandbox folders, which are never copied.
        lend: How the copy gets folders of installed packages. A folder is copied anyway if it contains files that the
            run must not see, or, instead of being linked, if its links would lead back to the user's folder.
    """
    root = real_folder(folder)
    selection = select(root, include, own_below(root, own))
    lent = () if lend == "copy" else _to_lend(os.fsencode(root), selection, linked=lend == "link")
    prefixes = tuple(path + b"/" for path in lent)
    for path in [path for path in selection.files if path.startswith(prefixes)] if prefixes else ():
        del selection.files[path]
    selection.folders[:] = [*(path for path in selection.folders if not path.startswith(prefixes or b"/")), *lent]
    regular = [status.st_size for status in selection.files.values() if stat.S_ISREG(status.st_mode)]
    return CopyPlan(
        files=len(selection.files),
        bytes=sum(regular),
        folders=tuple(shown_name(path) for path in selection.dependencies),
        skipped=tuple(shown_name(path) for path in selection.skipped),
        outside_links=tuple(shown_name(path) for path in _outside(os.fsencode(root), selection)),
        selected=selection,
        lent=tuple(shown_name(path) for path in lent),
    )


def _to_lend(root: bytes, selection: Selection, *, linked: bool) -> tuple[bytes, ...]:
    """Return folders of installed packages that a run can use in place."""
    closed = [path + b"/" for path in (*selection.hidden, *mounts_below(root))]
    if linked:
        closed += [path for path, status in selection.files.items() if _leads_back(root, path, status)]
    return tuple(
        folder
        for folder in selection.dependencies
        if folder not in selection.files and not any(path.startswith(folder + b"/") for path in closed)
    )


def copy_planned(folder: Path, into: Path, plan: CopyPlan, notice: Callable[[str], object] = str) -> None:
    """Copy the folder's files to the new folder ``into``, with permissions and times, but without hard links.

    ``notice`` receives progress messages if copying takes long. Files that disappeared after planning are skipped. If
    copying fails, the copy is removed. Raise UsageError if a file cannot be read, or ``into`` exists already. Raise
    WorkspaceError if the copy cannot be written.
    """
    root, selection = real_folder(folder), plan.selected
    try:
        into.mkdir(parents=True)
    except FileExistsError as error:
        raise UsageError(f"{into} already exists; a copy needs a new folder") from error
    except OSError as error:
        raise _unwritable(into, error) from error
    try:
        _copy(os.fsencode(root), os.fsencode(into), selection, notice)
        selection.files.clear()  # free memory: the run keeps the plan, but no longer needs the files
    except BaseException:
        with suppress(StackmemError):  # the original error matters more than an error in the cleanup
            remove_tree(into)
        raise


def shares_blocks(folder: Path, destination: Path) -> bool:
    """Return whether a copy of the folder in ``destination`` shares disk blocks; tested with one file."""
    with suppress(OSError), os.scandir(folder) as entries:
        paths = (entry.path for entry in entries if entry.is_file(follow_symlinks=False) and entry.stat().st_size)
        if path := next(paths, ""):
            with open_regular(path, follow=False) as source, TemporaryFile(dir=destination) as target:
                return _Clones().clone(source.fileno(), target.fileno(), os.fstat(source.fileno()).st_size)
    return False


def _outside(root: bytes, selection: Selection) -> list[bytes]:
    """Return links that lead out of the folder, except those of installed packages, where this is normal."""
    installed = tuple(path + b"/" for path in selection.dependencies)
    paths = []
    for path, status in selection.files.items():
        if stat.S_ISLNK(status.st_mode) and not path.startswith(installed):
            with suppress(OSError):
                at = root + b"/" + path
                target = os.path.normpath(os.path.join(os.path.dirname(at), os.readlink(at)))
                if target != root and not target.startswith(root + b"/"):
                    paths.append(path)
    return sorted(paths)


def _leads_back(root: bytes, path: bytes, status: os.stat_result) -> bool:
    """Return whether this is a link from installed packages to a project file that is not installed."""
    parents = path.split(b"/")[:-1]
    depth = next((number for number, name in enumerate(parents) if name in DEPENDENCIES), None)
    if depth is None or not stat.S_ISLNK(status.st_mode):
        return False
    try:
        target = os.path.normpath(os.path.join(root, *parents, os.readlink(root + b"/" + path)))
    except OSError:
        return False
    installed = os.path.join(root, *parents[: depth + 1])
    return target.startswith(root + b"/") and target != installed and not target.startswith(installed + b"/")


def _copy(root: bytes, into: bytes, selection: Selection, notice: Callable[[str], object]) -> None:
    folders = {b""}
    clones = _Clones()
    noticed_at = time.monotonic()
    for path in selection.folders:
        _make_folder(root, into, path, folders)
    for number, (path, status) in enumerate(selection.files.items()):
        if time.monotonic() > noticed_at + _NOTICE_SECONDS:
            noticed_at = time.monotonic()
            notice(f"copied {number:,} of {len(selection.files):,} files")
        _make_folder(root, into, path.rpartition(b"/")[0], folders)
        source, target = root + b"/" + path, into + b"/" + path
        if stat.S_ISLNK(status.st_mode):
            with suppress(FileNotFoundError):
                os.symlink(os.readlink(source), target)
            continue
        try:
            fd = descriptor_of_regular(source, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # treat it as if it had disappeared before
        except OSError as error:
            raise UsageError(
                f"cannot read {shown_name(path)} in {shown_name(root)} ({error.strerror}); make it readable"
            ) from error
        try:
            _copy_file(fd, target, clones)
        except OSError as error:
            raise _unwritable(Path(os.fsdecode(into)), error) from error
        finally:
            os.close(fd)


def _make_folder(root: bytes, into: bytes, path: bytes, paths: set[bytes]) -> None:
    missing = []
    while path not in paths:
        missing.append(path)
        paths.add(path)
        path = path.rpartition(b"/")[0]
    for folder in reversed(missing):
        try:
            mode = os.stat(root + b"/" + folder).st_mode
        except OSError:  # it has just disappeared
            mode = 0o755
        try:
            os.mkdir(into + b"/" + folder)
            os.chmod(into + b"/" + folder, mode & 0o777 | 0o700)  # the owner needs write access
        except OSError as error:
            raise _unwritable(Path(os.fsdecode(into)), error) from error


def _copy_file(source: int, target: bytes, clones: _Clones) -> None:
    status = os.fstat(source)
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if clones.clone(source, fd, status.st_size):
            pass
        elif status.st_size <= _SMALL_BYTES:
            _write_all(fd, os.read(source, _SMALL_BYTES + 1))
        else:
            _copy_large(source, fd)
        os.fchmod(fd, status.st_mode & 0o777)
        os.utime(fd, ns=(status.st_atime_ns, status.st_mtime_ns))  # make and compiled Python files depend on the times
    finally:
        os.close(fd)


class _Clones:
    """Makes copies that share blocks until one side writes, if the file systems support it."""

    def __init__(self) -> None:
        self._can = True

    def clone(self, source: int, target: int, size: int) -> bool:
        if not self._can or not size:
            return False
        try:
            fcntl.ioctl(target, _FICLONE, source)
        except OSError:  # not supported by these file systems, so do not try other files
            self._can = False
        return self._can


def _copy_large(source: int, target: int) -> None:
    try:
        while os.copy_file_range(source, target, _PART_BYTES):
            pass
    except OSError as error:
        if error.errno not in {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}:
            raise
    while part := os.read(source, _PART_BYTES):  # copies nothing if the kernel has copied everything
        _write_all(target, part)


def _write_all(fd: int, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(fd, remaining) :]


def _unwritable(into: Path, error: OSError) -> WorkspaceError:
    return WorkspaceError(
        f"the copy {into} cannot be written ({error.strerror}); free disk space, or choose --sandbox-dir"
    )
