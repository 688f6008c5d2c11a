"""Each failure between stackmem and a provider becomes the right fact."""

from __future__ import annotations

import socket
import time
from email.utils import formatdate

import pytest

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.models.endpoint import Endpoint
from stackmem.providers.anthropic import AnthropicModel

from .server import Answer, MessagesServer, calls, fails, says
from .views import asking, user


def ask(server: MessagesServer, key: str | None = None, **times: float) -> ModelReplied | ModelFailed:
    model = AnthropicModel("claude-sonnet-5-5", Endpoint(server.url, key or server.key, **times))
    return model.reply(asking())


def failure(answer: ModelReplied | ModelFailed) -> ModelFailed:
    assert isinstance(answer, ModelFailed), answer
    return answer


@pytest.mark.parametrize(
    ("status", "error_type", "kind"),
    [
        (400, "invalid_request_error", "rejected"),
        (402, "billing_error", "spend_limit"),
        (403, "permission_error", "authentication"),
        (404, "not_found_error", "rejected"),
        (408, "timeout_error", "timeout"),
        (409, "conflict_error", "server_error"),
        (413, "request_too_large", "rejected"),
        (422, "invalid_request_error", "rejected"),
        (429, "rate_limit_error", "rate_limited"),
        (500, "api_error", "server_error"),
        (502, "api_error", "server_error"),
        (503, "api_error", "server_error"),
        (504, "timeout_error", "timeout"),
        (529, "overloaded_error", "overloaded"),
    ],
)
def test_each_status_is_one_attempt_and_its_kind(status: int, error_type: str, kind: str) -> None:
    with MessagesServer(fails(status, error_type), says("a second attempt")) as server:
        answer = failure(ask(server))
        assert len(server.bodies) == 1
    assert (answer.kind, answer.detail) == (kind, f"HTTP {status}: no")


@pytest.mark.parametrize("code", ["enforced_spend_limit_reached", "contract_spend_limit_reached"])
def test_a_spend_limit_looks_like_a_rate_limit_and_is_hopeless(code: str) -> None:
    limit = fails(429, "rate_limit_error", "limit reached", {"retry-after": "9"}, details={"error_code": code})
    with MessagesServer(limit) as server:
        assert failure(ask(server)).kind == "spend_limit"


def test_an_empty_account_is_a_spend_limit_although_it_is_a_bad_request() -> None:
    with MessagesServer(fails(400, "invalid_request_error", "Your credit balance is too low to …")) as server:
        assert failure(ask(server)).kind == "spend_limit"


@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 1000123 tokens > 1000000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
    ],
)
def test_a_prompt_over_the_window_differs_from_other_bad_requests(message: str) -> None:
    with MessagesServer(fails(400, "invalid_request_error", message)) as server:
        assert failure(ask(server)).kind == "window"


def test_a_refused_key_is_not_in_the_detail() -> None:
    with MessagesServer() as server:
        answer = failure(ask(server, key="sk-ant-somebody-elses"))
    assert answer.kind == "authentication"
    assert "[key]" in answer.detail
    assert "somebody" not in answer.detail


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "999999999"}, 999_999_999.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_each_form(headers: dict[str, str], seconds: float | None) -> None:
    with MessagesServer(fails(429, "rate_limit_error", headers=headers)) as server:
        assert failure(ask(server)).retry_after_seconds == seconds


def test_a_date_to_wait_for_becomes_seconds_from_now() -> None:
    headers = {"retry-after": formatdate(time.time() + 30, usegmt=True)}
    with MessagesServer(fails(429, "rate_limit_error", headers=headers)) as server:
        seconds = failure(ask(server)).retry_after_seconds
    assert seconds is not None
    assert 20 < seconds <= 30


@pytest.mark.parametrize("count", range(1, 9))
def test_a_stream_that_ends_early_is_never_a_reply(count: int) -> None:
    whole = calls("read_file", {"path": "a"}, break_after=count)
    with MessagesServer(whole) as server:
        assert failure(ask(server)).kind == "incomplete"


def test_a_stream_without_a_stop_reason_is_not_a_reply() -> None:
    with MessagesServer(says("half", stop_reason=None)) as server:
        assert failure(ask(server)).kind == "incomplete"


def test_a_connection_that_breaks_in_mid_stream_is_a_connection_failure() -> None:
    with MessagesServer(says("half", break_after=4, break_by="reset")) as server:
        assert failure(ask(server)).kind == "connection"


@pytest.mark.parametrize(
    ("error_type", "kind"),
    [
        ("overloaded_error", "overloaded"),
        ("api_error", "server_error"),
        ("rate_limit_error", "rate_limited"),
        ("timeout_error", "timeout"),
        ("invalid_request_error", "rejected"),
        ("billing_error", "spend_limit"),
        ("authentication_error", "authentication"),
        ("brand_new_error", "server_error"),
    ],
)
def test_an_error_in_mid_stream_has_status_200_and_its_own_kind(error_type: str, kind: str) -> None:
    error = {"type": error_type, "message": "sorry"}
    with MessagesServer(says("half", break_after=4, break_by="error", error=error)) as server:
        answer = failure(ask(server))
    assert answer.kind == kind
    assert answer.detail == f"{error_type} in mid-stream: sorry"


def test_a_silent_server_is_a_timeout() -> None:
    with MessagesServer(says("late", pause_seconds=2)) as server:
        assert failure(ask(server, silence_seconds=0.2)).kind == "timeout"


def test_a_server_that_trickles_for_ever_is_given_up_at_the_deadline() -> None:
    with MessagesServer(says("x" * 300, pause_seconds=0.3)) as server:
        assert failure(ask(server, reply_seconds=0.4)).kind == "timeout"  # the whole reply would not be a failure


def test_a_missing_server_is_a_connection_failure_that_names_the_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        answer = failure(AnthropicModel("claude-sonnet-5-5", Endpoint(url, "key")).reply(asking()))
    assert answer.kind == "connection"
    assert url in answer.detail
    assert "refused" in answer.detail


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"data: \xff\xfe\n\n",
        b"data: [1, 2]\n\n",
        b'data: {"type": 7}\n\n',
        b'data: {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "x"}}\n\n',
        b'data: {"type": "content_block_start", "index": "x", "content_block": []}\n\n',
        b"data: " + b"[" * 100_000 + b"\n\n",
        b"data: {\n\n" * 1_000,
    ],
)
def test_an_invalid_event_stream_is_a_failure_without_a_crash(garbage: bytes) -> None:
    with MessagesServer(Answer(bytes=garbage)) as server:
        assert failure(ask(server)).kind == "incomplete"


def test_a_detail_is_one_line_of_at_most_500_characters_without_control_characters() -> None:
    with MessagesServer(fails(500, "api_error", "line\nline \x1b[31mred\x07 " * 200)) as server:
        detail = failure(ask(server)).detail
    assert len(detail) == 500
    assert detail.isprintable()


def test_a_large_request_goes_out_whole() -> None:
    with MessagesServer(says("read")) as server:
        model = AnthropicModel("claude-sonnet-5-5", Endpoint(server.url, server.key))
        assert isinstance(model.reply(asking(user("x" * 5_000_000))), ModelReplied)
        assert len(server.raw[0]) > 5_000_000
