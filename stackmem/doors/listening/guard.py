"""The guard in front of every listener: it answers only clients that have the token, and no page of another origin.

Rule 1: ``Host`` names this server. A web page whose name was rebound to this address sends another name.
Rule 2: the client brings the token, as the first segment of the path or in a header. It is removed before the request
    goes on, so that it is neither forwarded nor recorded.
Rule 3: no page of another origin is answered, whatever it requests.
Rule 4: the target is a plain path. However often it is decoded, it does not leave the folder that it names.
Rule 5: if the server has pages, only its own pages may change something, with a POST of JSON.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Literal
from urllib.parse import unquote

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .token import TOKEN_HEADER

TOKEN_WAY = "stackmem.token"  # noqa: S105 - a key of the scope
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

Way = Literal["path", "header", "key"]
"""How a request brought the token; ``key`` is in place of an API key."""
Refuse = Callable[[Scope, int, str], ASGIApp]

_BRINGING = {TOKEN_HEADER.encode(): "header", b"authorization": "key", b"x-api-key": "key",
             b"x-goog-api-key": "key"}  # fmt: skip
_TARGET = re.compile(r"/[!-~]*")
_NOT_IN_TARGET = re.compile(r"[#?\\]|%[cC][01]")  # the last can only begin an overlong UTF-8 sequence
_AFTER_NAME = re.compile("[;?#]")
"""Characters that some servers treat as the end of a segment."""
_MAX_DECODINGS = 4


def host_names(port: int, more: Iterable[str] = ()) -> frozenset[str]:
    """The values of ``Host`` under which clients reach a server on loopback."""
    local = ("127.0.0.1", "localhost", "[::1]")
    bare = local if port == 80 else ()
    return frozenset({*(f"{name}:{port}" for name in local), *bare, *(name.lower() for name in more)})


class Guard:
    """Answers in place of the application if a request breaks a rule."""

    def __init__(
        self, app: ASGIApp, token: str, hosts: frozenset[str], *, pages: bool = False, any_address: bool = False,
        refuse: Refuse | None = None,  # makes the answer to a refused request from its scope, a status and a sentence
    ) -> None:  # fmt: skip
        """Guard ``app``.

        Args:
            hosts: The accepted values of ``Host``, each with its port.
            pages: Whether the application has pages, whose responses need the headers that protect them.
            any_address: Whether any IP address is accepted as ``Host`` too. An attacker can rebind a name, but not an
                address.
        """
        self._app, self._token, self._hosts = app, token.encode(), hosts
        self._pages, self._any_address, self._refuse = pages, any_address, refuse or _plain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("this server speaks only HTTP")

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        inner = self._admitted(scope)
        if isinstance(inner, tuple):
            await self._refuse(scope, *inner)(scope, receive, guarded)
        else:
            await self._app(inner, receive, guarded if self._pages else send)

    def _admitted(self, scope: Scope) -> Scope | tuple[int, str]:
        """Return the request without its token, or the status and message of a refusal."""
        raw_headers = [(name.lower(), value) for name, value in scope["headers"]]
        by_name = {name: value.decode("latin-1") for name, value in raw_headers}
        hosts = [value.decode("latin-1").lower() for name, value in raw_headers if name == b"host"]
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            return 421, "wrong host name; use the address that stackmem printed"
        raw = scope["raw_path"].decode("latin-1")
        way, rest = self._token_way(raw, raw_headers)
        if way is None:
            return 401, "the token is missing or wrong; use the address and the token that stackmem printed"
        here = f"http://{hosts[0]}"
        if by_name.get(b"origin", here) != here or by_name.get(b"sec-fetch-site", "none") not in (
            "none",
            "same-origin",
        ):
            return 403, "requests from pages of another origin are refused"
        if leaves_its_folder(rest):
            return 400, "the path must not contain dot segments, backslashes or empty segments"
        if self._pages and scope["method"] not in ("GET", "HEAD"):
            kind = by_name.get(b"content-type", "").partition(";")[0].strip().lower()
            if scope["method"] != "POST" or b"origin" not in by_name or kind != "application/json":
                return 403, "only pages of this server may make changes"
        headers = [(name, value) for name, value in raw_headers if not self._is_token(name, value)]
        return {**scope, "path": unquote(rest), "raw_path": rest.encode("latin-1"), "headers": headers, TOKEN_WAY: way}

    def _is_own(self, host: str) -> bool:
        return host in self._hosts or (self._any_address and _is_address(host))

    def _token_way(self, raw: str, headers: list[tuple[bytes, bytes]]) -> tuple[Way | None, str]:
        """Return how the request carried the token (None if it did not), and the path without it."""
        first, _, rest = raw.removeprefix("/").partition("/")
        if raw.startswith("/") and secrets.compare_digest(first.encode("latin-1"), self._token):
            return "path", f"/{rest}"
        ways = {_BRINGING[name] for name, value in headers if self._is_token(name, value)}
        return ("header" if "header" in ways else "key" if ways else None), raw

    def _is_token(self, name: bytes, value: bytes) -> bool:
        if name not in _BRINGING:
            return False
        value = value.strip()
        bare = value[7:].strip() if name == b"authorization" and value[:7].lower() == b"bearer " else value
        return secrets.compare_digest(bare, self._token)


def leaves_its_folder(raw: str) -> bool:
    """Whether a target is anything but a path whose segments stay what they are, however often they are decoded."""
    if not _TARGET.fullmatch(raw) or _NOT_IN_TARGET.search(raw):
        return True
    for _ in range(_MAX_DECODINGS):
        segments = raw.replace("\\", "/").split("/")[1:]
        if (
            "" in segments[:-1]
            or any(_AFTER_NAME.split(segment)[0].strip() in (".", "..") for segment in segments)
            or "\0" in raw
        ):
            return True
        decoded = unquote(raw)
        if decoded == raw:
            return False
        raw = decoded
    return True


def _is_address(host: str) -> bool:
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _plain(scope: Scope, status: int, sentence: str) -> ASGIApp:
    return PlainTextResponse(f"{sentence}\n", status)
