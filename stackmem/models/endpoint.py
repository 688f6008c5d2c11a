"""Provider endpoints: address, key and timeouts."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import Struct

from stackmem.core.errors import UsageError

NO_KEY = "unused"
_AFTER_SECONDS = 0.02


class Endpoint(Struct, frozen=True):
    """A provider's address, key and timeouts."""

    url: str  # without the path of individual calls
    key: str
    connect_seconds: float = 10.0
    silence_seconds: float = 300.0  # longest pause between two bytes of an answer
    reply_seconds: float = 1_800.0  # longest complete reply, even if bytes keep trickling in

    @property
    def secret(self) -> str:
        """Return the key, or an empty string for the placeholder, which need not be hidden."""
        return "" if self.key == NO_KEY else self.key

    @property
    def is_local(self) -> bool:
        """Return whether the server is on this machine; such models are free and may have any name."""
        return _is_loopback(urlsplit(self.url).hostname or "")

    def attempt_seconds(self, remaining: float | None) -> float:
        """Return the time limit of one attempt, given the seconds ``remaining`` in the run.

        It is slightly longer than that, so that the run's own limit has passed when the attempt ends.
        """
        return self.reply_seconds if remaining is None else min(self.reply_seconds, remaining + _AFTER_SECONDS)

    def __repr__(self) -> str:
        return f"Endpoint(url={self.url!r}, key=...)"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("url", self.url), ("key", "...")]


class Provider(Struct, frozen=True):
    """A provider's environment variables, default address and path."""

    key_variable: str
    url_variable: str
    default_url: str
    path: str  # the end of a server's address; added or removed, because people write both forms
    other_key: str = ""  # another name of the key, which takes precedence


ANTHROPIC = Provider("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com", "")
OPENAI = Provider("OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com", "/v1")
GEMINI = Provider(
    "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com", "/v1beta", "GOOGLE_API_KEY"
)
"""The SDK adds the path itself."""
PROVIDERS = (ANTHROPIC, OPENAI, GEMINI)


def endpoint(provider: Provider, environ: Mapping[str, str], base_url: str | None = None) -> Endpoint:
    """Return the endpoint from ``base_url``, the environment, or the provider's default, in this order.

    Raise UsageError if the address is not valid, or the key is missing or has invalid characters. A server on this
    machine needs no key.
    """
    names = [name for name in (provider.other_key, provider.key_variable) if name]
    variable = next((name for name in names if environ.get(name, "").strip()), provider.key_variable)
    url = (base_url or environ.get(provider.url_variable, "").strip() or provider.default_url).rstrip("/")
    host = _host(url, "--base-url" if base_url else provider.url_variable)
    if provider is GEMINI:
        url = url.removesuffix(provider.path)
    elif urlsplit(url).path in {"", "/v1"}:
        url = url.removesuffix("/v1") + provider.path
    key = environ.get(variable, "").strip()
    if not key and _is_loopback(host):
        key = NO_KEY
    if not key:
        raise UsageError(f"{variable} is not set; set it to your key, or use {_keyless(provider)}")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"{variable} contains characters that are not allowed in a key; copy the key again")
    return Endpoint(url, key)


def without_login(url: str) -> str:
    """Remove user name and password from an address, so that it can be stored and shown."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _keyless(provider: Provider) -> str:
    """Suggest the closest alternative that needs no key."""
    if provider is OPENAI:
        return "a server on this machine (--base-url http://127.0.0.1:8000/v1) or --model demo, which need no key"
    return "--model demo or --model human, which need no key"


def _host(url: str, source: str) -> str:
    try:
        parts = urlsplit(url)
        host, scheme, _ = parts.hostname or "", parts.scheme, parts.port
    except ValueError as error:
        raise UsageError(f"{source} {url!r} is not an address: {error}; write it like http://127.0.0.1:8000") from error
    if scheme not in {"http", "https"} or not host or not url.isprintable():
        raise UsageError(f"{source} {url!r} is not an address; write it like http://127.0.0.1:8000")
    return host


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
