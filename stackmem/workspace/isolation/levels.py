"""The isolation levels, strongest first, and the selection of one.

A level counts as available if it ran a command with its usual arguments. ``auto`` never selects a level weaker than
namespaces; weaker ones must be requested by name.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.workspace.command import run
from stackmem.workspace.egress.door import PORT
from stackmem.workspace.egress.network_list import NetworkList
from stackmem.workspace.profile import Profile
from stackmem.workspace.python import Toolchain, build_toolchain

from .bare import Bare
from .bubblewrap import Bubblewrap
from .landlock import Landlock
from .launch import Level, Seat
from .namespaces import Namespaces
from .skeleton import build_skeleton

WORKSPACES: dict[str, tuple[Callable[[], Level], ...]] = {
    "bubblewrap": (Bubblewrap, lambda: Bubblewrap(proc=False)),
    "namespaces": (Namespaces,),
    "landlock": (Landlock,),
    "none": (Bare,),
}
_SHIPPED = tuple(WORKSPACES)
_AUTO = ("bubblewrap", "namespaces")
_MEMBERS = ("name", "isolation", "mounts", "contains", "layers", "doors", "launch", "ran")
_PROBE_SECONDS = 20.0
# Requests a host that no list allows, using only the shell. A refusal shows that the proxy is reachable.
_KNOCK = (
    f"exec 3<>/dev/tcp/127.0.0.1/{PORT} && printf 'CONNECT nowhere.invalid:443 HTTP/1.1\\r\\nHost: nowhere.invalid"
    '\\r\\n\\r\\n\' >&3 && read -r _ status _ <&3 && echo "the proxy answered $status" && [ "$status" = 403 ]'
)

_levels: dict[tuple[str, str, Toolchain], Level] = {}


class Probe(Struct, frozen=True):
    """Result of trying a level: ``failure`` is empty if it works, otherwise it contains the level's message."""

    level: Level
    failure: str


def state_folder() -> Path:
    """Return the folder for persistent data, following the XDG rules."""
    value = os.environ.get("XDG_STATE_HOME", "")
    return (Path(value) if value.startswith("/") else Path.home() / ".local" / "state") / "stackmem"


def cache_folder() -> Path:
    """Return the folder for data that can be recreated, following the XDG rules."""
    value = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(value) if value.startswith("/") else Path.home() / ".cache") / "stackmem"


def try_level(level: Level, profile: Profile, toolchain: Toolchain) -> Probe:
    """Run ``true`` at a level in a temporary folder. If hosts are listed, request an unlisted host instead."""
    missing = [member for member in _MEMBERS if not hasattr(level, member)]
    if missing:
        kind, without = type(level).__name__, " and no ".join(missing)
        raise UsageError(f"the isolation level {kind} has no {without}; fix or uninstall the package that provides it")
    if profile.network == "list" and not level.doors:
        return Probe(level, no_door(level))
    with ExitStack() as stack:
        root = Path(tempfile.mkdtemp(prefix="stackmem-probe-")).resolve()
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        skeleton = build_skeleton(network=profile.network == "host")
        stack.callback(shutil.rmtree, skeleton, ignore_errors=True)
        fd = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, fd)
        path = "/workspace" if level.mounts else str(root)
        listed = profile.network == "list"
        seat = Seat(root=root, fd=fd, path=path, profile=profile, mounts=(), environ={}, toolchain=toolchain,
                    skeleton=skeleton, network_list=NetworkList() if listed else None)  # fmt: skip
        command = _KNOCK if listed else "true"
        try:
            ended = run(level, seat, command, _PROBE_SECONDS)
        except WorkspaceError as error:
            return Probe(level, str(error))
        if ended.exit_code == 0:
            return Probe(level, "")
        output = ended.capture.parts()[0].decode("utf-8", "replace").strip()
        action = "asking the proxy" if listed else "`true`"
        return Probe(level, f"{action} ended with {ended.exit_code} {ended.reason}: {output}")


def no_door(level: Level) -> str:
    """Return the message that commands at a level cannot be restricted to listed hosts."""
    return (
        f"isolation {level.name} does not isolate the network, so commands cannot be restricted to listed hosts; "
        "use bubblewrap or namespaces, or --network none"
    )


def no_jobs(level: str) -> str:
    """Return the message that commands at a level cannot run in the background."""
    return (
        f"background jobs are not available at isolation {level}, because it does not bound the processes of several "
        "commands that run at the same time; use bubblewrap or namespaces"
    )


def choose(isolation: str, profile: Profile, toolchain: Toolchain | None = None) -> Level:
    """Return the requested level, or for ``auto`` the strongest that works. Cached until ``forget``.

    Raise UsageError if the level does not exist. Raise WorkspaceError if the level does not work here (only
    ``auto`` tries others), or if no level works.
    """
    names = _AUTO if isolation == "auto" else (isolation,)
    if names[0] not in WORKSPACES:
        raise UsageError(f"no isolation level {isolation!r}; known: auto, {', '.join(WORKSPACES)}")
    tools = toolchain or build_toolchain(cache_folder())
    key = (isolation, profile.network, tools)
    if key in _levels:
        return _levels[key]
    failures: dict[str, str] = {}  # failure message to the first level that reported it
    for make in (make for name in names for make in WORKSPACES[name]):
        probe = try_level(make(), profile, tools)
        if not probe.failure:
            _levels[key] = probe.level
            return probe.level
        failures.setdefault(probe.failure, probe.level.name)
    messages = "; ".join(f"{name}: {failure.rstrip('.')}" for failure, name in failures.items())
    raise WorkspaceError(f"no isolation level works here ({messages}); {_way_out(names)}")


def forget() -> None:
    """Clear the cache, so that the next choice probes the levels again."""
    _levels.clear()


def _way_out(names: tuple[str, ...]) -> str:
    if names[-1] not in _SHIPPED[:-1]:
        return "run `stackmem doctor`"
    weaker = _SHIPPED[_SHIPPED.index(names[-1]) + 1]
    return f"run `stackmem doctor` to see how to get it, or use a weaker level with --isolation {weaker}"
