"""Prompts counted by the server's own tokenizer, as llama.cpp and vLLM provide it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from stackmem.models.endpoint import Endpoint
from stackmem.providers.server.small_requests import count_prompt
from tests.stage import Stage, pop

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [], "stream": True}


class Server(ThreadingHTTPServer):
    answers: dict[str, Any]
    asked: list[tuple[str, Any]]

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(f"http://127.0.0.1:{self.server_address[1]}/v1", "k")


class _Connection(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, body))
        answer = self.server.answers.get(self.path)
        sent = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        """Does nothing, to keep the test output clean."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), _Connection)
    made.answers, made.asked = {}, []
    threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def test_llama_cpp_counts_the_text_that_its_template_makes(server: Server) -> None:
    server.answers = {"/apply-template": {"prompt": "<user>hi"}, "/tokenize": {"tokens": [1, 2, 3]}}
    assert count_prompt(server.endpoint, BODY) == 3
    assert server.asked[0] == ("/apply-template", {"messages": BODY["messages"], "tools": []})
    assert server.asked[1][1]["content"] == "<user>hi"


def test_vllm_counts_the_messages_themselves(server: Server) -> None:
    server.answers = {"/tokenize": {"count": 42, "max_model_len": 4096, "tokens": [7]}}
    assert count_prompt(server.endpoint, BODY) == 42
    assert server.asked[1][1]["messages"] == BODY["messages"]


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"/tokenize": []},
        {"/tokenize": {"count": True}},
        {"/tokenize": {"count": -1, "tokens": []}},
        {"/tokenize": b"<html>"},
        {"/tokenize": b"[" * 100_000},
        {"/apply-template": {"prompt": 7}},
    ],
)
def test_a_server_without_a_tokenizer_counts_nothing(server: Server, answers: dict[str, Any]) -> None:
    server.answers = answers
    assert count_prompt(server.endpoint, BODY) is None


def test_a_server_that_is_not_there_counts_nothing() -> None:
    assert count_prompt(Endpoint("http://127.0.0.1:1/v1", "k"), BODY) is None


@pytest.mark.parametrize(("tokens", "refused"), [(900, False), (1_900, True)])
def test_a_small_window_is_judged_by_the_servers_own_count(
    server: Server, stage: Stage, tokens: int, refused: bool
) -> None:
    server.answers = {"/apply-template": {"prompt": "p"}, "/tokenize": {"tokens": [0] * tokens}}
    at = ("--model", "llamacpp/m", "--base-url", server.endpoint.url, "--window-tokens", "2000", "--strategy", "full")
    ran = stage.call("solve", stage.task(pop(), text="Do it. " * 300), *at)
    assert ("is too small" in ran.stderr) is refused
    assert (f"about {tokens:,} of it" in ran.stderr) is refused
