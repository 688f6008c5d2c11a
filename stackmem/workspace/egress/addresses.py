"""Which addresses a name may lead to: public ones, never this machine, its network or its provider's services.

A name is looked up outside of the sandbox, once for each connection, and the address that was judged is the one that is
connected to: an answer that changes in between changes nothing.

Source: the special-purpose address registries of IANA, as ``ipaddress`` has them; RFC 6052, RFC 3056.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from _thread import start_new_thread
from contextlib import suppress

from .hosts import Address
from .network_list import Resolve

# What older Pythons take for public, ways to spell an IPv4 address in an IPv6 one, and one provider's service for the
# machines of its cloud, which is public by the registries.
_NEVER = tuple(
    ipaddress.ip_network(text)
    for text in (
        "192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/23",
        "2002::/16", "::/96", "::ffff:0:0/96", "3fff::/20", "5f00::/16", "fec0::/10",
    )
)  # fmt: skip


def system_addresses(host: str, port: int) -> list[str]:
    """What the machine's own resolver says."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def is_public(address: Address) -> bool:
    """Whether an address is one of the internet, and none that leads back here by a detour."""
    if address.version == 6 and address.scope_id:
        return False
    if any(address in network for network in _NEVER):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def is_own(address: Address) -> bool:
    """Whether this machine itself has the address, also a public one."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as tried:
        tried.bind((str(address), 0))
        return True
    return False


def public_ones(texts: list[str]) -> list[str]:
    """Those of the addresses that a name may lead to, in their order."""
    kept = []
    for text in texts:
        with suppress(ValueError):
            address = ipaddress.ip_address(text)
            if is_public(address) and not is_own(address):
                kept.append(text)
    return kept


async def look_up(resolve: Resolve, host: str, port: int, seconds: float) -> list[str]:
    """Ask a resolver that blocks, in a thread that nobody waits for longer than so many seconds."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def give(found: list[str] | Exception) -> None:
        if answer.done():
            return
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def ask() -> None:
        found: list[str] | Exception
        try:
            found = resolve(host, port)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
            found = error
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(give, found)

    start_new_thread(ask, ())
    async with asyncio.timeout(seconds):
        return await answer
