"""The run directory: its name and the names of its files."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from stackmem.core.errors import TraceError, UsageError
from stackmem.foreign.files import open_regular
from stackmem.workspace.tree import remove_tree

TRACE = "trace.jsonl"
RUN = "run.json"
RESULT = "result.json"
PATCH = "changes.patch"
CHANGES = "changes.json"
APPLIED = "applied.json"
APPLY_HOOKS = "apply-hooks.jsonl"
FOLDER_LOG, FOLDER_SEEN, FOLDER_PENDING = "folder.jsonl", "folder.seen", "folder.pending"
HISTORY = "history.git"
LEDGER = "ledger.jsonl"
"""The list of a benchmark's trials, in the parent directory of their runs."""
EXCHANGES = "exchanges.jsonl"
"""The recorded gateway traffic of an external agent's run."""


_NAME = re.compile(r"\d{8}T\d{6}Z-.+-[0-9a-f]{6}")


_FRAME = re.compile(r"(.+)\.frame-[1-9]\d{0,8}", re.DOTALL)


def frame_parent(name: str) -> str:
    """Return the name of the run that a parallel frame's run belongs to. Empty for the name of any other run."""
    match = _FRAME.fullmatch(name)
    return match[1] if match else ""


def is_run(folder: Path | os.DirEntry[str]) -> bool:
    """Return whether the folder is a run: it has a trace, or ``new_run`` created it and the run never started."""
    try:
        match = _NAME.fullmatch(folder.name) and not folder.is_symlink() and folder.is_dir()
        return bool(match) or Path(folder, TRACE).is_file()
    except (OSError, ValueError):  # the name is too long, or a parent folder is not accessible
        return False


def new_run(runs_dir: Path, task: str, strategy: str) -> Path:
    """Create an empty directory named ``<utc>-<task>-<strategy>-<hash>``.

    Raise UsageError if ``runs_dir`` cannot be written.
    """
    utc = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return new_folder(runs_dir, f"{utc}-{_plain(task)}-{_plain(strategy)}-{secrets.token_hex(3)}")


def new_folder(runs_dir: Path, name: str) -> Path:
    """Create an empty run directory with a name that does not exist yet. Raises like ``new_run``."""
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
        folder = runs_dir / name
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise UsageError(
            f"the runs directory {runs_dir} cannot be written ({error.strerror}); choose one with --runs-dir"
        ) from error
    return folder


def open_patch(run_dir: Path) -> BinaryIO:
    """Open a run's patch, which may be too large for memory."""
    return open_regular(run_dir / PATCH)


@contextmanager
def removed_on_failure(folder: Path) -> Iterator[None]:
    """Remove a new run directory again if filling it fails. Raise TraceError if there is no disk space for it."""
    try:
        yield
    except OSError as error:
        remove_tree(folder)
        raise TraceError(f"the run cannot be written to {folder} ({error.strerror}); make room there") from error
    except BaseException:
        remove_tree(folder)
        raise


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.")[:40] or "run"
