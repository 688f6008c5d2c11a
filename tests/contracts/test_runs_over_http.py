"""Whole runs of every strategy over HTTP: a strict server accepts every prompt, and a run survives temporary faults."""

from __future__ import annotations

from dataclasses import replace as replace_dataclass

import pytest
from msgspec.structs import replace

from stackmem.core.budgets import Budgets
from stackmem.core.facts import Event, ModelFailed, ModelReplied, RunEnded
from stackmem.core.machine import advance, evolve
from stackmem.core.requests import AskModel, Effect
from stackmem.core.state import State
from stackmem.core.tools import tool_name
from stackmem.memory import STRATEGIES, open_strategy
from stackmem.models.registry import Model, open_model
from tests.build import World, started, stored
from tests.providers.chat_server import ChatServer, Refusal, call_piece, chunks
from tests.providers.server import Answer, MessagesServer, calls, fails, says

SPELLED = sorted({*STRATEGIES, *(f"stackheap:index={place}" for place in ("on_change", "delta", "tail", "system"))})
PUSH = {"name": "a", "objective": "Do it.", "context": "None.", "return_spec": "What."}

# A bit of everything: replies, refusals, nudges, and every temporary fault.
STORY = (
    calls("read_file", {"path": "spec.md"}, thought="I read first."),
    fails(429, "rate_limit_error", headers={"retry-after": "3"}),
    calls("heap_alloc", {"name": "spec", "content": "essence"}, thought="This is worth storing."),
    says("I think about it.", break_after=4),
    fails(529, "overloaded_error"),
    says("No call at all."),
    calls("push_frame", {**PUSH, "store": [stored("env", "make test")]}),
    calls("heap_read", {"name": "spec"}, thought="In the child.", break_after=6, break_by="reset"),
    calls("heap_read", {"name": "spec"}, thought="In the child."),
    Answer(({"type": "tool_use", "name": "run_command", "raw": '{"command": '},), stop_reason="tool_use"),
    Answer(({"type": "tool_use", "name": "write_file", "raw": ""},), stop_reason="max_tokens"),
    Answer(({"type": "redacted_thinking"}, {"type": "text", "text": "  \n"}), stop_reason="end_turn"),
    calls(
        "list_files", {"path": "."}, break_after=5, break_by="error", error={"type": "overloaded_error", "message": "x"}
    ),
    calls("no_such_tool", {"path": "."}),
    Answer(tuple({"type": "tool_use", "name": "list_files", "input": {"path": "."}} for _ in range(2)), "tool_use"),
    Answer(stop_reason="refusal"),
    calls("pop_frame", {"result": "The child is done.", "store": [stored("last")]}, thought="Back."),
    calls("write_file", {"path": "b", "content": "c"}, thought="On."),
    *[calls("read_file", {"path": "spec.md"}) for _ in range(6)],
)


def ends(strategy: str) -> str:
    """Return the tool with which this strategy's agent declares the work done."""
    return next(name for name in map(tool_name, open_strategy(strategy).tools) if name in ("pop_frame", "return"))


def story(strategy: str) -> tuple[Answer, ...]:
    last = calls(ends(strategy), {"result": "All is done."})
    return (*STORY, last, last)


def run(model: Model, strategy: str) -> list[Event]:
    """Return the facts of a whole run, without pauses between attempts."""
    opened = open_strategy(strategy)
    start = started(strategy, model=model.name, window_tokens=model.window_tokens, budgets=Budgets())
    world, state, events = World({"spec.md": "a long specification\n" * 400}), evolve(State(), start), [start]
    while (upcoming := advance(state, opened)) is not None:
        fact: Event
        if isinstance(upcoming, AskModel):
            fact = replace(model.reply(upcoming), prompt_digest=upcoming.view.digest)
        else:
            fact = world.perform(upcoming) if isinstance(upcoming, Effect) else upcoming
        events.append(fact)
        state = evolve(state, fact)
    return events


def thoughtless(answer: Answer) -> Answer:
    """Return the same answer from a model that does not show its thoughts."""
    return replace_dataclass(answer, blocks=tuple(block for block in answer.blocks if "thinking" not in block["type"]))


@pytest.mark.parametrize("strategy", SPELLED)
def test_no_thought_is_sent_back_behind_a_prompt_that_changed(strategy: str) -> None:
    with MessagesServer(*story(strategy)) as server:
        run(open_model("claude-sonnet-5-5", server.environ), strategy)
        assert server.refused == []


@pytest.mark.parametrize("strategy", SPELLED)
def test_a_run_with_every_passing_fault_ends_well_and_no_prompt_of_it_is_refused(strategy: str) -> None:
    with MessagesServer(*map(thoughtless, story(strategy))) as server:
        events = run(open_model("claude-sonnet-5-5", server.environ), strategy)
        assert server.refused == []
        replies = [event for event in events if isinstance(event, ModelReplied)]
        ended = [event for event in events if isinstance(event, RunEnded)]
    assert [event.ending for event in ended] == ["popped"]
    kinds = [event.kind for event in events if isinstance(event, ModelFailed)]
    assert kinds == ["rate_limited", "incomplete", "overloaded", "connection", "overloaded"]
    assert all(not reply.usage.estimated for reply in replies)


@pytest.mark.parametrize("strategy", ["full", "stackheap"])
def test_a_prompt_is_mostly_read_from_the_cache_after_the_first(strategy: str) -> None:
    with MessagesServer(*story(strategy)) as server:
        events = run(open_model("claude-sonnet-5-5", server.environ), strategy)
    usages = [event.usage for event in events if isinstance(event, ModelReplied)]
    assert usages[0].cache_read == 0
    assert all(usage.cache_read > 0.25 * usage.prompt for usage in usages[1:])
    assert sum(usage.cache_read for usage in usages) > 0.7 * sum(usage.prompt for usage in usages)


@pytest.mark.parametrize(
    ("hopeless", "kind"),
    [
        (fails(401, "authentication_error"), "authentication"),
        (fails(404, "not_found_error"), "rejected"),
        (fails(429, "rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}), "spend_limit"),
    ],
)
def test_a_hopeless_failure_is_asked_once_and_ends_the_run(hopeless: Answer, kind: str) -> None:
    with MessagesServer(STORY[0], hopeless, STORY[2]) as server:
        events = run(open_model("claude-sonnet-5-5", server.environ), "stackheap")
        assert len(server.bodies) == 2
    assert isinstance(events[-1], RunEnded)
    assert events[-1].ending == "model_error"
    assert [event.kind for event in events if isinstance(event, ModelFailed)] == [kind]


@pytest.mark.parametrize("strategy", [name for name in SPELLED if name != "context_editing"])
def test_a_run_over_chat_completions_ends_well(strategy: str) -> None:
    def called(name: str, text: str) -> bytes:
        return chunks(call_piece(text, id="c", name=name), finish="tool_calls")

    spoken = (
        called("read_file", '{"path": "spec.md"}'),
        Refusal(503, "loading"),
        called("run_command", '{"command": '),
        chunks({"reasoning_content": "only a thought"}),
        chunks({"content": "half"}, finish=None),
        called(ends(strategy), '{"result": "done"}'),
    )
    with ChatServer(*spoken) as server:
        events = run(open_model("openai/qwen", {}, base_url=server.url), strategy)
    assert [event.ending for event in events if isinstance(event, RunEnded)] == ["popped"]
