"""Traffic is forwarded byte for byte and recorded."""

import asyncio
import gzip
import json
import os
import socket
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stackmem.core.facts import FramePopped, FramePushed, ModelFailed, ModelReplied, NoticeGiven, RunEnded, ToolReturned
from stackmem.core.messages import ToolCall
from stackmem.doors.gateway import proxy
from stackmem.doors.gateway.exchanges import RequestPassed, read_exchanges
from stackmem.doors.gateway.recording import tell_to_end, told_lines
from stackmem.doors.gateway.serving import GatewayTerms, ServedGateway, serving
from stackmem.doors.gateway.upstream import upstreams
from stackmem.doors.listening.sockets import listening
from stackmem.run.run_folder import EXCHANGES, RESULT, TRACE
from stackmem.trace.store import TraceReader
from tests.doors.gateway.upstream import (
    CLIENT,
    RawAnswer,
    RawUpstream,
    assistant,
    message_events,
    request,
    result,
    sse,
    text,
    use,
    user,
)

KEY = "sk-ant-api03-0123456789abcdefghij"
HEADERS = {"x-api-key": KEY, "anthropic-version": "2023-06-01", "anthropic-beta": "something-new-2026-01-01"}
DONE = RawAnswer(message_events(text("Done.")))


@contextmanager
def gateway(upstream: RawUpstream, runs: Path, **more: Any) -> Iterator[ServedGateway]:
    with serving(GatewayTerms(upstreams(upstream.url, {}), runs, **more), {}) as served:
        yield served


def post(served: ServedGateway, body: bytes, path: str = "/v1/messages", **headers: str) -> httpx2.Response:
    given = {**HEADERS, "content-type": "application/json", **headers}
    return CLIENT.post(f"{served.url}{path}", content=body, headers=given, timeout=60)


def events(folder: Path) -> list[Any]:
    return [record.event for record in TraceReader(folder / TRACE)]


def only_run(runs: Path) -> Path:
    (folder,) = runs.iterdir()
    return folder


ODD = (
    b'{ "model":"claude-sonnet-5-5","unknown_field": {"b":1, "a" :2},\n"max_tokens":5, '
    b'"messages":[{"role":"user", "content":"Gr\\u00fc\xc3\x9fe \\/"}] }'
)


def test_the_body_reaches_the_upstream_and_the_answer_the_client_byte_for_byte(tmp_path):
    with RawUpstream(DONE) as upstream, gateway(upstream, tmp_path) as served:
        answer = post(served, ODD, "/v1/messages?beta=true")
        path, headers, body = upstream.seen[0]
    assert (path, body) == ("/v1/messages?beta=true", ODD)
    assert answer.content == b"".join(DONE.pieces)
    assert {name: headers[name] for name in HEADERS} == HEADERS
    assert answer.headers["content-type"] == "text/event-stream"


def test_an_address_reaches_the_upstream_as_it_was_escaped(tmp_path):
    models = RawAnswer((b"{}",), headers=(("content-type", "application/json"),))
    with RawUpstream(models, models) as upstream, gateway(upstream, tmp_path) as served:
        for path in ("/v1/models/a%2Fb%3Fc?name=%2B", "/v1/%0e"):
            assert CLIENT.get(f"{served.url}{path}", headers=HEADERS).status_code == 200
        assert [path for path, _, _ in upstream.seen] == ["/v1/models/a%2Fb%3Fc?name=%2B", "/v1/%0e"]


def test_an_address_that_is_too_long_is_refused_in_the_providers_form(tmp_path):
    terms = GatewayTerms(upstreams(f"http://127.0.0.1:9/{'p' * 3_000}", {}), tmp_path)
    with serving(terms, {}) as served:
        refused = CLIENT.get(f"{served.url}/{'a' * 64_000}", headers=HEADERS)
        assert (refused.status_code, refused.json()["error"]["type"]) == (400, "invalid_request_error")


def test_a_body_that_is_not_a_request_is_forwarded_and_reported_as_unrecorded(tmp_path):
    with RawUpstream(RawAnswer((b"{}",))) as upstream, gateway(upstream, tmp_path) as served:
        post(served, b"not json at all")
        assert upstream.seen[0][2] == b"not json at all"
        assert "not recorded" in served.gateway.notes[0]
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_upstream_passes_with_its_headers_and_is_a_fact(tmp_path):
    refusal = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"},"request_id":"req_1"}'
    limited = RawAnswer((refusal,), 429, (("retry-after", "7"), ("x-should-retry", "true"), ("request-id", "req_1")))
    with RawUpstream(limited, DONE) as upstream, gateway(upstream, tmp_path) as served:
        answer = post(served, request(user("Mend it.")))
        post(served, request(user("Mend it.")))
    assert (answer.status_code, answer.content) == (429, refusal)
    assert [answer.headers[name] for name in ("retry-after", "x-should-retry", "request-id")] == ["7", "true", "req_1"]
    failure, reply = events(only_run(tmp_path))[1:3]
    assert isinstance(failure, ModelFailed)
    assert (failure.kind, failure.retry_after_seconds) == ("rate_limited", 7.0)
    assert isinstance(reply, ModelReplied)


def test_a_conversation_with_a_sub_agent_is_one_run_with_a_frame(tmp_path):
    delegate = use("task", "c1", prompt="Find every caller of parse.")
    script = [
        message_events(text("I ask."), delegate, stop="tool_use"),
        message_events(text("Three callers.")),
        DONE.pieces,
    ]
    with RawUpstream(*map(RawAnswer, script)) as upstream, gateway(upstream, tmp_path) as served:
        post(served, request(user("Mend the parser."), tools=("task",)))
        post(served, request(user("Find every caller of parse.")))
        told = user(result("c1", "Three callers."))
        post(served, request(user("Mend the parser."), assistant("I ask.", delegate), told, tools=("task",)))
    facts = [event for event in events(only_run(tmp_path)) if not isinstance(event, NoticeGiven)]
    kinds = [type(event).__name__ for event in facts]
    assert kinds == ["RunStarted", "ModelReplied", "FramePushed", "ModelReplied", "FramePopped", "ModelReplied",
                     "FramePopped", "RunEnded"]  # fmt: skip
    pushed, popped = facts[2], facts[4]
    assert isinstance(pushed, FramePushed)
    assert isinstance(popped, FramePopped)
    assert (pushed.intent, popped.result) == ("Find every caller of parse.", "Three callers.")


def test_several_results_are_recorded_in_the_order_of_their_calls(tmp_path):
    calls = [use("run", "c1", command="a"), use("run", "c2", command="b")]
    asks = RawAnswer(message_events(*calls, stop="tool_use"))
    with RawUpstream(asks, DONE) as upstream, gateway(upstream, tmp_path) as served:
        post(served, request(user("Go.")))
        told = user(result("c2", "second"), result("c1", "first", is_error=True))
        post(served, request(user("Go."), assistant(*calls), told))
    returned = [event for event in events(only_run(tmp_path)) if isinstance(event, ToolReturned)]
    assert [(one.text, one.failed) for one in returned] == [("first", True), ("second", False)]


CHAT = {
    "model": "gpt-5.6",
    "stream": True,
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
}
CHAT_REPLY = sse(
    {"type": "", "id": "x", "choices": [{"index": 0, "delta": {"content": "Hello."}}]},
    {"type": "", "id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"type": "", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}},
    named=False,
)
RESPONSE = {"id": "r", "object": "response", "status": "completed", "usage": {"input_tokens": 9, "output_tokens": 2},
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hello."}]}]}  # fmt: skip
INPUT = {
    "model": "gpt-5.6",
    "instructions": "Be brief.",
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
}


@pytest.mark.parametrize(
    ("path", "body", "pieces"),
    [
        ("/v1/chat/completions", CHAT, (*CHAT_REPLY, b"data: [DONE]\n\n")),
        ("/v1/responses", INPUT, (json.dumps(RESPONSE).encode(),)),
        ("/v1/responses", INPUT | {"stream": True}, sse({"type": "response.completed", "response": RESPONSE})),
        ("/v1/responses", INPUT | {"input": "Hi"}, (json.dumps(RESPONSE).encode(),)),
    ],
)
def test_each_wire_of_openai_is_read(tmp_path, path, body, pieces):
    with RawUpstream(RawAnswer(pieces)) as upstream, gateway(upstream, tmp_path) as served:
        answer = CLIENT.post(f"{served.url}{path}", json=body, headers={"authorization": f"Bearer {KEY}"})
    assert answer.content == b"".join(pieces)
    start, reply = events(only_run(tmp_path))[:2]
    assert (start.task, start.system) == ("Hi", "Be brief.")
    assert (reply.parts[0].text, reply.usage.prompt, reply.usage.output) == ("Hello.", 9, 2)


def test_tools_that_an_item_brings_and_calls_with_a_text_are_read(tmp_path):
    run = {"type": "function", "name": "run", "description": "Runs.", "parameters": {"type": "object"}}
    patch = {"type": "custom", "name": "patch", "description": "Patches."}
    more = {"type": "namespace", "name": "files", "tools": [patch]}
    told = [{"type": "additional_tools", "role": "developer", "tools": [more]}, *INPUT["input"]]
    called = {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** Begin"}
    returned = {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}
    answers = [RawAnswer((json.dumps(RESPONSE | {"output": output}).encode(),)) for output in ([called], [])]
    with RawUpstream(*answers) as upstream, gateway(upstream, tmp_path) as served:
        for items in (told, [*told, called, returned]):
            body = INPUT | {"tools": [run], "input": items}
            CLIENT.post(f"{served.url}/v1/responses", json=body, headers={"authorization": f"Bearer {KEY}"})
        assert served.gateway.notes == []
    start, reply, result, *_ = events(only_run(tmp_path))
    assert [tool.name for tool in start.tools] == ["run", "patch"]
    assert reply.parts == (ToolCall("c1", "patch", {"input": "*** Begin"}),)
    assert (type(result), result.text) == (ToolReturned, "done")


def test_other_requests_pass_unrecorded(tmp_path):
    script = (RawAnswer((b'{"data":[]}',)), RawAnswer((b'{"input_tokens":3}',)))
    with RawUpstream(*script) as upstream, gateway(upstream, tmp_path) as served:
        models = CLIENT.get(f"{served.url}/v1/models", headers=HEADERS)
        tokens = post(served, request(user("x")), "/v1/messages/count_tokens")
        assert CLIENT.head(served.url).status_code == 200
    assert (models.content, tokens.content) == (b'{"data":[]}', b'{"input_tokens":3}')
    assert [path for path, _, _ in upstream.seen] == ["/v1/models", "/v1/messages/count_tokens"]
    assert list(tmp_path.iterdir()) == []


def test_no_key_is_on_the_disk_though_a_tool_printed_it(tmp_path):
    other = "ghp_" + "a1" * 20
    with RawUpstream(DONE) as upstream, gateway(upstream, tmp_path) as served:
        post(served, request(user(f"My key is {KEY} and the other {other}.")))
        assert KEY.encode() in upstream.seen[0][2]
    written = b"".join(path.read_bytes() for path in only_run(tmp_path).iterdir())
    assert KEY.encode() not in written
    assert other.encode() not in written
    assert b"[secret GITHUB_TOKEN]" in written


def test_cookies_other_headers_and_parameters_that_a_request_brought_are_not_on_the_disk(tmp_path):
    brought = {
        "cookie": "session=abc123cookie; theme=dark",
        "x-auth-token": "abc123header",
        "private-token": "abc123priv",
    }
    secrets = ["abc123cookie", "abc123header", "abc123priv", "abc123query"]
    text = f"They are {' '.join(secrets)}; then X-Other-Token: abc123other, the theme is dark, /a?b=1&key=abc123param."
    with RawUpstream(DONE) as upstream, gateway(upstream, tmp_path) as served:
        body = request(user(text))
        CLIENT.post(f"{served.url}/v1/messages?key=abc123query", content=body, headers=HEADERS | brought)
        assert b"abc123query" in upstream.seen[0][2]
    written = b"".join(path.read_bytes() for path in only_run(tmp_path).iterdir())
    for secret in (*secrets, "abc123other", "abc123param"):
        assert secret.encode() not in written
    assert b"; then X-Other-Token: [secret HEADER], the theme is dark, /a?b=1&key=[secret PARAMETER]" in written


def test_a_compressed_answer_is_relayed_as_it_is_and_read(tmp_path):
    packed = gzip.compress(b"".join(DONE.pieces))
    coded = RawAnswer((packed,), headers=(("content-encoding", "gzip"), ("content-type", "text/event-stream")))
    with RawUpstream(coded) as upstream, gateway(upstream, tmp_path) as served:
        with CLIENT.stream(
            "POST", f"{served.url}/v1/messages", content=request(user("Hi")), headers=HEADERS, timeout=60
        ) as answer:
            assert b"".join(answer.iter_raw()) == packed
        assert set(upstream.seen[0][1]["accept-encoding"].split(", ")) <= {"gzip", "deflate", "br", "zstd", "identity"}
    assert isinstance(events(only_run(tmp_path))[1], ModelReplied)


def test_a_bomb_is_relayed_and_its_record_says_why_it_has_no_reply(tmp_path):
    coder = zlib.compressobj(9, wbits=31)
    bomb = b"".join(coder.compress(bytes(1 << 20)) for _ in range(40)) + coder.flush()
    coded = RawAnswer((bomb,), headers=(("content-encoding", "gzip"),))
    with RawUpstream(coded) as upstream, gateway(upstream, tmp_path) as served:
        asked = CLIENT.stream(
            "POST", f"{served.url}/v1/messages", content=request(user("Hi")), headers=HEADERS, timeout=60
        )
        with asked as answer:
            assert b"".join(answer.iter_raw()) == bomb
    failure = events(only_run(tmp_path))[1]
    assert isinstance(failure, ModelFailed)
    assert "longer than 32 MiB" in failure.detail


def test_a_client_that_leaves_closes_the_upstream_and_what_was_used_is_known(tmp_path):
    begun = RawAnswer(message_events(text("Half of it"))[:3], hangs=True)
    with RawUpstream(begun) as upstream, gateway(upstream, tmp_path) as served:
        with CLIENT.stream(
            "POST", f"{served.url}/v1/messages", content=request(user("Hi")), headers=HEADERS, timeout=60
        ) as answer:
            next(answer.iter_raw())
        assert upstream.left.wait(30)
    folder = only_run(tmp_path)
    failure = events(folder)[1]
    answered = list(read_exchanges(folder / EXCHANGES))[1]
    assert (failure.kind, "client left" in failure.detail) == ("incomplete", True)
    assert (answered.lost.uncached, served.gateway.spending.usd > 0) == (100, True)


def test_the_first_piece_of_an_answer_that_comes_at_once_waits_for_no_recording(tmp_path, monkeypatch):
    monkeypatch.setattr("stackmem.doors.gateway.proxy._SENT_SECONDS", 60)
    begun, seen = RawAnswer(message_events(text("Half of it"))[:1], hangs=True), threading.Event()
    with RawUpstream(begun) as upstream, gateway(upstream, tmp_path) as served:
        prepare, waited = served.gateway.ledger.prepare, []

        def recorded_once_seen(came: Any) -> Any:
            waited.append(seen.wait(20))
            return prepare(came)

        monkeypatch.setattr(served.gateway.ledger, "prepare", recorded_once_seen)
        with CLIENT.stream("POST", f"{served.url}/v1/messages", content=request(user("Hi")), headers=HEADERS) as answer:
            assert next(answer.iter_raw()) == begun.pieces[0]
            seen.set()
        assert upstream.left.wait(30)
    assert waited == [True]
    asked, answered, _closed = read_exchanges(only_run(tmp_path) / EXCHANGES)
    assert (asked.number, answered.number, answered.first_byte_seconds > 0) == (1, 1, True)


def test_small_pieces_of_an_answer_go_out_at_once():
    async def no_delay_of_what_is_accepted() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def accepted(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with listening("127.0.0.1", 0) as listener:
            server = await asyncio.start_server(accepted, sock=listener)
            with socket.create_connection(listener.getsockname()):
                async with server:
                    return await asyncio.wait_for(found, 30)

    assert asyncio.run(no_delay_of_what_is_accepted()) != 0


def test_a_missing_upstream_is_reported_in_the_providers_format(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        terms = GatewayTerms(upstreams(f"http://127.0.0.1:{free.getsockname()[1]}", {}), tmp_path)
        with serving(terms, {}) as served:
            answer = post(served, request(user("Hi")))
    assert answer.status_code == 502
    assert (answer.json()["type"], answer.json()["error"]["type"]) == ("error", "api_error")


def test_a_stream_that_breaks_off_breaks_off_for_the_client_too(tmp_path):
    half = RawAnswer(message_events(text("Half"))[:2], headers=(("content-length", "100000"),))
    with (
        RawUpstream(half) as upstream,
        gateway(upstream, tmp_path) as served,
        pytest.raises(httpx2.RemoteProtocolError),
    ):
        post(served, request(user("Hi")))
    assert "broke off" in events(only_run(tmp_path))[1].detail


def test_a_fault_inside_forwards_the_request_and_is_noted(tmp_path, monkeypatch):
    runs = tmp_path / "runs"
    runs.write_text("no folder")
    with RawUpstream(DONE) as upstream, gateway(upstream, runs) as served:
        assert post(served, request(user("Hi"))).content == b"".join(DONE.pieces)
        assert "not recorded" in served.gateway.notes[0]


def test_money_that_is_spent_refuses_the_next_request_in_the_providers_form(tmp_path):
    used = RawAnswer(message_events(text("Done."), usage={"input_tokens": 1_000_000}))
    with RawUpstream(used) as upstream, gateway(upstream, tmp_path, max_usd=1.0) as served:
        post(served, request(user("Hi")))
        refused = post(served, request(user("More")))
        unknown = post(served, request(user("More"), model="nobody-knows"))
    assert (refused.status_code, refused.json()["error"]["type"]) == (400, "invalid_request_error")
    assert "--max-usd" in refused.json()["error"]["message"]
    assert "price" in unknown.json()["error"]["message"]
    assert len(upstream.seen) == 1


@pytest.mark.parametrize("bound", [{"max_usd": 1.0}, {"max_tokens": 1_000}, {}])
def test_a_request_that_cannot_be_read_is_refused_only_if_a_bound_would_have_to_count_it(tmp_path, bound):
    paths = ["/v1/messages", "/v1/chat/completions", "/v1/responses"]
    sent = [(path, body) for path in paths for body in (b"", b"{", b"[]", gzip.compress(b"{}"))]
    with RawUpstream(answer=lambda _: RawAnswer((b"{}",))) as upstream, gateway(upstream, tmp_path, **bound) as served:
        for path, body in sent:
            answer = CLIENT.post(f"{served.url}{path}", content=body)
            assert answer.status_code == (400 if bound else 200)
            assert not bound or "cannot be read" in answer.json()["error"]["message"]
        assert len(upstream.seen) == (0 if bound else len(sent))


def test_a_prompt_that_is_too_long_is_refused(tmp_path):
    with RawUpstream() as upstream, gateway(upstream, tmp_path, max_tokens=1_000) as served:
        refused = CLIENT.post(
            f"{served.url}/v1/chat/completions", json=CHAT | {"messages": [{"role": "user", "content": "x" * 5_000}]}
        )
    assert (refused.status_code, "2,0" in refused.json()["error"]["message"]) == (400, True)


def test_a_run_whose_gateway_was_killed_is_rebuilt_from_its_lines(tmp_path):
    calls = use("run", "c1", command="a")
    with (
        RawUpstream(RawAnswer(message_events(calls, stop="tool_use"))) as upstream,
        gateway(upstream, tmp_path) as served,
    ):
        post(served, request(user("Go.")))
    folder = only_run(tmp_path)
    whole = (folder / TRACE).read_bytes()
    lines = (folder / EXCHANGES).read_bytes().splitlines(keepends=True)
    (folder / EXCHANGES).write_bytes(b"".join(lines[:-1]))
    (folder / TRACE).write_bytes(whole.splitlines(keepends=True)[0] + b'{"seq":2,"half')
    (folder / RESULT).unlink()
    assert tell_to_end(folder)
    told = events(folder)
    assert [type(event).__name__ for event in told] == ["RunStarted", "ModelReplied", "RunEnded"]
    assert (folder / TRACE).read_bytes() == told_lines(read_exchanges(folder / EXCHANGES))
    assert isinstance(told[-1], RunEnded)
    assert not tell_to_end(folder)


def test_a_body_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(proxy, "MAX_BODY_BYTES", 1_000)
    with RawUpstream() as upstream, gateway(upstream, tmp_path) as served:
        assert post(served, bytes(2_000)).status_code == 413


def test_an_answer_without_end_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(proxy, "MAX_ANSWER_BYTES", 1_000)
    endless = RawAnswer((os.urandom(600), os.urandom(600)))
    with (
        RawUpstream(endless) as upstream,
        gateway(upstream, tmp_path) as served,
        pytest.raises(httpx2.RemoteProtocolError),
    ):
        post(served, request(user("Hi")))
    assert "longer than" in events(only_run(tmp_path))[1].detail


def test_under_a_strategy_the_upstream_gets_the_cut_conversation_and_the_run_says_which(tmp_path):
    told = [user("Mend the parser.")]
    script = [RawAnswer(message_events(use("run", f"c{number}", n=number), stop="tool_use")) for number in range(5)]
    with RawUpstream(*script, RawAnswer((b"{}",))) as upstream:
        with gateway(upstream, tmp_path, strategy="mask:1,poll=1") as served:
            for number in range(5):
                post(served, request(*told))
                told += [assistant(use("run", f"c{number}", n=number)), user(result(f"c{number}", "x" * 900))]
            post(served, request(*told), "/v1/messages/count_tokens")
        bodies = [body for _, _, body in upstream.seen]
    assert [body.count(b"masked") for body in bodies] == [0, 0, 1, 2, 3, 4]
    assert bodies[0] == request(user("Mend the parser."))
    folder = only_run(tmp_path)
    asked = [one for one in read_exchanges(folder / EXCHANGES) if isinstance(one, RequestPassed)]
    assert [one.short for one in asked] == [0, 0, 1, 2, 3]
    assert asked[-1].sent_bytes == len(bodies[4]) < asked[-1].body_bytes
    assert events(folder)[0].strategy == "mask:1,poll=1"
    assert served.gateway.notes == []
