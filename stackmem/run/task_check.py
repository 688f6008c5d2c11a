"""Checks that a task is sound: its solution passes, doing nothing fails, its demo passes, each twice alike."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from stackmem.core.facts import ChecksReturned
from stackmem.core.state import State
from stackmem.errors import UsageError
from stackmem.history.layer import OwnFolder
from stackmem.tasks.reader import Task
from stackmem.workspace.overlay.view import WorkspaceView
from stackmem.workspace.profile import Mount, Profile
from stackmem.workspace.tree import copy_folder, remove_tree
from stackmem.workspace.workspace import Workspace, open_workspace

from .checks import CheckRoom, TaskChecks
from .in_memory import MEMORY
from .prepare import TASK_PLACE, find_subject, prepare
from .solve import solve

_SOLUTION = "/solution"
_SOLUTION_SECONDS = 600.0


class TaskFinding(Struct, frozen=True):
    task: str
    right: bool
    says: str


def check_task(named: str, isolation: str | None, cwd: Path) -> Iterator[TaskFinding]:
    """One finding for each property, as soon as it is known.

    Raises:
        UsageError: There is no such task.
        WorkspaceError: The isolation cannot be had.
    """
    task = find_subject(named, None, cwd).task
    if task is None:
        raise UsageError(f"{named} is no task; stackmem tasks list shows those there are")
    if isolation == MEMORY:
        raise UsageError("the check of a task runs its scripts, which cannot be had in memory; leave --isolation out")
    level = isolation or "auto"
    scratch = Path(tempfile.mkdtemp(prefix="stackmem-task-check-"))
    try:
        yield _twice(task, "doing nothing", [_judge(task, level, scratch, solved=False) for _ in range(2)], False)
        if task.solution is None:
            yield TaskFinding(task.short_name, False, "it has no solution/solve.sh")
        else:
            verdicts = [_judge(task, level, scratch, solved=True) for _ in range(2)]
            yield _twice(task, "the solution", verdicts, True)
        if task.demo is None:
            yield TaskFinding(task.short_name, True, "it has no demo.yaml, and none is needed")
        else:
            yield _twice(task, "the demo", [_demo(task, level, scratch, cwd) for _ in range(2)], True)
    finally:
        remove_tree(scratch)


def _twice(task: Task, what: str, verdicts: list[tuple[bool, str]], wanted: bool) -> TaskFinding:
    passes = [passed for passed, _ in verdicts]
    says = f"{what} {'passes' if passes[0] else 'fails'}"
    if passes[0] != passes[1]:
        return TaskFinding(
            task.short_name, False, f"{what} passes once and fails once: {verdicts[passes.index(False)][1]}"
        )
    if passes[0] != wanted:
        return TaskFinding(task.short_name, False, f"{says}, twice; it should not: {verdicts[0][1]}")
    return TaskFinding(task.short_name, True, f"{says}, twice")


def _judge(task: Task, level: str, scratch: Path, *, solved: bool) -> tuple[bool, str]:
    """Whether the checks pass after ``solve.sh`` (or after nothing), and the end of what they print."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    work = folder / "workspace"
    if task.workspace is None:
        work.mkdir()
    else:
        copy_folder(task.workspace, work)
    profile = Profile()

    def open_at(view: WorkspaceView, mounts: tuple[Mount, ...], env: Mapping[str, str]) -> Workspace:
        return open_workspace(level, view, TASK_PLACE, profile, mounts, env)

    solution = Mount(str(task.solution or task.folder), _SOLUTION)
    layer = OwnFolder(work)
    workspace = open_at(layer.view, (solution,) if solved else (), {})
    try:
        if solved:
            script = f"{workspace.place(solution)}/solve.sh"
            outcome = workspace.run_command(f"bash '{script}'", _SOLUTION_SECONDS, 4_096)
            if outcome.failed:
                return False, f"solve.sh failed: {outcome.text[-500:]}"
        room = CheckRoom(layer, folder, workspace.place, open_at)
        verdict = TaskChecks(room, task.tests, folder / "verifier", task.check_seconds, task.check_env).judge()
    finally:
        workspace.close()
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
    prepared = prepare(str(task.folder), None, flags, os.environ, cwd)
    result = solve(prepared, os.environ)
    return result.outcome == "solved", result.check_error or result.failure or result.result


def _end(verdict: ChecksReturned) -> str:
    return verdict.error or verdict.text[-500:]
