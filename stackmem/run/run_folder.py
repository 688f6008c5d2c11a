"""A run's folder: its name, and what is in it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from stackmem.errors import TraceError, UsageError
from stackmem.workspace.tree import remove_tree

TRACE = "trace.jsonl"
RUN = "run.json"
RESULT = "result.json"
PATCH = "changes.patch"
CHANGES = "changes.json"
HISTORY = "history.git"


def new_run(runs_dir: Path, task: str, strategy: str) -> Path:
    """A new, empty folder ``<utc>-<task>-<strategy>-<hash>``.

    Raises:
        UsageError: ``runs_dir`` cannot be written.
    """
    utc = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    name = f"{utc}-{_plain(task)}-{_plain(strategy)}-{secrets.token_hex(3)}"
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
        folder = runs_dir / name
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise UsageError(
            f"the runs directory {runs_dir} cannot be written ({error.strerror}); choose one with --runs-dir"
        ) from error
    return folder


@contextmanager
def removed_on_failure(folder: Path) -> Iterator[None]:
    """A run's new folder, which is removed again where it cannot be filled.

    Raises:
        TraceError: There is no room for it.
    """
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
