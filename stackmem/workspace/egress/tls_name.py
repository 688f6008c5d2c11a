"""Checks which host the first bytes of a tunnel are for, by the unencrypted server name in the TLS greeting.

Many names share one address, so a tunnel to a listed host could reach another host there. OpenSSL parses the bytes as a
server would; the handshake stops once it reports the name.

Source: RFC 6066 (3, server_name), RFC 8446 (4.1.2, ClientHello).
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable

from .hosts import as_address

_TLS_PORT = 443
_HANDSHAKE = 0x16
_MAX_BYTES = 64 * 1024


def _nothing(_: object) -> None:
    """Suppress Python's message about a name that is not ASCII. Such a name is treated as missing."""


def _asked_name(names: list[str | None]) -> Callable[[ssl.SSLObject, str | None, ssl.SSLContext], int]:
    def note(_: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> int:
        names.append(name)
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME  # stop the handshake; the name is known

    return note


class TunnelName:
    """Holds back what a command sends into a tunnel until its target is known."""

    def __init__(self, host: str, port: int) -> None:
        """Prepare for a tunnel. On port 443 only TLS is allowed; on other ports anything passes."""
        self.why = ""  # why the tunnel is refused; empty if it is not
        self._host, self._port = host, port
        self._held = b""
        self._settled = False
        self._asked: list[str | None] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # The callback must not reference self: the garbage collector cannot see into an SSLObject, so each tunnel would
        # leak.
        context.sni_callback = _asked_name(self._asked)
        self._incoming = ssl.MemoryBIO()
        self._reader = context.wrap_bio(self._incoming, ssl.MemoryBIO(), server_side=True)

    def let_through(self, piece: bytes) -> bytes:
        """Return the bytes to forward now: none before the target is known, or if the tunnel is refused."""
        if self._settled:
            return b"" if self.why else piece
        self._held += piece
        if self._held[:1] != bytes([_HANDSHAKE]):
            return self._settle("got something other than TLS in its tunnel" if self._port == _TLS_PORT else "")
        self._incoming.write(piece)
        hook, sys.unraisablehook = sys.unraisablehook, _nothing
        try:
            self._reader.do_handshake()
        except ssl.SSLWantReadError:
            if len(self._held) <= _MAX_BYTES:
                return b""
        except ssl.SSLError:
            pass  # the normal end: the name is known, or the bytes are not a TLS greeting
        finally:
            sys.unraisablehook = hook
        name = ((self._asked[0] if self._asked else None) or "").lower().removesuffix(".")
        right = self._asked and name == ("" if as_address(self._host) else self._host)
        return self._settle("" if right else "named another host by TLS in its tunnel")

    def _settle(self, reason: str) -> bytes:
        self.why, self._settled = reason, True
        data, self._held = self._held, b""
        return b"" if reason else data
