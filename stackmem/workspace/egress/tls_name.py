"""Which host the first bytes of a tunnel are for: the name that TLS says in the clear, before anything is encrypted.

Many names are served from one address, so that a tunnel to a listed host could lead to another one there. OpenSSL reads
the bytes, as the server that it never becomes: it is asked for the name, and the handshake ends.

Source: RFC 6066 (3, server_name), RFC 8446 (4.1.2, ClientHello).
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable

from .hosts import as_address

_TLS_PORT = 443
_HANDSHAKE = 0x16
_MOST_BYTES = 64 * 1024


def _nothing(_: object) -> None:
    """A name that is not ASCII is none; Python would print where it found that out, among what a person reads."""


def _asked_name(asked: list[str | None]) -> Callable[[ssl.SSLObject, str | None, ssl.SSLContext], int]:
    def note(_: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> int:
        asked.append(name)
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME  # all that was wanted is known

    return note


class TunnelName:
    """Holds what a command sends into a tunnel until it is known whom it is for."""

    def __init__(self, host: str, port: int) -> None:
        """The tunnel that was asked for; on port 443 what is no TLS is refused, on others it is let through."""
        self.why = ""  # what is wrong with it; empty where nothing is
        self._host, self._port = host, port
        self._held = b""
        self._settled = False
        self._asked: list[str | None] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # It must not lead back here: the collector does not see what an SSLObject holds, and each tunnel would stay.
        context.sni_callback = _asked_name(self._asked)
        self._incoming = ssl.MemoryBIO()
        self._reader = context.wrap_bio(self._incoming, ssl.MemoryBIO(), server_side=True)

    def let_through(self, piece: bytes) -> bytes:
        """What may be passed on now; nothing while that is not known, or once ``why`` says that it never may."""
        if self._settled:
            return b"" if self.why else piece
        self._held += piece
        if self._held[:1] != bytes([_HANDSHAKE]):
            return self._settle("was asked for anything but TLS in its tunnel" if self._port == _TLS_PORT else "")
        self._incoming.write(piece)
        told, sys.unraisablehook = sys.unraisablehook, _nothing
        try:
            self._reader.do_handshake()
        except ssl.SSLWantReadError:
            if len(self._held) <= _MOST_BYTES:
                return b""
        except ssl.SSLError:
            pass  # as it always ends: with the name, or with bytes that are no greeting
        finally:
            sys.unraisablehook = told
        named = ((self._asked[0] if self._asked else None) or "").lower().removesuffix(".")
        right = self._asked and named == ("" if as_address(self._host) else self._host)
        return self._settle("" if right else "was asked for another host in its tunnel, by TLS")

    def _settle(self, why: str) -> bytes:
        self.why, self._settled = why, True
        held, self._held = self._held, b""
        return b"" if why else held
