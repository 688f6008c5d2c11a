"""A run's folder: its name, and what is in it."""

from __future__ import annotations

import os
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
APPLIED = "applied.json"
HISTORY = "history.git"
LEDGER = "ledger.jsonl"
"""The trials of a bench, in the folder above their runs."""
EXCHANGES = "exchanges.jsonl"
"""What passed the gateway, in the run of an agent behind it."""


_NAME = re.compile(r"\d{8}T\d{6}Z-.+-[0-9a-f]{6}")


def is_run(folder: Path | os.DirEntry[str]) -> bool:
    """Whether it is the folder of a run: one with a trace, or one that ``new_run`` named and whose run never began."""
    try:
        named = _NAME.fullmatch(folder.name) and not folder.is_symlink() and folder.is_dir()
        return bool(named) or Path(folder, TRACE).is_file()
    except (OSError, ValueError):  # too long for a name, or in a folder that is closed to us
        return False


def new_run(runs_dir: Path, task: str, strategy: str) -> Path:
    """A new, empty folder ``<utc>-<task>-<strategy>-<hash>``."""
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
    """A run's new folder, which is removed again where it cannot be filled."""
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
