"""Applies the limits of one command to all jobs of a run together with its commands.

Rule 1: Of several commands that together exceed a limit, the one that takes the most is ended. Each monitors itself, so
    only its own thread ends it.
Rule 2: Disk space counts for the command that runs while it shrinks, as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from stackmem.workspace.family import Process
from stackmem.workspace.profile import Profile
from stackmem.workspace.watchdog import Watchdog, memory_mounts


class Crowd:
    """The commands of a workspace that run at the same time."""

    def __init__(self, profile: Profile, workspace: int) -> None:
        """Create it when the first job starts. ``workspace`` is as in ``Watchdog``."""
        self._profile, self._workspace = profile, workspace
        self._watchdog = Watchdog(profile, workspace, contained=True)
        self._names = count()
        self._members: dict[int, list[Process]] = {}

    @contextmanager
    def member(self) -> Iterator[CrowdMember]:
        """Count a command's processes from now on."""
        if not self._members:  # what others of the machine did since then is not ours
            self._watchdog = Watchdog(self._profile, self._workspace, contained=True)
        name = next(self._names)
        self._members[name] = []
        try:
            yield CrowdMember(self, name, Watchdog(self._profile, self._workspace))
        finally:
            del self._members[name]

    def look(self, name: int, family: list[Process]) -> str:
        """Return the limit that all commands together exceed, if this one takes the most; otherwise nothing."""
        self._members[name] = family
        families = dict(self._members)
        reason = self._watchdog.too_much([process for each in families.values() for process in each])
        if not reason:
            return ""
        usage = {other: _usage(each, reason) for other, each in families.items()}
        return reason if max(usage, key=lambda other: (usage[other], other)) == name else ""


class CrowdMember:
    """One command of a crowd, with the interface of a watchdog."""

    def __init__(self, crowd: Crowd, name: int, watchdog: Watchdog) -> None:
        self._crowd, self._name, self._watchdog = crowd, name, watchdog

    def look(self, family: list[Process]) -> str:
        """Return the exceeded limit, or an empty string."""
        return self._crowd.look(self._name, family) or self._watchdog.disk()


def _usage(family: list[Process], reason: str) -> int:
    """Return how much of a limit a command takes."""
    if reason == "processes":
        return sum(process.threads for process in family)
    mounted = memory_mounts(family[-1].pid) if family else {}
    return sum(process.resident_bytes for process in family) + sum(mounted.values())
