"""Files and images that the user attaches: to the task of a run (``solve --attach``), or in a conversation.

Rule 1: Files of the folder that the run works on are read from the workspace, as by a call of the agent.
Rule 2: Only the task can have files from elsewhere. They are read once, before the run starts.
Rule 3: What cannot be read refuses the run before it starts. In a conversation the model gets the reason instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.facts import RunStarted
from stackmem.core.machine import evolve
from stackmem.core.person_facts import AttachedFile
from stackmem.core.state import State
from stackmem.core.text import clip_bytes
from stackmem.core.tools import ReadFile
from stackmem.foreign.files import read_regular
from stackmem.run.companion.pictures import MAX_FILE_BYTES, media_of
from stackmem.workspace.clip import visible
from stackmem.workspace.outcome import ToolOutcome

from ..ports import Returned, UserFile
from .images import read_file, shown_image

if TYPE_CHECKING:
    from ..perform import World

MOST = 20
_LINES = re.compile(r"(?P<path>.+):(?P<first>[1-9]\d{0,8})(?:-(?P<last>[1-9]\d{0,8}))?", re.DOTALL)


def find_attached(paths: Sequence[str], folder: Path | None, subfolder: str, cwd: Path) -> tuple[UserFile, ...]:
    """Return the files that ``--attach`` names: ``PATH``, ``PATH:10`` or ``PATH:10-40``.

    ``folder`` is the folder that the run works on, if it is the user's. ``subfolder`` is the subfolder in which the
    relative paths of the agent start. Raise UsageError if a path does not exist or cannot be read, or there are too
    many.
    """
    if len(paths) > MOST:
        raise UsageError(f"--attach: {len(paths):,} files, maximum is {MOST}; attach a folder instead")
    return tuple(_find(each, folder, subfolder, cwd) for each in paths)


def _find(text: str, folder: Path | None, subfolder: str, cwd: Path) -> UserFile:
    path, first, last = cwd / Path(os.path.expanduser(text)), None, None
    if "\0" in text:
        raise UsageError(f"--attach {text[:80]!a} is not a path; name a file or folder")
    match = _LINES.fullmatch(text)
    if match and not path.exists():
        path, first = cwd / Path(os.path.expanduser(match["path"])), int(match["first"])
        last = int(match["last"] or first)
        if last < first:
            raise UsageError(f"--attach {text[:200]} ends before it begins; write the smaller line first")
    if not path.exists():
        raise UsageError(f"--attach {text[:200]} does not exist; name a file or folder, relative to {cwd}")
    real, root = path.resolve(), folder.resolve() if folder is not None else None
    if root is not None and real.is_relative_to(root):
        inside = os.path.relpath(real, root / subfolder)
        return UserFile(f"{inside}/" if real.is_dir() else inside, first, last)
    if real.is_dir():
        raise UsageError(f"--attach {text[:200]} is a folder outside of the run's folder; attach files of it")
    try:
        raw = read_regular(real, max(MAX_FILE_BYTES.values()))
    except OSError as error:
        raise UsageError(f"--attach {text[:200]} cannot be read ({error.strerror or error})") from error
    return UserFile(path.name, first, last, raw)


def with_attached(start: RunStarted, files: Sequence[UserFile], world: World) -> RunStarted:
    """Return the start of a run with the content of the attached files.

    Raise UsageError if a file cannot be read in the workspace, or its image cannot be shown.
    """
    if not files:
        return start
    most_bytes = evolve(State(), start).shown_bytes
    attached = tuple(read_attachment(each, world, most_bytes) for each in files)
    failed = next((each for each in attached if each.failed), None)
    if failed is not None:
        raise UsageError(f"--attach {failed.name}: {failed.content}")
    return replace(start, attached=attached)


def read_attachment(file: UserFile, world: World, most_bytes: int) -> AttachedFile:
    """Read what the user attached. Files of the workspace have the same confinement as a call of the agent."""
    if file.raw is not None:
        outcome = _outside(file, file.raw, world, most_bytes)
    elif file.path.endswith("/"):
        outcome = world.workspace.list_files(file.path.rstrip("/") or ".", most_bytes)
    else:
        call = ReadFile(file.path, file.start_line, file.end_line)
        outcome = read_file(world.workspace, world.eyes, call, most_bytes)
    path, text = world.scrub(file.path), world.scrub(outcome.text)
    return AttachedFile(path, text, file.start_line, file.end_line, outcome.failed, outcome.images)


def _outside(file: UserFile, raw: bytes, world: World, most_bytes: int) -> Returned:
    if media_of(raw[:1024]):
        return shown_image(world.eyes, raw, file.path)
    try:
        lines = raw.decode().splitlines(keepends=True)
    except UnicodeDecodeError:
        return ToolOutcome("it is neither UTF-8 text nor an image or a PDF", failed=True)
    if file.start_line is not None:
        lines = lines[file.start_line - 1 : file.end_line]
    return ToolOutcome(clip_bytes(visible("".join(lines)), most_bytes))
