"""What tells an imported trace from one of our own, the version that its start names, and what its recording states."""

from __future__ import annotations

from pathlib import Path

from msgspec import DecodeError, Struct

from stackmem.core.facts import RunStarted
from stackmem.core.strict_json import decode_json
from stackmem.errors import UsageError
from stackmem.foreign.files import read_regular

IMPORTED = "imported.json"
_MARK = "imported from "


class Stated(Struct, frozen=True):
    """What an imported recording says about itself, as its run keeps it."""

    origin: str  # the format, and what wrote the recording
    recorded_usd: float | None = None  # what the recording says that all of it cost
    strategy: str = ""  # the memory strategy that the recording names; empty if it names none

    @property
    def shown_strategy(self) -> str:
        """The strategy that the recording names, else the recording's format."""
        return f"{self.strategy} (stated by the recording)" if self.strategy else by_format(self.origin)


def stated_by_recording(run_dir: Path) -> Stated | None:
    """What the recording of an imported run says about itself; None if the run keeps nothing about it."""
    try:
        return decode_json(read_regular(run_dir / IMPORTED), Stated)
    except (OSError, DecodeError, RecursionError):
        return None


def by_format(origin: str) -> str:
    """What stands for the strategy of a recording that names none."""
    return f"imported:{origin.split(' ', 1)[0]}"


def shown_strategy(start: RunStarted, stated: Stated | None) -> str:
    """The strategy of a run. For an imported run it is the stated one, because its start can only name one of ours."""
    if not (origin := imported_from(start)):
        return start.strategy
    return stated.shown_strategy if stated is not None else by_format(origin)


def mark(origin: str) -> str:
    """The version of an imported run's start; ``origin`` is the format, with the writer's version where known."""
    return _MARK + origin


def imported_from(start: RunStarted) -> str:
    """The origin of an imported run; empty for a run of our own."""
    return start.version.removeprefix(_MARK) if start.version.startswith(_MARK) else ""


def refuse_imported(start: RunStarted, doing: str) -> None:
    """Keep what needs our own rules, prompts or files from runs that never had them."""
    origin = imported_from(start)
    if origin:
        raise UsageError(
            f"the run was imported from {origin} and cannot be {doing}: another agent's rules made it; "
            "look at it with stackmem view RUN"
        )
