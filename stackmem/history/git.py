"""Running git so that nothing but its own program is executed: no hook, monitor, pager, filter or outside diff."""

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

from stackmem.errors import UsageError, WorkspaceError
from stackmem.foreign.files import opener_of_regular, spelled_size

ANSWER_SECONDS = 600
_MAX_READ_FIRST_BYTES = 1 << 30
_READ_FIRST = (
    "HEAD", "config", "commondir", "packed-refs", "shallow", "index", "info/attributes", "info/exclude", "info/grafts",
    "objects/info/alternates", "objects/info/commit-graph",
)  # fmt: skip
HER_SECONDS = 120  # for a question about her repository, in which a .gitignore may be a pipe, or take for ever
_HERS = ("HOME", "XDG_CONFIG_HOME", "LOGNAME", "USER")

_LOCAL = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
"""A repository may name a program that brings the objects it lacks, and git would run it for a mere question.

No protocol is called ``none``, so none is allowed; the second, of git 2.45 and later, says the same more plainly.
"""

_SAFE = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.quotePath=true",
    "core.protectNTFS=false",  # names that only Windows cannot bear are names here
    "core.protectHFS=false",
    "core.bigFileThreshold=16m",  # a larger file is compared as bytes: line by line would take minutes
    "gc.auto=0",
    "maintenance.auto=false",
    "safe.directory=*",  # nothing of a foreign repository is executed, so its owner does not matter
)


@lru_cache(maxsize=1)
def git_program() -> str:
    """The absolute path of git."""
    found = shutil.which("git")
    if found is None:
        raise UsageError("git is not installed, and stackmem keeps the files of a run with it; install the package git")
    return os.path.realpath(found)


def git_command(*arguments: str) -> list[str]:
    return [git_program(), *(word for setting in _SAFE for word in ("-c", setting)), *arguments]


def store_environment(git_dir: Path) -> dict[str, str]:
    """For our own store: nobody's configuration, and no variable of the caller's."""
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
    """Refuse a file that git reads first, and would read without end."""
    for name in _READ_FIRST:
        with suppress(OSError, ValueError):
            status = os.stat(f"{os.fspath(git_dir)}/{name}")  # noqa: PTH116 - as each call of git does this
            odd = not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode)
            if odd or status.st_size > _MAX_READ_FIRST_BYTES:
                why = "not a regular file" if odd else f"larger than {spelled_size(_MAX_READ_FIRST_BYTES)}"
                raise WorkspaceError(f"{git_dir / name} is {why}; replace it by a copy of the original")


@lru_cache(maxsize=64)
def _refuse_special_objects(git_dir: Path, _inode: int) -> None:
    """Look at all objects and references once for each store: git waits for a FIFO until its time is over."""
    if name := special_file_below(git_dir, ("refs", "objects")):
        raise WorkspaceError(f"{git_dir / name} is not a regular file; replace it by a copy of the original")


def special_file_below(git_dir: Path, folders: Collection[str], *, links: bool = False) -> str:
    """The first FIFO, socket or device below these folders, by its path in ``git_dir``; empty if there is none."""
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


def her_environment() -> dict[str, str]:
    """For reading the person's repository: her ignore rules count, but no variable that names another repository."""
    theirs = {name: os.environ[name] for name in _HERS if name in os.environ}
    return {
        **theirs,
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        **_LOCAL,
    }


def git(
    *arguments: str, cwd: Path, environment: dict[str, str], stdin: bytes = b"", seconds: float = ANSWER_SECONDS
) -> bytes:
    """What git prints."""
    return git_and_warnings(*arguments, cwd=cwd, environment=environment, stdin=stdin, seconds=seconds)[0]


def git_into(place: Path, *arguments: str, cwd: Path, environment: dict[str, str]) -> None:
    """Put what git prints into a file, however much it is; raises as ``git`` does, and ``OSError`` for the file.

    Where git fails, no file is left.
    """
    try:
        place.unlink(missing_ok=True)  # whatever is there, also a FIFO or a link that leads elsewhere
        with open(place, "xb", opener=opener_of_regular) as file:
            git_and_warnings(*arguments, cwd=cwd, environment=environment, stdout=file)
    except WorkspaceError:
        place.unlink()
        raise


class GitStop:
    """Ends the git that a thread waits for, and lets it start no other one."""

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

    def begun(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._process = process
            if self._stopped:
                process.kill()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._process is not None:
                self._process.kill()  # does nothing to one that was waited for


_stops = threading.local()


def _note_begun(process: subprocess.Popen[bytes]) -> None:
    stop: GitStop | None = getattr(_stops, "current", None)
    if stop is not None:
        stop.begun(process)


@contextmanager
def git_stream(*arguments: str, cwd: Path, environment: dict[str, str], stdin: bytes) -> Iterator[IO[bytes]]:
    """What git prints, as it prints it; raises ``WorkspaceError`` at the end where git failed or took too long."""
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
    stdout: BinaryIO | None = None,  # where it prints to instead; there is nothing to return then
) -> tuple[bytes, bytes]:
    """What git prints, and what it complains about though it succeeds; raises as ``git`` does."""
    command = git_command(*arguments)
    try:
        with subprocess.Popen(
            command, cwd=cwd, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE if stdout is None else stdout, stderr=subprocess.PIPE,
            process_group=0,  # Ctrl-C is the harness's to answer: a result is being kept
        ) as process:  # fmt: skip
            _note_begun(process)
            try:
                printed, complained = process.communicate(stdin, timeout=seconds)
            except BaseException:
                process.kill()
                raise
    except subprocess.TimeoutExpired as error:
        raise WorkspaceError(
            f"git {arguments[0]} has not answered within {seconds:g} s in {cwd}; see that no .gitignore there is a pipe"
        ) from error
    except OSError as error:
        raise WorkspaceError(f"git {arguments[0]} cannot run ({error}); see that git works in {cwd}") from error
    if process.returncode:
        raise failure(arguments[0], cwd, complained)
    return printed or b"", complained


def failure(what: str, cwd: Path, stderr: bytes) -> WorkspaceError:
    why = " ".join(stderr.decode("utf-8", "replace").split())[-300:] or "no reason given"
    return WorkspaceError(f"git {what} failed in {cwd} ({why}); see that git works there")
