"""Odd servers, one per row: a server's behavior and the expected result. ``test_odd_servers.py`` serves them.

The shapes come from servers in the field: local ones (llama.cpp, vLLM, SGLang, LM Studio, Ollama, TGI), gateways, and
providers that speak other providers' protocols.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from stackmem.core.messages import ReplyPart, Text, ToolCall

Sent = bytes | tuple[bytes, ...]
"""The last piece of a tuple is repeated forever; if it is empty, the server stays silent."""


class Odd(NamedTuple):
    """A server.

    Attributes:
        sends: The bytes of its answer, or a function that makes them from a request.
        kind: Kind of the failure; empty if there is a reply.
        words: Text in the failure's detail.
        parts: Parts of the reply, without thoughts.
        usage: Uncached, read from the cache, output; None if it does not matter.
    """

    does: str
    sends: Sent | Callable[[dict[str, Any]], Sent]
    kind: str = ""
    words: str = ""
    parts: tuple[ReplyPart, ...] = (ToolCall("c", "read_file", {"path": "a"}),)
    usage: tuple[int, int, int] | None = None
    stop: str = "call"


def http(body: bytes | str, status: str = "200 OK", kind: str = "text/event-stream", *headers: str) -> bytes:
    raw = body.encode() if isinstance(body, str) else body
    lines = [
        f"HTTP/1.1 {status}",
        "connection: close",  # a client that retries must open a new connection
        *([f"content-type: {kind}"] if kind else []),
        *headers,
        f"content-length: {len(raw)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + raw


def error(status: int, body: object, *headers: str) -> bytes:
    return http(body if isinstance(body, str) else json.dumps(body), f"{status} No", "application/json", *headers)


def events(*chunks: object, end: str = "\n\n", before: str = "data: ") -> bytes:
    texts = (chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks)
    return http("".join(f"{before}{text}{end}" for text in texts))


def chunk(delta: object, finish: str | None = None, **other: Any) -> dict[str, Any]:
    return {"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **other}


def call(arguments: object = '{"path": "a"}', **other: Any) -> dict[str, Any]:
    """A delta with a piece of a call; ``function`` contains its name."""
    function = {"name": "read_file", "arguments": arguments} | other.pop("function", {})
    return {"tool_calls": [{"index": 0, "id": "c", "function": function} | other]}


CALL, END, DONE = chunk(call()), chunk({}, "tool_calls"), "[DONE]"
HI, STOP = chunk({"content": "hi"}), chunk({}, "stop")
NOTHING_NEW = chunk({"content": ""})  # repeated text is cut before the time limit
USAGE = {"prompt_tokens": 5, "completion_tokens": 1}
BROKEN_TEXT: dict[str, Any] = {"parts": (Text("h\ufffd"),), "stop": "end"}
SAYS_HI: dict[str, Any] = {"parts": (Text("hi"),), "stop": "end"}
TWO = (ToolCall("c", "read_file", {"path": "a"}), ToolCall("d", "read_file", {"path": "b"}))
MESSAGE = {"role": "assistant", "content": None, **call()}
BODY = {
    "id": 7,
    "object": "chat.completion",
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}],
}
OPEN = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
PAGE = "<!DOCTYPE html><html><head><title>Welcome &amp; log in</title></head><body><p>x</p></body></html>"


def counted(**usage: Any) -> bytes:
    return events(CALL, END, {"choices": [], "usage": usage}, DONE)


STREAMS = (
    Odd("streams as the protocol says", events(CALL, END, DONE)),
    Odd(
        "numbers its ids",
        events(chunk(call(id=7), id=7), END, DONE),
        parts=(ToolCall("7", "read_file", {"path": "a"}),),
    ),
    Odd("sends the content in parts", events(chunk({"content": [{"type": "text", "text": "hi"}]}), STOP), **SAYS_HI),
    Odd(
        "sends thoughts as parts of the content",
        events(chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}), HI, STOP),
        **SAYS_HI,
    ),
    Odd("ends with [DONE] and no reason", events(CALL, DONE)),
    Odd("gives a reason and no [DONE]", events(CALL, END)),
    Odd("ends text with [DONE] and no reason", events(HI, DONE), **SAYS_HI),
    Odd("ends with nothing at all but [DONE]", events(DONE), "incomplete", "before its end"),
    Odd("sends a whole JSON body", http(json.dumps(BODY), kind="application/json")),
    Odd("sends a whole JSON body as if it were a stream", http(json.dumps(BODY, indent=1))),
    Odd("sends a body without a type", http(json.dumps(BODY), kind="")),
    Odd(
        "sends lines of JSON", http("".join(json.dumps(one) + "\n" for one in (CALL, END)), kind="application/x-ndjson")
    ),
    Odd("sends a stream as plain text", http(events(CALL, END, DONE).partition(b"\r\n\r\n")[2], kind="text/plain")),
    Odd("ends events with one line end", http("".join(f"data: {json.dumps(one)}\n" for one in (CALL, END)) + "\n")),
    Odd("ends lines with CR LF", events(CALL, END, DONE, end="\r\n\r\n")),
    Odd("ends lines with CR", events(CALL, END, DONE, end="\r\r")),
    Odd("leaves out the blank after data:", events(CALL, END, DONE, before="data:")),
    Odd("names its events and numbers them", events(CALL, END, DONE, before="event: x\nid: 1\nretry: 5\ndata: ")),
    Odd("sends comments to stay alive", events(CALL, END, DONE, before=": PROCESSING\n\ndata: ")),
    Odd("begins with a byte order mark", http("\ufeff" + f"data: {json.dumps(CALL)}\n\ndata: {json.dumps(END)}\n\n")),
    Odd("begins with blank lines", http("\r\n\n \n" + f"data: {json.dumps(CALL)}\n\ndata: {json.dumps(END)}\n\n")),
    Odd("begins with a chunk that has no choices", events({"choices": [], "prompt_filter_results": []}, CALL, END)),
    Odd("sends choices that are null", events({"id": "r", "choices": None, "usage": None}, CALL, END)),
    Odd("sends null in every field", events(chunk({"content": None, "tool_calls": None, "refusal": None}), CALL, END)),
    Odd("sends null arguments first", events(chunk(call(None)), chunk(call('{"path": "a"}', id=None)), END)),
    Odd("sends a whole message in a chunk", events({"choices": [{"message": MESSAGE, "finish_reason": "tool_calls"}]})),
    Odd("sends text as completions did", events({"choices": [{"text": "hi", "finish_reason": "stop"}]}), **SAYS_HI),
    Odd(
        "calls by function_call",
        events(chunk({"function_call": call()["tool_calls"][0]["function"]}), END),
        parts=(ToolCall("call_0_0", "read_file", {"path": "a"}),),
    ),
    Odd("sends one call and no list", events(chunk({"tool_calls": call()["tool_calls"][0]}), END)),
    Odd(
        "numbers calls with digits in text",
        events(chunk(call('{"path":', index="0")), chunk(call('"a"}', index="0")), END),
    ),
    Odd(
        "repeats the id and numbers no call",
        events(*(chunk(call(text, index=None)) for text in ('{"path"', ':"a"}')), END),
    ),
    Odd("names the call in each piece", events(*(chunk(call(text)) for text in ('{"path"', ':"a"}')), END)),
    Odd("numbers all its calls 0", events(CALL, chunk(call('{"path": "b"}', id="d")), END), parts=TWO),
    Odd(
        "numbers none of two calls",
        events(*(chunk(call(f'{{"path": "{p}"}}', index=None, id=i)) for i, p in ("ca", "db")), END),
        parts=TWO,
    ),
    Odd("sends arguments as an object", events(chunk(call({"path": "a"})), END)),
    Odd("encodes arguments twice", events(chunk(call(json.dumps('{"path": "a"}'))), END)),
    Odd("says stop after a call", events(CALL, chunk({}, "stop"))),
    Odd("spells its reason in capitals", events(CALL, chunk({}, "STOP"))),
    Odd("has an unknown reason", events(CALL, chunk({}, "eos_token"))),
    Odd(
        "answers twice and numbers the answers",
        events(CALL, {"choices": [{"index": 1, "delta": {"content": "b"}}]}, END),
    ),
    Odd(
        "sends a byte that is not UTF-8", events(chunk({"content": "h?"}, "stop")).replace(b"?", b"\xff"), **BROKEN_TEXT
    ),
    Odd(
        "sends half a surrogate",
        events('{"choices":[{"delta":{"content":"h\\ud800"},"finish_reason":"stop"}]}'),
        **BROKEN_TEXT,
    ),
    Odd("is cut by the limit of the reply", events(HI, chunk({}, "length")), parts=(Text("hi"),), stop="truncated"),
    Odd("is cut by the window", events(HI, chunk({}, "model_length")), parts=(Text("hi"),), stop="truncated"),
    Odd("refuses by a filter", events(HI, chunk({}, "content_filter")), parts=(Text("hi"),), stop="refused"),
    Odd("counts in floats", counted(prompt_tokens=12.0, completion_tokens=3.0), usage=(12, 0, 3)),
    Odd("counts in text", counted(prompt_tokens="12", completion_tokens="3"), usage=(12, 0, 3)),
    Odd("counts nonsense", counted(prompt_tokens=-1, completion_tokens=[], total_tokens=True), usage=None),
    Odd("counts in the chunk of the reason", events(CALL, chunk({}, "stop", usage=USAGE)), usage=(5, 0, 1)),
    Odd(
        "counts in each chunk",
        events(chunk(call(), usage={"prompt_tokens": 5, "completion_tokens": 9}), chunk({}, "stop", usage=USAGE)),
        usage=(5, 0, 1),
    ),
    Odd("counts under its own name", events(CALL, {**END, "x_groq": {"usage": USAGE}}), usage=(5, 0, 1)),
    Odd(
        "counts what the cache held apart",
        counted(prompt_tokens=12, completion_tokens=3, prompt_cache_hit_tokens=8),
        usage=(4, 8, 3),
    ),
    Odd(
        "counts thoughts in the total alone",
        counted(prompt_tokens=12, completion_tokens=3, total_tokens=20),
        usage=(12, 0, 8),
    ),
)


def refuses(name: str, instead: Callable[[dict[str, Any]], bool] = lambda _: True) -> Callable[[dict[str, Any]], Sent]:
    def answer(body: dict[str, Any]) -> Sent:
        if name in body or not instead(body):
            return error(400, {"detail": [{"loc": ["body", name], "msg": "Extra inputs are not permitted"}]})
        return events(CALL, END, DONE)

    return answer


def full(body: dict[str, Any]) -> Sent:
    text = "maximum context length is 4096 tokens. You requested 8334 (338 in the messages, 7996 in the completion)"
    return error(400, {"error": {"message": text}}) if "max_completion_tokens" in body else events(CALL, END, DONE)


FIELDS = (
    Odd("knows max_tokens alone", refuses("max_completion_tokens", lambda body: body["max_tokens"] > 0)),
    Odd("knows no parallel_tool_calls", refuses("parallel_tool_calls")),
    Odd("knows no stream_options", refuses("stream_options")),
    Odd("has no room for the longest reply", full),
)

WORDS = "The model is asleep."
ERROR = {"error": {"message": WORDS}}
ERRORS = (
    *(
        Odd(f"refuses as {shape}", error(400, body), "rejected", f"HTTP 400: {WORDS}")
        for shape, body in (
            ("OpenAI does", {"error": {"message": WORDS, "type": "invalid_request_error"}}),
            ("Google does, in a list", [{"error": {"code": 400, "message": WORDS, "status": "INVALID_ARGUMENT"}}]),
            ("vLLM did", {"object": "error", "message": WORDS, "code": 400}),
            ("TGI does", {"error": WORDS, "error_type": "validation"}),
            ("FastAPI does", {"detail": WORDS}),
            ("an AWS gateway does", {"message": WORDS}),
            ("Cloudflare does", {"success": False, "errors": [{"code": 7003, "message": WORDS}]}),
            ("a problem document", {"type": "about:blank", "title": "Bad", "detail": WORDS, "status": 400}),
            ("MiniMax does", {"base_resp": {"status_code": 1004, "status_msg": WORDS}}),
            (
                "a router that passes JSON on as text",
                {
                    "error": {
                        "message": "Provider returned error",
                        "metadata": {"raw": json.dumps(ERROR)},
                    }
                },
            ),
            ("a proxy that nests", {"error": {"message": json.dumps({"message": WORDS})}}),
            ("plain text", WORDS),
        )
    ),
    Odd(
        "names the field that is wrong",
        error(422, {"detail": [{"loc": ["body", "model"], "msg": "required"}]}),
        "rejected",
        "HTTP 422: body.model: required",
    ),
    Odd(
        "has a web page for an error",
        http(PAGE, "502 Bad Gateway", "text/html"),
        "server_error",
        "HTTP 502: Welcome & log in",
    ),
    Odd(
        "has a web page for a reply",
        http(PAGE, kind="text/html"),
        "rejected",
        "'Welcome & log in'; is the address right?",
    ),
    Odd("fails without a word", http("", "503 Service Unavailable"), "server_error", "HTTP 503: Service Unavailable"),
    Odd("answers with nothing", http("", "204 No Content"), "incomplete", "before its end"),
    Odd("answers with an empty body", http(""), "incomplete", "before its end"),
    Odd("answers with other JSON", http("[1, 2]", kind="application/json"), "incomplete", "malformed"),
    Odd("fails under status 200", http(json.dumps({"error": {"message": WORDS, "code": 503}})), "server_error", WORDS),
    Odd(
        "fails under status 200 with a code in text",
        http(json.dumps({"error": {"message": WORDS, "code": "429"}})),
        "rate_limited",
        WORDS,
    ),
    Odd(
        "fails under status 200 with a bare message",
        http(json.dumps({"object": "error", "message": WORDS})),
        "server_error",
        WORDS,
    ),
    Odd(
        "fails in mid-stream",
        events(HI, {"error": {"message": WORDS, "type": "overloaded_error"}}),
        "overloaded",
        WORDS,
    ),
    Odd(
        "fails in mid-stream by an event of that name",
        events(HI, ERROR, before="event: error\ndata: "),
        "server_error",
        WORDS,
    ),
    Odd(
        "fails in mid-stream by a field of that name",
        http(f"data: {json.dumps(HI)}\n\nerror: {json.dumps({'message': WORDS, 'code': 500})}\n\n"),
        "server_error",
        WORDS,
    ),
    Odd(
        "fails alongside a choice",
        events({**chunk({}, "error"), "error": {"message": WORDS, "code": 502}}),
        "server_error",
        WORDS,
    ),
    Odd("gives up by its reason", events(HI, chunk({}, "insufficient_system_resource")), "overloaded", "insufficient"),
    Odd("asks to wait", error(429, ERROR, "retry-after: 3"), "rate_limited", WORDS),
    Odd(
        "takes no tools",
        error(400, {"error": {"message": "gemma does not support tools"}}),
        "rejected",
        "not support tools",
    ),
    Odd(
        "wants a key", error(401, {"error": "no key"}, "www-authenticate: Bearer"), "authentication", "HTTP 401: no key"
    ),
    Odd(
        "wants money", error(402, {"error": {"message": "Insufficient Balance"}}), "spend_limit", "Insufficient Balance"
    ),
    Odd(
        "sends requests on",
        http("", "307 Moved", "text/plain", "location: http://u:p@127.0.0.1:1/v1"),
        "rejected",
        "on to http://127.0.0.1:1/v1; give that address",
    ),
)

TOO_LONG = tuple(
    Odd(f"says as {who} that the prompt is too long", error(status, {"error": {"message": text}}), "window", text[:60])
    for who, status, text in (
        ("OpenAI", 400, "This model's maximum context length is 8191 tokens; your messages resulted in 8545 tokens."),
        ("newer OpenAI", 400, "Your input exceeds the context window of this model. Please adjust your input."),
        ("LM Studio", 400, "Trying to keep the first 5000 tokens when context the overflows."),
        ("newer LM Studio", 400, "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"),
        ("LM Studio's other engine", 500, "The number of tokens to keep from the initial prompt is greater"),
        ("llama.cpp", 400, "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it"),
        ("llama-cpp-python", 400, "Requested tokens (5000) exceed context window of 4096"),
        ("vLLM", 400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
        ("SGLang", 400, "The input (61709 tokens) is longer than the model's context length (40960 tokens)."),
        ("TGI", 422, "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000"),
        ("TGI, with the reply", 422, "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens"),
        ("Ollama", 400, "the input length exceeds the context length"),
        ("Gemini", 400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
        ("Bedrock", 400, "Input is too long for requested model."),
        ("Groq", 400, "Please reduce the length of the messages or completion."),
        ("Groq's other tier", 413, "Request too large for model: Limit 6000, please reduce your message size"),
        ("Mistral", 400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
        ("xAI", 400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
        ("Cohere", 400, "too many tokens: total number of tokens in the prompt cannot exceed 4081"),
        ("Kimi", 400, "Your request exceeded model token limit : 131072"),
        ("MiniMax", 400, "invalid params, context window exceeds limit"),
        ("Copilot", 400, "prompt token count of 130000 exceeds the limit of 128000"),
        ("Claude", 400, "input length and `max_tokens` exceed context limit: 199999 + 8192 > 200000"),
    )
)

BROKEN = (
    Odd("breaks off within an event", OPEN + b'data: {"choices": [{"del', "incomplete", "before its end"),
    Odd("breaks off between events", OPEN + events(HI).partition(b"\r\n\r\n")[2], "incomplete", "before its end"),
    Odd("breaks off within a JSON body", OPEN + b'{"choices": [{"mess', "incomplete", "malformed"),
    Odd("promises more than it sends", http(b"x" * 9).replace(b"length: 9", b"length: 99"), "connection", "closed"),
    Odd("answers in no protocol", b"SSH-2.0-OpenSSH_9\r\n\r\n", "connection"),
    Odd("closes at once", b"", "connection"),
    Odd("says nothing", (b"",), "timeout", "time limit"),
    Odd("says nothing after its head", (OPEN, b""), "timeout", "time limit"),
    Odd(
        "says nothing after half a reply",
        (events(HI).replace(b"content-length", b"x-length"), b""),
        "timeout",
        "time limit",
    ),
    Odd("trickles comments for ever", (OPEN, b": alive\n\n"), "timeout", "time limit"),
    Odd("streams for ever", (OPEN, b"data: " + json.dumps(NOTHING_NEW).encode() + b"\n\n"), "timeout", "time limit"),
    Odd("floods with one event", (OPEN, b"data: " + b"x" * 65536, b"x" * 65536), "incomplete", "longer than"),
    Odd("floods with blanks", (OPEN, b" \n" * 32768), "incomplete", "longer than"),
    Odd(
        "compresses unasked",
        http(gzip.compress(b"data: 1\n\n"), "200 OK", "text/event-stream", "content-encoding: gzip"),
        "connection",
        "compressed",
    ),
    Odd("nests without end", events("[" * 100_000), "incomplete", "malformed"),
    Odd(
        "numbers beyond measure",
        events(chunk(call(index=None)) | {"created": 1}, '{"id": ' + "9" * 5_000 + "}"),
        "incomplete",
    ),
    Odd(
        "calls without end",
        events(*({"choices": [{"delta": call(index=n, id=f"{n}")}]} for n in range(1_001))),
        "incomplete",
        "more than 1,000 calls",
    ),
)


def rows() -> Iterator[Odd]:
    yield from (*STREAMS, *FIELDS, *ERRORS, *TOO_LONG, *BROKEN)
