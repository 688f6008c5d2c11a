"""The sessions on disk: the list, and the run that belongs to a session."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from acp import RequestError
from msgspec import UNSET

from stackmem.core.errors import StackmemError, TraceError
from stackmem.core.person_facts import PersonSaid
from stackmem.core.text import mark_cut
from stackmem.foreign.files import read_regular
from stackmem.foreign.private import owners
from stackmem.run.companion.conversations import kept_sessions
from stackmem.run.run_folder import TRACE, is_run
from stackmem.run.stored_request import read_request
from stackmem.trace.open_run import Run

SESSION_ID = re.compile(r"[0-9a-f]{32}")
_POINTERS = ".editor_sessions"
_PAGE = 50
"""Sessions per page of a list."""
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,200}")


def list_page(runs: Path, folder: Path | None, cursor: str | None) -> dict[str, Any]:
    """Return one page of the sessions, newest first."""
    names = _names_of(runs)
    sessions: list[dict[str, Any]] = []
    last = ""
    for run_dir, subject in kept_sessions(runs):
        if (cursor and run_dir.name >= cursor) or folder not in (None, subject):
            continue
        if len(sessions) == _PAGE:
            return {"sessions": sessions, "nextCursor": last}
        last = run_dir.name
        sessions.append({"sessionId": names.get(last, last), "cwd": str(subject), **_title(run_dir)})
    return {"sessions": sessions}


def found_run(name: str, runs: Path, folder: Path) -> Path:
    """Return the run folder of a session about this folder; a run id works as a session name too.

    Raise RequestError if the session does not exist.
    """
    run = name
    if SESSION_ID.fullmatch(name):
        with suppress(OSError, UnicodeDecodeError):
            run = read_regular(runs / _POINTERS / name).decode()
    if not _RUN_ID.fullmatch(run) or not is_run(runs / run):
        raise RequestError(-32002, f"no session {name[:80]!a} in {runs}")
    path = runs / run
    subject, start = Path(read_request(path).subject), Run(path).state.start
    if start is None or start.session is UNSET:
        raise TraceError(f"{run} is not a conversation; continue it with stackmem resume")
    if subject.resolve() != folder:
        raise TraceError(f"the session belongs to {subject}, not to {folder}; open that folder")
    return path


def keep_pointer(name: str, run_dir: Path) -> None:
    """Record which run belongs to a session, so that the session can be loaded by name."""
    path = run_dir.parent / _POINTERS
    path.mkdir(mode=0o700, exist_ok=True)
    with open(path / name, "w", encoding="utf-8", opener=owners) as file:
        file.write(run_dir.name)


def _names_of(runs: Path) -> dict[str, str]:
    """Map run ids to the names of the editor sessions that started them."""
    try:
        places = [path for path in (runs / _POINTERS).iterdir() if SESSION_ID.fullmatch(path.name)]
    except OSError:
        return {}
    names = {}
    for pointer in places:
        with suppress(OSError, UnicodeDecodeError):
            names[read_regular(pointer).decode()] = pointer.name
    return names


def _title(run_dir: Path) -> dict[str, str]:
    """Return the session's first request and last activity; empty if the trace cannot be read."""
    with suppress(StackmemError, OSError):
        requests = (record.event.text for record in Run(run_dir).records() if isinstance(record.event, PersonSaid))
        at = datetime.fromtimestamp((run_dir / TRACE).stat().st_mtime, UTC)
        return {"title": mark_cut(" ".join(next(requests, "").split()), 80), "updatedAt": at.isoformat()}
    return {}
