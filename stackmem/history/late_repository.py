"""Creates a repository in the background during a run's first steps; only operations that could access it wait.

Rule 1: It is created elsewhere and moved into place when complete. Until then its place is an empty folder that must
    not be read, because an overlay caches missing names.
Rule 2: The background work ends with the run, even unfinished.
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
    """A repository that is created in the background.

    Attributes:
        made: The repository that the run received; None until it is ready.
    """

    def __init__(self, make: Callable[[], InnerRepository], slow: Callable[[], object]) -> None:
        """Start creating it."""
        self.made: InnerRepository | None = None
        self._make, self._slow = make, slow
        self._error: BaseException | None = None
        self._stop = GitStop()
        self._working = threading.Lock()  # not an event, which takes its lock in Python code that Ctrl-C may interrupt
        self._working.acquire()
        threading.Thread(target=self._work, name="repository", daemon=True).start()

    def _work(self) -> None:
        try:
            with self._stop.of_this_thread():
                self.made = self._make()
        except BaseException as error:  # noqa: BLE001 - re-raised in ``wait``
            self._error = error
        finally:
            self._working.release()

    def wait(self) -> None:
        """Return once it is ready."""
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
        """Stop creating it, if it is not ready."""
        self._stop.stop()
        with self._working:
            pass


def put_in_place(building: Path, repository: Path, place: Path) -> None:
    """Move a repository into the empty folder ``place``, and remove ``building``, where it was created.

    Its configuration comes last, because its timestamp marks when commands could first change the repository.
    """
    for name in sorted(os.listdir(repository), key="config".__eq__):
        (repository / name).rename(place / name)
    remove_tree(building)
