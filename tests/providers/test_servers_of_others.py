"""Third-party servers: a litellm proxy in front of a scripted server, and llama-server with given weights.

``LITELLM`` names the proxy's program (``pip install 'litellm[proxy]'``). ``LLAMA_SERVER`` is llama.cpp's command line
for serving a model: ``llama-server -m random.gguf -c 2048 --jinja``; random weights are enough.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from stackmem.core.facts import ModelFailed, ModelReplied, RunEnded
from stackmem.core.messages import Text, ToolCall
from stackmem.models.registry import open_model
from tests.providers.chat_server import ChatServer, Refusal, call_piece, chunks
from tests.stage import TASKS, Stage, events

from .views import asking, user

LITELLM = os.environ.get("LITELLM", "")
LLAMA_SERVER = os.environ.get("LLAMA_SERVER", "")
WAIT_SECONDS = 300
KEY = "sk-the-proxys-own-0123456789abcdef"

pytestmark = pytest.mark.campaign
proxied = pytest.mark.skipif(not LITELLM, reason="LITELLM does not name a litellm proxy program")
served = pytest.mark.skipif(not LLAMA_SERVER, reason="LLAMA_SERVER does not name a llama-server")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def started(line: list[str], port: int, health: str, said: Path) -> Iterator[str]:
    """Start a server that ends with the test, and return its address."""
    environ = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # otherwise it downloads a newer price table
    with said.open("w") as out, subprocess.Popen(line, env=environ, stdout=out, stderr=out) as server:
        try:
            end = time.monotonic() + WAIT_SECONDS
            while not answers(f"http://127.0.0.1:{port}{health}"):
                assert server.poll() is None, said.read_text()[-2_000:]
                assert time.monotonic() < end, said.read_text()[-2_000:]
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
            server.wait(100)


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (HTTPError, OSError):
        return False


@pytest.fixture(scope="module")
def upstream() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.fixture(scope="module")
def litellm(upstream: ChatServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a proxy whose only model is the scripted server's, and return its address."""
    place = tmp_path_factory.mktemp("litellm")
    of_upstream = {"model": "openai/local", "api_base": f"{upstream.url}/v1", "api_key": "none"}
    settings = {
        "model_list": [{"model_name": "local", "litellm_params": of_upstream}],
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
        "general_settings": {"master_key": KEY},
    }
    (place / "config.yaml").write_text(json.dumps(settings))
    port = free_port()
    line = [LITELLM, "--config", str(place / "config.yaml"), "--host", "127.0.0.1", "--port", str(port)]
    with started(line, port, "/health/liveliness", place / "said.txt") as url:
        yield url


def reply(url: str, text: str = "go on") -> ModelReplied | ModelFailed:
    return open_model("openai/local", {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY}).reply(asking(user(text)))


@proxied
def test_text_a_call_and_its_usage_pass_the_proxy(litellm: str, upstream: ChatServer) -> None:
    usage = {"prompt_tokens": 40, "completion_tokens": 7, "total_tokens": 47}
    call = call_piece('{"path": "spec.md"}', name="read_file", id="c1", type="function")
    upstream.answers = [chunks({"role": "assistant", "content": "I look."}, call, finish="tool_calls", usage=usage)]
    answer = reply(litellm)
    assert isinstance(answer, ModelReplied), answer
    text, made = answer.parts
    assert text == Text("I look.")
    assert isinstance(made, ToolCall)
    assert (made.name, made.arguments) == ("read_file", {"path": "spec.md"})
    assert (answer.usage.prompt, answer.usage.output) == (40, 7)


@proxied
@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (Refusal(429, "Rate limit reached"), "rate_limited"),
        (Refusal(500, "The server had an error"), "server_error"),
        (Refusal(400, "no such field: wrench"), "rejected"),
        (Refusal(401, "Incorrect API key provided"), "authentication"),
        (Refusal(400, "This model's maximum context length is 8192 tokens, and you asked for 9000."), "window"),
    ],
)  # fmt: skip
def test_an_error_of_the_server_behind_it_is_a_fact_of_its_kind(
    litellm: str, upstream: ChatServer, refusal: Refusal, kind: str
) -> None:
    upstream.answers = [refusal] * 8
    answer = reply(litellm)
    assert isinstance(answer, ModelFailed), answer
    assert answer.kind == kind, answer.detail
    assert refusal.message.split(".")[0] in answer.detail


@proxied
def test_a_run_over_the_proxy_is_solved(
    litellm: str, upstream: ChatServer, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    demo = stage.solve(TASKS / "calculator", model="demo")
    upstream.answers = [spelled(event) for event in events(demo.run_dir) if isinstance(event, ModelReplied)]
    solved = stage.solve(TASKS / "calculator", model="openai/local", base_url=litellm, window_tokens=200_000)
    assert (solved.outcome, solved.steps) == ("solved", demo.steps)


def spelled(event: ModelReplied) -> bytes:
    """Return the reply as a Chat Completions server streams it."""
    said = [{"role": "assistant", "content": part.text} for part in event.parts if isinstance(part, Text)]
    made = [
        call_piece(json.dumps(part.arguments), name=part.name, id=part.id, type="function")
        for part in event.parts
        if isinstance(part, ToolCall)
    ]
    usage = {"prompt_tokens": event.usage.prompt, "completion_tokens": event.usage.output}
    return chunks(*said, *made, finish="tool_calls" if made else "stop", usage=usage)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    line = [*shlex.split(LLAMA_SERVER), "--host", "127.0.0.1", "--port", str(port)]
    with started(line, port, "/health", tmp_path_factory.mktemp("llama") / "said.txt") as url:
        yield url


@served
def test_random_weights_make_a_run_that_ends_in_good_order(llama: str, stage: Stage) -> None:
    ended = stage.solve(TASKS / "calculator", model="openai/local", base_url=llama, max_steps=5)
    assert ended.outcome in {"unsolved", "stalled", "limit", "model_error"}
    assert stage.call("replay", ended.run).returncode == 0


@served
def test_too_long_a_prompt_is_reported_as_such(llama: str) -> None:
    answer = reply(llama, "word " * 200_000)
    assert isinstance(answer, ModelFailed)
    assert answer.kind == "window", answer.detail


@served
def test_an_interrupt_ends_a_request_in_good_order(llama: str, stage: Stage) -> None:
    line = ["solve", str(TASKS / "calculator"), "--model", "openai/local", "--base-url", llama]
    with stage.start(*line) as running:
        while not stage.written():
            assert running.poll() is None
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=100)
    assert [event.ending for event in events(stage.only_run(), RunEnded)] == ["interrupted"]
