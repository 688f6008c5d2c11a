"""Determines what a workspace's ``.gitignore`` files exclude, by asking git."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

from stackmem.workspace.overlay.view import WorkspaceView

from .git import failure, git_command, store_environment

ANSWER_SECONDS = 20.0  # for all queries about one state; a pattern with many stars can take git forever
_SENT_BYTES = 16 * 1024  # per batch: this fits into a pipe's buffer, so neither side blocks on the other


class IgnoreRules:
    """A running git process that answers queries about one state of a workspace. It starts on the first query.

    Only the workspace's rules apply, not the user's.
    """

    def __init__(self, git_dir: Path, work_tree: Path | WorkspaceView, seconds: float = ANSWER_SECONDS) -> None:
        self._git_dir = git_dir
        self._work_tree = work_tree if isinstance(work_tree, WorkspaceView) else WorkspaceView(work_tree, -1)
        self._seconds = seconds
        self._talk: _Talk | None = None

    def ignored(self, paths: list[bytes]) -> set[bytes]:
        """Return which of the paths, relative to the workspace, are ignored.

        Raise TimeoutError if git takes too long to evaluate the rules, and WorkspaceError if git fails.
        """
        matches: set[bytes] = set()
        batch: list[bytes] = []
        size = 0
        for path in paths:
            if size + len(path) > _SENT_BYTES and batch:
                matches |= self._ask(batch)
                batch, size = [], 0
            batch.append(path)
            size += len(path) + 3
        return matches | self._ask(batch) if batch else matches

    def close(self) -> None:
        if self._talk is not None:
            self._talk.end()
            self._talk = None

    def _ask(self, paths: list[bytes]) -> set[bytes]:
        if self._talk is None:
            self._talk = _Talk(self._git_dir, self._work_tree, self._seconds)
        try:
            return self._talk.ask(paths)
        except (OSError, EOFError) as error:
            if self._talk.late:
                raise TimeoutError(f"git understood no rules within {self._seconds:g} s") from error
            raise failure("check-ignore", self._work_tree.root, self._talk.end()) from error


class _Talk:
    """The git process of ``IgnoreRules``."""

    def __init__(self, git_dir: Path, work_tree: WorkspaceView, seconds: float) -> None:
        self.late = False  # whether git was killed because its time was used up
        self._left = seconds
        location = str(work_tree.root.absolute())
        arguments = ("-C", location, "-c", "core.bare=false", "-c", "core.excludesFile=/dev/null", "check-ignore")
        command = git_command(*arguments, "--no-index", "--stdin", "-z", "--verbose", "--non-matching")
        self._process = subprocess.Popen(
            work_tree.entered(*command),
            env=store_environment(git_dir) | {"GIT_WORK_TREE": location},
            pass_fds=work_tree.fds,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self._unread = b""

    def ask(self, paths: list[bytes]) -> set[bytes]:
        # Git would parse a name like ":(top)" as a pattern; after "./" it is a name.
        question = b"".join(b"./%s\0" % path for path in paths)
        start = time.monotonic()
        timer = threading.Timer(max(0.0, self._left), self._give_up)
        timer.daemon = True
        timer.start()
        try:
            _write_all(self._process, question)
            return {path for path in paths if self._answer()}
        finally:
            timer.cancel()
            self._left -= time.monotonic() - start

    def _give_up(self) -> None:
        self.late = True
        self._process.kill()

    def _answer(self) -> bool:
        """Read git's answer of four fields: file, line and text of the rule, and the path. Without a rule, the first
        three are empty.
        """
        _source, _line, rule, _path = (self._field() for _ in range(4))
        return bool(rule) and not rule.startswith(b"!")

    def _field(self) -> bytes:
        while b"\0" not in self._unread:
            more = self._process.stdout.read(_SENT_BYTES) if self._process.stdout else b""
            if not more:
                raise EOFError
            self._unread += more
        field, _, self._unread = self._unread.partition(b"\0")
        return field

    def end(self) -> bytes:
        """Kill git and return its error output."""
        self._process.kill()
        _, complaint = self._process.communicate()
        return complaint


def _write_all(process: subprocess.Popen[bytes], content: bytes) -> None:
    remaining = memoryview(content)
    while remaining and process.stdin is not None:
        remaining = remaining[process.stdin.write(remaining) or 0 :]
