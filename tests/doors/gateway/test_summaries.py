"""Summaries that a strategy requests before forwarding a request: requested once, billed, and never in the way."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from stackmem.core.facts import ContextCompacted, ModelFailed, ModelReplied
from stackmem.doors.gateway.exchanges import RequestPassed, read_exchanges
from stackmem.doors.gateway.serving import ServedGateway
from stackmem.doors.gateway.status import run_status
from stackmem.doors.gateway.verifying import verify_gateway_run
from stackmem.doors.gateway.wires.chat import CHAT
from stackmem.doors.gateway.wires.messages import MESSAGES
from stackmem.doors.gateway.wires.responses import RESPONSES
from stackmem.run.run_folder import EXCHANGES
from tests.doors.gateway.test_cutting import anthropic, body_of, chat, responses
from tests.doors.gateway.test_proxy import CLIENT, HEADERS, KEY, events, gateway, only_run, post
from tests.doors.gateway.upstream import (
    RawAnswer,
    RawUpstream,
    assistant,
    message_events,
    request,
    result,
    text,
    use,
    user,
)
from tests.providers.api_rules import first_fault

ASKS = b"COMPACTION REQUEST"
SUMMARY = "parser = mended; next = lexer"
PATHS = {"anthropic": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
WIRES = {"anthropic": (MESSAGES, anthropic), "chat": (CHAT, chat), "responses": (RESPONSES, responses)}


def replied(kind: str, words: str) -> RawAnswer:
    """A complete answer with one text, not streamed."""
    if kind == "anthropic":
        return RawAnswer(message_events(text(words)))
    if kind == "chat":
        choice = {"index": 0, "message": {"role": "assistant", "content": words}, "finish_reason": "stop"}
        value: Any = {"id": "x", "object": "chat.completion", "choices": [choice],
                      "usage": {"prompt_tokens": 100, "completion_tokens": 20}}  # fmt: skip
    else:
        output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": words}]}]
        value = {"id": "r", "object": "response", "status": "completed", "output": output,
                 "usage": {"input_tokens": 100, "output_tokens": 20}}  # fmt: skip
    return RawAnswer((json.dumps(value).encode(),), headers=(("content-type", "application/json"),))


def answering(kind: str, summary: RawAnswer | None = None) -> Callable[[bytes], RawAnswer]:
    """An upstream that writes any requested summary, and answers everything else with a word."""
    return lambda body: (summary or replied(kind, SUMMARY)) if ASKS in body else replied(kind, "Go on.")


def talk(served: ServedGateway, kind: str, turns: int) -> list[bytes]:
    """Run a conversation of this many requests, each answered with a word, and return the bodies."""
    wire, spell = WIRES[kind]
    told, bodies = spell([]), []
    for number in range(turns):
        body = body_of(wire, told)
        bodies.append(body)
        CLIENT.post(f"{served.url}{PATHS[kind]}", content=body, headers=HEADERS, timeout=60).raise_for_status()
        words = "Go on."
        said = {"role": "assistant", "content": words if kind != "anthropic" else [text(words)]}
        if kind == "responses":
            said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": words}]}
        answer = f"Fact {number}: {'x' * 400}"
        told = [*told, said, {"role": "user", "content": answer if kind != "anthropic" else [text(answer)]}]
    return bodies


def asked_of(runs: Path) -> list[RequestPassed]:
    return [one for one in read_exchanges(only_run(runs) / EXCHANGES) if isinstance(one, RequestPassed)]


@pytest.mark.parametrize("kind", sorted(WIRES))
@pytest.mark.parametrize("spelled", ["rolling_summary:2", "summary:700,keep=1,prefix=cold", "hierarchical:1,1"])
def test_a_summary_is_requested_with_the_clients_key_and_replaces_the_beginning(tmp_path, kind, spelled):
    with RawUpstream(answer=answering(kind)) as upstream, gateway(upstream, tmp_path, strategy=spelled) as served:
        bodies = talk(served, kind, 9)
        assert served.gateway.notes == []
        folder = only_run(tmp_path)
    written = [body for _, _, body in upstream.seen if ASKS in body]
    went = [body for _, _, body in upstream.seen if ASKS not in body]
    assert {(path, headers["x-api-key"]) for path, headers, _ in upstream.seen} == {(PATHS[kind], KEY)}
    assert len(written) >= 2
    assert [SUMMARY.encode() in one for one in went] == sorted(SUMMARY.encode() in one for one in went)
    assert len(went[-1]) < len(bodies[-1]) / 2
    assert all(one.count(b"cache_control") <= 4 for one in (*written, *went))
    if kind == "anthropic":
        assert [first_fault(json.loads(one)) for one in (*written, *went)] == [None] * len(upstream.seen)
    if "cold" not in spelled and "hierarchical" not in spelled:
        wire = WIRES[kind][0]
        sent = [body for _, _, body in upstream.seen]
        for one in written:  # the summary request extends the provider's last request, so it reads its cache
            before = wire.read(sent[sent.index(one) - 1]).raw
            assert wire.read(one).raw[: len(before)] == before
    compacted = [one for one in events(folder) if isinstance(one, ContextCompacted)]
    assert [one.text for one in compacted] == [SUMMARY] * len(written)
    assert [one.up_to_step for one in compacted] == [
        one.summary.turns for one in asked_of(tmp_path) if one.summary is not UNSET
    ]
    verified = verify_gateway_run(folder)
    assert (verified.cuts, verified.not_followed) == (9, 0)
    status = run_status(folder)
    assert (status.summaries, status.usage.prompt) == (len(written), 100 * len(upstream.seen))


def test_a_repeated_request_reuses_its_summary(tmp_path):
    with (
        RawUpstream(answer=answering("anthropic")) as upstream,
        gateway(upstream, tmp_path, strategy="rolling_summary:2") as served,
    ):
        bodies = talk(served, "anthropic", 5)
        before = [body for _, _, body in upstream.seen]
        post(served, bodies[-1])
    assert upstream.seen[-1][2] == before[-1]
    assert len(upstream.seen) == len(before) + 1


def test_two_that_wait_for_one_text_ask_for_it_once(tmp_path):
    both = threading.Barrier(2, timeout=100)
    asked = threading.Event()

    def answer(body: bytes) -> RawAnswer:
        if ASKS in body:
            asked.set()
            both.wait()
        return answering("anthropic")(body)

    with RawUpstream(answer=answer) as upstream, gateway(upstream, tmp_path, strategy="rolling_summary:1") as served:
        body = request(*anthropic([(False, 0, 0, "x" * 300)] * 2))
        threads = [threading.Thread(target=post, args=(served, body)) for _ in range(2)]
        threads[0].start()
        assert asked.wait(30)
        threads[1].start()
        while sum(one.waiting for one in served.gateway._summaries._underway.values()) < 2:
            time.sleep(0.01)
            assert threads[1].is_alive()
        both.wait()
        for thread in threads:
            thread.join(60)
    assert [ASKS in body for _, _, body in upstream.seen] == [True, False, False]
    texts = [one.summary is not UNSET for one in asked_of(tmp_path)]
    assert sorted(texts) == [False, True]


@pytest.mark.parametrize(
    "fails",
    [
        RawAnswer((b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}',), status=429),
        RawAnswer(message_events(use("run", "c9", command="x"), stop="tool_use")),
        RawAnswer((b"\xff\xfe garbage",)),
        RawAnswer(message_events(text("half"))[:3], headers=(("content-length", "100000"),)),
        RawAnswer((b"x" * (5 << 20),)),
    ],
    ids=["429", "a call", "garbage", "half an answer", "without end"],
)
def test_without_a_summary_the_request_is_forwarded_and_the_next_try_waits(tmp_path, fails):
    with (
        RawUpstream(answer=answering("anthropic", fails)) as upstream,
        gateway(upstream, tmp_path, strategy="rolling_summary:1") as served,
    ):
        bodies = talk(served, "anthropic", 12)
        assert "was sent without its summary" in served.gateway.notes[0]
    assert [body for _, _, body in upstream.seen if ASKS not in body] == bodies
    tries = [number for number, one in enumerate(asked_of(tmp_path)) if one.summary is not UNSET]
    assert tries == [2, 3, 5, 9]
    folder = only_run(tmp_path)
    assert len([one for one in events(folder) if isinstance(one, ModelFailed)]) == 4
    assert len([one for one in events(folder) if isinstance(one, ModelReplied)]) == 12
    assert verify_gateway_run(folder).not_followed == 0


def test_a_client_that_leaves_meanwhile_ends_the_request_for_the_text(tmp_path):
    begun = RawAnswer(message_events(text("Half of it"))[:3], hangs=True)
    with (
        RawUpstream(answer=answering("anthropic", begun)) as upstream,
        gateway(upstream, tmp_path, strategy="rolling_summary:1") as served,
    ):
        body = request(*anthropic([(False, 0, 0, "x" * 300)] * 2))
        with pytest.raises(Exception, match="timed out"):
            CLIENT.post(f"{served.url}/v1/messages", content=body, headers=HEADERS, timeout=0.5)
        assert upstream.left.wait(30)
    (asked,) = asked_of(tmp_path)
    assert (asked.summary.reply.kind, asked.summary.lost.uncached) == ("incomplete", 100)
    assert served.gateway.spending.usd > 0
    assert "client left" in events(only_run(tmp_path))[-2].detail


def test_a_summary_request_forbids_calls_and_allows_enough_tokens(tmp_path):
    told = anthropic([(False, 1, 300, "")] * 2)
    forced = request(*told, tool_choice={"type": "any"}, stop_sequences=["x"])
    with (
        RawUpstream(answer=answering("anthropic")) as upstream,
        gateway(upstream, tmp_path, strategy="rolling_summary:1") as served,
    ):
        post(served, forced, **{"idempotency-key": "k"})
    (_, headers, asked), (_, other, _) = upstream.seen
    value = json.loads(asked)
    assert (value["tool_choice"], value["max_tokens"], "stop_sequences" in value) == ({"type": "none"}, 8_192, False)
    assert value["tools"] == json.loads(forced)["tools"]
    assert ("idempotency-key" in headers, "idempotency-key" in other) == (False, True)


def test_titles_and_counted_tokens_ask_for_nothing(tmp_path):
    told = anthropic([(False, 0, 0, "x" * 300)] * 3)
    shape = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    with (
        RawUpstream(answer=answering("anthropic")) as upstream,
        gateway(upstream, tmp_path, strategy="rolling_summary:1") as served,
    ):
        post(served, request(*told), "/v1/messages/count_tokens")
        post(served, request(*told, output_config=shape))
    assert [ASKS in body for _, _, body in upstream.seen] == [False, False]


def test_a_call_stays_with_its_result_behind_a_text(tmp_path):
    told = [user("Go."), assistant(use("run", "a", n=1)), user(result("a", "1" * 200)),
            assistant(use("run", "b", n=2)), user(result("b", "2" * 200))]  # fmt: skip
    with (
        RawUpstream(answer=answering("anthropic")) as upstream,
        gateway(upstream, tmp_path, strategy="structured_summary:100,keep=1") as served,
    ):
        post(served, request(*told))
    sent = json.loads(upstream.seen[-1][2])["messages"]
    assert [one["role"] for one in sent] == ["user", "assistant", "user"]
    assert SUMMARY in sent[0]["content"][-1]["text"]
    assert sent[1:] == told[3:]
