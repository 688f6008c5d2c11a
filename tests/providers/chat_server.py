"""A scripted Chat Completions server on loopback, for behavior that aimock does not support."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from msgspec import Struct


class Refusal(Struct, frozen=True):
    status: int
    message: str
    error_type: str = "invalid_request_error"


def chunks(*deltas: dict[str, Any], finish: str | None = "stop", usage: dict[str, Any] | None = None) -> bytes:
    """Return a streamed reply: one chunk per delta, the finish reason, the usage; without a reason it breaks off."""
    made: list[dict[str, Any]] = [{"id": "c1", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if finish is not None:
        made.append({"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage is not None:
        made.append({"id": "c1", "choices": [], "usage": usage})
    done = b"" if finish is None else b"data: [DONE]\n\n"
    return b"".join(f"data: {json.dumps(one)}\n\n".encode() for one in made) + done


def call_piece(arguments: Any, *, index: int | None = 0, **other: Any) -> dict[str, Any]:
    """A delta with a piece of a call."""
    name = {"name": other.pop("name")} if "name" in other else {}
    numbered = {} if index is None else {"index": index}
    return {"tool_calls": [{**numbered, **other, "function": {**name, "arguments": arguments}}]}


class ChatServer:
    """Answers with ``answers`` in order; a ``Refusal`` is an error, bytes are the whole stream.

    Attributes:
        bodies: Every request, parsed.
        unknown: Fields that this server refuses by name.
        fault: A function that returns why it refuses a body; None accepts it.
        path: The path that answers requests; ``paths`` if there are several.
        models: Its list of models, if any; a ``Refusal`` if it is not available yet.
    """

    def __init__(
        self,
        *answers: bytes | Refusal,
        unknown: tuple[str, ...] = (),
        fault: Callable[[dict[str, Any]], str | None] = lambda _: None,
        path: str = "/v1/chat/completions",
    ) -> None:
        self.answers = list(answers)
        self.unknown = unknown
        self.fault = fault
        self.refused: list[str] = []
        self.path = path
        self.paths: tuple[str, ...] = ()
        self.models: object = None
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.headers: list[dict[str, str]] = []
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

    def answer(self, body: dict[str, Any], key: str | None) -> bytes | Refusal:
        self.bodies.append(body)
        self.keys.append(key)
        for name in self.unknown:
            if name in body:
                return Refusal(400, f"Unrecognized request argument supplied: {name}")
        if (fault := self.fault(body)) is not None:
            self.refused.append(fault)
            return Refusal(400, fault)
        return self.answers.pop(0)


class _Connection(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        owner: ChatServer = self.server.owner  # type: ignore[attr-defined]
        listed = owner.models if self.path == "/v1/models" else None
        if isinstance(listed, Refusal):
            self._refuse(listed)
        else:
            self._send(404 if listed is None else 200, json.dumps(listed).encode())

    def do_POST(self) -> None:
        owner: ChatServer = self.server.owner  # type: ignore[attr-defined]
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path not in (owner.paths or (owner.path,)):
            self._send(404, b'{"error": {"message": "no such path"}}')
            return
        owner.headers.append({name.lower(): value for name, value in self.headers.items()})
        answer = owner.answer(json.loads(raw), self.headers.get("authorization"))
        if isinstance(answer, Refusal):
            self._refuse(answer)
        else:
            self._send(200, answer)

    def _refuse(self, refusal: Refusal) -> None:
        error = {"error": {"message": refusal.message, "type": refusal.error_type}}
        self._send(refusal.status, json.dumps(error).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "text/event-stream" if status == 200 else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Does nothing, to keep the test output clean."""
