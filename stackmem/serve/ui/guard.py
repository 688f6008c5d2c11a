"""Who may ask: the person who was told the address, from a page of this server, and nobody else.

Rule 1: a request names this server as its host. A page elsewhere whose name was bound to 127.0.0.1 names another.
Rule 2: the path begins with a random token that only the person was told.
Rule 3: no page of another origin is answered, whatever it asks.
Rule 4: what changes something is a POST of JSON that says its origin, and that is this server's.
"""

from __future__ import annotations

from secrets import compare_digest

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """Answers for the application where a request breaks a rule."""

    def __init__(self, app: ASGIApp, token: str, hosts: frozenset[str]) -> None:
        """Guard ``app``; ``hosts`` are the names of this server, each with its port."""
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError("this server speaks HTTP alone")

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        named = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        said = dict(named)
        hosts = [value for name, value in named if name == b"host"]
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return PlainTextResponse("this server has another name\n", 421)
        first = scope["path"].split("/")[1] if scope["path"].startswith("/") else ""
        if not compare_digest(first.encode("utf-8", "surrogateescape"), self._token.encode()):
            return PlainTextResponse("open the address that stackmem ui printed\n", 404)
        origin = said.get(b"origin")
        here = f"http://{hosts[0].lower()}"
        if origin not in (None, here) or said.get(b"sec-fetch-site", "none") not in ("none", "same-origin"):
            return PlainTextResponse("another origin may not read this\n", 403)
        if scope["method"] in ("GET", "HEAD"):
            return None
        kind = said.get(b"content-type", "").partition(";")[0].strip().lower()
        if scope["method"] != "POST" or origin != here or kind != "application/json":
            return PlainTextResponse("only a page of this server may change something\n", 403)
        return None
