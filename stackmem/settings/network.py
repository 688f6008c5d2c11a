"""Network access of a run's commands: from the settings for a new run, from the trace for a resumed one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.facts import RunStarted
from stackmem.workspace.egress.network_list import NetworkList, read_credentials, read_hosts
from stackmem.workspace.profile import Profile

from .settings import Resolved

if TYPE_CHECKING:
    from stackmem.workspace.egress.registries import Registries

REGISTRIES = "registries"
"""The entry for the registries of this machine's package managers."""
_NO_DOORS = ("landlock", "none", "memory")


def network_of(resolved: Resolved, profile: Profile, environ: Mapping[str, str], cwd: Path) -> NetworkList | None:
    """Return the host list from the settings, or None if the profile's network is not a list.

    Raise UsageError if an entry or a credential is not valid, the list is empty, or the isolation level does not
    support lists.
    """
    settings = resolved.settings
    if profile.network != "list":
        if resolved.value("allow").layer == "flag":
            raise UsageError(f"--allow needs --network list, but the network is {profile.network}")
        return None
    if settings.isolation in _NO_DOORS:
        raise UsageError(
            f"isolation {settings.isolation} does not isolate the network, so commands cannot be restricted to "
            "listed hosts; use bubblewrap or namespaces, or --network none"
        )
    if not settings.allow:
        raise UsageError("--network list has no hosts; add them with --allow HOST:PORT, or use --network none")
    hosts = read_hosts(tuple(entry for entry in settings.allow if entry != REGISTRIES))
    credentials = read_credentials(settings.credentials, hosts, environ, cwd)
    variables: Mapping[str, str] = {}
    if REGISTRIES in settings.allow:
        registries = _registries(frozenset(environ.items()))
        hosts = tuple(dict.fromkeys((*hosts, *registries.hosts)))
        credentials, variables = {**registries.headers, **credentials}, registries.variables
    return NetworkList(
        hosts,
        credentials,
        variables,
        connections=profile.network_connections,
        up_bytes=profile.network_up_mib << 20,
        down_bytes=profile.network_down_mib << 20,
    )


@cache
def _registries(environ: frozenset[tuple[str, str]]) -> Registries:
    """Cached per process, because it takes seconds and a benchmark has many runs."""
    from stackmem.workspace.egress.registries import machine_registries

    return machine_registries(dict(environ))


def network_kept(network: NetworkList | None, base: RunStarted) -> NetworkList | None:
    """Return the host list with which a run began, regardless of today's settings."""
    if base.network != "list" or base.allowed is UNSET:
        return None
    return replace(network or NetworkList(), hosts=read_hosts(base.allowed))


def spelled(network: NetworkList | None) -> tuple[str, ...] | UnsetType:
    """Return the entries as stored in the trace."""
    return UNSET if network is None else tuple(host.spelled for host in network.hosts)


def secrets_of(network: NetworkList | None) -> dict[str, str]:
    """Return the added credentials by descriptive names. For values like ``Bearer …``, also the last word."""
    values = {}
    for host, headers in (network.headers if network else {}).items():
        for name, value in headers:
            values[f"CREDENTIAL {host} {name}"] = value
            values[f"CREDENTIAL {host} {name} value"] = value.split()[-1]
    return values
