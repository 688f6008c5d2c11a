"""Whole runs against a strict Messages API server: cost, caching, and survived failures."""

import json
import os
import signal
from itertools import pairwise
from typing import Any

import pytest

from stackmem import replay
from stackmem.core.facts import ModelFailed, ModelReplied, RunStarted
from stackmem.core.pricing import cost_usd
from stackmem.models.catalog import lookup
from tests.providers.server import Answer, MessagesServer, calls, fails, says
from tests.stage import SOLVED, Stage, events, eventually

MODEL = "anthropic/claude-sonnet-5-5"
POP = calls("pop_frame", {"result": "Done."})
TRUE = calls("run_command", {"command": "true"})
PUSH = calls(
    "push_frame",
    {"name": "child", "objective": "Do the part.", "context": "None.", "return_spec": "All."},
    thought="Hm.",
)


def solved(stage: Stage, server: MessagesServer, **settings: Any):
    result = stage.solve(stage.task(), model=MODEL, environ={**os.environ, **server.environ}, **settings)
    assert server.refused == []
    return result


def test_a_run_survives_what_passes_and_the_trace_and_the_screen_say_what_happened(stage: Stage):
    overload = {"error": {"type": "overloaded_error", "message": "Overloaded"}}
    troubles = [
        fails(429, "rate_limit_error", headers={"retry-after": "1"}), PUSH,
        fails(529, "overloaded_error"), TRUE,
        says("a reply that breaks off", break_after=4), TRUE,
        Answer(bytes=b"event: message_start\ndata: {not json}\n\n"), POP,
        calls("run_command", {"command": "touch never"}, break_after=5, break_by="error", **overload), POP,
    ]  # fmt: skip
    with MessagesServer(*troubles) as server:
        ran = stage.run("solve", stage.task(test=SOLVED), "--model", MODEL, "--json", env=server.environ)
        assert server.refused == []
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert (result["outcome"], result["steps"], result["changed"]) == ("solved", 5, [])
    kinds = [event.kind for event in events(result["run_dir"], ModelFailed)]
    assert kinds == ["rate_limited", "overloaded", "incomplete", "incomplete", "overloaded"]
    for kind in kinds:
        assert f"the provider failed: {kind}: " in ran.stderr
    assert ran.stderr.count("next wait 1 s") == 5
    assert replay(result["run_dir"]).prompts == 10
    assert len(server.bodies) == 10
    assert server.raw[0] == server.raw[1]  # a repeated request has the same bytes


def test_a_spend_limit_ends_the_run_at_once_with_4(stage: Stage):
    with MessagesServer(TRUE, fails(402, "billing_error", "pay first"), POP) as server:
        result = solved(stage, server)
        assert len(server.bodies) == 2
    assert (result.ending, result.exit_code, result.steps) == ("model_error", 4, 1)
    assert result.failure == "spend_limit: HTTP 402: pay first"


def test_a_refused_key_ends_the_run_and_is_not_recorded(stage: Stage):
    key = "sk-ant-a-key-that-nobody-accepts"
    with MessagesServer(POP) as server:
        environ = {**os.environ, **server.environ, "ANTHROPIC_API_KEY": key}
        result = stage.solve(stage.task(), model=MODEL, environ=environ)
    assert (result.exit_code, events(result.run_dir, ModelFailed)[0].kind) == (4, "authentication")
    for path in stage.only_run().iterdir():
        if path.is_file():
            assert key not in path.read_text("utf-8")


@pytest.mark.parametrize("strategy", ["stackheap", "full"])
def test_the_cost_is_the_sum_of_every_class_of_tokens_at_the_tables_price(stage: Stage, strategy):
    price = lookup("claude-sonnet-5-5").price
    steps = [PUSH, TRUE, POP] if strategy == "stackheap" else [TRUE, TRUE]
    with MessagesServer(*steps, TRUE, POP) as server:
        result = solved(stage, server, strategy=strategy)
    assert events(result.run_dir, RunStarted)[0].price == price
    replies = events(result.run_dir, ModelReplied)
    assert result.cost_usd == pytest.approx(sum(cost_usd(reply.usage, price) for reply in replies), abs=1e-6)
    each = result.usage
    by_hand = (
        each.uncached * 2
        + each.cache_read * 0.1
        + each.cache_write_5m * 2.5
        + each.cache_write_1h * 4
        + each.output * 10
    )
    assert result.cost_usd == pytest.approx(by_hand / 1e6, abs=1e-6)
    assert min(each.cache_read, each.cache_write_5m, each.cache_write_1h, each.output) > 0


def test_a_limit_in_usd_ends_the_run(stage: Stage):
    with MessagesServer(*[TRUE] * 5) as server:
        result = solved(stage, server, max_usd=0.0001)
    assert (result.ending, result.steps) == ("limit:usd", 1)


def test_each_prompt_of_a_frame_reads_all_of_the_one_before_it_from_the_cache(stage: Stage):
    big = calls("run_command", {"command": "seq 300"})
    with MessagesServer(big, big, big, big, POP) as server:
        result = solved(stage, server)
    usages = [reply.usage for reply in events(result.run_dir, ModelReplied)]
    for before, after in pairwise(usages):
        assert after.cache_read == before.prompt
        assert after.cache_write_1h == 0
    shares = [usage.cache_read / usage.prompt for usage in usages]
    assert shares[0] == 0
    assert shares[1:] == sorted(shares[1:])
    assert shares[-1] > 0.8


def test_a_push_finds_tools_system_and_constants_in_the_cache_and_a_pop_the_parents_whole_prompt(stage: Stage):
    with MessagesServer(TRUE, PUSH, TRUE, POP, TRUE, POP) as server:
        result = solved(stage, server, strategy="stackheap")
    first, second, child, inner, back, _ = (reply.usage for reply in events(result.run_dir, ModelReplied))
    assert first.cache_write_1h > 0
    assert child.cache_read == first.cache_write_1h == second.cache_read - first.cache_write_5m
    assert child.cache_write_1h == 0
    assert inner.cache_read == child.prompt
    assert back.cache_read == second.prompt


def test_ctrl_c_while_a_slow_server_streams_ends_the_run(stage: Stage):
    with MessagesServer(TRUE, says("slowly", pause_seconds=5.0)) as server:
        process = stage.start("solve", stage.task(), "--model", MODEL, "--json", env=server.environ)
        eventually(lambda: len(server.bodies) == 2)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=100)
    assert process.returncode == 130, stderr
    result = json.loads(stdout)
    assert (result["ending"], result["steps"]) == ("interrupted", 1)
    assert result["cost_usd"] > 0
    assert replay(result["run_dir"]).outcome == "interrupted"


def test_the_key_is_given_to_the_provider_and_to_nobody_else(stage: Stage):
    look = calls("run_command", {"command": "env; cat /proc/self/environ"})
    with MessagesServer(look, POP) as server:
        result = solved(stage, server)
        assert result.outcome == "solved"
        for raw in server.raw:
            assert server.key.encode() not in raw
    for path in stage.only_run().iterdir():
        if path.is_file():
            assert server.key not in path.read_text("utf-8")
