"""User options for the provider's requests, and calls in the text of a model without native ones."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelReplied, RunEnded
from stackmem.core.log import Log
from stackmem.core.messages import Text, ToolCall, Usage, View
from stackmem.core.requests import AskModel
from stackmem.core.tool_schemas import spec
from stackmem.core.tools import ListFiles, ReadFile
from stackmem.models.asked import Asked, read_headers, read_temperature
from stackmem.models.registry import open_model
from stackmem.providers.calls.text_calls import with_calls
from tests.contracts.test_runs_over_http import run
from tests.providers.chat_server import ChatServer, call_piece, chunks
from tests.providers.server import MessagesServer, says
from tests.providers.views import asking
from tests.stage import Stage, pop

ASKED = Asked(temperature=0.0, effort="high", service_tier="flex", headers={"X-Team": "blue"})


def test_only_chosen_options_are_sent_to_chat_completions() -> None:
    with ChatServer(chunks({"content": "1"}), chunks({"content": "2"})) as server:
        for asked in (ASKED, Asked()):
            open_model("openai/qwen", {}, base_url=server.url, asked=asked).reply(asking())
        names = ("temperature", "reasoning_effort", "service_tier")
        assert [[body.get(name) for name in names] for body in server.bodies] == [[0.0, "high", "flex"], [None] * 3]
        assert [headers.get("x-team") for headers in server.headers] == ["blue", None]


def test_chosen_options_are_sent_to_the_messages_api() -> None:
    with MessagesServer(says("hi")) as server:
        asked = replace(ASKED, temperature=None)
        open_model("claude-sonnet-5-5", server.environ, asked=asked).reply(asking())
        (body,) = server.bodies
        assert server.headers[0]["x-team"] == "blue"
    assert body["service_tier"] == "flex"
    assert body["output_config"] == {"effort": "high"}


def test_a_header_that_is_a_secret_is_read_from_its_variable_and_kept_nowhere(stage: Stage) -> None:
    done = chunks(call_piece('{"result": "Done."}', id="c", name="pop_frame"), finish="tool_calls")
    with ChatServer(done, done) as server:  # the first attempt to end a checked run is refused
        address = ("--model", "openai/m", "--base-url", server.url, "--headers", "api-key=$TEAM_PASS")
        ran = stage.call("solve", stage.task(pop()), *address, env={"TEAM_PASS": "hunter2-hunter2"})
        assert server.headers[0]["api-key"] == "hunter2-hunter2"
    assert ran.returncode == 0, ran.stderr
    for path in stage.only_run().rglob("*"):
        assert not path.is_file() or b"hunter2" not in path.read_bytes(), path.name


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("X-Team", "write NAME=VALUE"),
        ("=x", "write NAME=VALUE"),
        ("X Team=1", "write NAME=VALUE"),
        ("Host=elsewhere", "cannot be set"),
        ("Authorization=Bearer x", r"write Authorization=\$VARIABLE"),
        ("X-Team=$NOT_SET", "'NOT_SET', which is not set"),
        ("X-Team=a\r\nX-Other: b", "printable ASCII"),
    ],
)
def test_a_header_that_is_none_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_headers((text,), {})


@pytest.mark.parametrize("text", ["hot", "nan", "-1", "2.1", ""])
def test_a_temperature_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="from 0 to 2"):
        read_temperature(text)
    assert read_temperature("0.7") == 0.7


def spoken(text: str) -> bytes:
    return chunks({"content": text})


def test_a_run_of_a_model_without_calls_ends_well_and_never_sends_tools() -> None:
    def fault(body: dict[str, Any]) -> str | None:
        roles = {message["role"] for message in body["messages"]}
        calls = any("tool_calls" in message for message in body["messages"])
        return (
            "this model does not support tools"
            if calls or "tools" in body or roles - {"system", "user", "assistant"}
            else None
        )

    answers = (
        spoken('I read first.\n<tool_call>\n{"name": "read_file", "arguments": {"path": "spec.md"}}\n</tool_call>'),
        spoken('<tool_call>{"name": "read_file", "arguments": {"path": '),
        spoken('<tool_call>{"name": "pop_frame", "parameters": {"result": "done"}}'),
    )
    with ChatServer(*answers, fault=fault) as server:
        facts = run(open_model("openai/old", {}, base_url=server.url, asked=Asked(text_calls="prompt")), "stackheap")
        assert server.refused == []
        first, second, third = (body["messages"] for body in server.bodies)
    assert [event.ending for event in facts if isinstance(event, RunEnded)] == ["popped"]
    assert '"name": "read_file"' in first[0]["content"]
    assert second[-2]["content"].endswith(
        '<tool_call>\n{"name": "read_file", "arguments": {"path": "spec.md"}}\n</tool_call>'
    )
    assert second[-1]["content"].startswith("<tool_response>\na long specification")
    assert "bad_arguments" in third[-1]["content"] or "JSON" in third[-1]["content"]


def asked_of(expects: str = "call") -> AskModel:
    tools = (spec(ReadFile, {}), spec(ListFiles, {}))
    return AskModel(View("", tools, Log([])), step=4, facts=3, expects=expects)


def test_calls_are_read_from_the_text_and_the_words_before_them_stay() -> None:
    text = 'One.\n<tool_call>{"name": "read_file", "arguments": {"path": "a", "start_line": "3"}}</tool_call>'
    reply = with_calls(ModelReplied((Text(text),), "end", Usage()), asked_of())
    assert reply.stop == "call"
    assert reply.parts == (Text("One."), ToolCall("call_3_0", "read_file", {"path": "a", "start_line": 3}))
    assert reply.repairs == ("read a call from the text, written as JSON", "read start_line '3' as 3")


def test_native_calls_and_texts_that_were_asked_for_are_not_searched() -> None:
    text = '<tool_call>{"name": "read_file", "arguments": {"path": "a"}}</tool_call>'
    own = ModelReplied((Text(text), ToolCall("c", "list_files", {})), "call", Usage())
    assert with_calls(own, asked_of()) is own
    summary = ModelReplied((Text(text),), "end", Usage())
    assert with_calls(summary, asked_of("text")) is summary


@pytest.mark.parametrize(
    ("given", "mended"),
    [
        ({"path": "a", "type": "object", "required": ["path"]}, {"path": "a"}),
        ({"type": "object", "properties": {"path": "a"}, "required": ["path"]}, {"path": "a"}),
        ({"properties": {"path": {"type": "string", "value": "a"}}}, {"path": "a"}),
        ({"path": "a", "start_line": 2.0, "end_line": "4"}, {"path": "a", "start_line": 2, "end_line": 4}),
        ({"path": "a", "start_line": "two"}, {"path": "a", "start_line": "two"}),
        ({"path": "a", "start_line": 2.5}, {"path": "a", "start_line": 2.5}),
        ({"file_path": "a", "type": "object"}, {"file_path": "a", "type": "object"}),
        ({"path": ["a"]}, {"path": ["a"]}),
    ],
)
def test_arguments_are_mended_only_if_they_have_one_meaning(given, mended) -> None:
    call = ToolCall("c", "read_file", given)
    reply = with_calls(ModelReplied((call,), "call", Usage()), asked_of())
    assert reply.parts[0].arguments == mended
    assert (reply.repairs is UNSET) == (given == mended)
