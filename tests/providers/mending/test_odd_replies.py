"""Complete replies in an odd form are read; what no part of a message can contain is named in a note."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from msgspec import UNSET

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Text, ToolCall
from stackmem.core.requests import AskModel
from tests.fuzz.providers import answer, conversation, model_of, notes_of
from tests.providers.views import asking, user

Json = dict[str, Any]
READ = ToolCall("c", "read_file", {"path": "a"})


def stream(*events: Json | str, before: str = "data: ", end: str = "\n\n") -> bytes:
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return "".join(f"{before}{text}{end}" for text in texts).encode()


def reply_to(wire: str, body: bytes, request: AskModel | None = None) -> ModelReplied:
    with model_of(wire, lambda _: answer(body)) as model:
        outcome = model.reply(request or asking(user("Do it.")))
    assert isinstance(outcome, ModelReplied), outcome
    return outcome


def said(reply: ModelReplied) -> str:
    return "".join(part.text for part in reply.parts if isinstance(part, Text))


def calls(reply: ModelReplied) -> list[ToolCall]:
    return [part for part in reply.parts if isinstance(part, ToolCall)]


def message(*events: Json) -> bytes:
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    return stream({"type": "message_start", "message": {"id": "m"}}, *events, end, {"type": "message_stop"})


def block(index: int, start: Json, *deltas: Json) -> list[Json]:
    begin = {"type": "content_block_start", "index": index, "content_block": start}
    return [begin, *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)]


HELLO: Json = {"type": "text_delta", "text": "hello"}


def test_a_text_whose_beginning_is_missing_is_read() -> None:
    reply = reply_to("anthropic", message({"type": "content_block_delta", "index": 0, "delta": HELLO}))
    assert said(reply) == "hello"
    assert notes_of(reply) == ["read block 0 as text, because its beginning was missing"]


def test_arguments_whose_beginning_is_missing_belong_to_no_tool() -> None:
    delta = {"type": "input_json_delta", "partial_json": "{}"}
    body = message({"type": "content_block_delta", "index": 0, "delta": delta})
    with model_of("anthropic", lambda _: answer(body)) as model:
        outcome = model.reply(asking(user("Do it.")))
    assert isinstance(outcome, ModelFailed)
    assert "which never began" in outcome.detail


def test_blocks_that_all_have_the_number_0_are_all_read() -> None:
    used = {"type": "tool_use", "id": "c", "name": "read_file", "input": {"path": "a"}}
    reply = reply_to("anthropic", message(*block(0, {"type": "text", "text": ""}, HELLO), *block(0, used)))
    assert (said(reply), calls(reply)) == ("hello", [READ])


def test_a_block_of_a_new_kind_is_sent_back_and_its_text_is_named() -> None:
    reply = reply_to("anthropic", message(*block(0, {"type": "new_kind"}, HELLO)))
    assert notes_of(reply) == ["left out a block of the kind 'new_kind', 5 characters: hello"]


def test_a_call_that_the_provider_performs_keeps_its_arguments() -> None:
    used = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": '{"query": "q"}'}
    (thought,) = reply_to("anthropic", message(*block(0, used, delta))).parts
    assert thought.raw["input"] == {"query": "q"}  # type: ignore[union-attr]


def chunk(delta: Json, index: int = 0, finish: str | None = None) -> Json:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


CALL = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "read_file", "arguments": '{"path": "a"}'}}]}


def test_a_call_in_a_second_choice_is_taken() -> None:
    reply = reply_to("chat", stream(chunk({"content": "hello"}), chunk(CALL, 1), chunk({}, 0, "tool_calls")))
    assert (said(reply), calls(reply)) == ("hello", [READ])
    assert notes_of(reply) == ["took the calls from choice 1 of the reply"]


def test_the_text_of_a_second_choice_is_named() -> None:
    reply = reply_to("chat", stream(chunk(CALL), chunk({"content": "hello"}, 1), chunk({}, 0, "tool_calls")))
    assert calls(reply) == [READ]
    assert notes_of(reply) == ["left out choice 1 of the reply, 5 characters: hello"]


def test_a_reply_that_is_wholly_in_another_choice_is_read() -> None:
    assert said(reply_to("chat", stream(chunk({"content": "hello"}, 1), chunk({}, 0, "stop")))) == "hello"


def test_too_many_choices_are_a_failure() -> None:
    body = stream(*(chunk({"content": "x"}, number) for number in range(1, 200)), chunk({}, 0, "stop"))
    with model_of("chat", lambda _: answer(body)) as model:
        outcome = model.reply(asking(user("Do it.")))
    assert isinstance(outcome, ModelFailed)
    assert "more than 100 choices" in outcome.detail


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ({"type": "image_url", "image_url": {"url": "u"}}, "'image_url'"),
        ({"type": "audio", "data": "d"}, "'audio'"),
        ({"source": "s"}, "None"),
    ],
)
def test_a_part_that_is_not_text_is_named(part: Json, shown: str) -> None:
    reply = reply_to("chat", stream(chunk({"content": [{"text": "hello"}, part]}), chunk({}, 0, "stop")))
    assert said(reply) == "hello"
    assert [note.partition(",")[0] for note in notes_of(reply)] == [f"left out a part of the kind {shown}"]


def test_a_blank_part_is_not_worth_a_note() -> None:
    part = {"type": "thinking_start", "index": 0}
    assert notes_of(reply_to("chat", stream(chunk({"content": [{"text": "hello"}, part]}), chunk({}, 0, "stop")))) == []


def response(*items: Json, output: bool = True) -> bytes:
    done = [
        {"type": "response.output_item.done", "output_index": number, "item": item} for number, item in enumerate(items)
    ]
    end = {"id": "r", "status": "completed", "output": list(items) if output else []}
    return stream(*done, {"type": "response.completed", "response": end})


@pytest.mark.parametrize("content", ["hello", [{"type": "text", "text": "hello"}]])
def test_a_message_of_the_responses_api_may_be_a_plain_text(content: object) -> None:
    reply = reply_to("responses", response({"type": "message", "id": "i", "content": content}))
    assert said(reply) == "hello"
    assert notes_of(reply) == []


def test_items_and_parts_of_unknown_kinds_are_named() -> None:
    search = {"type": "web_search_call", "id": "w", "action": {"query": "q"}}
    chart = {"type": "message", "id": "i", "content": [{"type": "chart", "data": "d"}]}
    first, second = notes_of(reply_to("responses", response(search, chart)))
    assert first.startswith("left out an item of the kind 'web_search_call'")
    assert second.startswith("left out a part of a message")


@pytest.mark.parametrize("place", [{"output_index": 0}, {"output_index": 0, "item_id": "other"}, {"item_id": "i"}])
def test_pieces_belong_to_their_item_by_id_or_by_index(place: Json) -> None:
    item = {"type": "function_call", "id": "i", "call_id": "c", "name": "read_file", "arguments": ""}
    pieces = [
        {"type": "response.function_call_arguments.delta", **place, "delta": text} for text in ('{"path"', ':"a"}')
    ]
    end = {"type": "response.completed", "response": {"id": "r", "status": "completed"}}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    assert calls(reply_to("responses", stream(added, *pieces, end))) == [READ]


@pytest.mark.parametrize(
    "body",
    [
        stream({"candidates": [{"content": {"parts": [{"text": "hello"}]}, "finishReason": "STOP"}]}, "[DONE]"),
        stream(
            {"candidates": [{"content": {"parts": [{"text": "hello"}]}, "finishReason": "STOP"}]},
            before=": alive\n\nevent: message\nid: 1\ndata:",
            end="\r\n\r\n",
        ),
        b'[{"candidates": [{"content": {"parts": [{"text": "hello"}]}, "finishReason": "STOP"}]}]',
    ],
    ids=["done", "comments", "list"],
)
def test_gemini_streams_of_other_servers_are_read(body: bytes) -> None:
    assert said(reply_to("gemini", body)) == "hello"


def test_the_note_of_a_part_survives_the_search_for_calls_in_the_text() -> None:
    parts = [{"text": '<tool_call>{"name": "read_file", "arguments": {"path": "a"}}</tool_call>'}, {"data": "x"}]
    reply = reply_to("chat", stream(chunk({"content": parts}), chunk({}, 0, "stop")))
    assert [call.name for call in calls(reply)] == ["read_file"]
    assert len(notes_of(reply)) == 2


class Refusing:
    """Refuses requests with the sentence that a function returns for them."""

    def __init__(self, wire: str, *sentences: str) -> None:
        self.sentences, self.wire = list(sentences), wire
        self.bodies: list[Json] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.bodies.append(json.loads(request.content))
        if self.sentences:
            return answer(json.dumps({"error": {"message": self.sentences.pop(0)}}).encode(), 0, 400)
        return answer(stream(chunk({"content": "hello"}), chunk({}, 0, "stop")) if self.wire == "chat" else response())


def test_each_field_that_a_server_refuses_is_noted() -> None:
    refusing = Refusing("chat", "Unknown parameter: 'stream_options'", "parallel_tool_calls is not supported")
    with model_of("chat", refusing) as model:
        first, second = model.reply(asking(user("Do it."))), model.reply(asking(user("Do it.")))
    assert [note.partition(",")[0] for note in notes_of(first)] == [
        "sent the request without stream_options", "sent the request without parallel_tool_calls",
    ]  # fmt: skip
    assert second.mended is UNSET
    assert len(refusing.bodies) == 4


def test_a_change_that_would_not_change_the_request_is_not_sent() -> None:
    refusing = Refusing("chat", *["reasoning_content: unexpected field"] * 5)
    with model_of("chat", refusing) as model:
        outcome = model.reply(asking(user("Do it.")))
    assert isinstance(outcome, ModelFailed)
    assert len(refusing.bodies) == 1
    assert notes_of(outcome) == []


def test_tools_are_described_in_the_prompt_only_of_chat_completions() -> None:
    refusing = Refusing("responses", *["a-model does not support tools"] * 5)
    with model_of("responses", refusing) as model:
        outcome = model.reply(conversation("responses", calls=0))
    assert isinstance(outcome, ModelFailed)
    assert "does not support tools" in outcome.detail
