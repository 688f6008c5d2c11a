"""Context editing and compaction by the provider: strict servers accept each request, and answers are recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import UNSET

from stackmem.core.errors import UsageError
from stackmem.core.facts import ContextCompacted, Event, ModelFailed, ModelReplied, RunEnded
from stackmem.core.machine import advance, evolve
from stackmem.core.messages import PromptEdits, ProviderRequest, Text, Thinking, View
from stackmem.core.requests import AskModel, Compact, Effect
from stackmem.core.state import State
from stackmem.memory import open_strategy
from stackmem.models.asked import Asked
from stackmem.models.registry import Model, open_model
from stackmem.providers.provider_context import EDITING_BETA, SUMMARY_BETA
from stackmem.run.models import refuse_other_provider
from stackmem.run.perform import World as Outside
from stackmem.run.perform import perform
from stackmem.trace.record import Record
from stackmem.trace.verify import verify
from tests.build import World, shown_text, started
from tests.providers.chat_server import ChatServer, Refusal
from tests.providers.server import Answer, MessagesServer, calls, fails, summarizes
from tests.providers.test_openai_responses import function_call, streamed
from tests.providers.views import asking, user

Json = dict[str, Any]
CLEARED = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 2, "cleared_input_tokens": 900}
FILE = {"spec.md": "a long specification\n" * 100}
READ = calls("read_file", {"path": "spec.md"}, thought="I read.")
DONE = calls("pop_frame", {"result": "All is done."})


def run(model: Model, strategy: str) -> list[Event]:
    """Return the facts of a whole run, with requests performed as in the loop."""
    opened = open_strategy(strategy)
    start = started(strategy, model=model.name, window_tokens=model.window_tokens)
    state, events, world = evolve(State(), start), [start], World(FILE)
    asks = Outside(model, world, None, str, lambda: None, 1.0, sleep=lambda _: None)  # type: ignore[arg-type]
    while (upcoming := advance(state, opened)) is not None:
        fact: Event
        if isinstance(upcoming, AskModel | Compact):
            fact = perform(upcoming, asks)
        else:
            fact = world.perform(upcoming) if isinstance(upcoming, Effect) else upcoming
        events.append(fact)
        state = evolve(state, fact)
    return events


def claude(server: MessagesServer, **asked: Any) -> Model:
    return open_model("claude-sonnet-5-5", server.environ, asked=Asked(**asked))


def verified(events: list[Event], strategy: str) -> None:
    verify([Record(number, 0.0, event) for number, event in enumerate(events)], open_strategy(strategy))


def test_every_request_has_the_whole_history_and_the_edits_and_the_report_is_recorded() -> None:
    with MessagesServer(READ, READ, READ, Answer(DONE.blocks, "tool_use", applied_edits=(CLEARED,))) as server:
        strategy = "context_editing:1000,keep=1,least=50,thinking=2"
        events = run(claude(server), strategy)
        assert server.refused == []
        assert [body["context_management"] for body in server.bodies] == 4 * [
            {
                "edits": [
                    {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}},
                    {
                        "type": "clear_tool_uses_20250919",
                        "trigger": {"type": "input_tokens", "value": 1000},
                        "keep": {"type": "tool_uses", "value": 1},
                        "clear_at_least": {"type": "input_tokens", "value": 50},
                    },
                ]
            }
        ]
        assert {headers["anthropic-beta"] for headers in server.headers} == {EDITING_BETA}
        last = server.bodies[-1]["messages"]
        for body in server.bodies:
            assert without_marks(body["messages"]) == without_marks(last[: len(body["messages"])])
        assert json.dumps(last).count("a long specification") == 300
        assert json.dumps(last).count('"thinking": "I read."') == 3
    replies = [event for event in events if isinstance(event, ModelReplied)]
    assert [reply.applied_edits for reply in replies] == [UNSET, UNSET, UNSET, (CLEARED,)]
    verified(events, strategy)


def ending(events: list[Event]) -> str:
    return next(event.ending for event in events if isinstance(event, RunEnded))


def without_marks(messages: list[Json]) -> list[Json]:
    return json.loads(
        json.dumps(messages), object_hook=lambda found: {k: found[k] for k in found if k != "cache_control"}
    )


def test_without_edits_there_is_no_field_for_them_and_the_users_own_betas_stay() -> None:
    with MessagesServer(DONE) as server:
        run(claude(server, effort="low"), "context_editing:0")
        assert [edit["type"] for edit in server.bodies[0]["context_management"]["edits"]] == ["clear_thinking_20251015"]
    with MessagesServer(DONE) as server:
        run(claude(server, headers={"Anthropic-Beta": "mine-2026-01-01"}), "context_editing")
        assert server.headers[0]["anthropic-beta"] == f"mine-2026-01-01,{EDITING_BETA}"
    with MessagesServer(DONE) as server:
        run(claude(server), "full")
        assert "anthropic-beta" not in server.headers[0]


def test_claude_writes_the_summary_and_its_block_begins_every_later_request_unchanged() -> None:
    strategy = "compact_provider:3300"
    with MessagesServer(READ, READ, READ, summarizes("The spec says: a = 1."), READ, DONE) as server:
        events = run(claude(server), strategy)
        assert server.refused == []
        asked = server.bodies[3]
        assert asked["compaction"] == {"type": "summarize"}
        assert "COMPACTION REQUEST" not in json.dumps(asked)
        assert asked["messages"][-1]["content"][-1]["type"] == "tool_result"
        assert asked["tools"] == server.bodies[2]["tools"]
        assert asked["system"] == server.bodies[2]["system"]
        for body, headers in list(zip(server.bodies, server.headers, strict=True))[4:]:
            first = body["messages"][0]
            assert first["content"][0] == summarizes("The spec says: a = 1.").blocks[0]
            assert "TASK" in first["content"][-1]["text"]
            assert json.dumps(body).count("The spec says: a = 1.") == 1
            assert headers["anthropic-beta"] == SUMMARY_BETA
        assert len(server.bodies[4]["messages"]) == 3
    [told] = [event for event in events if isinstance(event, ContextCompacted)]
    assert told.text == "The spec says: a = 1."
    assert told.block == summarizes("The spec says: a = 1.").blocks[0]
    assert (told.usage.uncached, told.usage.output) == (1_000, 200)
    assert ending(events) == "popped"
    verified(events, strategy)


def test_a_second_summary_replaces_the_first() -> None:
    with MessagesServer(READ, READ, summarizes("gist one"), READ, summarizes("gist two"), DONE) as server:
        run(claude(server), "compact_provider:1500")
        assert server.refused == []
        assert server.bodies[4]["messages"][0]["content"][0]["content"] == "gist one"
        assert server.bodies[5]["messages"][0]["content"][0]["content"] == "gist two"
        assert "gist one" not in json.dumps(server.bodies[5])


def test_a_summary_that_was_cut_is_requested_again_and_a_refused_one_ends_the_run() -> None:
    cut = Answer((), "max_tokens")
    with MessagesServer(READ, READ, READ, summarizes("the gist"), READ, DONE) as server:
        server.script[3:3] = [fails(529, "overloaded_error", details={"error_code": "compaction_unavailable"})]
        events = run(claude(server), "compact_provider:3300")
    assert ending(events) == "popped"
    assert [event.kind for event in events if isinstance(event, ModelFailed)] == ["overloaded"]
    assert any(isinstance(event, ContextCompacted) for event in events)
    made = ProviderRequest(view().messages, summarizes=True)
    for answer, kind in ((cut, "incomplete"), (Answer((), "refusal"), "rejected")):
        with Loose(answer) as server:
            failed = claude(server).reply(asking_for(made))
            assert isinstance(failed, ModelFailed)
            assert failed.kind == kind
            assert "the provider wrote no summary" in failed.detail


class Loose(MessagesServer):
    """A server whose answer to a compaction request has no summary."""

    def answer(self, raw: bytes, headers: dict[str, str]) -> tuple[Answer, Json]:
        return self.script.pop(0), {}


def view() -> View:
    return asking(user("Do it.")).view


def asking_for(provider: ProviderRequest) -> AskModel:
    plain = view()
    return AskModel(View(plain.system, plain.tools, plain.messages, provider=provider), step=1, facts=0)


ITEMS = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "TASK kept by the provider"}]},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"},
]


class ResponsesServer(ChatServer):
    """Both endpoints of the Responses API, on one script: requests are told apart by their fields."""

    def __init__(self, *answers: bytes | Refusal) -> None:
        super().__init__(*answers, fault=self.faults)
        self.path = "/v1/responses"

    def faults(self, body: Json) -> str | None:
        compacts = "stream" not in body
        allowed = {"model", "input", "instructions"} | (
            set()
            if compacts
            else {"tools", "tool_choice", "stream", "store", "include", "parallel_tool_calls", "max_output_tokens"}
        )
        if extra := body.keys() - allowed:
            return f"Unknown parameter: {sorted(extra)}"
        called = [item["call_id"] for item in body["input"] if item["type"] == "function_call"]
        answered = [item["call_id"] for item in body["input"] if item["type"] == "function_call_output"]
        if called != answered:
            return "No tool output found for function call"
        sealed = [item for item in body["input"] if item["type"] == "compaction"]
        if sealed and body["input"][: len(ITEMS)] != ITEMS:
            return "the compacted window was changed"
        return None


def compaction(items: list[Json]) -> bytes:
    usage = {"input_tokens": 900, "output_tokens": 120, "total_tokens": 1_020}
    value = {"id": "resp_c", "object": "response.compaction", "created_at": 1, "output": items, "usage": usage}
    return json.dumps(value).encode()


def reads(number: int) -> bytes:
    return streamed(function_call(number, "read_file", '{"path": "spec.md"}'))


def test_openai_compacts_and_its_items_begin_every_later_input_unchanged() -> None:
    ends = streamed(function_call(9, "pop_frame", '{"result": "done"}'))
    with ResponsesServer(reads(1), reads(2), reads(3), compaction(ITEMS), reads(4), ends) as server:
        server.paths = ("/v1/responses", "/v1/responses/compact")
        model = open_model("responses/gpt-x", {}, base_url=f"{server.url}/v1", window_tokens=200_000)
        events = run(model, "compact_provider:3300")
        assert server.refused == []
        assert set(server.bodies[3]) == {"model", "input", "instructions"}
        assert "COMPACTION REQUEST" not in json.dumps(server.bodies[3])
        for body in server.bodies[4:]:
            assert body["input"][:2] == ITEMS
            assert "a long specification" in json.dumps(body["input"][2:])
            assert "TASK\\n" not in json.dumps(body["input"][2:]), "the provider's items contain the task"
    [told] = [event for event in events if isinstance(event, ContextCompacted)]
    assert told.block == {"type": "compaction_window", "items": ITEMS}
    assert "encrypted" in told.text
    assert (told.usage.uncached, told.usage.output) == (900, 120)
    assert ending(events) == "popped"
    verified(events, "compact_provider:3300")


@pytest.mark.parametrize("answer", [b"{", b"[]", compaction([]), compaction(ITEMS[:1]), b'{"output": 3}'])
def test_an_answer_without_a_summary_is_a_failure(answer: bytes) -> None:
    with ResponsesServer(answer) as server:
        server.paths = ("/v1/responses/compact",)
        model = open_model("responses/gpt-x", {}, base_url=f"{server.url}/v1", window_tokens=200_000)
        failed = model.reply(asking_for(ProviderRequest(view().messages, summarizes=True)))
    assert isinstance(failed, ModelFailed)
    assert failed.kind == "incomplete"


EDITS = ProviderRequest(view().messages, edits=PromptEdits(1_000, 3))
SUMMARY = ProviderRequest(view().messages, summarizes=True)
SEALED = ProviderRequest(asking(user(Thinking({"type": "compaction_window", "items": ITEMS}))).view.messages)
SIGNED = ProviderRequest(asking(user(Thinking(summarizes("gist").blocks[0]), "go on")).view.messages)


@pytest.mark.parametrize(
    ("name", "provider", "sentence"),
    [
        ("openai/m", EDITS, "openai/m cannot edit the context; use a model of Anthropic's API"),
        ("gemini/m", EDITS, "gemini/m cannot edit the context"),
        ("responses/m", EDITS, "responses/m cannot edit the context"),
        ("openai/m", SUMMARY, "openai/m cannot compact a conversation; use anthropic/NAME or responses/NAME"),
        ("gemini/m", SUMMARY, "gemini/m cannot compact a conversation"),
        ("gemini/m", SEALED, "gemini/m cannot read the summary that another provider wrote"),
        ("claude-sonnet-5-5", SEALED, "cannot read the summary that another provider wrote"),
    ],
)
def test_another_provider_gets_a_clear_sentence_and_no_request(
    name: str, provider: ProviderRequest, sentence: str
) -> None:
    keys = {"GEMINI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    url = None if name.startswith("claude") else "http://127.0.0.1:1"
    failed = open_model(name, keys, base_url=url).reply(asking_for(provider))
    assert isinstance(failed, ModelFailed)
    assert failed.kind == "rejected"
    assert sentence in failed.detail


def test_a_readable_summary_goes_to_another_provider_as_text() -> None:
    with ChatServer(
        b'data: {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}\n\n'
    ) as server:
        answer = open_model("openai/m", {}, base_url=server.url).reply(asking_for(SIGNED))
        assert isinstance(answer, ModelReplied)
        assert answer.parts == (Text("ok"),)
        assert "signature" not in json.dumps(server.bodies[0])


def test_a_run_with_a_foreign_model_is_refused_before_it_starts_and_a_simulated_one_is_not() -> None:
    editing, compacting = open_strategy("context_editing"), open_strategy("compact_provider")
    foreign = open_model("openai/m", {}, base_url="http://127.0.0.1:1")
    with pytest.raises(UsageError, match="context_editing needs a model of the form anthropic/NAME, not openai/m"):
        refuse_other_provider(foreign, editing)
    with pytest.raises(UsageError, match="needs a model of the form anthropic/NAME or responses/NAME, not openai/m"):
        refuse_other_provider(foreign, compacting)
    refuse_other_provider(open_model("responses/m", {}, base_url="http://127.0.0.1:1"), compacting)
    refuse_other_provider(open_model("sim/bounded-reader", {}), editing)
    refuse_other_provider(foreign, open_strategy("full"))


def test_a_summary_in_a_streamed_reply_is_read_from_its_delta_and_its_tokens_count() -> None:
    """Threshold compaction sends the block empty and its text in one delta."""
    from stackmem.providers.anthropic_stream import read_reply

    usage = {"input_tokens": 10, "output_tokens": 5, "iterations": [
        {"type": "compaction", "input_tokens": 700, "output_tokens": 90, "cache_read_input_tokens": 100},
        {"type": "message", "input_tokens": 10, "output_tokens": 5},
    ]}  # fmt: skip
    stream = [
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 10, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "compaction", "content": None}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", "content": "the gist"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]
    answer = read_reply(map(json.dumps, stream))
    assert isinstance(answer, ModelReplied)
    assert answer.parts == (Thinking({"type": "compaction", "content": "the gist"}),)
    assert (answer.usage.uncached, answer.usage.cache_read, answer.usage.output) == (710, 100, 95)
    assert "gist" not in shown_text(view())
