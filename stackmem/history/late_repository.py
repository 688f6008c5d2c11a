"""A repository that is made beside the first steps of a run: only what could look at it waits until it is there.

Rule 1: it is made elsewhere, and put in place whole. Until then its place is an empty folder, which nobody looks into:
    an overlay remembers what it did not find.
Rule 2: what makes it ends with the run, in the middle of it where need be.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from stackmem.errors import StackmemError, WorkspaceError
from stackmem.workspace.tree import remove_tree

from .git import GitStop
from .inner import InnerRepository

SLOW_SECONDS = 2.0


class LateRepository:
    """made: What the run was given; None before it is there."""

    def __init__(self, make: Callable[[], InnerRepository], slow: Callable[[], object]) -> None:
        """Begin to make it."""
        self.made: InnerRepository | None = None
        self._make, self._slow = make, slow
        self._error: BaseException | None = None
        self._stop = GitStop()
        self._working = threading.Lock()  # and no event: that one takes its lock in Python code, which Ctrl-C may leave
        self._working.acquire()
        threading.Thread(target=self._work, name="repository", daemon=True).start()

    def _work(self) -> None:
        try:
            with self._stop.of_this_thread():
                self.made = self._make()
        except BaseException as error:  # noqa: BLE001 - it is who waits that has to know
            self._error = error
        finally:
            self._working.release()

    def wait(self) -> None:
        """Return once it is there."""
        if self.made is not None:
            return
        timer = threading.Timer(SLOW_SECONDS, self._slow)
        timer.daemon = True
        timer.start()
        try:
            with self._working:
                pass
        finally:
            timer.cancel()
        if isinstance(self._error, StackmemError):
            raise WorkspaceError(str(self._error)) from self._error
        if self._error is not None:
            raise WorkspaceError(f"the history of the folder cannot be read: {self._error}") from self._error

    def close(self) -> None:
        """End what is making it, where it is not there yet."""
        self._stop.stop()
        with self._working:
            pass


def put_in_place(building: Path, repository: Path, place: Path) -> None:
    """Move what a repository holds into the empty folder ``place``, and remove ``building``, in which it was made.

    Its configuration comes last: its time tells since when commands can have changed anything.
    """
    for name in sorted(os.listdir(repository), key="config".__eq__):
        (repository / name).rename(place / name)
    remove_tree(building)
