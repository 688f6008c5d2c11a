"""What is to be solved: a task folder, or a folder of the person's own with a text."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from stackmem.errors import UsageError
from stackmem.tasks.find import find_task
from stackmem.tasks.reader import Task, read_task

TASK_PLACE = "/workspace"


class Subject(Struct, frozen=True):
    """One thing to solve.

    Attributes:
        inside: The absolute path of the workspace as commands see it, where the level can mount.
        task: The task folder; None for a folder of one's own.
        folder: The folder that is copied and may be patched; None for a task.

    """

    name: str
    text: str
    inside: str
    task: Task | None = None
    folder: Path | None = None


def must_be_text(value: str, what: str) -> str:
    """``value``, which the trace must be able to hold.

    Raises:
        UsageError: It holds bytes that are no UTF-8.

    """
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} holds bytes that are no UTF-8 text; give it another name or spelling") from error
    return value


def find_subject(named: str, text: str | None, cwd: Path) -> Subject:
    """The subject that ``named`` and ``-t`` give.

    Raises:
        UsageError: Neither a task nor a folder; a folder without a text; a task with one.

    """
    place = find_task(named, cwd)
    if place is not None:
        if text is not None:
            raise UsageError(f"{named} is a task with an instruction of its own; leave -t out, or copy the task")
        task = read_task(place)
        return Subject(task.short_name, task.instruction, TASK_PLACE, task=task)
    folder = (cwd / Path(named).expanduser()).resolve()
    if text is None or not text.strip():
        raise UsageError(f"{named} is a folder without task.toml; say what is to be done there with -t TEXT")
    must_be_text(text, "the text of -t")
    return Subject(folder.name or "root", text, must_be_text(str(folder), "the folder's path"), folder=folder)
