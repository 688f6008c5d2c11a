"""Odd servers of the Messages API, one per row, like those of Chat Completions in ``odd_servers.py``."""

from __future__ import annotations

import json
from typing import Any

from stackmem.core.messages import Text

from .odd_servers import OPEN, PAGE, Odd, error, http

Json = dict[str, Any]

USE = {"type": "tool_use", "id": "c", "name": "read_file", "input": {"path": "a"}}
BODY: Json = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "content": [USE],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 5.0, "cache_read_input_tokens": 2, "output_tokens": 1},
}
START: Json = {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 5, "output_tokens": 1}}}
STOP: Json = {"type": "message_stop"}
HI: Json = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hi"}}
WORDS = "The model is asleep."


def streamed(*events: Json) -> bytes:
    return http("".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events))


def ends(reason: str) -> Json:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}}


CALL: Json = {"type": "content_block_start", "index": 0, "content_block": USE}

ROWS = (
    Odd("sends a whole JSON body", http(json.dumps(BODY), kind="application/json"), usage=(5, 2, 1)),
    Odd("sends a whole JSON body as if it were a stream", http(json.dumps(BODY, indent=1))),
    Odd("sends the whole input where the block begins", streamed(START, CALL, ends("tool_use"), STOP)),
    Odd("names no event", streamed(START, CALL, ends("tool_use"), STOP).replace(b"event:", b"other:")),
    Odd("sends kinds of events that nobody knows", streamed({"type": "x"}, START, CALL, ends("tool_use"), STOP)),
    Odd("stops with an unknown reason", streamed(START, HI, ends("eos"), STOP), parts=(Text("hi"),), stop="end"),
    Odd("breaks off before the end", streamed(START, HI, ends("end_turn")), "incomplete", "before its end"),
    Odd("breaks off within an event", OPEN + b'data: {"type": "mess', "incomplete", "before its end"),
    Odd(
        "fails under status 200",
        http(json.dumps({"type": "error", "error": {"type": "overloaded_error"}})),
        "overloaded",
    ),
    Odd("fails in another shape", error(400, {"detail": WORDS}), "rejected", f"HTTP 400: {WORDS}"),
    Odd("has a web page for a reply", http(PAGE, kind="text/html"), "rejected", "is the address right?"),
    Odd(
        "has a web page for an error", http(PAGE, "502 Bad", "text/html"), "server_error", "HTTP 502: Welcome & log in"
    ),
    Odd(
        "says that the prompt is too long as llama.cpp does",
        error(400, {"error": {"message": "request (5000 tokens) exceeds the available context size (4096 tokens)"}}),
        "window",
    ),
)
