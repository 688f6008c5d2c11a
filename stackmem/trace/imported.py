"""Imported traces: how they differ from our own, and what the recording states about itself."""

from __future__ import annotations

from pathlib import Path

from msgspec import DecodeError, Struct

from stackmem.core.errors import UsageError
from stackmem.core.facts import RunStarted
from stackmem.core.strict_json import decode_json
from stackmem.foreign.files import read_regular

IMPORTED = "imported.json"
_MARK = "imported from "


class Stated(Struct, frozen=True):
    """Statements of an imported recording about itself, as stored with its run."""

    origin: str  # the format, and the program that wrote the recording
    recorded_usd: float | None = None  # the total cost according to the recording
    strategy: str = ""  # the memory strategy that the recording names; empty if none

    @property
    def shown_strategy(self) -> str:
        """The strategy that the recording names, otherwise the recording's format."""
        return f"{self.strategy} (stated by the recording)" if self.strategy else by_format(self.origin)


def stated_by_recording(run_dir: Path) -> Stated | None:
    """Return what the recording of an imported run states about itself. None if the run does not store it."""
    try:
        return decode_json(read_regular(run_dir / IMPORTED), Stated)
    except (OSError, DecodeError, RecursionError):
        return None


def by_format(origin: str) -> str:
    """Return the text shown as the strategy of a recording that does not name one."""
    return f"imported:{origin.split(' ', 1)[0]}"


def shown_strategy(start: RunStarted, statement: Stated | None) -> str:
    """Return the strategy of a run. For imported runs it is the stated one, because their start can only name ours."""
    if not (origin := imported_from(start)):
        return start.strategy
    return statement.shown_strategy if statement is not None else by_format(origin)


def mark(origin: str) -> str:
    """Return the version for an imported run's start. ``origin`` is the format, with the writer's version if known."""
    return _MARK + origin


def imported_from(start: RunStarted) -> str:
    """Return the origin of an imported run. Empty for our own runs."""
    return start.version.removeprefix(_MARK) if start.version.startswith(_MARK) else ""


def refuse_imported(start: RunStarted, doing: str) -> None:
    """Refuse an operation that needs our own rules, prompts or files, which an imported run does not have.

    ``doing`` is the operation as a participle, for the message: ``replayed``. Raise UsageError if the run was imported.
    """
    origin = imported_from(start)
    if origin:
        raise UsageError(
            f"the run was imported from {origin} and cannot be {doing}, because another agent made it; "
            "use stackmem view RUN to look at it"
        )
