"""A scripted Gemini API server on loopback, as strict about requests as the public documents."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any, Self

from msgspec import Struct

Json = dict[str, Any]
NO_SIGNATURE = "skip_thought_signature_validator"


class Fails(Struct, frozen=True):
    """An error instead of a reply, in the format of Google's servers."""

    code: int
    status: str
    message: str
    details: tuple[Json, ...] = ()

    @property
    def body(self) -> Json:
        return {
            "error": {
                "code": self.code, "message": self.message, "status": self.status, "details": [*self.details],
            }
        }  # fmt: skip


class Hangs(Struct, frozen=True):
    """A reply that starts and never ends."""

    begins: bytes = b""


def signature(number: int) -> str:
    """Bytes whose encodings in the two base64 alphabets differ."""
    return base64.b64encode(b"\xfb\xff\xfe signed %d" % number).decode()


def call(number: int, name: str, arguments: Json, *, signed: bool = True, identity: str | None = "") -> Json:
    function = {"name": name, "args": arguments} | ({"id": identity or f"fc_{number}"} if identity is not None else {})
    return {"functionCall": function, **({"thoughtSignature": signature(number)} if signed else {})}


def chunk(*parts: Json, finish: str | None = None, **more: Any) -> Json:
    candidate: Json = {"index": 0} | ({"content": {"role": "model", "parts": [*parts]}} if parts else {})
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})], "modelVersion": "m"} | more


USAGE = {"promptTokenCount": 50, "cachedContentTokenCount": 20, "candidatesTokenCount": 7, "thoughtsTokenCount": 3}


def streamed(*parts: Json, finish: str | None = "STOP", usage: Json | None = USAGE) -> bytes:
    """One chunk per part, then the end."""
    counted = {"usageMetadata": usage} if usage else {}
    made = [chunk(part, responseId="r1") for part in parts]
    made.append(chunk(finish=finish, **counted))
    return b"".join(b"data: " + json.dumps(one).encode() + b"\r\n\r\n" for one in made)


def in_one_body(*parts: Json) -> bytes:
    """The whole reply as one object over many lines, not as a stream."""
    return json.dumps(chunk(*parts, finish="STOP", responseId="r1", usageMetadata=USAGE), indent=2).encode()


def first_fault(body: Json) -> str | None:
    """Return what the documents say is refused; None for a valid request."""
    contents = body.get("contents") or []
    roles = [content.get("role") for content in contents]
    if not contents or roles[0] != "user" or roles[-1] != "user" or set(roles) - {"user", "model"}:
        return "Please ensure that single turn requests end with a user role."
    if any(one == other for one, other in pairwise(roles)):
        return "Please ensure that multiturn requests alternate between user and model."
    if any(not content.get("parts") for content in contents):
        return "Unable to submit request because it must include at least one parts field."
    for declared in (one for tool in body.get("tools", ()) for one in tool["functionDeclarations"]):
        if "parametersJsonSchema" not in declared and "parameters_json_schema" not in declared:
            return "a declaration has no schema"
    return _pairing(contents) or _signing(contents)


def _pairing(contents: list[Json]) -> str | None:
    for before, content in zip([{"parts": []}, *contents], contents, strict=False):
        answers = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        asked = [part["functionCall"] for part in before["parts"] if "functionCall" in part]
        if [one.get("id") for one in answers] != [one.get("id") for one in asked]:
            return (
                "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn, and that each comes immediately after it."
            )
        if [one["name"] for one in answers] != [one["name"] for one in asked]:
            return "a function response has another name than its call"
    return None


def _signing(contents: list[Json]) -> str | None:
    for place, content in enumerate(contents):
        calls = [(at, part) for at, part in enumerate(content["parts"]) if "functionCall" in part]
        for at, part in calls[:1]:
            given = part.get("thoughtSignature", part.get("thought_signature"))
            if given is None:
                name = part["functionCall"]["name"]
                return (
                    "Function call is missing a thought_signature in functionCall parts. Additional data, function "
                    f"call `default_api:{name}`, position {at} of content {place}."
                )
            read = base64.b64decode(given.replace("-", "+").replace("_", "/") + "==")
            number = part["functionCall"].get("id", "").removeprefix("fc_")
            if read != NO_SIGNATURE.encode() and read != base64.b64decode(signature(int(number or 0))):
                return "Corrupted thought signature."
    return None


class GeminiServer:
    """Answers requests from ``script``, in order; a valid request beyond the script gets a 500.

    Attributes:
        bodies: Every valid request; ``headers`` contains the headers of each, ``refused`` the messages to the others.
        model: Its metadata for any model; None means that the model does not exist.
    """

    def __init__(self, *answers: bytes | Fails | Hangs, strict: bool = True) -> None:
        self.script = list(answers)
        self.strict = strict
        self.key = "AIza-test-0123456789"
        self.bodies: list[Json] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.refused: list[str] = []
        self.model: Json | None = None
        self.begun = threading.Event()
        self.gone = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Connection)
        self._http.daemon_threads = True
        self._http.owner = self  # type: ignore[attr-defined]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def environ(self) -> dict[str, str]:
        return {"GEMINI_API_KEY": self.key, "GOOGLE_GEMINI_BASE_URL": self.url}

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, path: str, raw: bytes, headers: dict[str, str]) -> bytes | Fails | Hangs:
        if headers.get("x-goog-api-key") not in (self.key, "unused"):
            info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
            said = f"API key not valid. Please pass a valid API key, not {headers.get('x-goog-api-key')}."
            return Fails(400, "INVALID_ARGUMENT", said, (info,))
        if not path.endswith(":streamGenerateContent?alt=sse"):
            return Fails(404, "NOT_FOUND", f"no {path} here")
        body = json.loads(raw)
        if self.strict and (fault := first_fault(body)) is not None:
            self.refused.append(fault)
            return Fails(400, "INVALID_ARGUMENT", fault)
        self.bodies.append(body)
        self.paths.append(path)
        self.headers.append(headers)
        return self.script.pop(0) if self.script else Fails(500, "INTERNAL", "the script of this server is empty")


class _Connection(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        owner: GeminiServer = self.server.owner  # type: ignore[attr-defined]
        missing = Fails(404, "NOT_FOUND", "models/x is not found for API version v1beta").body
        self._send(404 if owner.model is None else 200, json.dumps(owner.model or missing).encode(), "application/json")

    def do_POST(self) -> None:
        owner: GeminiServer = self.server.owner  # type: ignore[attr-defined]
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        answer = owner.answer(self.path, raw, {name.lower(): value for name, value in self.headers.items()})
        if isinstance(answer, Fails):
            self._send(answer.code, json.dumps(answer.body).encode(), "application/json")
        elif isinstance(answer, Hangs):
            self._hang(owner, answer)
        else:
            self._send(200, answer, "text/event-stream" if answer.startswith(b"data:") else "application/json")

    def _hang(self, owner: GeminiServer, answer: Hangs) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(answer.begins)
        self.wfile.flush()
        owner.begun.set()
        with suppress(ConnectionError):  # the client disconnects, and its unread data turns that into a reset
            while self.connection.recv(1):
                pass
        owner.gone.set()

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Does nothing, to keep the test output clean."""
