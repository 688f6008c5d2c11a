"""Providers that require parts of a reply back, played by strict servers written from their public documents.

DeepSeek requires ``reasoning_content`` in each message with calls. Gemini requires the thought signature of each call,
or a fixed text if it is not available. OpenRouter requires ``reasoning_details``, joined from their pieces.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ruamel.yaml import YAML

from stackmem.core.facts import ModelReplied, RunEnded
from stackmem.core.messages import Thinking
from stackmem.models.registry import open_model
from tests.providers.chat_server import ChatServer, chunks
from tests.providers.views import asking, assistant, user
from tests.stage import TASKS, Stage, events

from .test_runs_over_http import run

Json = dict[str, Any]
NO_SIGNATURE = "skip_thought_signature_validator"


def past_calls(body: Json) -> list[Json]:
    return [message for message in body["messages"] if message.get("tool_calls")]


def thinks(number: int, name: str, arguments: Json) -> bytes:
    function = {"name": name, "arguments": json.dumps(arguments)}
    pieces = [{"reasoning_content": f"thought {number}, "}, {"reasoning_content": f"of call_{number}"}]
    return chunks(
        *pieces, {"tool_calls": [{"index": 0, "id": f"call_{number}", "function": function}]}, finish="tool_calls"
    )


def misses_thought(body: Json) -> str | None:
    """Return what the server refuses: the first missing part."""
    for message in past_calls(body):
        if "reasoning_content" not in message:
            return "The `reasoning_content` in the thinking mode must be passed back to the API."
        if message["reasoning_content"] and not message["reasoning_content"].endswith(message["tool_calls"][0]["id"]):
            return "this reasoning_content is another message's"
    return None


def signs(number: int, name: str, arguments: Json) -> bytes:
    call = {
        "index": 0,
        "id": f"call_{number}",
        "type": "function",
        "extra_content": {"google": {"thought_signature": f"signed call_{number}"}},
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }
    return chunks({"role": "assistant", "tool_calls": [call]}, finish="stop")


def misses_signature(body: Json) -> str | None:
    for call in (call for message in past_calls(body) for call in message["tool_calls"]):
        signature = call.get("extra_content", {}).get("google", {}).get("thought_signature")
        if signature is None:
            return "Function call is missing a thought_signature in functionCall parts."
        if signature not in (NO_SIGNATURE, f"signed {call['id']}"):
            return "Corrupted thought signature."
    return None


EACH = pytest.mark.parametrize(
    ("reply", "fault"), [(thinks, misses_thought), (signs, misses_signature)], ids=["DeepSeek", "Gemini"]
)
Reply = Callable[[int, str, Json], bytes]


def thought_of(message: Json) -> str:
    call = message["tool_calls"][0]
    return str(
        message.get("reasoning_content") or call.get("extra_content", {}).get("google", {}).get("thought_signature")
    )


@EACH
def test_a_run_of_fourteen_steps_sends_every_thought_back(reply: Reply, fault: Any, stage: Stage) -> None:
    calls = YAML(typ="safe").load((TASKS / "calculator" / "demo.yaml").read_text())["replies"]
    answers = [reply(number, call["call"], call["args"]) for number, call in enumerate(calls)]
    with ChatServer(*answers, fault=fault) as server:
        result = stage.solve(TASKS / "calculator", model="openai/thinker", base_url=server.url)
        bodies = server.bodies
        assert server.refused == []
    assert (result.outcome, result.steps) == ("solved", 14)
    assert all(
        thought_of(message).endswith(message["tool_calls"][0]["id"]) for body in bodies for message in past_calls(body)
    )
    assert sum(len(past_calls(body)) for body in bodies) > 14
    assert [event.thinking for event in events(result.run_dir) if hasattr(event, "thinking")] == ["kept"]


@EACH
def test_a_strategy_that_rewrites_leaves_thoughts_out_and_the_server_is_asked_again_once(
    reply: Reply, fault: Any
) -> None:
    answers = [reply(number, "read_file", {"path": "spec.md"}) for number in range(3)]
    with ChatServer(*answers, reply(3, "pop_frame", {"result": "done"}), fault=fault) as server:
        facts = run(open_model("openai/thinker", {}, base_url=server.url), "stackheap:index=tail")
        bodies = server.bodies
        assert len(server.refused) == 1
    assert [event.ending for event in facts if isinstance(event, RunEnded)] == ["popped"]
    assert {thought_of(message) for body in bodies[2:] for message in past_calls(body)} <= {"None", NO_SIGNATURE}


def test_details_in_pieces_go_back_as_one_and_a_field_that_a_server_refuses_stays_out() -> None:
    pieces = [
        {
            "reasoning": "so",
            "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "so", "signature": None}],
        },
        {"reasoning": " it is", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": " it is"}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "xyz"}]},
        {"content": "hi"},
    ]
    with ChatServer(chunks(*pieces), chunks({"content": "2"}), chunks({"content": "3"})) as server:
        model = open_model("openai/router", {}, base_url=server.url)
        first = model.reply(asking())
        assert isinstance(first, ModelReplied)
        again = asking(user("Do it."), assistant(*first.parts), user("Go on."))
        model.reply(again)
        server.fault = lambda body: (
            "property 'reasoning' is unsupported" if "reasoning" in body["messages"][2] else None
        )
        assert isinstance(model.reply(again), ModelReplied)
        sent = [body["messages"][2] for body in server.bodies[1:]]
    assert (sent[0]["reasoning"], sent[0]["content"]) == ("so it is", "hi")
    assert sent[0]["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "so it is", "signature": None},
        {"type": "reasoning.encrypted", "index": 1, "data": "xyz"},
    ]
    assert ["reasoning" in message for message in sent] == [True, True, False]


def test_a_thought_that_came_as_a_part_of_the_content_goes_back_as_one() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    with ChatServer(chunks({"content": [thought]}, {"content": "hi"}), chunks({"content": "2"})) as server:
        model = open_model("openai/mistral", {}, base_url=server.url)
        first = model.reply(asking())
        assert isinstance(first, ModelReplied)
        assert isinstance(first.parts[0], Thinking)
        model.reply(asking(user("Do it."), assistant(*first.parts), user("Go on.")))
        assert server.bodies[1]["messages"][2]["content"] == [thought, {"type": "text", "text": "hi"}]
