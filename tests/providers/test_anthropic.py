"""The Claude client against a strict server of the Messages API on loopback."""

from __future__ import annotations

import signal
import threading

import pytest
from msgspec import UNSET

from stackmem.core.budgets import Budgets
from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Message, Text, Thinking, ToolCall, ToolResult, Usage
from stackmem.core.tool_schemas import spec
from stackmem.memory import STRATEGIES, open_strategy
from stackmem.models.endpoint import Endpoint
from stackmem.providers.anthropic import AnthropicModel
from tests.build import slots

from .server import Answer, MessagesServer, calls, fails, says
from .views import LONG, asking, assistant, called, result, rolling, user


def client(server: MessagesServer, model: str = "claude-sonnet-5-5", **times: float) -> AnthropicModel:
    return AnthropicModel(model, Endpoint(server.url, server.key, **times))


def replied(answer: ModelReplied | ModelFailed) -> ModelReplied:
    assert isinstance(answer, ModelReplied), answer
    return answer


def failure(answer: ModelReplied | ModelFailed) -> ModelFailed:
    assert isinstance(answer, ModelFailed), answer
    return answer


def test_a_streamed_call_comes_back_with_its_arguments_parsed() -> None:
    with MessagesServer(calls("read_file", {"path": "späc.md", "line": 3})) as server:
        answer = replied(client(server).reply(asking()))
    assert answer.parts == (ToolCall("toolu_0001_0", "read_file", {"path": "späc.md", "line": 3}),)
    assert (answer.stop, answer.reply_id) == ("call", "msg_0001")
    assert answer.usage.prompt > 0
    assert not answer.usage.estimated


def test_every_request_asks_for_at_most_one_call_and_never_forces_one() -> None:
    with MessagesServer(says("hm")) as server:
        client(server).reply(asking())
        body = server.bodies[0]
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert [tool["strict"] for tool in body["tools"]] == [True]
    assert (body["max_tokens"], body["thinking"]["type"]) == (32_000, "adaptive")


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_the_tools_of_every_strategy_pass_as_strict_tools(strategy: str) -> None:
    kinds = open_strategy(strategy).tools
    tools = tuple(spec(kind, slots(Budgets())) for kind in kinds)
    with MessagesServer(says("ok")) as server:
        replied(client(server).reply(asking(tools=tools)))
        assert [tool["name"] for tool in server.bodies[0]["tools"]] == [tool.name for tool in tools]


def test_a_request_without_tools_asks_for_none() -> None:
    with MessagesServer(says("hm")) as server:
        replied(client(server).reply(asking(tools=(), system=" ")))
        assert server.bodies[0].keys().isdisjoint({"tools", "tool_choice", "system"})


def test_a_model_outside_the_table_is_asked_without_thinking() -> None:
    with MessagesServer(says("hm")) as server:
        client(server, "qwen-42").reply(asking())
    assert "thinking" not in server.bodies[0]


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("tool_use", "call"),
        ("max_tokens", "truncated"),
        ("model_context_window_exceeded", "window"),
        ("pause_turn", "paused"),
        ("refusal", "refused"),
        ("something_new", "end"),
    ],
)
def test_every_stop_reason_has_its_stop(reason: str, stop: str) -> None:
    with MessagesServer(says("so", stop_reason=reason)) as server:
        assert replied(client(server).reply(asking())).stop == stop


def test_a_refusal_says_what_the_provider_says_of_it() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "looks like an exploit"}
    with MessagesServer(Answer(stop_reason="refusal", stop_details=details)) as server:
        answer = replied(client(server).reply(asking()))
    assert (answer.stop, answer.parts, answer.detail) == ("refused", (), "cyber: looks like an exploit")


def test_an_empty_reply_has_no_parts() -> None:
    with MessagesServer(Answer(), says("")) as server:
        model = client(server)
        assert replied(model.reply(asking())).parts == ()
        assert replied(model.reply(asking())).parts == ()


@pytest.mark.parametrize("raw", ['{"path": ', "no JSON at all", '{"n": NaN}', "{" * 5_000, '{"n": 1e999}'])
def test_invalid_json_arguments_are_returned_unchanged(raw: str) -> None:
    block = {"type": "tool_use", "name": "read_file", "raw": raw}
    with MessagesServer(Answer((block,), stop_reason="tool_use")) as server:
        (call,) = replied(client(server).reply(asking())).parts
    assert call == ToolCall("toolu_0001_0", "read_file", None, raw)


def test_a_call_cut_off_by_the_output_limit_is_never_a_call_without_arguments() -> None:
    block = {"type": "tool_use", "name": "write_file", "raw": ""}
    with MessagesServer(Answer((block,), stop_reason="max_tokens")) as server:
        answer = replied(client(server).reply(asking()))
    assert answer.stop == "truncated"
    assert answer.parts == (ToolCall("toolu_0001_0", "write_file", None, ""),)


def test_the_server_accepts_what_was_malformed_when_it_is_sent_back() -> None:
    broken = assistant(ToolCall("toolu_1", "read_file", None, '{"path": '))
    listed = assistant(ToolCall("toolu_2", "bad name!", [1, 2]))
    history = (user("Do it."), broken, result(1, "no JSON", failed=True), listed, result(2, "an object, please"))
    with MessagesServer(says("sorry")) as server:
        replied(client(server).reply(asking(*history)))
    sent = [block for message in server.bodies[0]["messages"] for block in message["content"]]
    assert [block["input"] for block in sent if block["type"] == "tool_use"] == [
        {"malformed": '{"path": '},
        {"malformed": "[1, 2]"},
    ]
    assert [block.get("is_error") for block in sent if block["type"] == "tool_result"] == [True, None]


def test_thinking_goes_back_unchanged_and_its_signature_holds() -> None:
    redacted = Answer(({"type": "redacted_thinking"}, {"type": "text", "text": "on"}))
    with MessagesServer(
        calls("read_file", {"path": "a"}, thought="First “a”,\nthen b."), redacted, says("ok")
    ) as server:
        model = client(server)
        messages = [user("Do it.")]
        for number in range(2):
            answer = replied(model.reply(asking(*messages)))
            messages.append(Message("assistant", answer.parts))
            found = [part for part in answer.parts if isinstance(part, ToolCall)]
            messages.append(user(ToolResult(found[0].id, "text")) if found else user("go on"))
            assert isinstance(answer.parts[0], Thinking), number
        replied(model.reply(asking(*messages)))
        assert server.refused == []
        assert server.bodies[2]["messages"][1]["content"][0]["thinking"] == "First “a”,\nthen b."
        assert server.bodies[2]["messages"][3]["content"][0]["type"] == "redacted_thinking"


def test_an_edited_history_with_thinking_in_it_is_sent_once_more_without_the_thinking() -> None:
    with MessagesServer(calls("read_file", {"path": "a"}, thought="hm"), says("Done.")) as server:
        model = client(server)
        first = replied(model.reply(asking(user("Do it."))))
        edited = (user("Do that."), Message("assistant", first.parts), user(ToolResult("toolu_0001_1", "text")))
        answer = replied(model.reply(asking(*edited)))
    assert answer.mended is not UNSET
    assert "sent no thoughts back" in answer.mended[0]
    assert "bound to a different conversation" in answer.mended[0]


def test_cache_reads_and_writes_are_counted_by_time_to_live() -> None:
    with MessagesServer(says("1"), says("2")) as server:
        model = client(server)
        history = (user("constants " * 100),)
        first = replied(model.reply(rolling(*history))).usage
        longer = (*history, called(1), result(1, "content " * 400))
        second = replied(model.reply(rolling(*longer))).usage
    assert (first.cache_read, first.cache_write_5m, first.uncached) == (0, 0, 0)
    assert first.cache_write_1h > 512
    assert second.cache_read == first.cache_write_1h
    assert (second.cache_write_1h, second.uncached) == (0, 0)
    assert second.cache_write_5m > 700


def test_a_growing_conversation_is_read_from_the_cache_up_to_its_last_turn() -> None:
    history = [user("constants " * 100)]
    with MessagesServer(*(says(str(n)) for n in range(12))) as server:
        model = client(server)
        prompts = []
        for number in range(12):
            usage = replied(model.reply(rolling(*history))).usage
            assert number == 0 or usage.cache_read == prompts[-1], number
            prompts.append(usage.prompt)
            history += [called(number), result(number, "line\n" * 50)]


def test_equal_views_are_sent_as_equal_bytes_and_a_longer_one_keeps_the_earlier_messages() -> None:
    with MessagesServer(says("1"), says("2"), says("3")) as server:
        short, long = asking(user("Do it.")), asking(user("Do it."), called(1), result(1))
        for model, request in ((client(server), short), (client(server), short), (client(server), long)):
            model.reply(request)
        first, again, longer = server.raw
    assert first == again
    assert longer.startswith(first[: first.index(b'],"model":')])


def test_lone_surrogates_and_control_characters_anywhere_are_sent_as_valid_utf8() -> None:
    bad = "a\ud800b\x00\u2028"
    request = asking(user(bad), assistant(ToolCall("toolu_1", bad, {bad: [bad]})), result(1, bad), system=bad)
    with MessagesServer(says("fine")) as server:
        replied(client(server).reply(request))
    assert server.bodies[0]["system"][0]["text"] == "a\ufffdb\x00\u2028"


def test_split_surrogates_of_a_reply_are_joined_and_lone_ones_replaced() -> None:
    stream = (
        'data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":3}}}\n\n'
        'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
        'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\ud83d"}}\n\n'
        'data: {"type":"content_block_delta","index":0,'
        '"delta":{"type":"text_delta","text":"\\ude00\\ud800 \u2028"}}\n\n'
        'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}\n\n'
        'data: {"type":"message_stop"}\n\n'
    )
    with MessagesServer(Answer(bytes=stream.encode())) as server:
        answer = replied(client(server).reply(asking()))
    assert answer.parts == (Text("\U0001f600\ufffd \u2028"),)
    assert answer.usage == Usage(uncached=3, output=5)


def test_a_server_that_reports_no_usage_is_estimated_and_says_so() -> None:
    stream = (
        'data: {"type":"message_start","message":{"id":"m"}}\n\n'
        'data: {"type":"content_block_start","index":0,'
        '"content_block":{"type":"tool_use","id":"t","name":"x","input":{"a":1}}}\n\n'
        'data: {"type":"message_delta","delta":{"stop_reason":"tool_use"}}\n\n'
        'data: {"type":"message_stop"}\n\n'
    )
    with MessagesServer(Answer(bytes=stream.encode())) as server:
        answer = replied(client(server).reply(asking(user("x" * 1_000))))
    assert answer.parts == (ToolCall("t", "x", {"a": 1}),)
    assert answer.usage.estimated
    assert 400 < answer.usage.prompt < 600


def test_ctrl_c_ends_a_waiting_request_at_once() -> None:
    with MessagesServer(says("fast"), says("slow", pause_seconds=1_000)) as server:
        model = client(server)
        model.reply(asking())
        threading.Timer(0.3, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            model.reply(asking())


def test_a_system_prompt_and_a_first_message_are_cached_for_an_hour() -> None:
    with MessagesServer(says("1")) as server:
        client(server).reply(rolling(user("constants"), called(1), result(1), called(2), result(2)))
    body = server.bodies[0]
    assert body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    marks = [
        (i, b["cache_control"]["ttl"])
        for i, m in enumerate(body["messages"])
        for b in m["content"]
        if "cache_control" in b
    ]
    assert marks == [(0, "1h"), (2, "5m"), (4, "5m")]
    assert body["system"][0]["text"] == LONG


def test_a_failure_with_status_leaves_the_model_usable() -> None:
    with MessagesServer(fails(529, "overloaded_error"), says("back")) as server:
        model = client(server)
        assert failure(model.reply(asking())).kind == "overloaded"
        assert replied(model.reply(asking())).parts == (Text("back"),)
