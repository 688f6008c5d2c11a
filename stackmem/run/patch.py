"""A run's patch: kept beside the trace, applied at once or later."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec.structs import replace

from stackmem.core.strict_json import decode_json
from stackmem.errors import UsageError
from stackmem.history.apply import apply_patch, executed_by_host
from stackmem.history.history import History, PathChange
from stackmem.trace.private import write_json

from .in_memory import MEMORY
from .result import RunResult, read_result
from .run_folder import CHANGES, HISTORY, PATCH, RESULT


class Kept(msgspec.Struct, frozen=True):
    """What ``stackmem apply`` reads back: where the copy came from, and what became of it."""

    folder: str
    changes: tuple[PathChange, ...]


def keep_patch(result: RunResult, folder: str, history: History, trees: tuple[str, str]) -> RunResult:
    """The result with the patch kept in the run's folder; of an earlier end's nothing is left.

    Args:
        trees: What the run began with, and what it left; empty is the workspace as it is now.
    """
    run_dir, before, after = Path(result.run_dir), trees[0], trees[1] or history.snapshot()
    (run_dir / CHANGES).unlink(missing_ok=True)
    changes = tuple(history.changed(before, after))
    history.write_patch(before, after, run_dir / PATCH)
    write_json(run_dir / CHANGES, Kept(folder, changes))
    return replace(
        result,
        changed=tuple(change.path for change in changes),
        not_kept=tuple(f"{left.path} ({left.reason})" for left in history.left_out),
        executed_by_host=tuple(executed_by_host(list(changes))),
    )


def has_patch(run_dir: Path) -> bool:
    """Whether the patch is there, whole."""
    try:
        changes = _kept(run_dir).changes
        return (run_dir / PATCH).stat().st_size > 0 or not changes
    except (OSError, msgspec.DecodeError):
        return False


def _kept(run_dir: Path) -> Kept:
    return decode_json((run_dir / CHANGES).read_bytes(), Kept)


def apply_run(run_dir: Path) -> tuple[Path, tuple[str, ...]]:
    """Apply a finished run's patch to the folder it was copied from; the folder, and the files that changed.

    Raises:
        UsageError: The run has no patch for a folder, or a file has changed since; nothing was changed.
    """
    try:
        kept = _kept(run_dir)
        patch = (run_dir / PATCH).read_bytes()
    except (OSError, msgspec.DecodeError) as error:
        result = read_result(run_dir / RESULT)
        if result is not None and result.isolation == MEMORY:
            why = "its files were in memory; runs in a sandbox leave one"
        elif result is not None and (run_dir / HISTORY).is_dir():
            why = f"it could not be written; stackmem resume {run_dir.name} makes it"
        else:
            why = "only finished runs have one"
        raise UsageError(f"the run {run_dir.name} has no patch to apply; {why}") from error
    if not kept.folder:
        raise UsageError(f"the run {run_dir.name} solved a task, not a folder of yours; its patch is {run_dir / PATCH}")
    apply_patch(patch, list(kept.changes), Path(kept.folder))
    return Path(kept.folder), tuple(change.path for change in kept.changes)
