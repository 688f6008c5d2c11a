"""The hosts that commands can reach: parses the entries of ``--allow`` and finds the entry for a request.

======================  ===================================================================================
``HOST[:PORT]``         a tunnel to that port only (default 443); its content is not inspected
``http://HOST[:PORT]``  plain HTTP (default 80), checked per request
``https://HOST[:PORT]`` commands request ``http://HOST``, the proxy uses TLS (443); checked per request
``…,POST,PUT``          additional methods besides GET and HEAD, for entries that are checked per request
``*.HOST``              every name below that one
``…=ADDRESS[:PORT]``    the address of the host: no DNS lookup, and it may be private
======================  ===================================================================================
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from stackmem.core.errors import UsageError

Way = Literal["tunnel", "http", "https"]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_HOST = r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9*._-]+"
_ENTRY = re.compile(rf"(?:(?P<way>https?)://)?(?P<host>{_HOST})(?::(?P<port>[0-9]{{1,5}}))?/?(?:=(?P<at>\S+))?")
_AUTHORITY = re.compile(rf"(?P<host>{_HOST})(?::(?P<port>[0-9]{{1,5}}))?")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_METHOD = re.compile(r"[A-Z]{1,20}")
_PORTS: dict[Way, int] = {"tunnel": 443, "http": 80, "https": 443}
_READING = ("GET", "HEAD")
_SHOWN_CHARS = 100
_MAX_HOST_CHARS = 255


class AllowedHost(Struct, frozen=True):
    """An entry of the list."""

    way: Way
    host: str  # in lower case; ``*.`` in front means every name below
    port: int
    methods: tuple[str, ...] = ()  # permitted methods; empty for a tunnel
    address: str | None = None  # address that the user gives; None means DNS lookup
    address_port: int = 0  # the port at that address

    @property
    def spelled(self) -> str:
        """The entry in the form that ``--allow`` accepts."""
        scheme = "" if self.way == "tunnel" else f"{self.way}://"
        at = f"={joined(self.address, self.address_port)}" if self.address else ""
        return ",".join((f"{scheme}{joined(self.host, self.port)}{at}", *self.methods[len(_READING) :]))

    def covers(self, host: str) -> bool:
        return (
            # The dot belongs to the ending: *.example must not cover badexample.
            host.endswith(self.host[1:]) and len(host) >= len(self.host) if self.host[0] == "*" else host == self.host
        )


def joined(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def read_allowed(text: str) -> AllowedHost:
    """Parse one entry. Raise UsageError if the text is not a valid entry."""
    target, *methods = text.split(",")
    match = _ENTRY.fullmatch(target.strip())
    if match is None:
        raise _refused(text, "is not a host")
    way: Way = "http" if match["way"] == "http" else "https" if match["way"] == "https" else "tunnel"
    stars = match["host"].startswith("*.")
    host = host_name(match["host"][2 * stars :])
    if not host or (stars and as_address(host)):
        raise _refused(text, "is not a host")
    port = int(match["port"]) if match["port"] else _PORTS[way]
    address, address_port = _pinned(match["at"], port, text) if match["at"] else (None, 0)
    if as_address(host) and address is None:
        address, address_port = host, port  # an address given by the user is used as is
    wrong = next((method for method in methods if not _METHOD.fullmatch(method)), None)
    # CONNECT would open a tunnel, in which no method can be checked.
    if wrong is not None or "CONNECT" in methods or not 0 < port < 65536:
        raise _refused(text, "has an invalid port or method")
    if methods and way == "tunnel":
        raise _refused(text, "has methods, which are not visible in a tunnel")
    more = tuple(dict.fromkeys(method for method in methods if method not in _READING))
    seen = () if way == "tunnel" else (*_READING, *more)
    return AllowedHost(way, "*." * stars + host, port, seen, address, address_port)


def _pinned(text: str, port: int, entry: str) -> tuple[str, int]:
    address = as_address(text.strip("[]"))
    match = _AUTHORITY.fullmatch(text)
    if address is None and match is not None:
        address = as_address(match["host"].strip("[]"))
        port = int(match["port"]) if match["port"] else port
    if address is None or not 0 < port < 65536:
        raise _refused(entry, "has no address after its =")
    return str(address), port


def _refused(text: str, reason: str) -> UsageError:
    return UsageError(
        f"--allow {text[:_SHOWN_CHARS]!a} {reason}; write HOST:PORT, http://HOST or https://HOST (with ,POST for more "
        "than GET), optionally with =ADDRESS, or registries"
    )


def as_address(text: str) -> Address | None:
    """Return the address that a text spells in standard form, without a zone, or None."""
    try:
        # ipaddress accepts a zone, with which one address has many spellings.
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def host_name(text: str) -> str:
    """Return a host in normalized form: lower case, no final dot, standard address form. Empty if it is invalid.

    Nonstandard addresses that some libraries accept (``0x7f.1``, ``2130706433``, ``127.1``) are invalid: their last
    label starts with a digit, which no host name does.
    """
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    address = as_address(bare)
    if address is not None:
        return str(address) if ":" not in bare or bare is not text else ""
    # A final dot names the same host, and would otherwise bypass an entry or miss it.
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    good = len(name) <= 253 and all(_LABEL.fullmatch(label) for label in labels) and not labels[-1][0].isdigit()
    return name if good else ""


def read_authority(text: str, port: int = 0) -> tuple[str, int, str]:
    """Return host and port of a request target, and the host as spelled there; empty and 0 if invalid.

    ``port`` is the port if the text does not name one.
    """
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        return "", 0, ""
    number = int(match["port"]) if match["port"] else port
    return host_name(match["host"]), number if 0 < number < 65536 else 0, match["host"][:_MAX_HOST_CHARS]


def entry_for(hosts: Iterable[AllowedHost], way: Way, host: str, port: int) -> AllowedHost | None:
    """Return the first entry that permits this access to a host."""
    return next((each for each in hosts if each.way == way and each.port == port and each.covers(host)), None)


def entry_for_request(hosts: tuple[AllowedHost, ...], scheme: str, host: str, port: int) -> AllowedHost | None:
    """Return the entry for an HTTP request: for its port, or a TLS entry if ``http://HOST`` is requested."""
    if scheme == "http" and (entry := entry_for(hosts, "http", host, port)):
        return entry
    # A command sends http:// so that the proxy can see and change the request, and add TLS itself.
    return entry_for(hosts, "https", host, 443 if scheme == "http" and port == 80 else port)


def why_refused(hosts: tuple[AllowedHost, ...], host: str) -> str:
    """Return the error message for a host that no entry permits."""
    ways = [each.spelled.partition("=")[0] for each in hosts if each.covers(host)]
    hint = f"; that host is allowed as {', '.join(ways[:3])}" if ways else ""
    return f"is not on the list of hosts of this run{hint}"
