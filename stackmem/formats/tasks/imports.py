"""Judge imported tasks: which can run here, what the others need, and which pass without any work."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from stackmem.core.errors import StackmemError
from stackmem.formats.tasks import ImportedTask, TaskRefused
from stackmem.formats.tasks.image import built_image
from stackmem.run.tasks.reader import read_task

from .build import hindrances
from .check import stub_passes

_MAX_NAMES = 5


class ImportVerdict(Struct, frozen=True):
    """The verdict on one imported task."""

    name: str
    folder: str  # empty if it was refused
    notes: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()  # why it cannot run here or was refused, one sentence each
    passes: bool = False  # its checks pass without any work, so it does not measure anything


def verdict_of(task: ImportedTask | TaskRefused, *, checked: bool) -> ImportVerdict:
    """Return the verdict on one task.

    ``checked`` says whether its tests are run on the agent's initial files, if they can already run.
    """
    if isinstance(task, TaskRefused):
        return ImportVerdict(task.name, "", lacks=(task.reason,))
    lacks = list(hindrances(read_task(task.folder)))
    passes = False
    if checked and not lacks:
        try:
            built_image(read_task(task.folder))
            passes = stub_passes(str(task.folder), task.folder)
        except StackmemError:  # a missing image or sandbox is not evidence about the task
            passes = False
    return ImportVerdict(task.name, str(task.folder), task.notes, tuple(lacks), passes)


def import_summary(verdicts: Iterable[ImportVerdict]) -> list[str]:
    """Return the lines that summarize an import, grouped by reason."""
    all_verdicts = list(verdicts)
    runs = [each for each in all_verdicts if each.folder and not each.lacks]
    lines = [f"{len(all_verdicts)} {_tasks(all_verdicts)}: {len(runs)} can run here"]
    reasons: dict[str, list[str]] = {}
    for each in all_verdicts:
        for reason in each.lacks:
            plain = reason.replace(each.folder or "\0", "…").splitlines()[0]
            reasons.setdefault(f"{'' if each.folder else 'refused: '}{plain}", []).append(each.name)
    for reason, names in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])):
        lines.append(f"  {len(names)} {_tasks(names)}: {reason} ({_name_list(names)})")
    passing = [each.name for each in all_verdicts if each.passes]
    if passing:
        lines.append(f"  {len(passing)} {_tasks(passing)} whose checks pass without any work: {_name_list(passing)}")
    return lines


def import_exit_code(verdicts: Iterable[ImportVerdict]) -> int:
    """Return 3 if tasks were imported but none can run, 1 if any was refused, otherwise 0."""
    all_verdicts = list(verdicts)
    imported = [each for each in all_verdicts if each.folder]
    if imported and all(each.lacks for each in imported):
        return 3
    return 1 if len(imported) < len(all_verdicts) else 0


def _tasks(items: list[ImportVerdict] | list[str]) -> str:
    return "task" if len(items) == 1 else "tasks"


def _name_list(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
