"""A malicious server cannot block a run forever, fill its memory, or redirect the key."""

from __future__ import annotations

import gzip
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from msgspec.structs import replace

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.models.endpoint import Endpoint
from stackmem.providers.anthropic import AnthropicModel
from stackmem.providers.openai import OpenAIModel
from tests.stage import events, pop

from .views import asking

KEY = "sk-ant-test-0123456789"
MODELS = (AnthropicModel, OpenAIModel)
LIMIT = 0.6
each_model = pytest.mark.parametrize("kind", MODELS)


@contextmanager
def serving(talk: Callable[[socket.socket], object], seen: list[bytes] | None = None) -> Iterator[str]:
    """A server that reads a request and then treats the connection arbitrarily; returns its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.1)
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                with suppress(OSError):
                    connection, _ = listening.accept()
                    threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                request = b""
                while b"\r\n\r\n" not in request:
                    request += connection.recv(65536)
                if seen is not None:
                    seen.append(request)
                connection.settimeout(20)
                talk(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


def asked(kind: type, url: str, seconds: float = 20.0) -> ModelReplied | ModelFailed:
    return kind("any", Endpoint(url, KEY, silence_seconds=20.0, reply_seconds=seconds)).reply(asking())


def trickling(head: bytes, piece: bytes) -> Callable[[socket.socket], None]:
    def talk(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            time.sleep(0.05)
            connection.sendall(piece)

    return talk


CHUNKED = b"HTTP/1.1 %s OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n%s\r\n"


@each_model
@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"x-a: b\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (CHUNKED % (b"200", b""), b"1\r\n:\r\n"),
        (CHUNKED % (b"500", b""), b"1\r\n \r\n"),
        (b"", b""),
    ],
    ids=["headers", "interim answers", "a reply", "an error", "silence"],
)
def test_whatever_trickles_without_end_is_cut_at_the_time_limit(kind, head, piece):
    with serving(trickling(head, piece)) as url:
        answer = asked(kind, url, LIMIT)  # endless without the cut
    assert isinstance(answer, ModelFailed)
    assert answer.kind == "timeout"
    assert "longer than its time limit" in answer.detail


@each_model
def test_an_attempt_after_one_that_was_cut_has_its_whole_time(kind):
    with serving(trickling(b"HTTP/1.1 200 OK\r\n", b"x-a: b\r\n")) as url:
        model = kind("any", Endpoint(url, KEY, reply_seconds=LIMIT))
        first = model.reply(asking())
        begun = time.monotonic()
        second = model.reply(asking())
    assert (first.kind, second.kind) == ("timeout", "timeout")
    assert time.monotonic() - begun >= LIMIT * 0.9


@each_model
@pytest.mark.parametrize("head", [b"", CHUNKED % (b"200", b"")], ids=["silence", "a reply"])
def test_what_is_left_of_the_run_bounds_an_attempt(kind, head):
    with serving(trickling(head, b"1\r\n:\r\n" if head else b"")) as url:
        answer = kind("any", Endpoint(url, KEY)).reply(replace(asking(), left_seconds=LIMIT))
    assert isinstance(answer, ModelFailed)
    assert answer.kind == "timeout"


@pytest.mark.parametrize(
    "talk",
    [
        trickling(CHUNKED % (b"200", b""), b"1\r\n:\r\n"),
        lambda connection: connection.sendall(b"HTTP/1.1 429 No\r\nretry-after: 60\r\ncontent-length: 0\r\n\r\n"),
    ],
    ids=["trickles", "asks to wait"],
)
def test_a_run_ends_by_its_limit_in_seconds_while_its_server_keeps_it_waiting(talk, stage):
    with serving(talk) as url:
        environ = {**os.environ, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY}
        result = stage.solve(stage.task(pop()), model="claude-sonnet-5-5", max_seconds=1, environ=environ)
    assert result.ending == "limit:seconds"
    assert len(events(result.run_dir, ModelFailed)) <= 1  # the run's own alarm may fire before the attempt ends


@each_model
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_so_the_key_goes_nowhere_else(kind, status):
    elsewhere: list[bytes] = []
    with serving(socket.socket.close, elsewhere) as other:
        head = f"HTTP/1.1 {status} Moved\r\nlocation: {other}/v1/messages\r\ncontent-length: 0\r\n\r\n".encode()
        with serving(lambda connection: connection.sendall(head)) as url:
            answer = asked(kind, url)
    assert elsewhere == []
    assert isinstance(answer, ModelFailed)
    assert (answer.kind, str(status) in answer.detail) == ("rejected", True)


@each_model
def test_a_reply_that_is_compressed_unasked_is_refused_before_it_is_unpacked(kind):
    bomb = gzip.compress(b"data: " + b"x" * 50_000_000, 1)
    requests: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        head = CHUNKED % (b"200", b"content-encoding: gzip\r\n")
        connection.sendall(head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(bomb), bomb))

    with serving(talk, requests) as url:
        answer = asked(kind, url)
    assert isinstance(answer, ModelFailed)
    assert "compressed" in answer.detail
    assert b"accept-encoding: identity" in requests[0].lower()


@each_model
@pytest.mark.parametrize("coding", [b"", b"content-encoding: gzip\r\n"])
def test_an_error_without_end_is_read_to_a_limit_and_keeps_its_status(kind, coding):
    def talk(connection: socket.socket) -> None:
        connection.sendall(CHUNKED % (b"401", coding))
        while True:
            connection.sendall(b"10000\r\n" + b"e" * 65536 + b"\r\n")

    with serving(talk) as url:
        answer = asked(kind, url)
    assert isinstance(answer, ModelFailed)
    assert (answer.kind, len(answer.detail) <= 500) == ("authentication", True)


@each_model
@pytest.mark.parametrize("value", ["inf", "nan", "-5", "1e400", "9" * 5000, "Fri, 31 Dec 9999 23:59:59 -9999", "\tx"])
def test_no_wish_to_wait_is_endless_or_negative(kind, value):
    head = f"HTTP/1.1 429 No\r\nretry-after: {value}\r\ncontent-length: 0\r\n\r\n".encode()
    with serving(lambda connection: connection.sendall(head)) as url:
        answer = asked(kind, url)
    assert isinstance(answer, ModelFailed)
    assert answer.kind == "rate_limited"
    assert answer.retry_after_seconds is None or 0 <= answer.retry_after_seconds < 1e12


def streamed(*events: str) -> Callable[[socket.socket], None]:
    body = "".join(f"data: {event}\n\n" for event in events).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body)
    return lambda connection: connection.sendall(head + body)


@pytest.mark.parametrize("count", ["1" + "0" * 400, "-1", str(2**63)])
def test_counts_that_no_reply_has_are_no_counts(count):
    claude = streamed(
        '{"type":"message_start","message":{"id":"m","usage":{"input_tokens":COUNT,"output_tokens":7}}}'.replace(
            "COUNT", count
        ),
        '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hi"}}',
        '{"type":"message_delta","delta":{"stop_reason":"end_turn"}}',
        '{"type":"message_stop"}',
    )
    chat = streamed(
        '{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}',
        '{"choices":[],"usage":{"prompt_tokens":COUNT,"completion_tokens":7}}'.replace("COUNT", count),
        "[DONE]",
    )
    for kind, talk in ((AnthropicModel, claude), (OpenAIModel, chat)):
        with serving(talk) as url:
            answer = asked(kind, url)
        assert isinstance(answer, ModelReplied)
        assert (answer.usage.uncached, answer.usage.output) == (0, 7)
