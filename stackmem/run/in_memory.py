"""Runs in memory (``--isolation memory``): files are a dict and the program is a function; only records are on disk.

Rule 1: Only worlds from ``stackmem worlds make`` are supported, and only with the program of this version.
Rule 2: No files are stored with the trace. They are rebuilt by replaying the recorded calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

import msgspec

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.core.facts import ChecksReturned, ToolReturned, VerifyReturned
from stackmem.core.machine import advance
from stackmem.core.requests import UseTool, Verify
from stackmem.core.state import State
from stackmem.foreign.files import read_regular
from stackmem.history.history import PathChange
from stackmem.history.walk import LeftOut
from stackmem.memory import open_strategy
from stackmem.run.tasks import work
from stackmem.trace.record import Record
from stackmem.trace.walk import state_after
from stackmem.workspace.memory import MemoryProgram, MemoryWorkspace

from .perform import World, perform
from .request import Subject

MEMORY = MemoryWorkspace.level
PROGRAM = MemoryProgram("work", work.run, ("work", work.PLAN))
"""The program ``./work``; the workspace must contain the same text."""


class NoHistory:
    """History of a run whose files can be rebuilt, so it stores none."""

    left_out: tuple[LeftOut, ...] = ()

    def withhold(self, holds_secret: Callable[[bytes], bool]) -> None:
        """Do nothing, because no files are stored."""

    def snapshot(self) -> str:
        return ""

    def sync(self) -> None:
        """Do nothing, because no files are stored."""

    def patch(self, before: str, after: str) -> bytes:
        return b""

    def changed(self, before: str, after: str) -> list[PathChange]:
        return []


class WorldChecks:
    """The hidden check of a world, run on the files in memory."""

    def __init__(self, workspace: MemoryWorkspace, tests: Path) -> None:
        self._workspace = workspace
        self._tests = tests

    def judge(self) -> ChecksReturned:
        path = self._tests / "answers.json"
        try:
            answers = _answers(path, path.stat().st_mtime_ns)
            reward, says = work.verdict(self._workspace.files, answers)
        except (OSError, msgspec.DecodeError, KeyError, TypeError) as error:
            return ChecksReturned({}, f"{path} cannot be judged by ({error}); generate the world again")
        return ChecksReturned({"reward": reward}, "", f"{says}\n")


def open_in_memory(subject: Subject, check: str | None, scrub: Callable[[str], str]) -> MemoryWorkspace:
    """Open the workspace of a world.

    Raise UsageError if the task is not a world, the world has another version, or the user asked for a check command.
    """
    task = subject.task
    hint = "omit --isolation"
    if task is None or not is_world(task.folder):
        raise UsageError(
            f"--isolation memory only runs worlds (stackmem worlds make), and {subject.name} is not one; {hint}"
        )
    if check is not None:
        raise UsageError(f"--check runs a command, which is not possible in memory; {hint}")
    path = task.folder / "environment" / "workspace"
    try:
        files = _files(path, (path / work.PLAN).stat().st_mtime_ns)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the world {task.folder} cannot be read ({error}); create it again") from error
    if files.get(PROGRAM.path) != program_text():
        raise UsageError(
            f"the world {task.folder} was created by another version of stackmem; create it again, or {hint}"
        )
    return MemoryWorkspace(files, subject.inside, PROGRAM, scrub)


def stays_in_memory(before: str, now: str) -> bool:
    """Return whether a continued run stays in memory. Raises if it would switch between memory and disk."""
    if (before == MEMORY) != (now == MEMORY):
        raise UsageError(
            f"the run cannot continue at isolation {now}: its files stay either in memory or on disk; omit --isolation"
        )
    return now == MEMORY


def is_world(folder: Path) -> bool:
    """Return whether ``stackmem worlds make`` created the task folder."""
    own = folder / "environment" / "workspace" / work.PLAN
    return own.is_file() and (folder / "tests" / "answers.json").is_file()


def recall(records: Iterable[Record], upto: int, world: World) -> None:
    """Restore the files to their state after record ``upto`` by replaying the calls.

    Raise WorkspaceError if a call returns something else now, and TraceError if the trace is broken.
    """
    state = State()
    for record in records:
        if record.seq > upto:
            return
        event = record.event
        if isinstance(event, ToolReturned | VerifyReturned) and state.pending is not None and state.end is None:
            effect = advance(state, open_strategy(state.begun.strategy))
            if isinstance(effect, UseTool | Verify) and perform(effect, world) != event:
                raise WorkspaceError(
                    f"the run's files cannot be rebuilt: at step {state.step} (record {record.seq}) the call "
                    "now returns something else; start a new run with this version of the world"
                )
        state = state_after(state, record)


@lru_cache(maxsize=1)
def program_text() -> str:
    """Return the text of ``./work`` in this version."""
    return Path(work.__file__).read_text("utf-8")


@lru_cache(maxsize=16)
def _files(folder: Path, changed: int) -> dict[str, str]:
    """Read all files of a world's workspace. Cached per path and modification time."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.relative_to(folder).as_posix(): read_regular(path).decode("utf-8") for path in paths}


@lru_cache(maxsize=16)
def _answers(path: Path, changed: int) -> dict[str, object]:
    return msgspec.json.decode(read_regular(path), type=dict[str, object])
