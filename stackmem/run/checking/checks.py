"""Runs the checks that decide whether a run is solved: in the sandbox, after the run, on a copy of the workspace.

The agent never sees the checks, and processes that it left running cannot affect them.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from msgspec import UNSET, Struct

from stackmem.core.errors import WorkspaceError
from stackmem.core.facts import ChecksReturned
from stackmem.core.network import NetworkRequest
from stackmem.core.text import tail
from stackmem.history.history import History
from stackmem.history.layer import Layer
from stackmem.run.in_memory import NoHistory
from stackmem.run.ports import Checks
from stackmem.run.tasks.judge import judge
from stackmem.run.tasks.reader import Task
from stackmem.workspace.image import Image
from stackmem.workspace.isolation import confine
from stackmem.workspace.outcome import ToolOutcome
from stackmem.workspace.overlay.view import WorkspaceView
from stackmem.workspace.profile import Mount
from stackmem.workspace.tree import remove_tree
from stackmem.workspace.workspace import Workspace

if TYPE_CHECKING:
    from stackmem.history.steering import SteeringKind

    from .guard import CheckGuard

_SHOWN_BYTES = 16_384
_HOLD = ("python", "-I", "-S")
_TESTS, _VERIFIER, _CONFINE = "/tests", "/logs/verifier", "/apart"


class CheckRoom(Struct, frozen=True):
    """Environment in which checks run."""

    layer: Layer  # the agent's workspace; checks run on a copy of it
    scratch: Path  # an existing directory for temporary copies
    place: Callable[[Mount], str]  # returns the path of a mount inside the sandbox
    # opens a copy as a workspace with the given mounts and variables
    open: Callable[[WorkspaceView, tuple[Mount, ...], Mapping[str, str]], Workspace]
    shell: str = "bash"  # the shell for ``test.sh``
    holds: bool = True  # whether the sandbox has our Python, which isolates the judged code from the tests


class _RoomRules(TypedDict):
    shell: str
    holds: bool


def room_of(image: Image | None) -> _RoomRules:
    """Return the ``CheckRoom`` options for an image, which may lack bash and our Python."""
    return {"shell": image.shell[0] if image else "bash", "holds": image is None}


def task_checks(room: CheckRoom, task: Task, verifier: Path) -> TaskChecks | StepChecks:
    """Return the checks of a task: its tests, or the tests of each of its steps."""
    if task.steps:
        return StepChecks(room, task, verifier)
    return TaskChecks(room, task.tests, verifier, task.check_seconds, task.check_env)


class TaskChecks:
    """Runs a task's ``tests/test.sh`` and reads the reward that it writes."""

    def __init__(self, room: CheckRoom, tests: Path, verifier: Path, seconds: float, env: Mapping[str, str]) -> None:
        self._room = room
        self._tests = tests
        self._verifier = verifier
        self._seconds = seconds
        self._env = env

    def judge(self) -> ChecksReturned:
        _empty(self._verifier)
        tests = Mount(str(self._tests), _TESTS)
        verifier = Mount(str(self._verifier), _VERIFIER, writable=True)
        script = Mount(confine.__file__, f"{_CONFINE}/confine.py")
        places = {"TESTS_DIR": self._room.place(tests), "VERIFIER_DIR": self._room.place(verifier)}
        hold = shlex.join([*_HOLD, self._room.place(script), "apart", *places.values(), "--"])
        env = {**self._env, **places, **({"APART": hold} if self._room.holds else {})}
        mounts = (tests, verifier, *((script,) if self._room.holds else ()))
        outcome = _run(self._room, f'{self._room.shell} "$TESTS_DIR/test.sh"', self._seconds, mounts, env)
        text, requests = _end_of(outcome.text), outcome.requests or UNSET
        if outcome.reason:
            return ChecksReturned({}, f"the checks did not end by themselves: {outcome.reason}", text, requests)
        verdict = judge(self._verifier)
        error = f"{verdict.error} (test.sh ended with exit {outcome.exit_code})" if verdict.error else ""
        return ChecksReturned(verdict.rewards, error, text, requests)


class StepChecks:
    """Runs the tests of each step of a task, in order, after the agent has worked on all steps."""

    def __init__(self, room: CheckRoom, task: Task, verifier: Path) -> None:
        self._room, self._task, self._verifier = room, task, verifier

    def judge(self) -> ChecksReturned:
        """Return the reward of each step by name, and their combination according to the task's strategy as
        ``reward``.
        """
        by_step: dict[str, float] = {}
        errors: list[str] = []
        texts: list[str] = []
        requests: list[NetworkRequest] = []
        for step in self._task.steps:
            folder = self._verifier / step.name
            verdict = TaskChecks(self._room, step.tests, folder, step.check_seconds, step.check_env).judge()
            default = next(iter(verdict.rewards.values()), 0.0)
            by_step[step.name] = verdict.rewards.get("reward", default)
            errors += [f"{step.name}: {verdict.error}"] if verdict.error else []
            texts.append(f"== {step.name}\n{verdict.text}")
            requests += verdict.requests or ()
            if step.least is not None and by_step[step.name] < step.least:
                break
        rewards = [by_step.get(step.name, 0.0) for step in self._task.steps]
        reward = rewards[-1] if self._task.strategy == "final" else sum(rewards) / len(rewards)
        text = _end_of("\n".join(texts))
        return ChecksReturned({"reward": reward, **by_step}, "; ".join(errors), text, tuple(requests) or UNSET)


class CommandCheck:
    """A user's ``--check COMMAND``. Exit code 0 means solved, unless the guard rejects it."""

    def __init__(self, room: CheckRoom, command: str, seconds: float, withheld: tuple[str, ...] = ()) -> None:
        """``withheld`` are the user's files that the workspace lacks; a failed check that names one mentions it."""
        self._room = room
        self.command = command
        self._withheld = withheld
        self._seconds = seconds
        # without a guard the exit code counts, and files stay as the run left them
        self.guard: CheckGuard | None = None

    def judge(self) -> ChecksReturned:
        if self.guard is None:
            outcome, other, problem = _run(self._room, self.command, self._seconds, (), {}), [], ""
        else:
            outcome, problem = self._guarded(self.guard)
            other = self.guard.put_back
        reward = 1.0 if outcome.exit_code == 0 and not problem else 0.0
        text, reasons = _end_of(outcome.text), []
        if outcome.reason:
            reasons.append(f"the check did not end on its own: {outcome.reason}")
        elif outcome.exit_code == 0 and problem:
            reasons.append(f"the check exited with 0, but {problem}; --check-files left accepts the exit code alone")
        if other:
            restored = f"checked with {_listed(other)} as the run found them; --check-files left takes the run's own"
            text = f"{restored}\n{text}"
            reasons += [] if reward or reasons else [restored]
        if not reward and (withheld := _named_in(f"{self.command}\n{outcome.text}", self._withheld)):
            reasons.append(
                f"the check names {_listed(withheld)}, which the folder has but the run and its check do not see; use "
                "a check that does not need it, or one that reads a tracked file without secrets, such as .env.test"
            )
        return ChecksReturned({"reward": reward}, "; ".join(reasons), text, outcome.requests or UNSET)

    def _guarded(self, guard: CheckGuard) -> tuple[ToolOutcome, str]:
        """Run the check under the guard. Returns the outcome, and why exit code 0 would not count."""
        guard.begin()
        with _scratch(self._room) as folder:
            reports = folder / "reports"
            reports.mkdir(mode=0o700)
            mounts = guard.mounts(reports)
            with closing(self._room.layer.copy(folder)) as copy:
                checked = guard.prepare(copy)
                environ = guard.variables(self._room.place, reports)
                with closing(self._room.open(copy.view, mounts, environ)) as workspace:
                    command = guard.command(checked, workspace, reports)
                    outcome = workspace.run_command(command, self._seconds, _SHOWN_BYTES)
            return outcome, guard.problem(reports)


def as_found(checks: Checks | None, history: History | NoHistory, git_dir: Path, tree: str, files: str) -> None:
    """Guard the user's check by restoring the files that control it, unless the user wants the run's versions."""
    if isinstance(checks, CommandCheck) and isinstance(history, History) and tree and files != "left":
        from stackmem.history.checked_copy import FoundFiles

        from .guard import CheckGuard

        kind: SteeringKind = "tests" if files == "tests" else "settings"
        checks.guard = CheckGuard(lambda: FoundFiles(history, git_dir, tree, kind), checks.command)


def _named_in(text: str, paths: tuple[str, ...]) -> list[str]:
    """Return the paths whose last part occurs in the text as a whole file name."""
    names = {path: path.rstrip("/").rpartition("/")[2] for path in paths}
    return [path for path, name in names.items() if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", text)]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def _end_of(text: str) -> str:
    return tail(text, 60, 4_000)


def _run(
    room: CheckRoom, command: str, seconds: float, mounts: tuple[Mount, ...], env: Mapping[str, str]
) -> ToolOutcome:
    """Run a command on a fresh copy of the workspace."""
    with (
        _scratch(room) as folder,
        closing(room.layer.copy(folder)) as copy,
        closing(room.open(copy.view, mounts, env)) as workspace,
    ):
        return workspace.run_command(command, seconds, _SHOWN_BYTES)


@contextmanager
def _scratch(room: CheckRoom) -> Iterator[Path]:
    """Create a temporary directory for one check and remove it afterwards."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="check-", dir=room.scratch))
    except OSError as error:
        raise WorkspaceError(
            f"{room.scratch} has no room for a copy to check ({error.strerror}); free disk space there"
        ) from error
    try:
        yield folder
    finally:
        remove_tree(folder)


def _empty(folder: Path) -> None:
    """Create the directory, or empty it if an earlier check left files there."""
    try:
        remove_tree(folder)
        folder.mkdir(mode=0o700, parents=True)  # closed to other users, like everything that an agent's code writes to
    except OSError as error:
        raise WorkspaceError(f"{folder} cannot be created ({error.strerror}); free disk space there") from error
