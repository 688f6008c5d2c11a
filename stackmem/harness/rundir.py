"""A run's folder: its name, what is in it, and how a person names it."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime
from pathlib import Path

from stackmem.errors import UsageError

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
        folder.mkdir()
    except OSError as error:
        raise UsageError(
            f"the runs directory {runs_dir} cannot be written ({error.strerror}); choose one with --runs-dir"
        ) from error
    return folder


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.")[:40] or "run"


def find_run(named: str, runs_dir: Path) -> Path:
    """The folder that a path, an id, a unique prefix of one, or ``last`` names.

    Raises:
        UsageError: None is named so, or several are.

    """
    given = Path(named).expanduser()
    if given.name == TRACE and given.is_file():
        return given.parent
    if (given / TRACE).is_file():
        return given
    runs = sorted(path.name for path in _folders(runs_dir))
    if named == "last" and runs:
        return runs_dir / max(runs, key=lambda name: (name[:16], (runs_dir / name).stat().st_mtime_ns))
    found = [name for name in runs if name == named] or [name for name in runs if named and name.startswith(named)]
    if len(found) == 1:
        return runs_dir / found[0]
    if found:
        raise UsageError(f"{named!r} begins the names of {len(found)} runs: {', '.join(found[:5])}; write more of one")
    raise UsageError(f"no run {named!r} in {runs_dir}; it holds {len(runs)} runs, the newest is 'last'")


def _folders(runs_dir: Path) -> list[Path]:
    try:
        return [path for path in runs_dir.iterdir() if (path / TRACE).is_file()]
    except OSError:
        return []
