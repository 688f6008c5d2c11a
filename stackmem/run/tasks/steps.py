"""The steps of a multi-step task, and what every task or step has: an instruction and tests.

Source: docs/tasks.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from stackmem.core.errors import UsageError

from .table import TaskTable, read_text

CHECK_SECONDS = 600.0
"""Harbor's default for ``[verifier] timeout_sec``."""


_OWN = ("instruction.md", "tests", "tests/test.sh", "solution", "solution/solve.sh")


class TaskStep(Struct, frozen=True):
    """One step of a multi-step task."""

    name: str
    instruction: str
    tests: Path
    solution: Path | None = None
    check_seconds: float = CHECK_SECONDS
    check_env: dict[str, str] = {}
    least: float | None = None  # if the reward is below this, the following steps are not judged


def read_steps(table: TaskTable, folder: Path) -> tuple[TaskStep, ...]:
    """Read the steps of task.toml, each with its folder in ``steps/``; empty for a single-step task.

    Raise UsageError if a step has no name or no folder, or two steps have the same name.
    """
    values = table.values.get("steps") or []
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise table.wrong("steps", "a list of tables, [[steps]]")
    steps = tuple(_step(TaskTable(table.path, value, "steps"), folder) for value in values)
    names = [step.name for step in steps]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"{table.path}: two steps are named {twice[0]}; give each its own name")
    return steps


def _step(table: TaskTable, folder: Path) -> TaskStep:
    name = table.text("name")
    if name is None or "/" in name or name in (".", ".."):
        raise table.wrong("name", "the name of a folder in steps/")
    step_folder = folder / "steps" / name
    for path in (step_folder, *(step_folder / own for own in _OWN)):
        if not path.resolve().is_relative_to(folder.resolve()):
            raise UsageError(f"{path} is a link out of the task; replace it with the file itself")
    if (step_folder / "workdir").is_dir():
        raise UsageError(
            f"{step_folder / 'workdir'} would have to be copied before its step, but a run gets all steps together"
        )
    verifier = table.section("verifier")
    # A step without its own tests uses those of the task.
    tests = step_folder if (step_folder / "tests" / "test.sh").is_file() else folder
    return TaskStep(
        name,
        read_instruction(step_folder),
        tests_of(tests),
        solution_of(step_folder),
        verifier.positive("timeout_sec") or CHECK_SECONDS,
        verifier.texts_by_name("env"),
        _least(table),
    )


def _least(table: TaskTable) -> float | None:
    value: Any = table.values.get("min_reward")
    if isinstance(value, dict):
        value = value.get("reward", next(iter(value.values()), None))
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise table.wrong("min_reward", "a number, or a table of numbers")
    return None if value is None else float(value)


def instruction_of(steps: tuple[TaskStep, ...]) -> str:
    """Return the instruction for an agent that gets all steps together."""
    sections = (
        f"# Step {number} of {len(steps)}: {step.name}\n\n{step.instruction}" for number, step in enumerate(steps, 1)
    )
    return "Do these steps in their order.\n\n" + "\n\n".join(sections)


def read_instruction(folder: Path) -> str:
    text = read_text(folder / "instruction.md", "instruction.md").strip()
    if not text:
        raise UsageError(f"{folder / 'instruction.md'} is empty; write there what the agent should do")
    return text


def tests_of(folder: Path) -> Path:
    if not (folder / "tests" / "test.sh").is_file():
        raise UsageError(f"no tests/test.sh in {folder}; it decides whether the task is solved (docs/tasks.md)")
    return folder / "tests"


def solution_of(folder: Path) -> Path | None:
    return existing_folder(folder / "solution") if (folder / "solution" / "solve.sh").is_file() else None


def existing_folder(path: Path) -> Path | None:
    return path if path.is_dir() else None
