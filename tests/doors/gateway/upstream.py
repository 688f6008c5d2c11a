"""A scripted loopback upstream that answers raw bytes and stores its requests, and builders for agents' requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import httpx2
import msgspec
from msgspec import Struct

Json = dict[str, Any]
CLIENT = httpx2.Client(timeout=60, verify=False)
"""Shared by all tests: each new one reads the machine's certificates, which takes longer than a test."""


class RawAnswer(Struct, frozen=True):
    """An answer: ``pieces`` sent one after the other; with ``hangs`` the connection stays open after them."""

    pieces: tuple[bytes, ...]
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "text/event-stream"),)
    hangs: bool = False


class RawUpstream:
    """Answers from ``script`` in order, or from ``answer`` or ``at`` if set; ``at`` also receives the path.

    Attributes:
        seen: Path, lower-case headers and body of every request.
        released: Set to let hanging answers continue.
        left: Set once a client closed the connection of a hanging answer.
    """

    def __init__(self, *script: RawAnswer, answer: Callable[[bytes], RawAnswer] | None = None,
                 at: Callable[[str, bytes], RawAnswer] | None = None) -> None:  # fmt: skip
        self.script, self.answer, self.at = list(script), answer, at
        self.seen: list[tuple[str, dict[str, str], bytes]] = []
        self.released, self.left = threading.Event(), threading.Event()
        self._http = _Server(("127.0.0.1", 0), _Connection)
        self._http.daemon_threads = True
        self._http.owner = self  # type: ignore[attr-defined]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()


class _Server(ThreadingHTTPServer):
    request_queue_size = 256  # a hundred clients may connect at the same time


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        owner: RawUpstream = self.server.owner  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        owner.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        if owner.at is not None:
            given = owner.at(self.path.partition("?")[0], body)
        else:
            given = owner.answer(body) if owner.answer is not None else owner.script.pop(0)
        self.send_response(given.status)
        for name, value in given.headers:
            self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for piece in given.pieces:
                self.wfile.write(piece)
                self.wfile.flush()
            while given.hangs and not owner.released.wait(0.02):
                self.wfile.write(b": ping\n\n")
        except (BrokenPipeError, ConnectionResetError):
            owner.left.set()

    do_GET = do_POST  # noqa: N815 - the name that http.server asks for

    def log_message(self, *_: object) -> None:
        """Does nothing, to keep the test output clean."""


def sse(*events: Json, named: bool = True) -> tuple[bytes, ...]:
    """Encode each event as it is sent."""
    return tuple(
        (f"event: {event['type']}\n" if named else "").encode() + f"data: {json.dumps(event)}\n\n".encode()
        for event in events
    )


def message_events(*blocks: Json, stop: str = "end_turn", usage: Json | None = None) -> tuple[bytes, ...]:
    """Events of a streamed Messages API reply."""
    used = {"input_tokens": 100, "output_tokens": 1, **(usage or {})}
    events: list[Json] = [{"type": "message_start", "message": {"id": "msg_1", "usage": used}}]
    for index, block in enumerate(blocks):
        start, deltas = _pieces(block)
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 20}})
    return sse(*events, {"type": "message_stop"})


def _pieces(block: Json) -> tuple[Json, list[Json]]:
    """Return a block as it begins in a stream, and the deltas that complete it."""
    if block["type"] == "tool_use":
        return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    if block["type"] == "thinking":
        deltas = [{"type": f"{name}_delta", name: block[name]} for name in ("thinking", "signature")]
        return block | {"thinking": "", "signature": ""}, deltas
    return block | {"text": ""}, [{"type": "text_delta", "text": block["text"]}]


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def use(name: str, call_id: str, **arguments: object) -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def user(*blocks: Json | str) -> Json:
    return {"role": "user", "content": [text(one) if isinstance(one, str) else one for one in blocks]}


def assistant(*blocks: Json | str) -> Json:
    return {"role": "assistant", "content": [text(one) if isinstance(one, str) else one for one in blocks]}


def result(call_id: str, words: str, **more: object) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": words, **more}


def request(*messages: Json, tools: tuple[str, ...] = ("run",), model: str = "claude-sonnet-5-5", **more: Any) -> bytes:
    """The body of a Messages request."""
    shown = [{"name": name, "description": "", "input_schema": {"type": "object"}} for name in tools]
    body = {
        "model": model,
        "max_tokens": 100,
        "messages": list(messages),
        **({"tools": shown} if tools else {}),
        **more,
    }
    return msgspec.json.encode(body)
