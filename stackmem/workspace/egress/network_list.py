"""What the commands of a run reach of the network: hosts, what is put into their requests, and bounds."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from stackmem.errors import UsageError
from stackmem.foreign.files import read_regular

from .hosts import AllowedHost, host_name, read_allowed

Resolve = Callable[[str, int], list[str]]
"""Addresses of a name, as texts; raises ``OSError`` where it has none."""

_CREDENTIAL = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:=]+):(?P<name>[A-Za-z0-9!#$%&'*+.^_`|~-]+)=(?P<kind>[$@])(?P<place>.+)", re.S
)
# What frames a message or belongs to one connection is the proxy's own to say.
_NEVER = frozenset({
    "host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "keep-alive",
    "proxy-authorization", "proxy-connection",
})  # fmt: skip
_MOST_FILE_BYTES = 16 * 1024


class NetworkList(Struct, frozen=True):
    """What the commands of a workspace reach, and within which bounds."""

    hosts: tuple[AllowedHost, ...] = ()
    # host to headers that are put into requests outside of the sandbox
    headers: Mapping[str, tuple[tuple[str, str], ...]] = {}
    variables: Mapping[str, str] = {}  # for commands, beside those that name the proxy
    resolve: Resolve | None = None  # looks names up, and may block; None asks the machine's own resolver
    connections: int = 32  # most at once, of one command; more wait
    up_bytes: int = 64 << 20  # most that one command sends to hosts, in sum
    down_bytes: int = 2048 << 20  # most that hosts send to one command, in sum
    head_seconds: float = 10.0  # in which a request's head must have come
    idle_seconds: float = 900.0  # after which a connection on which nothing moved is ended
    connect_seconds: float = 10.0  # for the look-up, and for each address that is tried


def read_hosts(texts: tuple[str, ...]) -> tuple[AllowedHost, ...]:
    """The entries, each once."""
    return tuple(dict.fromkeys(read_allowed(text) for text in texts))


def read_credentials(
    texts: tuple[str, ...], hosts: tuple[AllowedHost, ...], environ: Mapping[str, str], folder: Path
) -> dict[str, tuple[tuple[str, str], ...]]:
    """``HOST:NAME=$VARIABLE`` or ``HOST:NAME=@FILE``: headers for a host; commands never see their values."""
    headers: dict[str, tuple[tuple[str, str], ...]] = {}
    for text in texts:
        found = _CREDENTIAL.fullmatch(text)
        host = host_name(found["host"]) if found else ""
        if found is None or not host or found["name"].lower() in _NEVER:
            shown = text.partition("=")[0][:80]
            raise UsageError(f"--credentials {shown!a} is none; write HOST:NAME=$VARIABLE or HOST:NAME=@FILE")
        named = f"--credentials {host}:{found['name']}"
        if not any(each.host == host and _is_sealed(each) for each in hosts):
            raise UsageError(
                f"{named} has no way that is seen and encrypted; list the host as https://{host} with --allow"
            )
        if any(each.host == host and each.way == "http" and not _is_sealed(each) for each in hosts):
            raise UsageError(f"{named} would also travel unencrypted; take http://{host} from the list")
        value = environ.get(found["place"], "") if found["kind"] == "$" else _file(folder / found["place"], named)
        if not value:
            raise UsageError(
                f"{named} is empty: {'the variable' if found['kind'] == '$' else 'the file'} holds nothing"
            )
        if not value.isascii() or not value.isprintable():
            raise UsageError(f"{named} holds what no header can: it must be printable ASCII in one line")
        headers[host] = (*headers.get(host, ()), (found["name"], value))
    return headers


def _is_sealed(entry: AllowedHost) -> bool:
    """Whether what is put into its requests leaves the machine encrypted, or does not leave it."""
    loopback = entry.address is not None and ipaddress.ip_address(entry.address).is_loopback
    return entry.way == "https" or (entry.way == "http" and loopback)


def _file(path: Path, named: str) -> str:
    try:
        return read_regular(path, _MOST_FILE_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"{named} cannot be read from its file ({why})") from error
