"""The form of a run's workspace: a separate folder, or an overlay over the user's folder.

Rule 1: Changes of a run always go to a folder of the run.
Rule 2: Only one process at a time uses an overlay; the kernel would let a second one mount it and mix their files.
Rule 3: An overlay consists only of files, so it can be mounted again after a crash or reboot.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from stackmem.core.errors import StackmemError, UsageError, WorkspaceError
from stackmem.foreign.beneath import passes_link
from stackmem.workspace.overlay.mount import OverlayPlaces, mount_overlay, show_read_only
from stackmem.workspace.overlay.view import WorkspaceView, folder_view
from stackmem.workspace.tree import copy_folder, remove_tree

from .hidden import plan_layer

WORK = "workspace"
UPPER, _HIDE, _OWN = "upper", "hidden", "overlay"
LENT = "lent"
"""Folder with the objects that the repository borrows. It is next to the repository, and mounted for commands."""
REPOSITORY = "repository"
"""Folder with the run's ``.git``. It is a lower layer, so the run's changes to it are kept in the upper one."""
_TRIES, _TRY_SECONDS = 40, 0.05  # for the lock: a killed process may take a moment to end


class Layer(Protocol):
    """A workspace's files."""

    view: WorkspaceView  # the files as file tools and commands see them
    writes: Path  # host folder with the run's writes: all files of a copy, or only the changes of an overlay
    ready: Callable[[], object]  # returns once the repository is ready; call it before accessing that
    granted: tuple[Path, ...]  # host folders that links in the workspace point to, readable for commands

    def copy(self, path: Path) -> Layer:
        """Copy the files to an existing folder, so that changes there are independent.

        Raise WorkspaceError if the disk has no room for the copy.
        """
        ...

    def close(self) -> None: ...


class OwnFolder:
    """A workspace that is a host folder."""

    ready: Callable[[], object] = bool

    def __init__(self, work: Path, lent: Mapping[bytes, Path] | None = None) -> None:
        """Open the folder. Folders of ``lent`` are mounted if the workspace has an empty folder for them.

        Raise WorkspaceError if the folder cannot be opened, or mounts are not possible.
        """
        self.writes = work
        # the user's folders that are visible in it read-only, by path: mounted or linked
        self.lent = dict(lent or {})
        self.view = folder_view(work)
        links = {path for path in self.lent if passes_link(self.view.fd, path)}
        self.granted = tuple(self.lent[path] for path in links)
        seen = [(other, path) for path, other in self.lent.items() if path not in links and _is_empty(work, path)]
        if seen:
            self.view.close()
            self.view = show_read_only(work, seen)

    def copy(self, path: Path) -> OwnFolder:
        self.ready()
        return OwnFolder(copy_folder(self.view.root, path / WORK), self.lent)

    def close(self) -> None:
        self.view.close()


class Overlay:
    """An overlay over a folder.

    ``folder`` is the user's folder, which is only read. ``upper`` is the folder with only the run's changes. ``hidden``
    are paths that the run cannot see.
    """

    ready: Callable[[], object] = bool
    granted: tuple[Path, ...] = ()

    def __init__(self, folder: Path, path: Path, hidden: Iterable[bytes], repository: Path | None = None) -> None:
        """Mount the overlay in ``path``, including earlier changes.

        ``repository`` is a read-only folder on top of ``folder``. With None, the folder in ``path`` is used, if there
        is one. Raise WorkspaceError if the overlay is not available, or another process has it.
        """
        self.folder, self.upper, self.hidden = folder, path / UPPER, frozenset(hidden)
        self.writes = self.upper
        self._repository = repository or path / REPOSITORY
        self._lock = _lock(path)
        top = self._repository if self._repository.is_dir() else None
        places = OverlayPlaces(self.upper, path / _OWN, path / _HIDE, path / WORK, top)
        try:
            for each in (places.hide, places.work, places.view):
                each.mkdir(mode=0o700, exist_ok=True)
            self.view = mount_overlay(folder, sorted(self.hidden), places)
        except OSError as error:
            os.close(self._lock)
            raise WorkspaceError(
                f"no overlay over {folder} can be created at {path} ({error.strerror}); use a copy with --layer copy"
            ) from error
        except BaseException:
            os.close(self._lock)
            raise

    def copy(self, path: Path) -> Overlay:
        self.ready()
        copy_folder(self.upper, path / UPPER)
        return Overlay(self.folder, path, self.hidden, self._repository)

    def close(self) -> None:
        self.view.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def can_show(sandbox: Path) -> bool:
    """Return whether folders can be mounted inside a folder in ``sandbox``."""
    path = sandbox / f"probe-{os.getpid()}-{time.monotonic_ns()}"
    try:
        (path / "seen").mkdir(mode=0o700, parents=True)
        show_read_only(path, [(sandbox, b"seen")]).close()
    except (WorkspaceError, OSError):
        return False
    finally:
        with suppress(StackmemError):
            remove_tree(path)
    return True


def _is_empty(work: Path, path: bytes) -> bool:
    try:
        return not any((work / os.fsdecode(path)).iterdir())
    except OSError:
        return False


def make_upper(folder: Path, path: Path) -> None:
    """Create the folder that receives an overlay's writes. An existing one is kept with its changes."""
    upper = path / UPPER
    if not upper.is_dir():
        upper.mkdir()
        upper.chmod(folder.stat().st_mode & 0o777 | 0o700)  # the owner needs write access


def repository_place(folder: Path, path: Path) -> Path:
    """Return where the repository of an overlay goes: normally a lower layer.

    If the run's files are inside the user's folder, it is the upper one, because the kernel rejects nested lower
    layers.
    """
    return path / (UPPER if path.resolve().is_relative_to(folder.resolve()) else REPOSITORY)


def hidden_again(folder: Path, include: Iterable[str], own: Iterable[Path]) -> tuple[bytes, ...]:
    """Return what the overlay of a continued run must hide now.

    Raise WorkspaceError if an overlay over the folder is no longer possible.
    """
    try:
        plan = plan_layer(folder, tuple(name for name in include if os.path.lexists(folder / name)), own)
    except UsageError as error:
        raise WorkspaceError(f"the run uses an overlay over {folder}: {error}") from error
    if plan.obstacle:
        raise WorkspaceError(f"the run uses an overlay over {folder}, but now {plan.obstacle}; undo that first")
    return plan.hidden


def why_no_layer(folder: Path, sandbox: Path) -> str:
    """Try to mount an overlay over the folder with its files in ``sandbox``. Returns why it failed, or an empty
    string.
    """
    path = sandbox / f"probe-{os.getpid()}-{time.monotonic_ns()}"
    try:
        path.mkdir(mode=0o700, parents=True)
        make_upper(folder, path)
        Overlay(folder, path, (b".stackmem-hidden",)).close()
    except WorkspaceError as error:
        return str(error).partition(";")[0]
    except OSError as error:
        return f"{sandbox} cannot be written ({error.strerror})"
    finally:
        with suppress(StackmemError):
            remove_tree(path)
    return ""


def _lock(path: Path) -> int:
    """Open and lock the overlay's folder. Raise WorkspaceError if another process has the lock."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    for _ in range(_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_TRY_SECONDS)
        else:
            return fd
    os.close(fd)
    raise WorkspaceError(f"another process uses the overlay {path}; end it first")
