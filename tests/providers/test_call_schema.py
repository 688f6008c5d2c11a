"""Replies that must be a call are constrained by a schema of the tools, if the server can and the model needs it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import ToolCall, ToolSpec
from stackmem.core.requests import AskModel
from stackmem.memory import STRATEGIES, open_strategy
from stackmem.models.asked import Asked
from stackmem.models.endpoint import Endpoint
from stackmem.providers.calls.call_schema import call_schema, was_cut
from stackmem.providers.openai import OpenAIModel
from tests.build import started

from .chat_server import ChatServer, Refusal, call_piece, chunks
from .views import READ_FILE, user, view

ASK = AskModel(view(user("Read a."), tools=(READ_FILE,)), 1, 0)
TEXT = chunks({"content": '{"name": "read_file", "arguments": {"path": "a"}}'})
PROSE = chunks({"content": "I would read it."})
NATIVE = chunks(call_piece('{"path": "a"}', id="c", name="read_file"), finish="tool_calls")
THOUGHT = chunks({"reasoning_content": "Hm."}, {"content": "I would read it."})


def sent(server: ChatServer, requests: int, ask: AskModel = ASK, **asked: Any) -> list[bool]:
    """Return whether each request contained a schema."""
    model = OpenAIModel("m", Endpoint(f"{server.url}/v1", "k"), asked=Asked(**asked))
    for _ in range(requests):
        assert isinstance(model.reply(ask), ModelReplied)
    return ["response_format" in body for body in server.bodies]


@pytest.mark.parametrize(
    ("first", "expected"),
    [(PROSE, [False, True]), (TEXT, [False, True]), (NATIVE, [False, False]), (THOUGHT, [False, False])],
)
def test_a_model_that_writes_text_is_kept_to_a_schema_from_its_second_reply(first: bytes, expected: list[bool]) -> None:
    with ChatServer(first, TEXT) as server:
        assert sent(server, 2) == expected


def test_it_can_be_forced_and_switched_off() -> None:
    with ChatServer(TEXT, TEXT) as server:
        assert sent(server, 2, call_schema="on") == [True, True]
    with ChatServer(PROSE, TEXT) as server:
        assert sent(server, 2, call_schema="off") == [False, False]
    with ChatServer(PROSE, TEXT) as server:
        assert sent(server, 2, call_schema="on", text_calls="off") == [False, False]


@pytest.mark.parametrize("expects", ["any", "text"])
def test_a_reply_that_may_be_an_answer_is_never_kept_to_it(expects: Any) -> None:
    with ChatServer(PROSE, PROSE) as server:
        assert sent(server, 2, replace(ASK, expects=expects), call_schema="on") == [False, False]


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(400, "Cannot use custom grammar constraints with tools."),
        Refusal(422, "response_format: Extra inputs are not permitted"),
        Refusal(500, "failed to parse grammar"),
    ],
)
def test_a_server_that_refuses_it_is_asked_without_it_from_then_on(refusal: Refusal) -> None:
    with ChatServer(refusal, TEXT, TEXT) as server:
        assert sent(server, 2, call_schema="on") == [True, False, False]


def test_an_unrelated_fault_is_still_reported() -> None:
    broken = Refusal(400, "messages: too odd")
    with ChatServer(broken, broken) as server:
        answer = OpenAIModel("m", Endpoint(f"{server.url}/v1", "k"), asked=Asked(call_schema="on")).reply(ASK)
    assert isinstance(answer, ModelFailed)
    assert answer.detail == "HTTP 400: messages: too odd"


def test_a_string_that_ends_at_its_limit_is_not_a_call() -> None:
    long = chunks({"content": json.dumps({"name": "read_file", "arguments": {"path": "a" * 200}})})
    with ChatServer(long, long) as server:
        forced, free = (
            OpenAIModel("m", Endpoint(f"{server.url}/v1", "k"), asked=Asked(call_schema=mode)).reply(ASK)
            for mode in ("on", "off")
        )
    assert isinstance(forced, ModelReplied)
    assert isinstance(free, ModelReplied)
    assert (forced.stop, free.stop) == ("truncated", "call")


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_the_schema_of_every_strategy_names_its_tools_and_bounds_its_strings(strategy: str) -> None:
    tools = started(strategy).tools
    made = call_schema(tools)
    assert [one["properties"]["name"]["const"] for one in made["anyOf"]] == [tool.name for tool in tools]
    assert len(open_strategy(strategy).tools) == len(tools)
    unbounded = {name for name, schema in strings(made) if "maxLength" not in schema}
    assert unbounded <= {"content", "old_string", "new_string", "result", "context"}


def strings(schema: Any, name: str = "") -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(schema, dict):
        return []
    own = (
        [(name, schema)] if schema.get("type") == "string" and not {"enum", "const", "pattern"} & schema.keys() else []
    )
    inner = [
        *schema.get("properties", {}).items(),
        ("item", schema.get("items")),
        *(("", one) for one in schema.get("anyOf", ())),
    ]
    return own + [found for key, value in inner for found in strings(value, key)]


@pytest.mark.parametrize(
    "schema",
    ["", "{}", '{"type":"object","properties":7}', '{"properties":{"a":{"items":{"items":{"items":{}}}},"b":3}}'],
)
def test_a_tool_with_an_odd_schema_has_one(schema: str) -> None:
    tools = (ToolSpec("odd", "", schema),)
    assert call_schema(tools)["anyOf"][0]["properties"]["name"] == {"const": "odd"}
    assert not was_cut(ToolCall("c", "odd", {"a": "x" * 200}), tools)
    assert not was_cut(ToolCall("c", "other", None), tools)
