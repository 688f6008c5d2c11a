"""Upstreams that hang, send garbage, stop midway or refuse forever get a named failure and a complete record."""

import gzip
import threading
from pathlib import Path

import httpx2
import pytest

from stackmem.core.facts import ModelFailed, RunEnded
from stackmem.doors.gateway import upstream as upstream_module
from stackmem.doors.gateway.exchanges import AnswerPassed, RequestPassed, RunClosed, read_exchanges
from stackmem.doors.gateway.status import run_status
from stackmem.doors.gateway.verifying import verify_gateway_run
from stackmem.run.run_folder import EXCHANGES
from tests.doors.gateway.test_proxy import CLIENT, HEADERS, KEY, events, gateway, only_run, post
from tests.doors.gateway.upstream import RawAnswer, RawUpstream, message_events, request, text, user

BEGUN = message_events(text("Half of it"))[:3]
JSON = (("content-type", "application/json"),)


def whole_record(runs: Path, kinds: list[str]) -> list[ModelFailed]:
    """Return the failures of the only run, after checking that every request has its answer and the trace verifies."""
    folder = only_run(runs)
    lines = list(read_exchanges(folder / EXCHANGES))
    assert isinstance(lines[-1], RunClosed)
    asked = [one.number for one in lines if isinstance(one, RequestPassed)]
    assert sorted(asked) == sorted(one.number for one in lines if isinstance(one, AnswerPassed))
    assert verify_gateway_run(folder).not_followed == 0
    told = events(folder)
    failed = [one for one in told if isinstance(one, ModelFailed)]
    assert isinstance(told[-1], RunEnded)
    assert [one.kind for one in failed] == kinds
    return failed


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (RawAnswer((bytes(range(256)) * 40,)), "incomplete"),
        (RawAnswer((b"<html>It works!</html>",), headers=(("content-type", "text/html"),)), "rejected"),
        (RawAnswer((b"",)), "incomplete"),
        (RawAnswer((b"{" * 50_000,), headers=JSON), "incomplete"),
        (RawAnswer((*BEGUN, b'event: content_block_delta\ndata: {"type": "content_bl')), "incomplete"),
        (RawAnswer((*BEGUN, b"data: {not json}\n\n")), "incomplete"),
        (RawAnswer((gzip.compress(b"".join(BEGUN))[:-20],), headers=(("content-encoding", "gzip"),)), "incomplete"),
        (RawAnswer((b"no gzip",), headers=(("content-encoding", "gzip"),)), "incomplete"),
        (RawAnswer((b"\x00" * 5_000,), 500), "server_error"),
    ],
    ids=["bytes", "html", "nothing", "brackets", "half an event", "no json", "half a gzip", "no gzip", "500"],
)
def test_garbage_passes_unchanged_and_its_record_says_why_it_has_no_reply(tmp_path, answer, kind):
    with RawUpstream(answer) as upstream, gateway(upstream, tmp_path) as served:
        with CLIENT.stream(
            "POST", f"{served.url}/v1/messages", content=request(user("Hi")), headers=HEADERS, timeout=60
        ) as given:
            assert (given.status_code, b"".join(given.iter_raw())) == (answer.status, b"".join(answer.pieces))
        assert served.gateway.notes == []
    (failed,) = whole_record(tmp_path, [kind])
    assert failed.detail


def test_an_upstream_that_says_nothing_is_given_up_in_the_providers_form(tmp_path, monkeypatch):
    monkeypatch.setattr(upstream_module, "SILENCE_SECONDS", 0.3)
    waits = threading.Event()

    def never(_: bytes) -> RawAnswer:
        waits.wait(30)
        return RawAnswer((b"{}",))

    with RawUpstream(answer=never) as upstream, gateway(upstream, tmp_path) as served:
        refused = post(served, request(user("Hi")))
        waits.set()
    assert (refused.status_code, refused.json()["error"]["type"]) == (504, "timeout_error")
    whole_record(tmp_path, ["timeout"])


def test_an_upstream_that_stops_in_the_middle_is_given_up_and_what_was_used_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(upstream_module, "SILENCE_SECONDS", 0.3)
    going = threading.Event()

    with RawUpstream(RawAnswer(BEGUN, hangs=True)) as upstream, gateway(upstream, tmp_path) as served:
        monkeypatch.setattr(upstream.released, "wait", lambda _: going.wait(30))  # no ping keeps the connection alive
        with pytest.raises(httpx2.RemoteProtocolError):
            post(served, request(user("Hi")))
        going.set()
    whole_record(tmp_path, ["incomplete"])
    assert run_status(only_run(tmp_path)).usage.prompt == 100


def test_429_for_ever_passes_with_its_headers_until_the_client_gives_up(tmp_path):
    refusal = RawAnswer(
        (b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}',), 429,
        (*JSON, ("retry-after-ms", "1"), ("anthropic-ratelimit-requests-remaining", "0"), ("request-id", "req_1")),
    )  # fmt: skip
    with RawUpstream(answer=lambda _: refusal) as upstream, gateway(upstream, tmp_path) as served:
        import anthropic

        client = anthropic.Anthropic(base_url=served.url, api_key=KEY, max_retries=4)
        with client, pytest.raises(anthropic.RateLimitError) as told:
            client.messages.create(
                model="claude-sonnet-5-5", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
            )
        seen = len(upstream.seen)
    assert (seen, told.value.request_id) == (5, "req_1")  # the gateway itself never retries
    assert told.value.response.headers["anthropic-ratelimit-requests-remaining"] == "0"
    whole_record(tmp_path, ["rate_limited"] * 5)
    status = run_status(only_run(tmp_path))
    assert (status.requests, status.retries, status.failed) == (5, 4, 5)


def test_a_stream_without_end_ends_with_its_client_and_leaves_nothing_running(tmp_path):
    def threads() -> set[int]:
        return {one.ident or 0 for one in threading.enumerate()}

    endless = RawAnswer(BEGUN, hangs=True)
    with RawUpstream(*[endless] * 8) as upstream:
        before = threads()
        with gateway(upstream, tmp_path) as served:
            for number in range(8):
                asked = request(user(f"Hi {number}"))
                with CLIENT.stream("POST", f"{served.url}/v1/messages", content=asked, headers=HEADERS) as answer:
                    next(answer.iter_raw())
                assert upstream.left.wait(30)
                upstream.left.clear()
        gateways = [one.name for one in threading.enumerate() if one.ident not in before and one.name == "gateway"]
    assert gateways == []
    assert len(list(tmp_path.iterdir())) == 8
