"""Both clients against the third-party server @copilotkit/aimock, with the fixtures in ``aimock.json``."""

from __future__ import annotations

import pytest

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Message, Text, Thinking, ToolCall, ToolResult, Usage
from stackmem.models.registry import Model, open_model

from .views import asking, user

BOTH = pytest.mark.parametrize("name", ["claude-sonnet-5-5", "openai/local"])


def client(name: str, address: str) -> Model:
    return open_model(name, {"ANTHROPIC_BASE_URL": address, "OPENAI_BASE_URL": address})


def replied(model: Model, *messages: Message | str) -> ModelReplied:
    answer = model.reply(asking(*(user(one) if isinstance(one, str) else one for one in messages)))
    assert isinstance(answer, ModelReplied), answer
    return answer


def failure(model: Model, text: str) -> ModelFailed:
    answer = model.reply(asking(user(text)))
    assert isinstance(answer, ModelFailed), answer
    return answer


@BOTH
def test_text_is_streamed_and_put_together(name: str, aimock: str) -> None:
    answer = replied(client(name, aimock), "say hello")
    assert (answer.parts, answer.stop) == ((Text("Hello, wörld. \U0001f600"),), "end")


@BOTH
def test_a_call_and_its_result_go_round(name: str, aimock: str) -> None:
    model = client(name, aimock)
    first = replied(model, "read a file")
    assert first.parts == (ToolCall("toolu_one", "read_file", {"path": "spec.md", "line": 3}),)
    assert first.stop == "call"
    then = replied(model, "read a file", Message("assistant", first.parts), user(ToolResult("toolu_one", "evaluate()")))
    assert then.parts == (Text("It says evaluate."),)


@BOTH
def test_text_before_a_call_keeps_its_place(name: str, aimock: str) -> None:
    text, call = replied(client(name, aimock), "say and call").parts
    assert text == Text("Let me look.")
    assert isinstance(call, ToolCall)
    assert call.arguments == {"path": "b"}


@BOTH
def test_two_calls_in_one_reply_are_both_reported(name: str, aimock: str) -> None:
    calls = [part for part in replied(client(name, aimock), "two calls").parts if isinstance(part, ToolCall)]
    assert [call.arguments["path"] for call in calls] == ["a", "b"]
    assert calls[0].id != calls[1].id


@BOTH
def test_thinking_precedes_its_call(name: str, aimock: str) -> None:
    thought, call = replied(client(name, aimock), "think first").parts
    assert isinstance(thought, Thinking)
    assert thought.raw["thinking"] == "First I look."
    assert isinstance(call, ToolCall)


def test_signed_and_redacted_thinking_come_back_as_they_were_sent(aimock: str) -> None:
    model = client("claude-sonnet-5-5", aimock)
    signed = replied(model, "think first").parts[0]
    redacted = replied(model, "think in secret").parts[0]
    assert signed == Thinking({"type": "thinking", "thinking": "First I look.", "signature": "c2lnbmVk"})
    assert redacted == Thinking({"type": "redacted_thinking", "data": "b3BhcXVl"})


@BOTH
@pytest.mark.parametrize(("asked", "stop"), [("stop at the limit", "truncated"), ("refuse this", "refused")])
def test_a_reply_that_stopped_early_says_why(name: str, asked: str, stop: str, aimock: str) -> None:
    assert replied(client(name, aimock), asked).stop == stop


@BOTH
def test_usage_is_what_the_server_reports(name: str, aimock: str) -> None:
    assert replied(client(name, aimock), "count this").usage == Usage(uncached=123, output=45)


@BOTH
@pytest.mark.parametrize(
    ("asked", "kind", "wait"),
    [
        ("too many requests", "rate_limited", 7.0),
        ("overloaded", "overloaded", None),
        ("bad gateway", "server_error", None),
        ("bad request", "rejected", None),
        ("chaos drop", "server_error", None),
        ("chaos malformed", "incomplete", None),
        ("chaos disconnect", "connection", None),
        ("chaos rate limit", "rate_limited", 1.0),
        ("cut off", "connection", None),
        ("hang up", "connection", None),
    ],
)
def test_each_fault_is_a_fact_of_its_kind(name: str, asked: str, kind: str, wait: float | None, aimock: str) -> None:
    answer = failure(client(name, aimock), asked)
    assert (answer.kind, answer.retry_after_seconds) == (kind, wait)
