"""Several read-only calls in one reply over every wire: strict servers accept the results, and allow the calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stackmem.core.facts import CallRejected, ToolReturned
from tests.providers.chat_server import ChatServer, call_piece, chunks
from tests.providers.gemini_server import GeminiServer
from tests.providers.gemini_server import call as gemini_call
from tests.providers.gemini_server import streamed as gemini
from tests.providers.server import Answer, MessagesServer, calls
from tests.providers.test_openai_responses import function_call
from tests.providers.test_openai_responses import streamed as response
from tests.run.people import replayed
from tests.stage import Stage, events

READS = [("read_file", {"path": "a.txt"}), ("list_files", {"path": "."}), ("read_file", {"path": "no"})]
END = ("pop_frame", {"result": "Done."})


def solved(stage: Stage, model: str, url: str | None, **settings: Any) -> list[str]:
    """Return the results of the calls of a run in a user's folder, which must replay."""
    mine = stage.root / "mine"
    mine.mkdir()
    (mine / "a.txt").write_text("the first\n", encoding="utf-8")
    result = stage.solve(mine, "Look.", model=model, base_url=url, read_calls="many", **settings)
    assert (result.outcome, result.steps) == ("finished", 2), result.failure
    assert events(result.run_dir, CallRejected) == []
    replayed(result)
    return [event.text for event in events(result.run_dir, ToolReturned)]


@pytest.mark.parametrize("strategy", ["adaptive", "fold", "stackheap", "window"])
def test_anthropic_accepts_the_results_of_a_strategy(
    strategy: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = "return" if strategy == "fold" else "pop_frame"
    several = tuple({"type": "tool_use", "name": name, "input": given} for name, given in READS)
    with MessagesServer(Answer(several, "tool_use"), calls(ends, END[1])) as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        texts = solved(stage, "anthropic/m", None, strategy=strategy)
        assert server.bodies[0]["tool_choice"] == {"type": "auto"}
        last = server.bodies[1]["messages"][-1]["content"]
    assert [block["type"] for block in last[:3]] == ["tool_result"] * 3
    assert texts[0].strip() == "the first"


def test_chat_completions_gets_a_message_for_each_result(stage: Stage) -> None:
    pieces = [
        call_piece(json.dumps(given), index=n, id=f"c{n}", name=name) for n, (name, given) in enumerate(READS)
    ]  # fmt: skip
    last = call_piece(json.dumps(END[1]), id="end", name=END[0])
    with ChatServer(chunks(*pieces, finish="tool_calls"), chunks(last, finish="tool_calls")) as server:
        solved(stage, "openai/m", f"{server.url}/v1")
        assert [body["parallel_tool_calls"] for body in server.bodies] == [True, True]
        sent = server.bodies[1]["messages"]
    assert [one.get("tool_call_id") for one in sent[-3:]] == ["c0", "c1", "c2"]
    assert [call["id"] for call in sent[-4]["tool_calls"]] == ["c0", "c1", "c2"]


def test_responses_gets_an_output_for_each_call(stage: Stage) -> None:
    items = [function_call(n, name, json.dumps(given)) for n, (name, given) in enumerate(READS)]
    end = function_call(9, END[0], json.dumps(END[1]))
    with ChatServer(response(*items), response(end), path="/v1/responses") as server:
        solved(stage, "responses/m", f"{server.url}/v1")
        assert [body["parallel_tool_calls"] for body in server.bodies] == [True, True]
        kinds = [item["type"] for item in server.bodies[1]["input"]]
    assert kinds[-6:] == ["function_call"] * 3 + ["function_call_output"] * 3


def test_gemini_gets_one_message_with_all_responses(stage: Stage) -> None:
    several = [gemini_call(n, name, given, signed=not n) for n, (name, given) in enumerate(READS)]
    with GeminiServer(gemini(*several), gemini(gemini_call(9, *END))) as server:
        solved(stage, "gemini/m", server.url)
        assert server.refused == []
        last = server.bodies[1]["contents"][-1]["parts"]
    assert ["functionResponse" in part for part in last[:3]] == [True] * 3


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"<tool_call>{json.dumps({'name': n, 'arguments': a})}</tool_call>" for n, a in READS),
        json.dumps({"tool_calls": [{"name": n, "arguments": a} for n, a in READS]}),
        json.dumps([{"name": n, "arguments": a} for n, a in READS]),
    ],
    ids=["tags", "listed", "array"],
)
def test_calls_that_a_local_model_writes_as_text_are_all_answered(text: str, stage: Stage) -> None:
    end = json.dumps({"name": END[0], "arguments": END[1]})
    with ChatServer(chunks({"content": text}), chunks({"content": end})) as server:
        texts = solved(stage, "openai/m", f"{server.url}/v1", text_calls="prompt", strategy="full")
    assert len(texts) == 3
