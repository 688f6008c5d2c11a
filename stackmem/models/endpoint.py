"""Where a provider is, how it is paid, and how long it is waited for."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import Struct

from stackmem.errors import UsageError

NO_KEY = "unused"


class Endpoint(Struct, frozen=True):
    """A provider's address.

    Attributes:
        url: Without the path of any call.
        silence_seconds: The longest pause between two bytes of an answer.
        reply_seconds: The longest whole reply, however steadily it trickles.

    """

    url: str
    key: str
    connect_seconds: float = 10.0
    silence_seconds: float = 300.0
    reply_seconds: float = 1_800.0

    def __repr__(self) -> str:
        return f"Endpoint(url={self.url!r}, key=...)"


def endpoint(
    environ: Mapping[str, str], key_variable: str, url_variable: str, default_url: str, base_url: str | None = None
) -> Endpoint:
    """The endpoint that ``base_url``, else the environment, else the default names.

    Raises:
        UsageError: The address is none, or the key is missing or holds what no key holds. A server on this machine
            needs no key.

    """
    url = (base_url or environ.get(url_variable, "").strip() or default_url).rstrip("/")
    given = "--base-url" if base_url else url_variable
    host = _host(url, given)
    key = environ.get(key_variable, "").strip()
    if not key and _is_loopback(host):
        key = NO_KEY
    if not key:
        raise UsageError(f"{key_variable} is not set; set it to your key, or use --model demo, which needs none")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"{key_variable} holds characters that no key has; copy the key again")
    return Endpoint(url, key)


def _host(url: str, given: str) -> str:
    try:
        parts = urlsplit(url)
        host, scheme, _ = parts.hostname or "", parts.scheme, parts.port
    except ValueError as error:
        raise UsageError(f"{given} {url!r} is no address: {error}; it looks like http://127.0.0.1:8000") from error
    if scheme not in {"http", "https"} or not host or not url.isprintable():
        raise UsageError(f"{given} {url!r} is no address; it looks like http://127.0.0.1:8000")
    return host


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
