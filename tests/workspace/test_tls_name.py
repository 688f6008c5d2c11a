"""The host name at the start of a TLS tunnel, parsed from a command's bytes."""

from __future__ import annotations

import gc
import ssl
import weakref
from typing import Self

import pytest

from stackmem.workspace.egress.tls_name import TunnelName


def greeting(name: bytes) -> bytes:
    """Return the smallest ClientHello that names a host."""
    told = b"\x00" + len(name).to_bytes(2, "big") + name
    listed = len(told).to_bytes(2, "big") + told
    extension = b"\x00\x00" + len(listed).to_bytes(2, "big") + listed
    body = b"\x03\x03" + bytes(32) + b"\x00\x00\x02\x13\x01\x01\x00" + len(extension).to_bytes(2, "big") + extension
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message


def test_the_name_of_the_host_lets_its_bytes_through():
    sent = greeting(b"host.example")
    tunnel = TunnelName("host.example", 443)
    assert tunnel.let_through(sent) == sent


def test_a_name_that_is_no_ascii_is_another_host_and_prints_nothing(capfd: pytest.CaptureFixture[str]):
    tunnel = TunnelName("host.example", 443)
    assert tunnel.let_through(greeting(b"host.example\xbf")) == b""
    assert "another host" in tunnel.why
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "pieces", [(), (b"GET / HTTP/1.1",), (greeting(b"host.example"),), (greeting(b"other"),), (b"\x16\x03\x01",)]
)
def test_nothing_of_a_tunnel_stays_once_it_is_gone(pieces: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch):
    made = weakref.WeakSet[ssl.SSLContext]()

    class Noted(ssl.SSLContext):
        def __new__(cls, protocol: int) -> Self:
            context = super().__new__(cls, protocol)
            made.add(context)
            return context

    monkeypatch.setattr(ssl, "SSLContext", Noted)
    tunnel = TunnelName("host.example", 443)
    for piece in pieces:
        tunnel.let_through(piece)
    assert len(made) == 1
    del tunnel
    gc.collect()
    assert not made
