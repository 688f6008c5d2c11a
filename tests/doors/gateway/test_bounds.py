"""Bounds hold for every encoding, for replies without usage, and for paths that are not recorded."""

import json
import socket
from typing import Any

import pytest

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Usage
from stackmem.doors.gateway.exchanges import AnswerPassed, read_exchanges
from stackmem.doors.gateway.status import run_status
from stackmem.models.tokens import o200k_tokens
from stackmem.run.run_folder import EXCHANGES
from tests.doors.gateway.test_codings import CODERS
from tests.doors.gateway.test_proxy import CHAT, CHAT_REPLY, HEADERS, gateway, only_run, post
from tests.doors.gateway.upstream import CLIENT, RawAnswer, RawUpstream, message_events, request, sse, text, user

NO_USAGE = RawAnswer((*CHAT_REPLY[:2], b"data: [DONE]\n\n"))
RESPONSE = {"id": "r", "object": "response", "status": "completed", "output": [
    {"type": "message", "content": [{"type": "output_text", "text": "Hello."}]}]}  # fmt: skip
PRICED = CHAT | {"model": "gpt-5.6-sol"}
SILENT = {"input_tokens": 0, "output_tokens": 0}
REPLIES = [
    ("/v1/chat/completions", PRICED, NO_USAGE),
    ("/v1/responses", {"model": "gpt-5.6-sol", "stream": True, "input": "Hi"},
     RawAnswer(sse({"type": "response.completed", "response": RESPONSE}))),
    ("/v1/messages", json.loads(request(user("Hi"))),
     RawAnswer((*message_events(text("Hello."), usage=SILENT)[:-2], *sse(
         {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 0}},
         {"type": "message_stop"})))),
]  # fmt: skip


GEMINI_USED = {"usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 7}}
GEMINI_REPLY = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello."}]}, "finishReason": "STOP"}]}
MESSAGE_USED = message_events(text("Hello."), usage={"input_tokens": 100})
COUNTED = sse({"type": "response.completed", "response": RESPONSE | {"usage": {
    "input_tokens": 100, "output_tokens": 7}}})  # fmt: skip
EVERY_WIRE = {
    "chat": (*REPLIES[0][:2], (*CHAT_REPLY[:2], *sse({"type": "", "choices": [], "usage": {
        "prompt_tokens": 100, "completion_tokens": 7}}, named=False)), REPLIES[0][2].pieces),
    "responses": (*REPLIES[1][:2], COUNTED, REPLIES[1][2].pieces),
    "messages": (*REPLIES[2][:2], MESSAGE_USED, REPLIES[2][2].pieces),
    "gemini": (
        "/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
        sse({"type": "", **GEMINI_REPLY, **GEMINI_USED}, named=False),
        sse({"type": "", **GEMINI_REPLY}, named=False),
    ),
}  # fmt: skip


@pytest.mark.parametrize("usage", ["with usage", "without usage"])
@pytest.mark.parametrize("coding", ["", "gzip", "br", "zstd"])
@pytest.mark.parametrize("wire", EVERY_WIRE)
def test_the_first_reply_spends_the_bound_in_every_wire_and_encoding(tmp_path, wire, coding, usage):
    """Requests and answers both have the encoding."""
    path, asked, with_usage, without = EVERY_WIRE[wire]
    code = CODERS[coding] if coding else bytes
    packed = code(b"".join(with_usage if usage == "with usage" else without))
    coded = {"content-encoding": coding} if coding else {}
    reply = RawAnswer((packed,), headers=(("content-type", "text/event-stream"), *coded.items()))
    headers = {"x-goog-api-key": "AIza" + "b" * 35} if wire == "gemini" else HEADERS
    with RawUpstream(answer=lambda _: reply) as upstream, gateway(upstream, tmp_path, max_usd=0.00001) as served:
        statuses = []
        for words in ("Hi", "Hi again"):
            body = code(json.dumps(asked | {"metadata": {"words": words}}).encode())
            with CLIENT.stream("POST", f"{served.url}{path}", content=body, headers=headers | coded) as answer:
                assert answer.status_code != 200 or b"".join(answer.iter_raw()) == packed
                statuses.append(answer.status_code)
        assert served.gateway.spending.estimated == (usage == "without usage")
    assert (statuses, len(upstream.seen)) == ([200, 400], 1)


def answered(runs: Any) -> AnswerPassed:
    (found,) = [one for one in read_exchanges(only_run(runs) / EXCHANGES) if isinstance(one, AnswerPassed)]
    return found


@pytest.mark.parametrize(("path", "body", "reply"), REPLIES)
def test_a_reply_without_usage_is_estimated_and_marked(tmp_path, path, body, reply):
    with RawUpstream(reply, reply) as upstream, gateway(upstream, tmp_path, max_usd=0.00001) as served:
        statuses = [CLIENT.post(f"{served.url}{path}", json=body, headers=HEADERS).status_code for _ in range(2)]
        assert (served.gateway.spending.usd > 0, served.gateway.spending.estimated) == (True, 1)
    assert (statuses, len(upstream.seen)) == ([200, 400], 1)
    row = run_status(only_run(tmp_path))
    assert (row.usage.estimated, row.usage.prompt > 0, row.usage.output > 0) == (True, True, True)
    assert row.cost_usd is not None
    assert row.cost_usd > 0


def test_an_estimate_is_close_to_the_tokenizers_count(tmp_path):
    words = "The parser reads a file, line by line, and returns a tree. " * 100
    body = CHAT | {"messages": [{"role": "system", "content": words}, {"role": "user", "content": words}]}
    with RawUpstream(NO_USAGE) as upstream, gateway(upstream, tmp_path) as served:
        CLIENT.post(f"{served.url}/v1/chat/completions", json=body, headers=HEADERS)
    reply = answered(tmp_path).reply
    assert isinstance(reply, ModelReplied)
    assert abs(reply.usage.prompt - 2 * o200k_tokens(words)) < 20


def test_a_reply_with_usage_keeps_it(tmp_path):
    with RawUpstream(RawAnswer((*CHAT_REPLY, b"data: [DONE]\n\n"))) as upstream, gateway(upstream, tmp_path) as served:
        CLIENT.post(f"{served.url}/v1/chat/completions", json=CHAT, headers=HEADERS)
    reply = answered(tmp_path).reply
    assert isinstance(reply, ModelReplied)
    assert reply.usage == Usage(uncached=9, output=2)


def test_what_was_streamed_without_usage_before_a_client_left_is_estimated(tmp_path):
    begun = RawAnswer(CHAT_REPLY[:1], hangs=True)
    with RawUpstream(begun) as upstream, gateway(upstream, tmp_path) as served:
        with CLIENT.stream("POST", f"{served.url}/v1/chat/completions", json=CHAT, headers=HEADERS) as answer:
            next(answer.iter_raw())
        assert upstream.left.wait(30)
    one = answered(tmp_path)
    assert isinstance(one.reply, ModelFailed)
    assert isinstance(one.lost, Usage)
    assert (one.lost.estimated, one.lost.prompt > 0, one.lost.output > 0) == (True, True, True)


def test_an_error_in_a_stream_costs_nothing(tmp_path):
    broken = RawAnswer((b'data: {"error": {"message": "overloaded", "type": "server_error"}}\n\n',))
    with RawUpstream(broken) as upstream, gateway(upstream, tmp_path) as served:
        CLIENT.post(f"{served.url}/v1/chat/completions", json=CHAT, headers=HEADERS)
        assert served.gateway.spending.usd == 0


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/embeddings", 400), ("/v1/completions", 400), ("/v1/messages/batches", 400), ("/v1/images/generations", 400),
     ("/v1/messages/count_tokens", 200), ("/v1/files", 200), ("/api/event_logging/batch", 200)],
)  # fmt: skip
def test_paths_that_cost_money_and_are_not_recorded_are_refused_under_a_bound(tmp_path, path, status):
    with RawUpstream(answer=lambda _: RawAnswer((b"{}",))) as upstream:
        with gateway(upstream, tmp_path, max_usd=1.0) as served:
            assert post(served, b"{}", path).status_code == status
            assert CLIENT.get(f"{served.url}/v1/models", headers=HEADERS).status_code == 200
        with gateway(upstream, tmp_path) as served:
            assert post(served, b"{}", path).status_code == 200


def test_a_websocket_handshake_is_refused_immediately(tmp_path):
    with RawUpstream() as upstream, gateway(upstream, tmp_path) as served:
        with socket.create_connection(("127.0.0.1", served.port), timeout=30) as client:
            client.sendall(
                f"GET /{served.token}/v1/responses HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
            )
            assert client.recv(64).startswith(b"HTTP/1.1 426 ")
        assert upstream.seen == []
