"""The file ``request.json`` in the run directory, from which another process can build the run's request again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import TraceError, UsageError
from stackmem.core.state import State
from stackmem.core.strict_json import decode_json
from stackmem.foreign.files import read_regular
from stackmem.foreign.private import write_json
from stackmem.history.inner import InnerRepository
from stackmem.models.endpoint import without_login
from stackmem.models.registry import NOBODY

from .request import ProgramRequest

REQUEST = "request.json"


class StoredRequest(Struct, frozen=True):
    """A request as stored in the run directory."""

    subject: str  # absolute path of the task or folder
    text: str | None  # the prompt for a user folder; None for a task
    flags: dict[str, Any]  # all settings that differ from their defaults, as flag values
    cwd: str  # the user's working directory
    workspace: str  # the run's workspace
    leave_out: tuple[str, ...] = ()  # dependency folders of the copy that the history ignores
    program: ProgramRequest | None = None  # set only for a program run
    place: str = ""  # as in ``Subject``
    git: InnerRepository | None = None  # the repository that the workspace started with, if any
    lent: tuple[str, ...] = ()  # the folders of ``leave_out`` that are used in place, see ``CopyPlan``

    @property
    def include(self) -> tuple[str, ...]:
        """Paths of ignored files that were copied into the run anyway."""
        return tuple(str(Path(self.place, name)) for name in self.flags.get("include", ()))


def write_request(request: StoredRequest, run_dir: Path) -> None:
    flags = request.flags
    if address := flags.get("base_url"):
        flags = {**flags, "base_url": without_login(address)}
    write_json(run_dir / REQUEST, replace(request, flags=flags))


def read_request(run_dir: Path) -> StoredRequest:
    """Read the request of a run. Raises ``TraceError`` if it is missing or invalid."""
    try:
        return decode_json(read_regular(run_dir / REQUEST), StoredRequest)
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise TraceError(f"{run_dir / REQUEST} cannot be read ({error}); the run cannot be resumed") from error


def with_model(request: StoredRequest, state: State, name: str | None) -> StoredRequest:
    """Return the request with the model that the run has now, if it began without one.

    ``name`` is the value of ``--model``; None if the user did not set it. Raise UsageError if the user set a model, and
    the run has a different one.
    """
    own = state.begun.model
    if name is None:
        had_none = request.program is not None and request.flags.get("model") == NOBODY
        return replace(request, flags={**request.flags, "model": own}) if had_none else request
    kind, colon, script = name.partition(":")
    model = f"script:{Path(script).absolute()}" if colon and kind == "script" else name
    if own not in (NOBODY, model):
        raise UsageError(
            f"the run uses the model {own} and cannot change it; omit --model, or switch models with stackmem fork"
        )
    return replace(request, flags={**request.flags, "model": model})
