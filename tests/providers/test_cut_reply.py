"""Tokens of a reply cut by a limit are estimated and marked, and the run counts them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from stackmem.core.facts import ModelFailed
from stackmem.core.machine import evolve, fold
from stackmem.core.messages import Usage
from stackmem.core.pricing import Price
from stackmem.core.requests import AskModel
from stackmem.core.state import State
from stackmem.models.endpoint import Endpoint
from stackmem.providers.openai import OpenAIModel
from tests.build import started

from .views import READ_FILE, user, view

REQUEST = AskModel(view(user("Read a."), tools=(READ_FILE,)), 1, 0, left_seconds=0.5)


@contextmanager
def slow_server(pieces: int) -> Iterator[str]:
    """A server that sends this many pieces of a reply and then stalls."""
    over = threading.Event()

    class Connection(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            progress = {"choices": [{"delta": {"content": None}}], "prompt_progress": {"processed": 1, "total": 9}}
            word = {"choices": [{"index": 0, "delta": {"content": "word "}}]}
            for event in (progress, *[word] * pieces):
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
            over.wait(60)

        def log_message(self, *_: object) -> None:
            """Does nothing, to keep the test output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Connection)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    over.set()
    server.shutdown()
    server.server_close()


def test_a_reply_that_the_runs_time_cut_has_estimated_tokens() -> None:
    with slow_server(7) as url:
        answer = OpenAIModel("m", Endpoint(f"{url}/v1", "k")).reply(REQUEST)
    assert isinstance(answer, ModelFailed)
    assert answer.kind == "timeout"
    assert isinstance(answer.usage, Usage)
    assert answer.usage.estimated
    assert answer.usage.output == 7
    assert answer.usage.prompt > 20


def test_an_attempt_without_a_connection_used_no_tokens() -> None:
    answer = OpenAIModel("m", Endpoint("http://127.0.0.1:1/v1", "k")).reply(REQUEST)
    assert isinstance(answer, ModelFailed)
    assert answer.kind == "connection"
    assert not isinstance(answer.usage, Usage)


def test_the_state_counts_the_tokens_and_the_cost_of_a_cut_attempt() -> None:
    price = Price(1.0, 2.0, 1.0, 1.0, 1.0, "test")
    state = fold([started(price=price)])
    after = evolve(state, ModelFailed("timeout", "cut", usage=Usage(uncached=1_000_000, output=10, estimated=True)))
    assert after.usage == Usage(uncached=1_000_000, output=10, estimated=True)
    assert after.usd == 1.00002
    assert evolve(State(), ModelFailed("timeout", "")).usage == Usage()
