"""A scripted server on loopback for the web searches of three providers, as strict as their documents.

It answers only searches. ``then`` answers every other request, so that a whole run can use one address.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Json = dict[str, Any]
KEY = "sk-test-0123456789"
_DOMAIN = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")


def fault(path: str, headers: dict[str, str], body: Json) -> str | None:
    """Return why a provider refuses this search, or None."""
    if path == "/v1/messages":
        tools = body.get("tools")
        if headers.get("x-api-key") != KEY or headers.get("anthropic-version") != "2023-06-01":
            return "authentication"
        if body.keys() != {"model", "max_tokens", "messages", "tools"} or not isinstance(tools, list):
            return f"Extra inputs are not permitted: {sorted(body)}"
        tool = tools[0]
        if tool.keys() - {"type", "name", "max_uses", "allowed_domains", "blocked_domains", "user_location"}:
            return f"tools.0: Extra inputs are not permitted: {sorted(tool)}"
        if (tool["type"], tool["name"]) != ("web_search_20250305", "web_search"):
            return "tools.0: unknown tool"
        return _bad_domains(tool["allowed_domains"])
    if path == "/v1/responses":
        if headers.get("authorization") != f"Bearer {KEY}":
            return "authentication"
        if body.keys() != {"model", "input", "store", "max_output_tokens", "tools", "include"}:
            return f"Unknown parameter: {sorted(body)}"
        if body["include"] != ["web_search_call.action.sources"] or body["tools"][0].keys() != {"type", "filters"}:
            return "Unknown parameter"
        return _bad_domains(body["tools"][0]["filters"]["allowed_domains"])
    if path == "/v1beta/models/gemini-3-pro:generateContent":
        if headers.get("x-goog-api-key") != KEY:
            return "authentication"
        return None if body["tools"] == [{"google_search": {}}] and body["contents"][0]["parts"] else "invalid argument"
    return f"no {path} here"


def _bad_domains(domains: Any) -> str | None:
    good = isinstance(domains, list) and domains and all(_DOMAIN.fullmatch(each) for each in domains)
    return None if good else f"allowed_domains: {domains} are not domains without a scheme"


class SearchServer:
    """Answers searches with ``answers``, in order: an object, or a status with bytes.

    Attributes:
        bodies: The body of every valid search.
        refused: Why the others were refused.
    """

    def __init__(self, *answers: Json | tuple[int, bytes], then: Callable[[bytes], bytes] | None = None) -> None:
        self.answers, self.then = list(answers), then
        self.bodies: list[Json] = []
        self.refused: list[str] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Connection)
        self._http.daemon_threads = True
        self._http.owner = self  # type: ignore[attr-defined]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, path: str, headers: dict[str, str], raw: bytes) -> tuple[int, bytes]:
        if self.then is not None and (b'"stream":true' in raw or b'"stream": true' in raw):
            return 200, self.then(raw)
        body = json.loads(raw)
        if (why := fault(path, headers, body)) is not None:
            self.refused.append(why)
            return 400, json.dumps(
                {"type": "error", "error": {"type": "invalid_request_error", "message": why}}
            ).encode()
        self.bodies.append(body)
        answer = self.answers.pop(0)
        return answer if isinstance(answer, tuple) else (200, json.dumps(answer).encode())


class _Connection(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        owner: SearchServer = self.server.owner  # type: ignore[attr-defined]
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, body = owner.answer(self.path, headers, raw)
        self.send_response(status)
        self.send_header("content-type", "text/event-stream" if body.startswith(b"event:") else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Does nothing, to keep the test output clean."""
