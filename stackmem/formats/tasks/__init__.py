"""Import tasks of other benchmarks as task folders, with one module per format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from stackmem.core.errors import UsageError

from .exercism import from_exercism
from .folder import ImportedTask, TaskRefused
from .harbor import from_harbor
from .swebench import from_swebench

__all__ = ["KINDS", "ImportedTask", "TaskRefused", "import_tasks"]

KINDS: dict[str, Callable[[Path, Path, Path | None], Iterator[ImportedTask | TaskRefused]]] = {
    "exercism": from_exercism,
    "harbor": from_harbor,
    "swebench": from_swebench,
}
"""Name to importer. It takes the original, the folder for the tasks, and a clone, which only ``swebench`` needs."""


def import_tasks(
    kind: str, path: Path, out: Path, repo: Path | None = None, *, hosted: bool = False
) -> Iterator[ImportedTask | TaskRefused]:
    """Yield a task folder in ``out`` for each task in ``path``, or the reason why it was refused.

    Raise UsageError if the kind is unknown, or ``path`` contains no task of this kind.

    Args:
        hosted: Only for ``harbor``: use this machine's tools instead of the task's image.
    """
    if kind not in KINDS:
        raise UsageError(f"no kind of tasks {kind!r}; known: {', '.join(sorted(KINDS))}")
    if repo is not None and kind != "swebench":
        raise UsageError(f"--repo is for swebench, not {kind}; leave it out")
    if not path.exists():
        raise UsageError(f"{path} does not exist; name the folder or file to import")
    if hosted and kind != "harbor":
        raise UsageError(f"--host is for harbor; tasks of {kind} use this machine's tools anyway")
    return partial(from_harbor, hosted=True)(path, out, repo) if hosted else KINDS[kind](path, out, repo)
