"""Checks that a task is sound: its solution and demo pass, doing nothing fails, and each result is reproducible."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.facts import ChecksReturned
from stackmem.core.state import State
from stackmem.formats.images.room import ImageRoom
from stackmem.history.layer import OwnFolder
from stackmem.run.checking.checks import CheckRoom, room_of, task_checks
from stackmem.run.in_memory import MEMORY
from stackmem.run.prepare import TASK_PLACE, find_subject, prepare
from stackmem.run.request import Subject
from stackmem.run.solve import solve
from stackmem.run.tasks.reader import Task
from stackmem.workspace.overlay.view import WorkspaceView
from stackmem.workspace.profile import Mount, Profile
from stackmem.workspace.tree import copy_folder, remove_tree
from stackmem.workspace.workspace import Workspace, open_workspace

_SOLUTION = "/solution"
_SOLUTION_SECONDS = 600.0


class TaskFinding(Struct, frozen=True):
    task: str
    right: bool
    says: str


def check_task(name: str, isolation: str | None, cwd: Path) -> Iterator[TaskFinding]:
    """Yield one finding per property, as soon as it is known.

    Raise UsageError if the task does not exist, and WorkspaceError if the isolation is not available.
    """
    subject = find_subject(name, None, cwd)
    task = subject.task
    if task is None:
        raise UsageError(f"{name} is not a task; stackmem tasks list shows the available ones")
    if isolation == MEMORY:
        raise UsageError("checking a task runs its scripts, which is not possible in memory; omit --isolation")
    level = isolation or "auto"
    scratch = Path(tempfile.mkdtemp(prefix="stackmem-task-check-"))
    try:
        yield _twice(task, "doing nothing", [_judge(subject, level, scratch, solved=False) for _ in range(2)], False)
        if not _solutions(task):
            yield TaskFinding(task.short_name, False, "it has no solution/solve.sh")
        else:
            verdicts = [_judge(subject, level, scratch, solved=True) for _ in range(2)]
            yield _twice(task, "the solution", verdicts, True)
        if task.demo is None:
            yield TaskFinding(task.short_name, True, "it has no demo.yaml, which is optional")
        else:
            yield _twice(task, "the demo", [_demo(task, level, scratch, cwd) for _ in range(2)], True)
    finally:
        remove_tree(scratch)


def _twice(task: Task, subject: str, verdicts: list[tuple[bool, str]], expected: bool) -> TaskFinding:
    passes = [passed for passed, _ in verdicts]
    says = f"{subject} {'passes' if passes[0] else 'fails'}"
    if passes[0] != passes[1]:
        return TaskFinding(
            task.short_name, False, f"{subject} passes once and fails once: {verdicts[passes.index(False)][1]}"
        )
    if passes[0] != expected:
        return TaskFinding(task.short_name, False, f"{says}, twice; it should not: {verdicts[0][1]}")
    return TaskFinding(task.short_name, True, f"{says}, twice")


def stub_passes(name: str, cwd: Path) -> bool:
    """Return whether a task's checks pass on an unmodified workspace.

    Raise UsageError if the task does not exist, or its image is not built. Raise WorkspaceError if the isolation is not
    available.
    """
    subject = find_subject(name, None, cwd)
    scratch = Path(tempfile.mkdtemp(prefix="stackmem-task-check-"))
    try:
        return _judge(subject, "auto", scratch, solved=False)[0]
    finally:
        remove_tree(scratch)


def _solutions(task: Task) -> list[Path]:
    """Return the folders with a ``solve.sh`` in step order, or an empty list if any is missing."""
    solutions = [step.solution for step in task.steps] if task.steps else [task.solution]
    return [] if None in solutions else [folder for folder in solutions if folder is not None]


def _judge(subject: Subject, level: str, scratch: Path, *, solved: bool) -> tuple[bool, str]:
    """Return whether the checks pass after ``solve.sh`` (or after nothing), and the end of their output."""
    task, image = subject.task, subject.image
    assert task is not None  # noqa: S101 - checked by the callers
    folder = Path(tempfile.mkdtemp(dir=scratch))
    work = folder / "workspace"
    if task.workspace is None:
        work.mkdir()
    else:
        copy_folder(task.workspace, work)
    profile = Profile()

    def open_at(view: WorkspaceView, mounts: tuple[Mount, ...], env: Mapping[str, str]) -> Workspace:
        if image is not None:
            return ImageRoom(task, image, level, profile, folder).open(view, mounts, env)
        return open_workspace(level, view, TASK_PLACE, profile, mounts, env)

    layer = OwnFolder(work)
    try:
        for each in _solutions(task) if solved else ():
            solution = Mount(str(each), _SOLUTION)
            with closing(open_at(layer.view, (solution,), {})) as workspace:
                script = f"{workspace.place(solution)}/solve.sh"
                outcome = workspace.run_command(f"{room_of(image)['shell']} '{script}'", _SOLUTION_SECONDS, 4_096)
            if outcome.failed:
                return False, f"solve.sh failed: {outcome.text[-500:]}"
        with closing(open_at(layer.view, (), {})) as workspace:
            room = CheckRoom(layer, folder, workspace.place, open_at, **room_of(image))
        verdict = task_checks(room, task, folder / "verifier").judge()
    finally:
        layer.close()
    return State(checks=verdict).solved or False, _end(verdict)


def _demo(task: Task, level: str, scratch: Path, cwd: Path) -> tuple[bool, str]:
    folder = Path(tempfile.mkdtemp(dir=scratch))
    flags = {
        "model": "demo",
        "isolation": level,
        "runs_dir": str(folder / "runs"),
        "sandbox_dir": str(folder / "work"),
        "fsync": "none",
    }
    request = prepare(str(task.folder), None, flags, os.environ, cwd)
    result = solve(request, os.environ)
    return result.outcome == "solved", result.check_error or result.failure or result.result


def _end(verdict: ChecksReturned) -> str:
    return verdict.error or verdict.text[-500:]
