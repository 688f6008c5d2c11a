"""Restrict the network to loopback during tests.

An audit hook runs below every library, cannot be removed and patches nothing. It also records what it refuses, so that
code which swallows the exception still fails its test. It has two limits. The hook does not reach child processes; they
get a proxy address that is not served, which HTTP clients obey. And the C library resolves a name passed straight to
``socket.connect`` before the hook can refuse the connection.
"""

import ipaddress
import os
import socket
import sys
from collections.abc import MutableMapping
from typing import Any

INTERNET = (socket.AF_INET, socket.AF_INET6)
DEAD_PROXY = ("127.0.0.1", 9)
refused: list[str] = []


class NetworkRefused(Exception):  # noqa: N818 - it says what happened, as the exceptions of stackmem do
    """A test tried to use the network. Deliberately not an OSError, because clients retry those."""


def is_loopback(host: object) -> bool:
    """Return whether the host is spelled as loopback; the empty host, None and a wildcard mean the machine itself."""
    text = host.decode(errors="replace") if isinstance(host, bytes | bytearray) else host
    if text is None or text in ("", "localhost"):
        return True
    try:
        address = ipaddress.ip_address(str(text).split("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback or address.is_unspecified


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not event.startswith("socket."):
        return
    match event, args:
        case ("socket.connect" | "socket.sendto" | "socket.sendmsg", (sock, tuple() as address)):
            if sock.family not in INTERNET:
                return
            host = "the outside, through the proxy" if address[:2] == DEAD_PROXY else address[0]
        case ("socket.getaddrinfo", (host, *_)) | ("socket.gethostbyname" | "socket.gethostbyaddr", (host,)):
            pass
        case _:
            return
    if not is_loopback(host):
        refused.append(f"{event} {host!r}")
        raise NetworkRefused(f"{event} {host!r}: tests have no network but loopback; serve what is needed there")


def close_for_children(environ: MutableMapping[str, str]) -> None:
    """Point every proxy variable at a loopback port without a server; loopback itself bypasses the proxy."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        environ[name] = environ[name.upper()] = "http://{}:{}".format(*DEAD_PROXY)
    environ["no_proxy"] = environ["NO_PROXY"] = "127.0.0.1,localhost,::1"


def close() -> None:
    """Close the network for the rest of this process and for its children."""
    sys.addaudithook(_hook)
    close_for_children(os.environ)
