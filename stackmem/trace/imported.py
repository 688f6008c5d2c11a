"""What tells an imported trace from one of our own: the version that its start names."""

from __future__ import annotations

from stackmem.core.facts import RunStarted
from stackmem.errors import UsageError

_MARK = "imported from "


def mark(origin: str) -> str:
    """The version of an imported run's start; ``origin`` is the format, with the writer's version where known."""
    return _MARK + origin


def imported_from(start: RunStarted) -> str:
    """The origin of an imported run; empty for a run of our own."""
    return start.version.removeprefix(_MARK) if start.version.startswith(_MARK) else ""


def refuse_imported(start: RunStarted, doing: str) -> None:
    """Keep what needs our own rules, prompts or files from runs that never had them.

    Args:
        doing: What was asked for, as in ``replayed``.

    Raises:
        UsageError: The run was imported.
    """
    origin = imported_from(start)
    if origin:
        raise UsageError(
            f"the run was imported from {origin} and cannot be {doing}: another agent's rules made it; "
            "look at it with stackmem view RUN"
        )
