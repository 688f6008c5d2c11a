"""What the ``.gitignore`` files of a workspace leave out, as git itself understands them."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

from stackmem.workspace.overlay.view import WorkspaceView

from .git import failure, git_command, store_environment

ANSWER_SECONDS = 20.0  # for all questions about one state; a pattern of many stars may take git for ever
_SENT_BYTES = 16 * 1024  # at once: a pipe that is read up holds so much, so neither side waits for the other


class IgnoreRules:
    """One conversation with git about one state of a workspace; git is started by the first question.

    The rules read are those of the workspace alone, not the person's.
    """

    def __init__(self, git_dir: Path, work_tree: Path | WorkspaceView, seconds: float = ANSWER_SECONDS) -> None:
        self._git_dir = git_dir
        self._work_tree = work_tree if isinstance(work_tree, WorkspaceView) else WorkspaceView(work_tree, -1)
        self._seconds = seconds
        self._talk: _Talk | None = None

    def ignored(self, paths: list[bytes]) -> set[bytes]:
        """Those of the paths, relative to the workspace, that are ignored."""
        found: set[bytes] = set()
        batch: list[bytes] = []
        size = 0
        for path in paths:
            if size + len(path) > _SENT_BYTES and batch:
                found |= self._ask(batch)
                batch, size = [], 0
            batch.append(path)
            size += len(path) + 3
        return found | self._ask(batch) if batch else found

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
    """late: git was ended because the seconds for all its answers were used up."""

    def __init__(self, git_dir: Path, work_tree: WorkspaceView, seconds: float) -> None:
        self.late = False
        self._left = seconds
        place = str(work_tree.root.absolute())
        arguments = ("-C", place, "-c", "core.bare=false", "-c", "core.excludesFile=/dev/null", "check-ignore")
        command = git_command(*arguments, "--no-index", "--stdin", "-z", "--verbose", "--non-matching")
        self._process = subprocess.Popen(
            work_tree.entered(*command),
            env=store_environment(git_dir) | {"GIT_WORK_TREE": place},
            pass_fds=work_tree.fds,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self._unread = b""

    def ask(self, paths: list[bytes]) -> set[bytes]:
        # A name like ":(top)" would be a pattern to git; behind "./" it is a name.
        question = b"".join(b"./%s\0" % path for path in paths)
        begun = time.monotonic()
        timer = threading.Timer(max(0.0, self._left), self._give_up)
        timer.daemon = True
        timer.start()
        try:
            _write_all(self._process, question)
            return {path for path in paths if self._answer()}
        finally:
            timer.cancel()
            self._left -= time.monotonic() - begun

    def _give_up(self) -> None:
        self.late = True
        self._process.kill()

    def _answer(self) -> bool:
        """Git answers with four fields: file, line and text of the rule, and the path; no rule: the first are empty."""
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
        """End git, whatever it does; what it complained about."""
        self._process.kill()
        _, complaint = self._process.communicate()
        return complaint


def _write_all(process: subprocess.Popen[bytes], content: bytes) -> None:
    left = memoryview(content)
    while left and process.stdin is not None:
        left = left[process.stdin.write(left) or 0 :]
