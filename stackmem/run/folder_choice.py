"""Decides whether a run works on an overlay of the user's folder or on a copy, and why."""

from __future__ import annotations

from pathlib import Path

import msgspec

from stackmem.core.errors import WorkspaceError
from stackmem.history.hidden import LayerPlan, plan_layer
from stackmem.history.layer import can_show, why_no_layer
from stackmem.history.lent_folders import How
from stackmem.history.repository import plan_copy
from stackmem.settings.settings import Resolved
from stackmem.workspace.isolation.levels import choose
from stackmem.workspace.profile import Profile

from .in_memory import MEMORY
from .prepare import included_in, profile_of
from .request import Request


def profile_in_force(resolved: Resolved, cwd: Path) -> Profile:
    """Return the sandbox profile with overrides from the settings."""
    profile = profile_of(resolved.settings, cwd)
    if resolved.is_given("network"):
        profile = msgspec.structs.replace(profile, network=resolved.settings.network)
    if resolved.is_given("command_seconds"):
        profile = msgspec.structs.replace(profile, command_seconds=resolved.settings.command_seconds)
    return profile


def with_copy(request: Request) -> Request:
    """Add the overlay or copy plan. This scans the folder, which can be slow, so do cheaper checks first.

    Raise UsageError if the folder cannot be read, or an included path cannot be copied. Raise WorkspaceError if the
    isolation is not available, or an overlay was requested and is not possible.
    """
    folder, resolved = request.subject.folder, request.resolved
    if folder is None:
        return request
    include, reason = included_in(request.subject, resolved.settings), ""
    plan: LayerPlan | None = None
    if resolved.settings.layer != "copy":
        plan, reason = layer_over(folder, include, resolved, request.cwd, request.folders)
    if plan is not None:
        return msgspec.structs.replace(request, copy=plan)
    if resolved.settings.layer == "overlay":
        raise WorkspaceError(f"no overlay is possible over {folder}: {reason}; use a copy with --layer copy")
    lend = way_to_lend(resolved, request.cwd, request.folders[1])
    copy = plan_copy(folder, include, request.folders, lend=lend)
    return msgspec.structs.replace(request, copy=msgspec.structs.replace(copy, reason=reason))


def way_to_lend(resolved: Resolved, cwd: Path, sandbox: Path) -> How:
    """Return how a copy accesses the folder's installed packages at the current isolation level.

    ``sandbox`` is the directory for the run's files. Raise WorkspaceError if the isolation is not available.
    """
    isolation = resolved.settings.isolation
    if isolation == MEMORY:
        return "copy"
    level = choose(isolation, profile_in_force(resolved, cwd))
    if level.layers:
        return "mount" if can_show(sandbox) else "copy"
    return "copy" if level.isolation == "none" else "link"


def layer_over(
    folder: Path, include: tuple[str, ...], resolved: Resolved, cwd: Path, folders: tuple[Path, Path]
) -> tuple[LayerPlan | None, str]:
    """Return the plan for an overlay over the folder, or None and the reason why there cannot be one.

    ``include`` are paths below the folder that are shown even if git ignores them. ``folders`` are the runs directory
    and the sandbox directory. Raise UsageError if the folder cannot be read, or an included path cannot be shown. Raise
    WorkspaceError if the isolation is not available.
    """
    settings = resolved.settings
    if settings.isolation == MEMORY:
        return None, "its files are in memory"
    level = choose(settings.isolation, profile_in_force(resolved, cwd))
    if not level.layers:
        return None, f"isolation {level.name} does not support mounts"
    plan = plan_layer(folder, include, folders)
    reason = plan.obstacle or why_no_layer(folder, folders[1])
    return (None, reason) if reason else (plan, "")
