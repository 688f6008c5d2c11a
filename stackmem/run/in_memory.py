"""Runs in memory (``--isolation memory``): a world's files in a dict, its program as a function, nothing on the disk
but the run's own records.

Rule 1: only worlds of ``stackmem worlds make`` can be run so, and only with the program that this version brings.
Rule 2: no files are kept beside the trace. What they were at any moment is made again from the recorded calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

import msgspec

from stackmem.core.facts import ChecksReturned, ToolReturned, VerifyReturned
from stackmem.core.machine import advance
from stackmem.core.requests import UseTool, Verify
from stackmem.core.state import State
from stackmem.errors import UsageError, WorkspaceError
from stackmem.foreign.files import read_regular
from stackmem.history.history import PathChange
from stackmem.history.walk import LeftOut
from stackmem.memory import open_strategy
from stackmem.tasks import work
from stackmem.trace.record import Record
from stackmem.trace.walk import state_after
from stackmem.workspace.memory import MemoryProgram, MemoryWorkspace

from .perform import World, perform
from .prepare import Subject

MEMORY = MemoryWorkspace.level
PROGRAM = MemoryProgram("work", work.run, ("work", work.PLAN))
"""``./work``; the same text must stand in the workspace."""


class NoHistory:
    """Keeps no files, where there is a way to make them again."""

    left_out: tuple[LeftOut, ...] = ()

    def withhold(self, holds_secret: Callable[[bytes], bool]) -> None:
        """Nothing is kept, so nothing need be withheld."""

    def snapshot(self) -> str:
        return ""

    def sync(self) -> None:
        """Nothing is kept that could be forced to the disk."""

    def patch(self, before: str, after: str) -> bytes:
        return b""

    def changed(self, before: str, after: str) -> list[PathChange]:
        return []


class WorldChecks:
    """The hidden check of a world, on the files as they are in memory."""

    def __init__(self, workspace: MemoryWorkspace, tests: Path) -> None:
        self._workspace = workspace
        self._tests = tests

    def judge(self) -> ChecksReturned:
        path = self._tests / "answers.json"
        try:
            answers = _answers(path, path.stat().st_mtime_ns)
            reward, says = work.verdict(self._workspace.files, answers)
        except (OSError, msgspec.DecodeError, KeyError, TypeError) as error:
            return ChecksReturned({}, f"{path} cannot be judged by ({error}); make the world anew")
        return ChecksReturned({"reward": reward}, "", f"{says}\n")


def open_in_memory(subject: Subject, check: str | None, scrub: Callable[[str], str]) -> MemoryWorkspace:
    """The workspace of a world."""
    task = subject.task
    way_out = "leave --isolation out"
    if task is None or not is_world(task.folder):
        raise UsageError(
            f"--isolation memory runs worlds alone (stackmem worlds make), and {subject.name} is none; {way_out}"
        )
    if check is not None:
        raise UsageError(f"--check runs a command, which cannot be had in memory; {way_out}")
    place = task.folder / "environment" / "workspace"
    try:
        files = _files(place, (place / work.PLAN).stat().st_mtime_ns)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the world {task.folder} cannot be read ({error}); make it anew") from error
    if files.get(PROGRAM.path) != program_text():
        raise UsageError(f"the world {task.folder} was made by another version of stackmem; make it anew, or {way_out}")
    return MemoryWorkspace(files, subject.inside, PROGRAM, scrub)


def stays_in_memory(before: str, now: str) -> bool:
    """Whether a run that was at one level of isolation goes on, at another, in memory."""
    if (before == MEMORY) != (now == MEMORY):
        raise UsageError(
            f"the run cannot go on at isolation {now}: files are in memory or on a disk, throughout; "
            "leave --isolation out"
        )
    return now == MEMORY


def is_world(folder: Path) -> bool:
    """Whether a task folder was made by ``stackmem worlds make``."""
    own = folder / "environment" / "workspace" / work.PLAN
    return own.is_file() and (folder / "tests" / "answers.json").is_file()


def recall(records: Iterable[Record], upto: int, world: World) -> None:
    """Bring the files to where they were after record ``upto``, by performing the calls up to there again."""
    state = State()
    for record in records:
        if record.seq > upto:
            return
        event = record.event
        if isinstance(event, ToolReturned | VerifyReturned) and state.pending is not None and state.end is None:
            asked = advance(state, open_strategy(state.begun.strategy))
            if isinstance(asked, UseTool | Verify) and perform(asked, world) != event:
                raise WorkspaceError(
                    f"the run's files cannot be made again: at step {state.step} (record {record.seq}) the call "
                    "returns something else now; solve anew with this version of the world"
                )
        state = state_after(state, record)


@lru_cache(maxsize=1)
def program_text() -> str:
    """The text of ``./work`` as this version brings it."""
    return Path(work.__file__).read_text("utf-8")


@lru_cache(maxsize=16)
def _files(place: Path, changed: int) -> dict[str, str]:
    """Every file of a world's workspace; read once for each time that it was made."""
    found = sorted(path for path in place.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.relative_to(place).as_posix(): read_regular(path).decode("utf-8") for path in found}


@lru_cache(maxsize=16)
def _answers(path: Path, changed: int) -> dict[str, object]:
    return msgspec.json.decode(read_regular(path), type=dict[str, object])
