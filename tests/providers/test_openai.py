"""The Chat Completions client: its requests, and how it reads server responses."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Text, Thinking, ToolCall, ToolResult, Usage
from stackmem.models.registry import open_model
from stackmem.providers.openai_messages import chat_body
from stackmem.providers.openai_stream import read_chat

from .chat_server import ChatServer, Refusal, call_piece, chunks
from .views import asking, assistant, called, result, user, view


def read(stream: bytes) -> ModelReplied | ModelFailed:
    """Parse a reply's stream without a server."""
    return read_chat((event[6:] for event in stream.decode().split("\n\n") if event), facts=4)


def replied(stream: bytes) -> ModelReplied:
    answer = read(stream)
    assert isinstance(answer, ModelReplied), answer
    return answer


def messages(*given: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = chat_body(view(*given), "m")["messages"]
    return found


def test_a_conversation_is_spelled_with_a_message_for_each_result() -> None:
    two = assistant("Both:", ToolCall("a", "read_file", {"path": "é"}), ToolCall("b", "read_file", {"path": "y"}))
    results = user(ToolResult("a", "1"), ToolResult("b", "2"), "one call", "per reply")
    assert messages(user("Do it.", "Now."), two, results) == [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "Do it.\n\nNow."},
        {
            "role": "assistant",
            "content": "Both:",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "é"}'}},
                {"id": "b", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "y"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "user", "content": "one call\n\nper reply"},
    ]


def test_arguments_are_always_sent_as_one_json_object() -> None:
    history = (
        user("go"),
        assistant(ToolCall("a", "x", None, '{"path": ')),
        result(1),
        assistant(ToolCall("b", "x", [1])),
        result(2),
        assistant(ToolCall("c", "x", {"lone": "\ud800"})),
        result(3),
    )
    sent = [call["function"]["arguments"] for one in messages(*history) for call in one.get("tool_calls", [])]
    assert [json.loads(text) for text in sent] == [
        {"malformed": '{"path": '},
        {"malformed": "[1]"},
        {"lone": "\ufffd"},
    ]


def test_thoughts_of_another_kind_of_provider_are_not_sent_back_and_leave_no_empty_message() -> None:
    thought = assistant(Thinking({"type": "thinking", "thinking": "hm", "signature": "x"}))
    assert messages(user("go"), thought, user("on"))[2] == {"role": "assistant", "content": "(no text)"}


def test_equal_views_are_equal_bodies_in_equal_order() -> None:
    first, again = (json.dumps(chat_body(view(user("a"), called(1), result(1)), "m")) for _ in range(2))
    assert first == again


def test_one_call_at_most_is_asked_for_and_usage_in_the_stream() -> None:
    with ChatServer(chunks({"content": "hi"}, usage={"prompt_tokens": 7, "completion_tokens": 2})) as server:
        answer = open_model("openai/qwen", {}, base_url=server.url).reply(asking())
        (body,) = server.bodies
    assert (body["parallel_tool_calls"], body["tool_choice"], body["stream"]) == (False, "auto", True)
    assert body["stream_options"] == {"include_usage": True}
    assert isinstance(answer, ModelReplied)
    assert answer.usage == Usage(uncached=7, output=2)


def test_a_seed_is_sent_where_one_was_given_and_only_there() -> None:
    with ChatServer(chunks({"content": "1"}), chunks({"content": "2"})) as server:
        for seed in (7, None):
            open_model("openai/qwen", {}, base_url=server.url, seed=seed).reply(asking())
        assert [body.get("seed") for body in server.bodies] == [7, None]


def test_a_field_that_the_server_does_not_know_is_dropped_and_stays_dropped() -> None:
    unknown = ("parallel_tool_calls", "stream_options")
    with ChatServer(chunks({"content": "1"}), chunks({"content": "2"}), unknown=unknown) as server:
        model = open_model("openai/qwen", {}, base_url=server.url)
        answers = [model.reply(asking()) for _ in range(2)]
        assert [len(body.keys() & set(unknown)) for body in server.bodies] == [2, 1, 0, 0]
    assert all(isinstance(answer, ModelReplied) and answer.usage.estimated for answer in answers)


def test_a_field_it_keeps_refusing_ends_in_a_failure() -> None:
    refusals = [Refusal(400, f"max_completion_tokens is bad: {n}") for n in range(5)]
    with ChatServer(*refusals) as server:
        answer = open_model("openai/qwen", {}, base_url=server.url).reply(asking())
        assert len(server.bodies) == 2
    assert isinstance(answer, ModelFailed)
    assert answer.kind == "rejected"


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (Refusal(400, "This model's maximum context length is 4096 tokens"), "window"),
        (Refusal(400, "the request exceeds the available context size, try increasing it"), "window"),
        (Refusal(429, "You exceeded your current quota", "insufficient_quota"), "spend_limit"),
        (Refusal(401, "Incorrect API key provided"), "authentication"),
        (Refusal(503, "no slot is free"), "server_error"),
    ],
)
def test_what_local_and_remote_servers_refuse_has_its_kind(refusal: Refusal, kind: str) -> None:
    with ChatServer(refusal) as server:
        answer = open_model("openai/qwen", {}, base_url=server.url).reply(asking())
    assert isinstance(answer, ModelFailed)
    assert (answer.kind, answer.detail) == (kind, f"HTTP {refusal.status}: {refusal.message}")


def test_a_server_on_this_machine_needs_no_key_and_gets_the_one_that_is_set() -> None:
    with ChatServer(chunks({"content": "1"}), chunks({"content": "2"})) as server:
        open_model("openai/qwen", {}, base_url=f"{server.url}/v1").reply(asking())
        open_model("openai/qwen", {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": server.url}).reply(asking())
        assert server.keys == ["Bearer unused", "Bearer sk-1"]


def test_pieces_of_a_call_are_joined() -> None:
    stream = chunks(
        call_piece("", id="c7", name="read_file"), call_piece('{"pa'), call_piece('th": "a"}'), finish="tool_calls"
    )
    answer = replied(stream)
    assert (answer.parts, answer.stop) == ((ToolCall("c7", "read_file", {"path": "a"}),), "call")


def test_calls_without_numbers_ids_or_the_right_finish_reason_are_still_calls() -> None:
    stream = chunks(
        call_piece({"path": "a"}, index=None, name="read_file", id="x"),
        call_piece('{"path": "b"}', index=None, name="read_file", id="y"),
        finish="stop",
    )
    answer = replied(stream)
    assert answer.stop == "call"
    assert [part.arguments for part in answer.parts if isinstance(part, ToolCall)] == [{"path": "a"}, {"path": "b"}]
    (nameless,) = replied(chunks(call_piece("{}", name="list_files"), finish="tool_calls")).parts
    assert nameless == ToolCall("call_4_0", "list_files", {})


def test_a_call_cut_off_before_its_arguments_is_malformed() -> None:
    assert replied(chunks(call_piece("", id="c", name="x"), finish="length")).parts == (ToolCall("c", "x", None, ""),)


def test_thoughts_text_and_refusals_are_distinguished() -> None:
    for field in ("reasoning_content", "reasoning"):
        answer = replied(chunks({field: "so "}, {field: "then"}, {"content": "yes"}))
        thought = {"type": "reasoning_content", "thinking": "so then"}
        came_in = {} if field == "reasoning_content" else {"field": field}
        assert answer.parts == (Thinking({**thought, **came_in}), Text("yes"))
    refused = replied(chunks({"refusal": "I will not."}))
    assert (refused.stop, refused.detail, refused.parts) == ("refused", "I will not.", ())


def test_cached_tokens_are_reads() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 80}}
    assert replied(chunks({"content": "x"}, usage=usage)).usage == Usage(uncached=20, cache_read=80, output=5)


@pytest.mark.parametrize(
    "stream",
    [
        chunks({"content": "half"}, finish=None),
        b"",
        b"data: nonsense\n\n",
        b'data: {"choices": [{"delta": {"content": 7}}]}\n\n',
        b'data: {"choices": "x"}\n\n',
    ],
)
def test_a_partial_reply_is_incomplete(stream: bytes) -> None:
    answer = read(stream)
    assert isinstance(answer, ModelFailed)
    assert answer.kind == "incomplete"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "boom", "code": 503}, "server_error"),
        ({"message": "slow", "code": 429}, "rate_limited"),
        ({"message": "boom", "type": "server_error"}, "server_error"),
        ("out of memory", "server_error"),
    ],
)
def test_an_error_in_mid_stream_has_its_kind(error: object, kind: str) -> None:
    answer = read(b'data: {"choices": [{"delta": {"content": "x"}}]}\n\ndata: ' + json.dumps({"error": error}).encode())
    assert isinstance(answer, ModelFailed)
    assert answer.kind == kind


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)  # as in an interpreter without the package
    with pytest.raises(UsageError, match=r"python\S* -m pip install -e '?\S+\[openai\]'?$"):
        open_model("openai/qwen", {}, base_url="http://127.0.0.1:1")
