"""The text counted for cost is the text that the adapters send."""

from __future__ import annotations

import json

import pytest

from stackmem.core.log import Log
from stackmem.core.messages import Message, Text, ToolCall, ToolResult, ToolSpec, View
from stackmem.core.strategy import budgets_of
from stackmem.core.tool_schemas import spec
from stackmem.memory import open_strategy
from stackmem.providers.calls.text_calls import as_text
from stackmem.providers.gemini_messages import declaration
from stackmem.providers.openai_messages import chat_body
from stackmem.providers.openai_responses import responses_body
from stackmem.review.kept.sent import sent_text, wire_of
from stackmem.review.measure.prefix import PromptBlock
from tests.build import started

ODD = 'line one\n"quoted" {braces} \\ and 漢字'
WIRES = ["anthropic", "openai", "responses", "gemini", "text"]


def tools_of(name: str) -> tuple[ToolSpec, ...]:
    start = started(name)
    slots = {
        key: str(getattr(budgets_of(open_strategy(name), start.budgets), key))
        for key in start.budgets.__struct_fields__
    }
    return tuple(spec(tool, {**slots, "command_seconds": "60"}) for tool in open_strategy(name).tools)


def view(*, tools: tuple[ToolSpec, ...] = ()) -> View:
    call = ToolCall("call_1", "read_file", {"path": "a.py", "id": "kept"})
    messages = (
        Message("user", (Text(ODD),)),
        Message("assistant", (Text("I look."), call)),
        Message("user", (ToolResult("call_1", ODD),)),
    )
    return View("Be brief.", tools, Log(messages))


@pytest.mark.parametrize("strategy", ["full", "adaptive", "stackheap"])
def test_a_tool_is_counted_as_its_wire_spells_it(strategy: str) -> None:
    tools = tools_of(strategy)
    counted = {wire: [sent_text(wire, PromptBlock("tool", tool)) for tool in tools] for wire in WIRES}
    chat, responses = chat_body(view(tools=tools), "m"), responses_body(view(tools=tools), "m")
    assert [json.loads(text) for text in counted["openai"]] == chat["tools"]
    assert [json.loads(text) for text in counted["responses"]] == responses["tools"]
    assert [json.loads(text) for text in counted["gemini"]] == [declaration(tool) for tool in tools]
    prompt = as_text(chat)["messages"][0]["content"]
    assert all(text in prompt for text in counted["text"])


def test_fields_that_are_spelled_in_words_are_counted_as_the_schema_that_is_sent() -> None:
    push = next(tool for tool in tools_of("adaptive") if tool.name == "push_frame")
    assert push.schema == '{"type":"object"}'
    sent = json.loads(sent_text("openai", PromptBlock("tool", push)))["function"]["parameters"]
    assert {"name", "objective"} <= sent["properties"].keys()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("part", [Text(ODD), ToolResult("call_1", ODD), ToolCall("call_1", "read_file", {"text": ODD})])
def test_a_block_is_counted_with_its_text_as_it_is(wire: str, part) -> None:
    place = "assistant" if isinstance(part, ToolCall) else "user"
    text = sent_text(wire, PromptBlock(place, part))
    if isinstance(part, ToolCall):
        assert "read_file" in text
        assert json.dumps(ODD, ensure_ascii=wire == "text") in text
    elif wire == "gemini" and isinstance(part, ToolResult):
        assert json.dumps(ODD, ensure_ascii=False) in text
    else:
        assert ODD in text
    assert "call_1" not in text


def test_arguments_that_are_called_like_a_field_of_the_protocol_count() -> None:
    call = ToolCall("call_1", "find", {"id": "kept", "type": "kept too"})
    for wire in WIRES:
        text = sent_text(wire, PromptBlock("assistant", call))
        assert '"kept"' in text, wire
        assert '"kept too"' in text, wire


def test_a_text_that_cannot_be_encoded_is_still_counted() -> None:
    for wire in WIRES:
        if wire != "anthropic":
            sent_text(wire, PromptBlock("user", Text("half \ud800"))).encode()


@pytest.mark.parametrize(
    ("model", "wire"),
    [
        ("anthropic/claude-sonnet-5-5", "anthropic"), ("claude-haiku-4-5", "anthropic"), ("openai/gpt-5", "openai"),
        ("responses/gpt-6.1-sol", "responses"), ("gemini/gemini-3-pro", "gemini"), ("llamacpp/qwen", "openai"),
        ("demo", "openai"),
    ],
)  # fmt: skip
def test_the_name_of_a_model_says_its_wire(model: str, wire: str) -> None:
    assert wire_of(model) == wire
