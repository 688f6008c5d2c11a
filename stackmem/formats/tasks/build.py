"""Builds the images of tasks: reads build rules from flags and settings, and reports what prevents a build."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.formats.images.build import BuildRules, build_image, why_not_built
from stackmem.formats.images.store import image_store
from stackmem.formats.tasks.image import task_source
from stackmem.run.folder_choice import profile_in_force
from stackmem.run.tasks.reader import Task
from stackmem.settings.network import network_of
from stackmem.settings.settings import resolve
from stackmem.workspace.image import Image

_MEMORY_MIB, _FILES = 16_384, 2_000_000
"""Minimum limits for builds, because installers need more than an agent's commands."""


def build_rules(
    flags: Mapping[str, object],
    seconds: float,  # wall time limit of one build step
    arguments: Sequence[str],  # each in the form ``NAME=VALUE``
    environ: Mapping[str, str],
    cwd: Path,
    tell: Callable[[str], object],
) -> BuildRules:
    """Return the build rules from flags and settings. Raise UsageError if an argument is not valid."""
    resolved = resolve(flags, environ, cwd)
    args = {}
    for each in arguments:
        name, equals, value = each.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--build-arg {each!r}: write NAME=VALUE")
        args[name] = value
    if not 0 < seconds < 1 << 20:
        raise UsageError(f"--seconds is {seconds:g}; write a number above 0")
    profile = profile_in_force(resolved, cwd)
    profile = replace(
        profile, command_seconds=seconds, new_files=max(profile.new_files, _FILES),
        memory_mib=max(profile.memory_mib, _MEMORY_MIB),
    )  # fmt: skip
    return BuildRules(profile, network_of(resolved, profile, environ, cwd), args, tell)


def build_task(task: Task, rules: BuildRules) -> Image | None:
    """Build the task's image, or return None if the task uses this machine's tools.

    Raise BuildFailed if the build failed; the message gives the reason. Raise WorkspaceError if no sandbox is available
    for its steps.
    """
    source = task_source(task)
    return None if source is None else build_image(image_store(), source, rules)


def hindrances(task: Task) -> list[str]:
    """Return messages about what prevents building the task's image on this machine."""
    try:
        source = task_source(task)
    except UsageError as error:
        return [str(error)]
    return [] if source is None else why_not_built(image_store(), source)
