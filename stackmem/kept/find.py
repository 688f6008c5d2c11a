"""A kept run by what a person calls it: its folder, its id, a unique prefix of one, or ``last``."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from stackmem.core.person_facts import SessionRules
from stackmem.core.strict_json import decode_json
from stackmem.errors import TraceError, UsageError
from stackmem.run.request import read_request
from stackmem.run.run_folder import RUN, TRACE, is_run
from stackmem.settings.directories import runs_folder
from stackmem.tools.plugins import load_plugins
from stackmem.trace.open_run import Run
from stackmem.trace.private import read_regular
from stackmem.trace.store import LONGEST_BYTES


def open_run(run: str | os.PathLike[str]) -> Run:
    """A kept run, given by folder, id, unique prefix or ``last``; nothing of its trace is read yet.

    Raises:
        UsageError: There is no such run.
    """
    load_plugins()  # the run's strategy may be one of theirs
    return Run(find_run(os.fspath(run), runs_folder(None, os.environ, Path.cwd())))


def find_run(named: str, runs_dir: Path) -> Path:
    """The folder that a path, an id, a unique prefix of one, or ``last`` names.

    Raises:
        UsageError: None is named so, or several are.
    """
    given = Path(os.path.expanduser(named))  # noqa: PTH111 - a name like ~nobody is no error here
    if given.name == TRACE and _is_file(given):
        return given.parent
    if _is_file(given / TRACE):
        return given
    runs = sorted(path.name for path in _folders(runs_dir))
    if named == "last":
        begun = [(name[:16], started, name) for name in runs if (started := _started(runs_dir / name))]
        if begun:
            return runs_dir / max(begun)[2]
    matches = [name for name in runs if name == named] or [name for name in runs if named and name.startswith(named)]
    if len(matches) == 1:
        return runs_dir / matches[0]
    if matches:
        raise UsageError(
            f"{named!r} begins the names of {len(matches)} runs: {', '.join(matches[:5])}; write more of one"
        )
    if not runs:
        raise UsageError(f"there is no run in {runs_dir} yet; stackmem solve makes one, --runs-dir names another place")
    raise UsageError(f"no run {named!r} in {runs_dir}; it holds {len(runs)}, and stackmem runs lists them")


def newest_session(runs_dir: Path, folder: Path) -> Path | None:
    """The conversation about ``folder`` that was begun last; None where there is none."""
    for path in sorted(_folders(runs_dir), reverse=True):
        with suppress(OSError, msgspec.DecodeError, TraceError):
            kept = decode_json(read_regular(path / RUN), _Session)
            if kept.session is not None and Path(read_request(path).subject) == folder:
                return path
    return None


class _Session(msgspec.Struct):
    session: SessionRules | None = None


def _folders(runs_dir: Path) -> list[Path]:
    try:
        return [path for path in runs_dir.iterdir() if is_run(path)]
    except OSError:
        return []


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long for a name, or in a folder that is closed to us
        return False


def _started(folder: Path) -> float:
    """When the first record of a run was written, which tells runs of one second apart; 0 where there is none."""
    try:
        with (folder / TRACE).open("rb") as trace:
            return decode_json(trace.readline(LONGEST_BYTES), _First).at
    except (OSError, msgspec.DecodeError):
        return 0.0


class _First(msgspec.Struct):
    at: float
