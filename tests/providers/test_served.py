"""A server's description of its model before a run starts, and its use in the run."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.facts import RunStarted
from stackmem.models.endpoint import Endpoint
from stackmem.models.local_servers import ASSUMED_FREE
from stackmem.providers.openai import OpenAIModel
from stackmem.providers.served import ask_ollama, ask_server
from tests.stage import Stage, events, pop

from .chat_server import ChatServer, Refusal, call_piece, chunks

POP = chunks(call_piece('{"result": "Done."}', id="c", name="pop_frame"), finish="tool_calls")


@pytest.mark.parametrize(
    ("entry", "window"),
    [
        ({"max_model_len": 4_096}, 4_096),
        ({"meta": {"n_ctx": 8_192, "n_ctx_train": 131_072}}, 8_192),
        ({"context_length": 200_000, "top_provider": {"context_length": 65_536}}, 65_536),
        ({"max_context_length": 131_072, "loaded_context_length": 4_096}, 4_096),
        ({"context_window": 131_072}, 131_072),
        ({"context_length": "4096"}, None),
        ({"context_length": True, "meta": []}, None),
        ({"max_model_len": -1}, None),
        ({}, None),
    ],
)
def test_a_window_is_found_where_each_server_says_it(entry: dict[str, Any], window: int | None) -> None:
    with ChatServer() as server:
        server.models = {"data": [{"id": "other", "max_model_len": 1}, {"id": "m", **entry}]}
        assert ask_server(Endpoint(f"{server.url}/v1", "k"), "m").window_tokens == window


def test_the_only_model_is_taken_under_any_name_and_one_of_several_is_not() -> None:
    with ChatServer() as server:
        server.models = [{"id": "a.gguf", "max_model_len": 4_096}]
        assert ask_server(Endpoint(f"{server.url}/v1", "k"), "m").window_tokens == 4_096
        server.models = {"data": [{"id": "a", "max_model_len": 4_096}, {"id": "b", "max_model_len": 4_096}]}
        assert ask_server(Endpoint(f"{server.url}/v1", "k"), "m").window_tokens is None


@pytest.mark.parametrize(
    ("pricing", "figures"),
    [
        ({"prompt": "0.000002", "completion": "0.00001", "input_cache_read": "0.0000001"}, (2, 10, 0.1, 2)),
        ({"prompt": 0, "completion": 0}, (0, 0, 0, 0)),
        ({"prompt": "free", "completion": "0"}, None),
        ({"prompt": "-1", "completion": "-1"}, None),
        ({"prompt": "0.1"}, None),
        ("free", None),
    ],
)
def test_a_price_per_token_becomes_one_per_million(pricing: Any, figures: tuple[float, ...] | None) -> None:
    with ChatServer() as server:
        server.models = {"data": [{"id": "m", "pricing": pricing}]}
        price = ask_server(Endpoint(f"{server.url}/v1", "k"), "m").price
    found = None if price is None else (price.input, price.output, price.cache_read, price.cache_write_5m)
    assert found == (None if figures is None else pytest.approx(figures))


@pytest.mark.parametrize("listed", [None, "text", {"data": 7}, {"data": ["m"]}, [[]], {"data": [{"id": ["m"]}] * 2}])
def test_a_server_that_says_nothing_of_use_changes_nothing(listed: object) -> None:
    with ChatServer() as server:
        server.models = listed
        model = OpenAIModel("m", Endpoint(f"{server.url}/v1", "k"))
        model.ask_server()
    assert (model.window_tokens, model.price) == (32_768, ASSUMED_FREE)
    assert "--window-tokens" in model.window_source


def test_the_number_of_parameters_is_taken_from_the_list_of_models() -> None:
    with ChatServer() as server:
        server.models = {"data": [{"id": "m", "meta": {"n_params": 1_777_088_000}}]}
        model = OpenAIModel("m", Endpoint(f"{server.url}/v1", "k"))
        model.ask_server()
    assert model.parameters == 1_777_088_000


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        (b'{"details": {"parameter_size": "1.5B"}, "model_info": {}}', 1_500_000_000),
        (b'{"details": {}, "model_info": {"general.parameter_count": 494032768}}', 494_032_768),
        (b"[]", None),
        (b"{", None),
        (b"[" * 100_000, None),
        (Refusal(404, "model not found"), None),
    ],
)
def test_ollama_is_asked_for_one_model(answer: bytes | Refusal, count: int | None) -> None:
    with ChatServer(answer, path="/api/show") as server:
        assert ask_ollama(Endpoint(f"{server.url}/v1", "k"), "m") == count
        assert server.bodies == [{"model": "m"}]


def test_an_ollama_that_is_gone_or_silent_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = Endpoint(f"http://127.0.0.1:{silent.getsockname()[1]}/v1", "k")
        assert ask_ollama(endpoint, "m", 0.2) is None
    assert ask_ollama(endpoint, "m") is None


def test_a_server_that_is_silent_is_given_up_and_one_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://me:secret-word@127.0.0.1:{silent.getsockname()[1]}/v1"
        assert ask_server(Endpoint(url, "k"), "m", 0.2).window_tokens is None
    with pytest.raises(UsageError, match=r"no server answers at http://127\.0\.0\.1:\d+/v1 .*--base-url") as refused:
        ask_server(Endpoint(url, "k"), "m")
    assert "secret-word" not in str(refused.value)


def test_a_name_says_nothing_on_this_machine_and_what_is_given_outranks_all() -> None:
    assert OpenAIModel("gpt-6-luna", Endpoint("http://127.0.0.1:1/v1", "k")).price == ASSUMED_FREE
    far = OpenAIModel("gpt-6-luna", Endpoint("https://example.com/v1", "k"))
    assert (far.window_tokens, far.price is not None) == (1_050_000, True)
    with ChatServer() as server:
        server.models = {"data": [{"id": "m", "max_model_len": 4_096}]}
        model = OpenAIModel("m", Endpoint(f"{server.url}/v1", "k"), window_tokens=50_000)
        model.ask_server()
    assert (model.window_tokens, model.window_source) == (50_000, "given by --window-tokens")


def test_a_run_says_which_window_and_price_it_used_and_its_replies_fit(stage: Stage) -> None:
    with ChatServer(POP, POP) as server:
        server.models = {"data": [{"id": "m", "max_model_len": 20_000}]}
        address = ("--model", "openai/m", "--base-url", server.url, "--price", "1,2")
        task = stage.task(pop())
        ran = stage.call("solve", task, *address)
        assert server.bodies[0]["max_completion_tokens"] == 5_000
        server.models = {"data": [{"id": "m", "max_model_len": 1_024}]}
        refused = stage.call("solve", task, *address)
    assert "window 20,000 tokens (said by the server) | price: given by --price 1,2" in ran.stderr
    (started,) = events(stage.only_run(), RunStarted)
    assert (started.window_tokens, started.window_source) == (20_000, "said by the server")
    assert started.price.output == 2
    assert refused.returncode == 2
    assert "the window of 1,024 tokens (said by the server) is too small: " in refused.stderr


@pytest.mark.parametrize("model", ["openai/m", "llamacpp/m"])
def test_a_server_on_this_machine_is_free_in_the_terminal_and_in_the_list_of_runs(stage: Stage, model: str) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    done = chunks(call_piece('{"result": "Done."}', id="c", name="pop_frame"), usage=usage)
    with ChatServer(done, done) as server:
        ran = stage.call("solve", stage.task(pop()), "--model", model, "--base-url", f"{server.url}/v1")
    assert "price: free (local)" in ran.stderr
    assert " tokens, free (local)" in ran.stdout
    assert "free (local)" in stage.call("runs").stdout
    (started,) = events(stage.only_run(), RunStarted)
    assert started.price.output == 0


def test_a_limit_of_the_cost_needs_a_price_where_a_proxy_may_be_paid(stage: Stage) -> None:
    with ChatServer(POP, POP, POP, POP) as server:
        at = ("--base-url", f"{server.url}/v1", "--max-usd", "1")
        refused = stage.call("solve", stage.task(pop()), "--model", "openai/m", *at)
        taken = stage.call("solve", stage.root / "small", "--model", "openai/m", *at, "--price", "1,2")
    assert refused.returncode == 2
    assert "a limit of 1 USD cannot be enforced" in refused.stderr
    assert taken.returncode == 0
