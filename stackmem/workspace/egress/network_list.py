"""Network access of a run's commands: hosts, credentials added to their requests, and limits."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.foreign.files import read_regular

from .hosts import AllowedHost, host_name, read_allowed

Resolve = Callable[[str, int], list[str]]
"""Returns the addresses of a name as strings. Raises ``OSError`` if it has none."""

_CREDENTIAL = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:=]+):(?P<name>[A-Za-z0-9!#$%&'*+.^_`|~-]+)=(?P<kind>[$@])(?P<place>.+)", re.S
)
# Headers for framing and connection management are controlled by the proxy.
_NEVER = frozenset({
    "host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "keep-alive",
    "proxy-authorization", "proxy-connection",
})  # fmt: skip
_MAX_FILE_BYTES = 16 * 1024


class NetworkList(Struct, frozen=True):
    """Hosts that a workspace's commands can reach, with limits."""

    hosts: tuple[AllowedHost, ...] = ()
    # maps hosts to headers that are added to requests outside the sandbox
    headers: Mapping[str, tuple[tuple[str, str], ...]] = {}
    variables: Mapping[str, str] = {}  # additional variables for commands, besides those that name the proxy
    resolve: Resolve | None = None  # resolves names and may block; None uses the machine's resolver
    connections: int = 32  # concurrent connections of one command; further ones wait
    up_bytes: int = 64 << 20  # total upload limit of one command
    down_bytes: int = 2048 << 20  # total download limit of one command
    head_seconds: float = 10.0  # time limit for receiving a request's head
    idle_seconds: float = 900.0  # idle time after which a connection is closed
    connect_seconds: float = 10.0  # time limit for DNS lookup, and for each address


def read_hosts(texts: tuple[str, ...]) -> tuple[AllowedHost, ...]:
    """Parse the entries and remove duplicates. Raise UsageError if an entry is not valid."""
    return tuple(dict.fromkeys(read_allowed(text) for text in texts))


def read_credentials(
    texts: tuple[str, ...], hosts: tuple[AllowedHost, ...], environ: Mapping[str, str], folder: Path
) -> dict[str, tuple[tuple[str, str], ...]]:
    """Parse ``HOST:NAME=$VARIABLE`` or ``HOST:NAME=@FILE`` into headers for hosts. Commands never see the values.

    ``folder`` is the base of a relative file path. Raise UsageError if a text is malformed, its value is not available,
    or the header would be sent unencrypted or unseen.
    """
    headers: dict[str, tuple[tuple[str, str], ...]] = {}
    for text in texts:
        match = _CREDENTIAL.fullmatch(text)
        host = host_name(match["host"]) if match else ""
        if match is None or not host or match["name"].lower() in _NEVER:
            label = text.partition("=")[0][:80]
            raise UsageError(f"--credentials {label!a} is not valid; write HOST:NAME=$VARIABLE or HOST:NAME=@FILE")
        name = f"--credentials {host}:{match['name']}"
        if not any(each.host == host and _is_sealed(each) for each in hosts):
            raise UsageError(f"{name} needs an encrypted entry for its host; list it as https://{host} with --allow")
        if any(each.host == host and each.way == "http" and not _is_sealed(each) for each in hosts):
            raise UsageError(f"{name} would also be sent unencrypted; remove http://{host} from --allow")
        value = environ.get(match["place"], "") if match["kind"] == "$" else _file(folder / match["place"], name)
        if not value:
            raise UsageError(f"{name} is empty: {'the variable' if match['kind'] == '$' else 'the file'} has no value")
        if not value.isascii() or not value.isprintable():
            raise UsageError(f"{name} is not a valid header: it must be printable ASCII on one line")
        headers[host] = (*headers.get(host, ()), (match["name"], value))
    return headers


def _is_sealed(entry: AllowedHost) -> bool:
    """Return whether added headers leave the machine only encrypted, or not at all."""
    loopback = entry.address is not None and ipaddress.ip_address(entry.address).is_loopback
    return entry.way == "https" or (entry.way == "http" and loopback)


def _file(path: Path, name: str) -> str:
    try:
        return read_regular(path, _MAX_FILE_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"{name} cannot be read from its file ({reason})") from error
