"""Odd servers of the Gemini API, one per row, like those of Chat Completions in ``odd_servers.py``."""

from __future__ import annotations

import json
from typing import Any

from stackmem.core.messages import Text, ToolCall

from .odd_servers import OPEN, PAGE, Odd, error, http

Json = dict[str, Any]

CALL: Json = {"functionCall": {"id": "c", "name": "read_file", "args": {"path": "a"}}}
HI: Json = {"text": "hi"}
SAYS_HI: Json = {"parts": (Text("hi"),), "stop": "end"}


def chunk(*parts: Json, finish: str | None = None, **more: Any) -> Json:
    return {"candidates": [{"content": {"parts": [*parts], "role": "model"}, "finishReason": finish}], **more}


def streamed(*chunks: object, end: str = "\r\n\r\n") -> bytes:
    return http("".join(f"data: {json.dumps(one)}{end}" for one in chunks))


def fails(code: int, status: str, message: str) -> Json:
    return {"error": {"code": code, "message": message, "status": status}}


END = chunk(finish="STOP")
LONG = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
WHOLE = chunk(CALL, finish="STOP", usageMetadata={"promptTokenCount": 7, "cachedContentTokenCount": 2})

ROWS = (
    Odd("sends a whole JSON body", http(json.dumps(WHOLE), kind="application/json"), usage=(5, 2, 0)),
    Odd("sends a whole JSON body over many lines", http(json.dumps(WHOLE, indent=2), kind="application/json")),
    Odd("ends its lines with a line feed alone", streamed(chunk(CALL), END, end="\n\n")),
    Odd("sends fields that nobody knows", streamed(chunk({**CALL, "novel": {"a": 1}}, brandNew=3), END)),
    Odd("sends null in every field", streamed(chunk({**HI, "thought": None, "functionCall": None}), END), **SAYS_HI),
    Odd("sends an event that says nothing", streamed({}, {"candidates": []}, chunk(HI), END), **SAYS_HI),
    Odd("stops with an unknown reason", streamed(chunk(HI, finish="BRAND_NEW")), **SAYS_HI),
    Odd("ends a call as if it were an end", streamed(chunk(CALL, finish="STOP"))),
    Odd(
        "gives two calls one id",
        streamed(chunk(CALL, CALL, finish="STOP")),
        parts=(ToolCall("c", "read_file", {"path": "a"}), ToolCall("call_0_1", "read_file", {"path": "a"})),
    ),
    Odd("counts in floats", streamed(chunk(CALL, finish="STOP", usageMetadata={"promptTokenCount": 5.0})),
        usage=(5, 0, 0)),
    Odd("breaks off before the end", streamed(chunk(HI)), "incomplete", "before its end"),
    Odd("breaks off within an event", OPEN + b'data: {"candid', "incomplete", "malformed"),
    Odd("answers with nothing", http(""), "incomplete", "before its end"),
    Odd("answers with invalid JSON", http("data: {nonsense}\n\n"), "incomplete", "malformed"),
    Odd("answers with bytes", http(b"\x00\xff\xfe"), "incomplete", "malformed"),
    Odd("answers with a list", streamed([1, 2]), "incomplete", "before its end"),
    Odd("nests without end", http("data: " + "[" * 100_000 + "\n\n"), "incomplete", "malformed"),
    Odd("has an object for a text", streamed(chunk({"text": {}}), END), "incomplete", "malformed"),
    Odd("has a text for candidates", streamed({"candidates": "none"}), "incomplete", "before its end"),
    Odd("has a signature that is not base64", streamed(chunk({**CALL, "thoughtSignature": "é"}), END), "incomplete"),
    Odd("fails under status 200", streamed(fails(503, "UNAVAILABLE", "busy")), "overloaded", "busy"),
    Odd("fails after it began", streamed(chunk(HI), fails(500, "INTERNAL", "oh no")), "server_error", "oh no"),
    Odd("fails with a list", error(400, [fails(400, "INVALID_ARGUMENT", LONG)]), "window", "exceeds the maximum"),
    Odd("fails in another shape", error(400, {"detail": "asleep"}), "rejected", "HTTP 400: asleep"),
    Odd("fails with plain text", error(500, "asleep"), "server_error", "HTTP 500: asleep"),
    Odd("has a web page for a reply", http(PAGE, kind="text/html"), "rejected", "is the address right?"),
    Odd("has a web page for an error", http(PAGE, "502 Bad", "text/html"), "server_error", "Welcome & log in"),
    Odd("sends requests on", http("", "302 Found", "", "location: http://x.example/"), "rejected", "x.example"),
    Odd("sends only comments", (OPEN, b": alive\n\n"), "timeout", "time limit"),
    Odd("streams for ever", (OPEN, b"data: " + json.dumps(chunk(HI)).encode() + b"\n\n"), "timeout", "time limit"),
    Odd("floods with one event", (OPEN, b"data: " + b"x" * 65536, b"x" * 65536), "incomplete", "longer than"),
    Odd("says nothing at all", (b"",), "timeout", "time limit"),
)  # fmt: skip
