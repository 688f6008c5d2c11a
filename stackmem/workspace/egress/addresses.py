"""Decides which addresses a name may resolve to: public ones, never this machine, its network or its cloud services.

A name is resolved outside the sandbox, once per connection. The connection uses the address that was checked, so a
changed DNS answer has no effect.

Source: IANA's special-purpose address registries as implemented in ``ipaddress``; RFC 6052, RFC 3056.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from _thread import start_new_thread
from contextlib import suppress

from .hosts import Address
from .network_list import Resolve

# Ranges that older Pythons consider public, IPv6 forms of IPv4 addresses, and a cloud provider's internal service whose
# address is formally public.
_NEVER = tuple(
    ipaddress.ip_network(text)
    for text in (
        "192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/23",
        "2002::/16", "::/96", "::ffff:0:0/96", "3fff::/20", "5f00::/16", "fec0::/10",
    )
)  # fmt: skip


def system_addresses(host: str, port: int) -> list[str]:
    """Resolve a name with the machine's own resolver."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(address[0]) for *_, address in entries))


def is_public(address: Address) -> bool:
    """Return whether an address is on the public internet and is not an alias of an internal one."""
    # A zone names an interface of this machine.
    if address.version == 6 and address.scope_id:
        return False
    if any(address in network for network in _NEVER):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def is_own(address: Address) -> bool:
    """Return whether this machine itself has the address, even if it is public."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as tried:
        # Only an address of this machine can be bound. No packet is sent.
        tried.bind((str(address), 0))
        return True
    return False


def public_ones(texts: list[str]) -> list[str]:
    """Return the permitted addresses, in order."""
    public = []
    for text in texts:
        with suppress(ValueError):
            address = ipaddress.ip_address(text)
            if is_public(address) and not is_own(address):
                public.append(text)
    return public


async def look_up(resolve: Resolve, host: str, port: int, seconds: float) -> list[str]:
    """Call a blocking resolver in a thread, and wait for at most ``seconds``.

    Raise OSError if the name has no address, and TimeoutError if the resolver did not answer in time.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def give(result: list[str] | Exception) -> None:
        # The wait has timed out before, and the answer is not needed any more.
        if answer.done():
            return
        if isinstance(result, Exception):
            answer.set_exception(result)
        else:
            answer.set_result(result)

    def ask() -> None:
        result: list[str] | Exception
        try:
            result = resolve(host, port)
        except Exception as error:  # noqa: BLE001 - raised again where the answer is awaited
            result = error
        with suppress(RuntimeError):  # the loop has ended in the meantime
            loop.call_soon_threadsafe(give, result)

    # getaddrinfo cannot be canceled. A thread of a pool would be waited for at exit.
    start_new_thread(ask, ())
    async with asyncio.timeout(seconds):
        return await answer
