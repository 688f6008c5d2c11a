"""Guarantees and leaks of each isolation level, and whether it works on this machine; for ``stackmem doctor``."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from stackmem.workspace.isolation.confine import landlock_abi
from stackmem.workspace.isolation.cover import OWN_TASKS, places_to_cover
from stackmem.workspace.isolation.levels import WORKSPACES, cache_folder, try_level
from stackmem.workspace.profile import Profile
from stackmem.workspace.python import Toolchain, build_toolchain


class LevelReport(Struct, frozen=True):
    """One level on this machine."""

    level: str
    isolation: str  # the value of ``--isolation`` for it
    available: bool
    probe: str  # how it was tested
    failure: str  # message of the probe; empty if the level works
    guarantees: str  # what a command cannot do
    leaks: str  # what a command still can do
    remedy: str  # how to get the level; empty if it works
    listed: str = ""  # why commands cannot be restricted to listed hosts; empty if they can


_GUARANTEES = {
    "bubblewrap": (
        "writes only in the workspace and a private /tmp; reads only these, /usr, a small /etc and granted toolchains; "
        "no network, not even the host's loopback or sockets; cannot see or signal host processes; "
        "leaves no process behind"
    ),
    "namespaces": (
        "writes file contents only in the workspace and a private temporary folder; reads only them, system folders "
        "and granted toolchains; no network; cannot see or signal host processes; leaves no process behind"
    ),
    "landlock": (
        "writes file contents only in the workspace and a private temporary folder; reads only them, system folders "
        "and granted toolchains; cannot open internet sockets, not even on loopback; strays are killed after "
        "each command"
    ),
    "none": "a clean environment, limits per process, a time limit; strays are killed after each command",
}
_FILES_LEAK = "can change mode, times and attributes of your other files, and see that they exist; can use unix sockets"
_LEAKS = {
    "bubblewrap": "unix sockets and hard links that already are in the workspace; kernel bugs",
    "namespaces": f"{_FILES_LEAK}; kernel bugs",
    "landlock": f"{_FILES_LEAK}; can see the host's processes and change limits of yours; kernel bugs",
    "none": "everything you can do: read and write your files and keys, and use the network",
}
_UNTOLD = "see the documentation of its package"
_BUBBLEWRAP = "install bubblewrap 0.8 or later from the distribution (apt install bubblewrap, dnf install bubblewrap)"
_USERNS = (
    "allow user namespaces: sysctl user.max_user_namespaces above 0; in a container run it with a seccomp profile that "
    "permits unshare and mount; on Ubuntu 24.04 and later AppArmor lets only /usr/bin/bwrap make them"
)
_REMEDIES = {
    "bubblewrap": f"{_BUBBLEWRAP}; {_USERNS}",
    "namespaces": f"install util-linux; {_USERNS}",
    "landlock": "run Linux 6.2 or later with landlock in the kernel's list of security modules (lsm=landlock,…)",
    "none": "see the failure: bash must be at /bin/bash and the temporary folder writable",
}


def survey(profile: Profile, toolchain: Toolchain | None = None) -> list[LevelReport]:
    """Try every level, strongest first, with the arguments that commands get."""
    tools = toolchain or build_toolchain(cache_folder())
    return [_finding(isolation, profile, tools, index) for isolation, index in _variants()]


def _variants() -> list[tuple[str, int]]:
    return [(isolation, index) for isolation, makers in WORKSPACES.items() for index in range(len(makers))]


def _finding(isolation: str, profile: Profile, toolchain: Toolchain, index: int) -> LevelReport:
    probe = try_level(WORKSPACES[isolation][index](), profile, toolchain)
    leaks = _LEAKS.get(isolation, _UNTOLD)
    if isolation == "bubblewrap" and index:
        leaks += "; ps, /dev/fd and <() do not work, since /proc is empty"
    if isolation == "landlock" and 0 < landlock_abi() < 6:
        leaks += "; can signal your other processes and use abstract unix sockets (closed since Linux 6.12)"
    if isolation in {"landlock", "none"} and places_to_cover([OWN_TASKS], [("/usr", "/usr"), (toolchain.prefix, "/")]):
        leaks += "; the hidden tests of the shipped tasks, which are in a folder that commands can read"
    if profile.network == "host":
        leaks += "; the whole network, because the profile or --network allows it"
    if os.geteuid() == 0:
        leaks += "; you are root, so the visible files belong to root: an ordinary user is safer"
    return LevelReport(
        level=probe.level.name,
        isolation=isolation,
        available=not probe.failure,
        probe=f"ran `true` at the level {probe.level.name} with the usual arguments",
        failure=probe.failure,
        guarantees=_GUARANTEES.get(isolation, _UNTOLD),
        leaks=leaks,
        remedy=_remedy(isolation, probe.failure),
        listed=probe.failure or try_level(probe.level, replace(profile, network="list"), toolchain).failure,
    )


def _remedy(isolation: str, failure: str) -> str:
    if not failure:
        return ""
    if isolation != "bubblewrap":
        return _REMEDIES.get(isolation, _UNTOLD)
    if "no usable bubblewrap" in failure:
        return _BUBBLEWRAP
    if "proc" in failure.lower() and "mount" in failure.lower():
        return "this container masks /proc; the level without /proc is used instead, or run the container unmasked"
    if "ENOSPC" in failure or "No space left" in failure or _namespaces_forbidden():
        return _USERNS
    return _REMEDIES[isolation]


def _namespaces_forbidden() -> bool:
    limit = Path("/proc/sys/user/max_user_namespaces")
    return limit.exists() and limit.read_text("utf-8").strip() == "0"
