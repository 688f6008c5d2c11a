"""Finds what changed in a workspace since the last scan.

A file with unchanged size, times, permissions and inode is not read again.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from stackmem.core.errors import WorkspaceError
from stackmem.workspace.clip import shown_name
from stackmem.workspace.overlay.view import WorkspaceView

from .ignored import IgnoreRules
from .objects import EXECUTABLE, FILE, LINK, Node, ObjectStore
from .walk import MISSING_ERRORS, LeftOut, Seen, Walk, folders_of, path_bytes, reason_of, stat_key

_CLOCK_TICK_NS = 20_000_000  # file times advance in steps of up to 10 ms; changes within one step are not visible
# limit for added data, because a patch is built in memory and each step waits for its files
GROWTH_BYTES = 512 * 1024 * 1024
_WITHHELD = "holds a secret"


class Census:
    """Scans a workspace."""

    def __init__(
        self,
        git_dir: Path,
        work_tree: Path,
        store: ObjectStore,
        leave_out: tuple[str, ...],
        largest_bytes: int,
        room: int | None = None,
        view: WorkspaceView | None = None,
    ) -> None:
        """Prepare scans of ``work_tree``. ``view`` is where its ``.gitignore`` files are read; None means in
        ``work_tree``.
        """
        self.room = room  # maximum total size of files; None before the first scan, which sets it
        # returns whether a file with this content must not be stored
        self.withholds: Callable[[bytes], bool] = _nothing
        self._taken = 0
        self._before: dict[bytes, Seen] = {}
        self._folders: set[bytes] = set()  # parents of the known files
        self._git_dir = git_dir
        self._work_tree = work_tree
        self._view = view or WorkspaceView(work_tree, -1)
        self._store = store
        self._leave_out = {path_bytes(path) for path in leave_out}
        self._largest_bytes = largest_bytes

    def take(self, before: dict[bytes, Seen], *, first: bool) -> tuple[dict[bytes, Seen], tuple[LeftOut, ...]]:
        """Scan, store new content, and return what to keep and what could not be kept.

        ``before`` is the previous result. In the ``first`` scan, ignore rules do not apply.
        """
        try:
            root = os.open(self._work_tree, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            location = shown_name(os.fspath(self._work_tree))
            raise WorkspaceError(
                f"the workspace {location} cannot be opened ({error.strerror}); start the run again"
            ) from error
        rules = None if first else IgnoreRules(self._git_dir, self._view)
        if before is not self._before:
            self._folders = folders_of(before)
        look = Walk(root, before, self._folders, self._leave_out, rules)
        settled_before = time.time_ns() - _CLOCK_TICK_NS
        changed: dict[bytes, Seen] = {}
        self._taken = 0
        try:
            for path, status in look.files():
                key = stat_key(status)
                try:
                    node = self._node_of(look, path, status)
                except OSError as error:
                    if error.errno not in MISSING_ERRORS:
                        look.leave_out(path, reason_of(error), status.st_size)
                    continue
                if node is not None:
                    changed[path] = Seen(node, key if status.st_ctime_ns < settled_before else ())
        finally:
            os.close(root)
            if rules is not None:
                rules.close()
        seen = {path: before[path] for path in look.unchanged} | changed
        for path in look.kept_as_before(seen):
            seen[path] = Seen(before[path].node)
        if self.room is None:
            self.room = look.unchanged_bytes + self._taken + GROWTH_BYTES
        unchanged = seen.keys() == before.keys()
        self._before, self._folders = seen, self._folders if unchanged else folders_of(seen)
        return seen, look.report()

    def _node_of(self, look: Walk, path: bytes, status: os.stat_result) -> Node | None:
        """Store the current content of a path. Returns None and notes the reason if it is too large or must not be
        stored.
        """
        if stat.S_ISLNK(status.st_mode):
            target = look.target(path)
            if self.withholds(target):
                look.leave_out(path, _WITHHELD, len(target))
                return None
            return Node(LINK, self._store.add("blob", target))
        if status.st_size > self._largest_bytes:
            look.leave_out(path, f"larger than {self._largest_bytes} bytes", status.st_size)
            return None
        if self.room is not None and look.unchanged_bytes + self._taken + status.st_size > self.room:
            look.leave_out(path, f"more than {GROWTH_BYTES >> 20} MiB were added", status.st_size)
            return None
        content = look.content(path, self._largest_bytes + 1)
        if len(content) > self._largest_bytes:  # it is growing
            look.leave_out(path, f"larger than {self._largest_bytes} bytes", len(content))
            return None
        if self.withholds(content):
            look.leave_out(path, _WITHHELD, len(content))
            return None
        self._taken += len(content)
        return Node(EXECUTABLE if status.st_mode & 0o100 else FILE, self._store.add("blob", content))


def _nothing(content: bytes) -> bool:
    return False
