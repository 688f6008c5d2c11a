"""The Responses API: requests, responses, and reasoning sent back unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelFailed, ModelReplied, RunEnded
from stackmem.core.messages import Text, Thinking, ToolCall, Usage
from stackmem.models.asked import Asked
from stackmem.models.registry import open_model
from stackmem.providers.openai_responses import read_response
from tests.contracts.test_runs_over_http import run

from .chat_server import ChatServer, Refusal
from .views import asking

Json = dict[str, Any]
PATH = "/v1/responses"


def reasoning(number: int) -> Json:
    summary = [{"type": "summary_text", "text": "hm"}]
    return {"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": f"sealed {number}"}


def function_call(number: int, name: str, arguments: str) -> Json:
    return {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": name,
        "arguments": arguments,
    }


def message(text: str) -> Json:
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def streamed(*items: Json, status: str = "completed", repeated: bool = True, **more: Any) -> bytes:
    response = {"id": "resp_1", "object": "response", "status": status, "output": [*items] if repeated else [], **more}
    events = [{"type": "response.output_item.done", "output_index": n, "item": item} for n, item in enumerate(items)]
    made = [
        {"type": "response.created", "response": {"id": "resp_1"}},
        *events,
        {"type": f"response.{status}", "response": response},
    ]
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in made)


def read(stream: bytes) -> ModelReplied | ModelFailed:
    events = (event.partition("data: ")[2] for event in stream.decode().split("\n\n") if event)
    return read_response(events, facts=4)


def misses_reasoning(body: Json) -> str | None:
    """Return a fault unless each call follows the reasoning that led to it and the request is not stored."""
    if body["store"] is not False or "previous_response_id" in body:
        return "nothing is stored here"
    before: Json = {}
    for item in body["input"]:
        number = item.get("call_id", "").removeprefix("call_")
        if item["type"] == "function_call" and before != reasoning(int(number)):
            return f"function_call {number} was provided without its required reasoning item"
        if item["type"] == "function_call" and item.get("id") != f"fc_{number}":
            return "the id of a function_call is missing"
        before = item
    return None


def test_a_run_sends_its_encrypted_reasoning_back_and_ends_well() -> None:
    arguments = ['{"path": "spec.md"}'] * 13
    calls = [("read_file", text) for text in arguments] + [("pop_frame", '{"result": "done"}')]
    answers = [streamed(reasoning(n), function_call(n, *call)) for n, call in enumerate(calls)]
    with ChatServer(*answers, fault=misses_reasoning, path=PATH) as server:
        facts = run(open_model("responses/thinker", {}, base_url=server.url, window_tokens=200_000), "full")
        assert server.refused == []
        last = server.bodies[-1]
    assert [event.ending for event in facts if isinstance(event, RunEnded)] == ["popped"]
    assert sum(item["type"] == "reasoning" for item in last["input"]) == 13
    assert last["include"] == ["reasoning.encrypted_content"]
    assert last["max_output_tokens"] == 32_000
    assert {tool["type"] for tool in last["tools"]} == {"function"}
    assert "instructions" in last


@pytest.mark.parametrize("repeated", [True, False])
def test_a_reply_is_read_from_the_whole_response_or_from_its_items(repeated: bool) -> None:
    usage = {
        "input_tokens": 100,
        "output_tokens": 7,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    }
    answer = read(streamed(message("so"), function_call(1, "a", "{}"), repeated=repeated, usage=usage))
    assert isinstance(answer, ModelReplied)
    assert answer.parts[1:] == (Text("so"), ToolCall("call_1", "a", {}))
    assert isinstance(answer.parts[0], Thinking)
    assert (answer.stop, answer.usage) == ("call", Usage(uncached=10, cache_read=60, cache_write_5m=30, output=7))


def test_a_custom_tool_s_text_is_its_argument() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "patch", "input": "*** Begin\n"}
    answer = read(streamed(item))
    assert isinstance(answer, ModelReplied)
    assert (answer.parts[-1], answer.stop) == (ToolCall("call_1", "patch", {"input": "*** Begin\n"}), "call")


@pytest.mark.parametrize(
    ("stream", "stop"),
    [
        (streamed(message("hi")), "end"),
        (streamed(message("hi"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}), "truncated"),
        (streamed(message("hi"), status="incomplete", incomplete_details={"reason": "content_filter"}), "refused"),
        (streamed({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}), "refused"),
    ],
)
def test_why_a_reply_ended_has_its_name(stream: bytes, stop: str) -> None:
    answer = read(stream)
    assert isinstance(answer, ModelReplied)
    assert answer.stop == stop


@pytest.mark.parametrize(
    ("stream", "kind"),
    [
        (streamed(status="failed", error={"code": "rate_limit_exceeded", "message": "slow"}), "rate_limited"),
        (streamed(status="failed", error={"code": "context_length_exceeded", "message": "x"}), "window"),
        (b'data: {"type": "error", "code": "server_error", "message": "boom"}\n\n', "server_error"),
        (streamed(message("hi")).rpartition(b"event:")[0], "incomplete"),
        (b"data: [1]\n\n", "incomplete"),
        (b"data: <html><title>Hello</title>\n\n", "rejected"),
    ],
)
def test_a_partial_response_is_a_failure_of_its_kind(stream: bytes, kind: str) -> None:
    answer = read(stream)
    assert isinstance(answer, ModelFailed)
    assert answer.kind == kind


def test_a_whole_body_is_read_effort_is_sent_and_an_error_keeps_its_sentence() -> None:
    whole_body = {"object": "response", "id": "r", "status": "completed", "output": [message("hi")]}
    with ChatServer(json.dumps(whole_body).encode(), Refusal(400, "no such model"), path=PATH) as server:
        model = open_model("responses/m", {}, base_url=server.url, asked=Asked(effort="low"))
        answer, refused = model.reply(asking()), model.reply(asking())
        assert server.bodies[0]["reasoning"] == {"effort": "low"}
    assert isinstance(answer, ModelReplied)
    assert Text("hi") in answer.parts
    assert isinstance(refused, ModelFailed)
    assert refused.detail == "HTTP 400: no such model; load it there first"


def test_fields_outside_the_protocol_are_refused() -> None:
    with pytest.raises(UsageError, match="does not support --seed"):
        open_model("responses/m", {}, base_url="http://127.0.0.1:1", seed=1)


def told(*events: Json) -> bytes:
    return b"".join(f"data: {json.dumps(one)}\n\n".encode() for one in events)


OPEN = {"type": "response.output_item.added", "output_index": 0, "item": function_call(1, "read_file", "")}
WHOLE = function_call(1, "read_file", '{"path": "a"}')
EMPTY = {
    "type": "response.completed",
    "response": {"id": "r", "object": "response", "status": "completed", "output": []},
}
DELTAS = [
    {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": piece}
    for piece in ('{"path"', ': "a"}')
]
ALL = {"type": "response.function_call_arguments.done", "output_index": 0, "item_id": "fc_1",
       "arguments": '{"path": "a"}'}  # fmt: skip


@pytest.mark.parametrize(
    "events",
    [
        (OPEN, ALL, EMPTY),
        (OPEN, *DELTAS, EMPTY),
        (OPEN, *DELTAS, ALL, {"type": "response.output_item.done", "item": OPEN["item"]}, EMPTY),
        (OPEN, {**ALL, "item_id": None}, {"type": "response.output_item.done", "item": WHOLE}, EMPTY),
        ({"type": "response.output_item.done", "item": {**WHOLE, "id": None}}, EMPTY),
        (OPEN, *DELTAS, {**EMPTY, "response": {**EMPTY["response"], "output": [OPEN["item"]]}}),
    ],
    ids=str,
)
def test_arguments_are_read_from_whichever_event_has_them(events: tuple[Json, ...]) -> None:
    answer = read(told(*events))
    assert isinstance(answer, ModelReplied)
    calls = [part for part in answer.parts if isinstance(part, ToolCall)]
    assert [(call.id, call.name, call.arguments) for call in calls] == [("call_1", "read_file", {"path": "a"})]
    assert answer.stop == "call"


def test_a_text_that_arrives_only_in_deltas_is_read() -> None:
    begun = {"type": "response.output_item.added", "item": {"type": "message", "id": "m", "content": []}}
    deltas = [{"type": "response.output_text.delta", "item_id": "m", "delta": each} for each in ("Hel", "lo")]
    answer = read(told(begun, *deltas, EMPTY))
    assert isinstance(answer, ModelReplied)
    assert Text("Hello") in answer.parts
