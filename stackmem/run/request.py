"""What a person asked for, kept in the run's folder so that the run can be taken up again by another process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.strict_json import decode_json
from stackmem.errors import TraceError
from stackmem.foreign.files import read_regular
from stackmem.history.inner import InnerRepository
from stackmem.models.endpoint import without_login
from stackmem.trace.private import write_json

REQUEST = "request.json"


class EditedProgram(Struct, frozen=True):
    """What tells an edited program's sources from those that the run has."""

    file: str  # the edited program on the host
    program: str  # where the program lies, from the workspace; absolute where it is not in it
    subject: str  # the folder on the host that the workspace is a copy of
    tree: str  # the workspace's files when the first run began


class ProgramRequest(Struct, frozen=True):
    """What was asked of a program."""

    language: str
    path: str  # the program's absolute path on the host
    inputs: dict[str, Any] = {}  # name to value
    options: dict[str, Any] = {}  # what else the interpreter is told
    mounts: tuple[str, ...] = ()  # folders of the host that its commands see, read-only
    interactive: bool = True  # whether its person may be asked at the terminal
    edited: EditedProgram | None = None  # of a run that went on from another one with an edited program; None elsewhere


class RunRequest(Struct, frozen=True):
    """One request."""

    subject: str  # the task's or the folder's absolute path
    text: str | None  # what was asked of a folder of one's own; None for a task
    flags: dict[str, Any]  # every setting in force that is not its default, as flags would say it
    cwd: str  # where the person stood
    workspace: str  # the run's workspace
    leave_out: tuple[str, ...] = ()  # dependency folders of the copy that the history never looks into
    program: ProgramRequest | None = None  # of a program's run; None elsewhere
    place: str = ""  # as in ``Subject``
    git: InnerRepository | None = None  # the repository that the workspace began with; None where it had none
    lent: tuple[str, ...] = ()  # those of them that are seen where they are, as ``CopyPlan`` says

    @property
    def include(self) -> tuple[str, ...]:
        """Ignored paths of the folder that the run was given all the same."""
        return tuple(str(Path(self.place, name)) for name in self.flags.get("include", ()))


def write_request(request: RunRequest, run_dir: Path) -> None:
    flags = request.flags
    if address := flags.get("base_url"):
        flags = {**flags, "base_url": without_login(address)}
    write_json(run_dir / REQUEST, replace(request, flags=flags))


def read_request(run_dir: Path) -> RunRequest:
    """Raises ``TraceError`` where the run has none, or it is broken."""
    try:
        return decode_json(read_regular(run_dir / REQUEST), RunRequest)
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise TraceError(f"{run_dir / REQUEST} cannot be read ({error}); the run cannot be taken up again") from error
