"""Findings of ``stackmem doctor --model`` about servers on loopback."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stackmem.models.endpoint import Endpoint
from stackmem.review.doctor.probe import ServerProbes, probe_server
from tests.stage import Stage

from .chat_server import ChatServer, Refusal, call_piece, chunks


def usage(prompt: int, cached: int | None = None, output: int = 30) -> dict[str, Any]:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": prompt, "completion_tokens": output, **details}


def written(path: str, **more: Any) -> bytes:
    return chunks({"content": json.dumps({"name": "read_file", "arguments": {"path": path}})}, **more)


NATIVE = chunks(
    call_piece('{"path": "notes.txt"}', id="c", name="read_file"), finish="tool_calls", usage=usage(240)
)  # fmt: skip
OBEYS = written("schema-probe.txt", usage=usage(240, 239))
TEXT = written("notes.txt", usage=usage(230))


def probes(*answers: bytes | Refusal) -> ServerProbes:
    with ChatServer(*answers) as server:
        return probe_server(Endpoint(f"{server.url}/v1", "k"), "m")


def test_each_form_that_works_is_found_and_the_cache_too() -> None:
    found = probes(NATIVE, OBEYS, TEXT)
    assert (found.native.form, found.native.right) == ("native call", True)
    assert (found.constrained.form, found.constrained.right) == ("call in the text", True)
    assert (found.text.form, found.text.right) == ("call in the text", True)
    assert found.cache == "works"
    assert not found.ignores_tools


def test_a_server_that_takes_a_schema_and_does_not_keep_to_it_is_seen() -> None:
    found = probes(NATIVE, written("notes.txt", usage=usage(240, 0)), TEXT)
    assert not found.constrained.right
    assert found.cache == "not known"  # it reports no count, and answers too fast for timing


def test_a_server_that_ignores_tools_is_seen_by_the_length_of_its_prompt() -> None:
    found = probes(chunks({"content": "Sure, I will."}, usage=usage(90)), OBEYS, TEXT)
    assert found.native.form == "no call"
    assert found.ignores_tools


@pytest.mark.parametrize(
    "answer",
    [
        Refusal(400, "response_format is not supported"),
        Refusal(500, ""),
        b"<html><title>Hi</title>",
        b"",
        b"data: 7\n\n",
    ],
)
def test_what_a_server_refuses_or_cannot_say_is_refused_and_the_others_are_asked(answer: bytes | Refusal) -> None:
    found = probes(NATIVE, answer, TEXT)
    assert found.constrained.form == "refused"
    assert found.constrained.detail
    assert found.cache == "not known"
    assert found.text.right


def test_doctor_prints_what_works_and_how_long_the_first_prompts_take(stage: Stage) -> None:
    with ChatServer(NATIVE, OBEYS, TEXT) as server:
        server.models = {"data": [{"id": "m", "max_model_len": 20_000}]}
        ran = stage.call("doctor", "--model", "openai/m", "--base-url", server.url)
    lines = ran.stdout.splitlines()
    assert "  window:            20,000 tokens (said by the server)" in lines
    assert "  native call:       works" in lines
    assert "  constrained call:  works" in lines
    assert "  prefix cache:      works (239 of 240 tokens)" in lines
    assert "  a run gets:        native calls" in lines
    assert sum("first prompt of" in line and "(estimated)" in line for line in lines) == 3
    assert "asking openai/m to answer some test prompts" in ran.stderr
    assert ran.returncode == 0


def test_doctor_counts_the_prompt_of_the_size_that_a_run_gets_and_the_time_until_its_first_reply(stage: Stage) -> None:
    timings = b'data: {"choices": [], "timings": {"prompt_per_second": 10.0, "predicted_per_second": 8.0}}\n\n'
    end = b"data: [DONE]\n\n"
    answers = [answer.replace(end, timings + end) for answer in (NATIVE, OBEYS, TEXT)]
    prompts = {}
    for name in ("coder-1.5b", "coder-70b"):
        with ChatServer(*answers) as server:
            at = ("--model", f"openai/{name}", "--base-url", server.url)
            ran = stage.call("doctor", *at)
            server.answers += answers
            value = json.loads(stage.call("doctor", *at, "--json").stdout)
        prompts[name] = {first["strategy"]: first for first in value["first_prompts"]}
        assert ("at the small size" in ran.stdout) is (name == "coder-1.5b")
    small, full = prompts["coder-1.5b"]["adaptive"], prompts["coder-70b"]["adaptive"]
    assert (small["small"], full["small"]) == (True, False)
    assert small["tokens"] < full["tokens"]
    assert small["reply_seconds"] == small["tokens"] / 10 + 40 / 8


def test_doctor_says_that_a_model_calls_nothing(stage: Stage) -> None:
    silent = chunks({"content": "I am a poet."}, usage=usage(240))
    with ChatServer(silent, silent, silent) as server:
        at = ("--model", "openai/m", "--base-url", server.url)
        ran = stage.call("doctor", *at)
        server.answers += [silent] * 3
        value = json.loads(stage.call("doctor", *at, "--json").stdout)
    assert ran.returncode == 1
    assert "choose another model" in ran.stdout
    assert value["use"] == ""
    assert value["probes"]["native"]["form"] == "no call"


def test_doctor_names_a_server_that_is_not_there_and_a_model_that_it_cannot_probe(stage: Stage) -> None:
    gone = stage.call("doctor", "--model", "llamacpp/m", "--base-url", "http://127.0.0.1:1/v1")
    assert gone.returncode == 2
    assert "no server answers at http://127.0.0.1:1/v1" in gone.stderr
    other = stage.call("doctor", "--model", "claude-sonnet-5-5")
    assert other.returncode == 2
    assert "name openai/NAME or llamacpp/NAME" in other.stderr
