"""A scripted Messages API server on loopback: strict about requests and accurate about the cache.

Use it as a context manager; ``ANTHROPIC_BASE_URL`` takes ``server.url``, and it accepts the key ``server.key``.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

from .api_rules import first_fault, signature, summary_signature
from .prefix_cache import PrefixCache, prompt_tokens

Block = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """The server's response to one valid request.

    Attributes:
        blocks: The reply's content; a ``tool_use`` may have ``raw`` instead of ``input``: its JSON as sent.
        status: Not 200: an error of this type and message instead of a reply.
        break_after: The number of events after which the stream breaks, by ``break_by``.
        pause_seconds: Pause before each event.
        bytes: Sent as the whole body instead of events.
        applied_edits: The edits that the server reports.
        iterations: The tokens of summaries that the server wrote; the other counts are then 0.
    """

    blocks: tuple[Block, ...] = ()
    stop_reason: str | None = "end_turn"
    stop_details: dict[str, Any] | None = None
    status: int = 200
    error: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    break_after: int | None = None
    break_by: Literal["end", "reset", "error"] = "end"
    pause_seconds: float = 0.0
    bytes: bytes | None = None
    applied_edits: tuple[dict[str, Any], ...] | None = None
    iterations: tuple[dict[str, Any], ...] = ()


def summarizes(text: str, prompt: int = 1_000, output: int = 200) -> Answer:
    """The answer to a compaction request: a signed summary alone, with its tokens as an iteration."""
    block = {"type": "compaction", "content": text, "signature": summary_signature(text)}
    spent = {"type": "compaction", "input_tokens": prompt, "output_tokens": output}
    return Answer((block,), "compaction", iterations=(spent,))


def says(text: str, **other: Any) -> Answer:
    return Answer(({"type": "text", "text": text},), **other)


def calls(name: str, arguments: dict[str, Any], *, thought: str | None = None, **other: Any) -> Answer:
    """A reply with one call, after a thought if there is one; the server signs it."""
    blocks: list[Block] = [{"type": "thinking", "thinking": thought}] if thought is not None else []
    blocks.append({"type": "tool_use", "name": name, "input": arguments})
    return Answer(tuple(blocks), **{"stop_reason": "tool_use", **other})


def fails(status: int, kind: str, message: str = "no", headers: dict[str, str] | None = None, **error: Any) -> Answer:
    return Answer(status=status, error={"type": kind, "message": message, **error}, headers=headers or {})


class MessagesServer:
    """Answers requests from ``script``, in order; a request beyond the script gets a 500.

    Attributes:
        bodies: Every valid request, parsed; ``raw`` contains its bytes, ``headers`` its headers.
        refused: The messages of every 400.
    """

    def __init__(self, *answers: Answer, minimum_cached_tokens: int = 512) -> None:
        self.script = list(answers)
        self.key = "sk-ant-test-0123456789"
        self.cache = PrefixCache(minimum_cached_tokens)
        self.bodies: list[dict[str, Any]] = []
        self.raw: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.refused: list[str] = []
        self.replies = 0
        self.lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Connection)
        self._http.daemon_threads = True
        self._http.owner = self  # type: ignore[attr-defined]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def environ(self) -> dict[str, str]:
        return {"ANTHROPIC_API_KEY": self.key, "ANTHROPIC_BASE_URL": self.url}

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, raw: bytes, headers: dict[str, str]) -> tuple[Answer, dict[str, Any]]:
        """Return the next answer with ids, signatures and usage filled in."""
        if headers.get("authorization") != f"Bearer {self.key}" and headers.get("x-api-key") != self.key:
            return fails(401, "authentication_error", f"invalid key {headers.get('authorization')}"), {}
        if "anthropic-version" not in headers:
            return fails(400, "invalid_request_error", "anthropic-version: header is required"), {}
        try:
            body = json.loads(raw.decode("utf-8"))
        except ValueError as error:
            return fails(400, "invalid_request_error", f"the body is not JSON: {error}"), {}
        with self.lock:
            betas = frozenset(headers.get("anthropic-beta", "").split(","))
            if (fault := first_fault(body, betas)) is not None:
                self.refused.append(fault)
                return fails(400, "invalid_request_error", fault), {}
            self.bodies.append(body)
            self.raw.append(raw)
            self.headers.append(headers)
            if not self.script:
                return fails(500, "api_error", "the script of this test server is empty"), {}
            given = self.script.pop(0)
            if given.status != 200:
                return given, {}
            self.replies += 1
            blocks = tuple(self._made(block, number, body) for number, block in enumerate(given.blocks))
            usage = self.cache.usage(body)
            if ("compaction" in body) != (given.stop_reason == "compaction"):
                return fails(500, "api_error", "the script and the request disagree on compaction"), {}
            return replace(given, blocks=blocks), dict.fromkeys(usage, 0) if given.iterations else usage

    def _made(self, block: Block, number: int, body: dict[str, Any]) -> Block:
        before = len(body["messages"])
        if block["type"] == "thinking" and "signature" not in block:
            return {**block, "signature": signature(body, before, block["thinking"])}
        if block["type"] == "redacted_thinking" and "data" not in block:
            return {**block, "data": signature(body, before, "redacted")}
        if block["type"] == "tool_use" and "id" not in block:
            return {**block, "id": f"toolu_{self.replies:04}_{number}"}
        return block


def events(answer: Answer, usage: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """Yield the events of a streamed reply, splitting text and arguments into short pieces."""
    begun = 0 if answer.iterations else 1
    message = {"id": f"msg_{number:04}", "type": "message", "role": "assistant", "model": "m", "content": []}
    yield {
        "type": "message_start",
        "message": {**message, "stop_reason": None, "usage": {**usage, "output_tokens": begun}},
    }
    yield {"type": "ping"}
    for index, block in enumerate(answer.blocks):
        kind = block["type"]
        start: dict[str, dict[str, Any]] = {
            "text": {"text": ""},
            "thinking": {"thinking": "", "signature": ""},
            "tool_use": {"input": {}},
        }
        shown = {name: value for name, value in block.items() if name != "raw"}
        yield {"type": "content_block_start", "index": index, "content_block": {**shown, **start.get(kind, {})}}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": answer.stop_reason, "stop_sequence": None, "stop_details": answer.stop_details}
    spent = 1 + len(json.dumps(answer.blocks)) // 4
    counts: dict[str, Any] = {"output_tokens": spent}
    if answer.iterations:
        counts = {"output_tokens": 0, "iterations": list(answer.iterations)}
    edits = {} if answer.applied_edits is None else {"context_management": {"applied_edits": [*answer.applied_edits]}}
    yield {"type": "message_delta", "delta": ending, "usage": counts, **edits}
    yield {"type": "message_stop"}


def _deltas(block: Block) -> Iterator[dict[str, str]]:
    match block["type"]:
        case "text":
            yield from ({"type": "text_delta", "text": piece} for piece in _pieces(block["text"]))
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"]))
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "tool_use":
            text = block["raw"] if "raw" in block else json.dumps(block["input"])
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in ["", *_pieces(text)])


def _pieces(text: str) -> list[str]:
    size = max(7, len(text) // 50)
    return [text[at : at + size] for at in range(0, len(text), size)]


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        owner: MessagesServer = self.server.owner  # type: ignore[attr-defined]
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/v1/messages/count_tokens":
            body = {"max_tokens": 1, **json.loads(raw)}
            fault = first_fault(body)
            self._json(400 if fault else 200, {"error": fault} if fault else {"input_tokens": prompt_tokens(body)})
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer, usage = owner.answer(raw, headers)
        if self.path != "/v1/messages":
            answer = fails(404, "not_found_error", f"no {self.path} here")
        if answer.status != 200:
            error = {"type": "error", "error": answer.error, "request_id": "req_test"}
            self._json(answer.status, error, answer.headers)
            return
        try:
            self._stream(answer, usage, owner.replies)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _stream(self, answer: Answer, usage: dict[str, Any], number: int) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        if answer.break_by == "reset":  # a promise that the broken stream does not keep
            self.send_header("content-length", "1000000")
        self.end_headers()
        self.close_connection = True
        if answer.bytes is not None:
            self.wfile.write(answer.bytes)
            return
        for count, event in enumerate(events(answer, usage, number)):
            if count == answer.break_after:
                if answer.break_by == "error":
                    self._send({"type": "error", "error": answer.error})
                return
            time.sleep(answer.pause_seconds)
            self._send(event)

    def _send(self, event: dict[str, Any]) -> None:
        self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()

    def _json(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "content-type": "application/json"}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Does nothing, to keep the test output clean."""
