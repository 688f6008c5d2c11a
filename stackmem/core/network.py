"""What commands asked of the network, where they reach listed hosts alone."""

from __future__ import annotations

from msgspec import Struct


class NetworkRequest(Struct, frozen=True):
    """What a command asked of the network, through the proxy of ``--network list``; no path, no header, no body.

    Attributes:
        host: As it was asked for, in small letters; empty where the request named none.
        port: Of the host; 0 where the request named none.
        method: ``CONNECT`` of a tunnel, else that of the request; empty where there was none.
        allowed: Whether it was passed on.
        why: What refused it, or ended it before its time; empty where nothing did.
        count: Requests of the command that are alike in all of the above.
        sent_bytes: What they sent to the host, in sum.
        received_bytes: What the host sent back, in sum.
    """

    host: str
    port: int
    method: str
    allowed: bool
    why: str = ""
    count: int = 1
    sent_bytes: int = 0
    received_bytes: int = 0
