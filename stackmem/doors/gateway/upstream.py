"""Upstream addresses, and the headers that are forwarded to them.

- A request's headers change only where they belong to one connection, and encodings that cannot be decoded here are
  removed.
- Redirects are never followed, so the key goes only to the address that the user configured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.providers.connection import trusted
from stackmem.workspace.credentials import credentials

from .codings import READ_HERE

if TYPE_CHECKING:
    from httpx2 import AsyncClient
    from starlette.requests import Request

Headers = list[tuple[bytes, bytes]]

SILENCE_SECONDS = 900.0
"""Longest pause of an upstream; a request without streaming may take minutes to answer."""
_CONNECT_SECONDS = 15.0
_OF_ONE_CONNECTION = {
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
    b"transfer-encoding", b"upgrade",
}  # fmt: skip
_NOT_SENT = _OF_ONE_CONNECTION | {b"host", b"content-length", b"accept-encoding"}
_KEYS = (b"x-api-key", b"authorization", b"x-goog-api-key", b"api-key")
ADDRESSES = {
    "anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com/v1",
    "google": "https://generativelanguage.googleapis.com",
}  # fmt: skip
_ADDRESS_VARIABLES = {
    "anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL", "google": "GOOGLE_GEMINI_BASE_URL",
}  # fmt: skip
_KEY_VARIABLES = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "google": "GEMINI_API_KEY"}


class Upstreams(Struct, frozen=True):
    """The address of each provider; empty if the gateway does not forward to it."""

    anthropic: str
    openai: str
    google: str = ""
    # provider to the header with the user's own key, for clients that send the gateway's token as their key
    keys: Mapping[str, tuple[bytes, bytes]] = {}
    replaces: bool = False  # replace every client's keys with the user's keys

    @property
    def is_one_server(self) -> bool:
        """Return whether all requests go to one address."""
        return self.anthropic == self.openai

    def address(self, owner: str) -> str:
        """Return a provider's address; empty if there is none."""
        return {"anthropic": self.anthropic, "openai": self.openai, "google": self.google}.get(owner, "")

    def url(self, provider: str, path: str, query: str) -> str:
        """Build the address of a request, with the version once, whether or not the upstream's address includes it."""
        at = self.address(provider).rstrip("/")
        if provider == "google":
            at = at.removesuffix("/v1beta").removesuffix("/v1")
        elif at.endswith("/v1") and path.startswith("/v1"):
            path = path.removeprefix("/v1")
        elif not at.endswith("/v1") and not path.startswith("/v1") and provider == "openai":
            path = f"/v1{path}"
        return f"{at}{path}{'?' if query else ''}{query}"


def own_keys(environ: Mapping[str, str]) -> dict[str, tuple[bytes, bytes]]:
    """Return the headers with the user's keys, for ``Upstreams.keys``."""
    keys = {name: environ.get(variable, "").strip().encode() for name, variable in _KEY_VARIABLES.items()}
    headers = {
        "anthropic": (b"x-api-key", keys["anthropic"]),
        "openai": (b"authorization", b"Bearer " + keys["openai"]),
        "google": (b"x-goog-api-key", keys["google"]),
    }
    return {name: header for name, header in headers.items() if keys[name]}


def upstreams(choice: str | None, environ: Mapping[str, str]) -> Upstreams:
    """Return the addresses from the environment or the defaults; ``choice`` is one provider, or one URL for all.

    Raise UsageError if an address is not valid.
    """
    own = {name: environ.get(_ADDRESS_VARIABLES[name]) or address for name, address in ADDRESSES.items()}
    if choice in ADDRESSES:
        own = {name: address if name == choice else "" for name, address in own.items()}
    elif choice is not None:
        own = dict.fromkeys(ADDRESSES, choice)
    for address in filter(None, own.values()):
        if urlsplit(address).scheme not in {"http", "https"} or not urlsplit(address).hostname:
            raise UsageError(
                f"--upstream {address!r:.80} is not an address; use anthropic, openai, google or http(s)://HOST"
            )
    return Upstreams(own["anthropic"], own["openai"], own["google"])


def to_upstream(headers: Iterable[tuple[bytes, bytes]], own: tuple[bytes, bytes] | None = None) -> Headers:
    """Return the headers to send upstream; accepted encodings are limited to those that can be decoded here.

    ``own`` is the header with the user's key, which replaces every key of the client.
    """
    pairs = list(headers)
    dropped = _NOT_SENT | _named_by_connection(pairs) | (set(_KEYS) if own else set())
    # With a key of the user, every key of the client is removed: providers differ in which one they prefer.
    sent = [(name, value) for name, value in pairs if name.lower() not in dropped] + ([own] if own else [])
    accepted = b",".join(value for name, value in pairs if name.lower() == b"accept-encoding").decode("latin-1")
    # What cannot be decoded here could not be recorded or billed.
    codings = [
        coding.strip() for coding in accepted.split(",") if coding.partition(";")[0].strip().lower() in READ_HERE
    ]
    return [*sent, (b"accept-encoding", ", ".join(codings or ["identity"]).encode("latin-1"))]


def uncoded(headers: Headers) -> Headers:
    """Return the headers for a body that is sent uncompressed."""
    return [(name, value) for name, value in headers if name.lower() != b"content-encoding"]


def to_client(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers for the client. The body is passed on as received, so its length and encoding stay."""
    pairs = list(headers)
    names = _named_by_connection(pairs)
    return [(name.lower(), value) for name, value in pairs if name.lower() not in _OF_ONE_CONNECTION | names]


def _named_by_connection(headers: Headers) -> set[bytes]:
    values = (value for name, value in headers if name.lower() == b"connection")
    return {word.strip().lower() for value in values for word in value.split(b",")}


def keys_in(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, ...]:
    """Return the keys of a request, to distinguish accounts in memory and to remove them from texts."""
    values = (value.decode("latin-1").strip() for name, value in headers if name.lower() in _KEYS)
    # Without the scheme, because texts contain the bare key.
    return tuple(value.removeprefix("Bearer ").removeprefix("bearer ").strip() for value in values)


def secrets_in(request: Request) -> tuple[str, ...]:
    """Return the keys and all other credentials in a request's headers and query, to remove them from texts."""
    secrets = list(keys_in(request.headers.raw))
    for name, value in request.headers.items():
        line = f"{name}: {value}"
        secrets += [line[credential.start : credential.end] for credential in credentials(line)]
    query = f"?{request.url.query}"
    secrets += [query[credential.start : credential.end] for credential in credentials(query)]
    return tuple(dict.fromkeys(secrets))


async def client_left(request: Request) -> None:
    """Return when the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def open_client() -> AsyncClient:
    """Open the HTTP client for all upstreams; it uses the proxies from the environment."""
    import httpx2

    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(SILENCE_SECONDS, connect=_CONNECT_SECONDS, pool=None),
        # The key of the client must not go to an address that the upstream chooses.
        follow_redirects=False,
        verify=trusted(),
        # No limit: a waiting stream would block the requests of other agents.
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30.0),
    )
