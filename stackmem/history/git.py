"""Runs git so that it executes only itself: no hooks, monitors, pagers, filters or external diffs."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, BinaryIO

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.foreign.files import opener_of_regular, spelled_size

ANSWER_SECONDS = 600
_MAX_READ_FIRST_BYTES = 1 << 30
_READ_FIRST = (
    "HEAD", "config", "commondir", "packed-refs", "shallow", "index", "info/attributes", "info/exclude", "info/grafts",
    "objects/info/alternates", "objects/info/commit-graph",
)  # fmt: skip
USER_GIT_SECONDS = 120  # for queries about the user's repository, in which a .gitignore may be a pipe or take forever
_USER_VARIABLES = ("HOME", "XDG_CONFIG_HOME", "LOGNAME", "USER")

_LOCAL = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
"""Prevents network access.

A repository may name a program that fetches missing objects, and git would run it even for a query. No protocol is
called ``none``, so none is allowed; the second variable says the same for git 2.45 and later.
"""

_SAFE = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.quotePath=true",
    "core.protectNTFS=false",  # allow names that are only invalid on Windows
    "core.protectHFS=false",
    "core.bigFileThreshold=16m",  # larger files are compared as bytes, because a line diff would take minutes
    "gc.auto=0",
    "maintenance.auto=false",
    "safe.directory=*",  # the owner of a repository does not matter, because nothing in it is executed
)


@lru_cache(maxsize=1)
def git_program() -> str:
    """Return the absolute path of git. Raise UsageError if git is not installed."""
    path = shutil.which("git")
    if path is None:
        raise UsageError(
            "git is not installed, but stackmem needs it to store the files of a run; install the package git"
        )
    return os.path.realpath(path)


def git_command(*arguments: str) -> list[str]:
    return [git_program(), *(word for setting in _SAFE for word in ("-c", setting)), *arguments]


def store_environment(git_dir: Path) -> dict[str, str]:
    """Return the environment for our own store: no user configuration and none of the caller's variables.

    Raise WorkspaceError if a file of the store is a FIFO, a device or huge, and git would never stop reading it.
    """
    _refuse_special_files(git_dir)
    with suppress(OSError):
        _refuse_special_objects(git_dir, (git_dir / "objects").stat().st_ino)
    return {
        "PATH": os.defpath,
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_DIR": os.fspath(git_dir.absolute()),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        **_LOCAL,
    }


def _refuse_special_files(git_dir: Path) -> None:
    """Refuse special or huge files that git reads first and would read without end."""
    for name in _READ_FIRST:
        with suppress(OSError, ValueError):
            status = os.stat(f"{os.fspath(git_dir)}/{name}")  # noqa: PTH116 - each call of git does this
            odd = not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode)
            if odd or status.st_size > _MAX_READ_FIRST_BYTES:
                reason = "not a regular file" if odd else f"larger than {spelled_size(_MAX_READ_FIRST_BYTES)}"
                raise WorkspaceError(f"{git_dir / name} is {reason}; replace it with a copy of the original")


@lru_cache(maxsize=64)
def _refuse_special_objects(git_dir: Path, _inode: int) -> None:
    """Check all objects and references, once per store, because git would block on a FIFO."""
    if name := special_file_below(git_dir, ("refs", "objects")):
        raise WorkspaceError(f"{git_dir / name} is not a regular file; replace it with a copy of the original")


def special_file_below(git_dir: Path, folders: Collection[str], *, links: bool = False) -> str:
    """Return the path of the first FIFO, socket or device below these folders, or an empty string."""
    waiting = [git_dir / name for name in folders]
    while waiting:
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    if links:
                        return os.path.relpath(entry.path, git_dir)
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                elif not entry.is_file(follow_symlinks=False):
                    return os.path.relpath(entry.path, git_dir)
    return ""


def user_git_environment() -> dict[str, str]:
    """Return the environment for reading the user's repository.

    The user's ignore rules apply, but variables that name another repository are dropped.
    """
    inherited = {name: os.environ[name] for name in _USER_VARIABLES if name in os.environ}
    return {
        **inherited,
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        **_LOCAL,
    }


def git(
    *arguments: str, cwd: Path, environment: dict[str, str], stdin: bytes = b"", seconds: float = ANSWER_SECONDS
) -> bytes:
    """Run git and return its output.

    Raise UsageError if git is not installed. Raise WorkspaceError if git failed, or did not end within ``seconds``.
    """
    return git_and_warnings(*arguments, cwd=cwd, environment=environment, stdin=stdin, seconds=seconds)[0]


def git_into(path: Path, *arguments: str, cwd: Path, environment: dict[str, str]) -> None:
    """Write git's output of any size to a file. Raises like ``git``, and ``OSError`` for the file.

    If git fails, the file is removed.
    """
    try:
        path.unlink(missing_ok=True)  # it may be a FIFO or a link
        with open(path, "xb", opener=opener_of_regular) as file:
            git_and_warnings(*arguments, cwd=cwd, environment=environment, stdout=file)
    except WorkspaceError:
        path.unlink()
        raise


class GitStop:
    """Stops the git process that a thread waits for, and prevents it from starting another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    @contextmanager
    def of_this_thread(self) -> Iterator[None]:
        _stops.current = self
        try:
            yield
        finally:
            _stops.current = None

    def set_process(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._process = process
            if self._stopped:
                process.kill()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._process is not None:
                self._process.kill()  # has no effect on a process that has ended


_stops = threading.local()


def _note_begun(process: subprocess.Popen[bytes]) -> None:
    stop: GitStop | None = getattr(_stops, "current", None)
    if stop is not None:
        stop.set_process(process)


@contextmanager
def git_stream(*arguments: str, cwd: Path, environment: dict[str, str], stdin: bytes) -> Iterator[IO[bytes]]:
    """Stream git's output. Raises ``WorkspaceError`` at the end if git failed or took too long."""
    with tempfile.TemporaryFile() as questions:
        questions.write(stdin)
        questions.seek(0)
        process = subprocess.Popen(
            git_command(*arguments), cwd=cwd, env=environment, process_group=0,
            stdin=questions, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        _note_begun(process)
        timer = threading.Timer(ANSWER_SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        try:
            with process.stdout or questions as answers:
                yield answers
            if process.wait():
                raise failure(arguments[0], cwd, b"")
        finally:
            timer.cancel()
            process.kill()
            process.wait()


def git_and_warnings(
    *arguments: str,
    cwd: Path,
    environment: dict[str, str],
    stdin: bytes = b"",
    seconds: float = ANSWER_SECONDS,
    stdout: BinaryIO | None = None,  # receives the output; then nothing is returned
) -> tuple[bytes, bytes]:
    """Return git's output and its warnings on success. Raises like ``git``."""
    command = git_command(*arguments)
    try:
        with subprocess.Popen(
            command, cwd=cwd, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE if stdout is None else stdout, stderr=subprocess.PIPE,
            process_group=0,  # Ctrl-C must reach only stackmem, because git may be saving a result
        ) as process:  # fmt: skip
            _note_begun(process)
            try:
                printed, complained = process.communicate(stdin, timeout=seconds)
            except BaseException:
                process.kill()
                raise
    except subprocess.TimeoutExpired as error:
        raise WorkspaceError(
            f"git {arguments[0]} did not answer within {seconds:g} s in {cwd}; "
            "make sure that no .gitignore there is a pipe"
        ) from error
    except OSError as error:
        raise WorkspaceError(f"git {arguments[0]} cannot run ({error}); check that git works in {cwd}") from error
    if process.returncode:
        raise failure(arguments[0], cwd, complained)
    return printed or b"", complained


def failure(command: str, cwd: Path, stderr: bytes) -> WorkspaceError:
    reason = " ".join(stderr.decode("utf-8", "replace").split())[-300:] or "no reason given"
    return WorkspaceError(f"git {command} failed in {cwd} ({reason}); check that git works there")
