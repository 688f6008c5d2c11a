"""How a run's workspace lies over what it works on: as a folder of its own, or as a layer over the person's folder.

Rule 1: what a run changes lands in a folder of the run's, whichever way it is.
Rule 2: one process at a time has a layer; the kernel would let a second one mount it, and mix their files up.
Rule 3: a layer is nothing but files: it is mounted again after a crash, or after the machine was started anew.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from stackmem.errors import StackmemError, UsageError, WorkspaceError
from stackmem.foreign.beneath import passes_link
from stackmem.workspace.overlay.mount import OverlayPlaces, mount_overlay, show_read_only
from stackmem.workspace.overlay.view import WorkspaceView, folder_view
from stackmem.workspace.tree import copy_folder, remove_tree

from .hidden import plan_layer

WORK = "workspace"
UPPER, _HIDE, _OWN = "upper", "hidden", "overlay"
LENT = "lent"
"""Holds the objects that the repository borrows; it lies beside it, and commands find it on a mount."""
REPOSITORY = "repository"
"""Holds the ``.git`` that the run is given. It is a part of what lies below, so the run keeps what it changes there."""
_TRIES, _TRY_SECONDS = 40, 0.05  # for the lock: what a killed process left may still be dying


class Layer(Protocol):
    """view: The files, as file tools and commands see them.
    kept: Where on the host what the run wrote stands: with all else in a copy, alone in a layer.
    ready: Returns once its repository is there, for whoever is to look at that.
    granted: Folders of the host that links in it lead to, for commands to read.
    """

    view: WorkspaceView
    kept: Path
    ready: Callable[[], object]
    granted: tuple[Path, ...]

    def copy(self, place: Path) -> Layer:
        """The same files below a folder that exists, to be changed apart from these."""
        ...

    def close(self) -> None: ...


class OwnFolder:
    """A workspace that is a folder of the host."""

    ready: Callable[[], object] = bool

    def __init__(self, work: Path, lent: Mapping[bytes, Path] | None = None) -> None:
        """Open the folder; those of ``lent`` are mounted that have an empty folder in it."""
        self.kept = work
        # folders of the person's that are seen in it, read-only, by their paths: mounted there, or linked
        self.lent = dict(lent or {})
        self.view = folder_view(work)
        links = {path for path in self.lent if passes_link(self.view.fd, path)}
        self.granted = tuple(self.lent[path] for path in links)
        seen = [(other, path) for path, other in self.lent.items() if path not in links and _is_empty(work, path)]
        if seen:
            self.view.close()
            self.view = show_read_only(work, seen)

    def copy(self, place: Path) -> OwnFolder:
        self.ready()
        return OwnFolder(copy_folder(self.view.root, place / WORK), self.lent)

    def close(self) -> None:
        self.view.close()


class Overlay:
    """A layer over a folder.

    Attributes:
        folder: The person's, which is only read.
        upper: Holds what the run changed, and nothing else.
        hidden: Paths in it that the run does not see.
    """

    ready: Callable[[], object] = bool
    granted: tuple[Path, ...] = ()

    def __init__(self, folder: Path, place: Path, hidden: Iterable[bytes], repository: Path | None = None) -> None:
        """Mount the layer that ``place`` holds, with what was changed in it."""
        self.folder, self.upper, self.hidden = folder, place / UPPER, frozenset(hidden)
        self.kept = self.upper
        self._repository = repository or place / REPOSITORY
        self._lock = _lock(place)
        over = self._repository if self._repository.is_dir() else None
        places = OverlayPlaces(self.upper, place / _OWN, place / _HIDE, place / WORK, over)
        try:
            for each in (places.hide, places.work, places.view):
                each.mkdir(mode=0o700, exist_ok=True)
            self.view = mount_overlay(folder, sorted(self.hidden), places)
        except OSError as error:
            os.close(self._lock)
            raise WorkspaceError(
                f"no layer over {folder} can be made at {place} ({error.strerror}); take a copy with --layer copy"
            ) from error
        except BaseException:
            os.close(self._lock)
            raise

    def copy(self, place: Path) -> Overlay:
        self.ready()
        copy_folder(self.upper, place / UPPER)
        return Overlay(self.folder, place, self.hidden, self._repository)

    def close(self) -> None:
        self.view.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def can_show(sandbox: Path) -> bool:
    """Whether folders can be shown in another one that lies in ``sandbox``."""
    place = sandbox / f"probe-{os.getpid()}-{time.monotonic_ns()}"
    try:
        (place / "seen").mkdir(mode=0o700, parents=True)
        show_read_only(place, [(sandbox, b"seen")]).close()
    except (WorkspaceError, OSError):
        return False
    finally:
        with suppress(StackmemError):
            remove_tree(place)
    return True


def _is_empty(work: Path, path: bytes) -> bool:
    try:
        return not any((work / os.fsdecode(path)).iterdir())
    except OSError:
        return False


def make_upper(folder: Path, place: Path) -> None:
    """Make what a layer writes into; one that is there stays, with all that was changed."""
    upper = place / UPPER
    if not upper.is_dir():
        upper.mkdir()
        upper.chmod(folder.stat().st_mode & 0o777 | 0o700)  # what its owner cannot write into is no workspace


def repository_place(folder: Path, place: Path) -> Path:
    """Where the repository of a layer goes: below it; into it where the run's files lie in the folder, since the kernel
    takes no folder below that lies in another one.
    """
    return place / (UPPER if place.resolve().is_relative_to(folder.resolve()) else REPOSITORY)


def hidden_again(folder: Path, include: Iterable[str], own: Iterable[Path]) -> tuple[bytes, ...]:
    """What the layer of a run that goes on must hide by now."""
    try:
        plan = plan_layer(folder, tuple(name for name in include if os.path.lexists(folder / name)), own)
    except UsageError as error:
        raise WorkspaceError(f"the run works on a layer over {folder}: {error}") from error
    if plan.obstacle:
        raise WorkspaceError(f"the run works on a layer over {folder}, and now {plan.obstacle}; put that back first")
    return plan.hidden


def why_no_layer(folder: Path, sandbox: Path) -> str:
    """Why a layer over the folder cannot be mounted with its files in ``sandbox``; empty where it was, and is gone."""
    place = sandbox / f"probe-{os.getpid()}-{time.monotonic_ns()}"
    try:
        place.mkdir(mode=0o700, parents=True)
        make_upper(folder, place)
        Overlay(folder, place, (b".stackmem-hidden",)).close()
    except WorkspaceError as error:
        return str(error).partition(";")[0]
    except OSError as error:
        return f"{sandbox} cannot be written ({error.strerror})"
    finally:
        with suppress(StackmemError):
            remove_tree(place)
    return ""


def _lock(place: Path) -> int:
    """The layer's folder, open and ours alone."""
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    for _ in range(_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_TRY_SECONDS)
        else:
            return fd
    os.close(fd)
    raise WorkspaceError(f"another process works on the layer {place}; end it first")
