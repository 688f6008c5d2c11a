"""Creates a repository in the background during a run's first steps; only operations that could access it wait.

Rule 1: It is created elsewhere and moved into place when complete. Until then its place is an empty folder that must
    not be read, because an overlay caches missing names.
Rule 2: Of a long history, the last commits come first. The rest is added between two commands once it has arrived.
Rule 3: The background work ends with the run, even unfinished.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from stackmem.core.errors import StackmemError, WorkspaceError
from stackmem.workspace.tree import remove_tree

from .git import GitStop
from .inner import InnerRepository

SLOW_SECONDS = 2.0
GRACE_SECONDS = 1.0
"""How long after its start the first command waits for the rest of a long history."""


class Rest:
    """The part of a long history that arrives behind.

    Attributes:
        build: Creates the whole repository in a separate place.
        add: Adds it to the repository of the run. Must be called between two commands.
        notice: Receives messages for the user.
    """

    def __init__(
        self, build: Callable[[], InnerRepository], add: Callable[[InnerRepository], object],
        notice: Callable[[str], object],
    ) -> None:  # fmt: skip
        self.build, self.add, self.notice = build, add, notice


class LateRepository:
    """A repository that is created in the background."""

    def __init__(
        self,
        make: Callable[[], InnerRepository],  # creates the repository and moves it into place, in a separate thread
        slow: Callable[[], object],  # called if a caller has to wait for long
        rest: Rest | None = None,
    ) -> None:
        """Start creating it."""
        self.made: InnerRepository | None = None  # the repository that the run received; None until it is ready
        self._make, self._slow = make, slow
        self._error: BaseException | None = None
        self._rest, self._whole = rest, InnerRepository("")
        self._rest_error: BaseException | None = None
        self._began = monotonic()
        self._stop = GitStop()
        # not events, which take their lock in Python code that Ctrl-C may interrupt
        self._working, self._arriving = threading.Lock(), threading.Lock()
        self._working.acquire()
        self._arriving.acquire()
        threading.Thread(target=self._work, name="repository", daemon=True).start()

    def _work(self) -> None:
        with self._stop.of_this_thread():
            try:
                self.made = self._make()
            except BaseException as error:  # noqa: BLE001 - re-raised in ``wait``
                self._error = error
            finally:
                self._working.release()
            try:
                if self._rest is not None and self.made is not None and self.made.shortened:
                    self._whole = self._rest.build()
                else:
                    self._rest = None
            except BaseException as error:  # noqa: BLE001 - reported in ``_add_rest``
                self._rest_error = error
            finally:
                self._arriving.release()

    def wait(self) -> str:
        """Return once it is ready. The result says what part of the history is still missing, if any.

        Raise WorkspaceError if the repository cannot be created.
        """
        if self.made is None:
            self._wait_for_it()
        if self._rest is None:
            return ""
        if self._arriving.acquire(timeout=max(0.0, self._began + GRACE_SECONDS - monotonic())):
            try:
                self._add_rest()
            finally:
                self._arriving.release()
            return ""
        commits = self.made.commits if self.made is not None else 0
        return (
            f"(git: only the last {commits:,} commits have arrived so far; a later command sees the rest of the "
            "history)\n"
        )

    def wait_for_all(self) -> None:
        """Return once the whole history is there, or cannot be."""
        self.wait()
        if self._rest is not None:
            with self._arriving:
                self._add_rest()

    def _wait_for_it(self) -> None:
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

    def _add_rest(self) -> None:
        rest = self._rest
        if rest is None:
            return
        error = self._rest_error
        if error is None:
            try:
                rest.add(self._whole)
            except FileExistsError:  # git in the run holds a lock; a later command adds it
                return
            except (StackmemError, OSError) as failure:
                error = failure
            else:
                self.made = self._whole
        self._rest = None
        if error is not None:
            rest.notice(f"the rest of the folder's git history is missing in the run: {error}")

    def close(self) -> None:
        """Stop creating it, if it is not ready."""
        self._stop.stop()
        with self._arriving:
            pass


def put_in_place(building: Path, repository: Path, target: Path) -> None:
    """Move a repository into the empty folder ``target``, and remove ``building``, where it was created.

    Its configuration comes last, because its timestamp marks when commands could first change the repository. Raise
    OSError if the new repository cannot be moved, and WorkspaceError if ``building`` cannot be removed.
    """
    for name in sorted(os.listdir(repository), key="config".__eq__):
        (repository / name).rename(target / name)
    remove_tree(building)
