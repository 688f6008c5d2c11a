"""What every strategy promises, held against each entry of STRATEGIES and each place of the index."""

from dataclasses import dataclass

import pytest
from msgspec import json

from stackmem.core.budgets import Limits
from stackmem.core.effects import AskModel
from stackmem.core.events import ModelFailed, ModelReplied
from stackmem.core.machine import advance, evolve, fold
from stackmem.core.messages import Thinking, ToolCall, ToolResult
from stackmem.core.slots import fill
from stackmem.core.state import Result, State
from stackmem.memory import STRATEGIES, open_strategy
from tests.build import (
    Played,
    World,
    alloc,
    call,
    do,
    failed,
    play,
    pop,
    prompt_text,
    push,
    reply,
    settled,
    shown_text,
    slots,
    started,
    stored,
)  # fmt: skip
from tests.spellings import SHORT

PLACES = tuple(f"stackheap:index={place}" for place in ("on_change", "delta", "tail", "system"))
SPELLED = sorted({*STRATEGIES, *PLACES, *SHORT})
THOUGHT = Thinking({"type": "thinking", "thinking": "hm", "signature": "s"})

# A run with something of everything; a strategy without frames refuses what it does not offer.
STORY = (
    do("list_files"),
    do("read_file", path="spec.md"),
    alloc("spec", "the essence", description="what the spec says", source="spec.md"),
    reply("no call at all", stop="end"),
    push(name="first", objective="Objective of the first, per heap 'spec'.", store=[stored("env", "make test")]),
    reply(THOUGHT, "let me see", call("heap_read", name="spec")),
    failed(),
    do("run_command", command="changed > spec.md"),
    push(name="second", objective="Objective of the second.", verify="make", constraint="steps=2"),
    reply(call("list_files"), call("list_files")),
    do("heap_free", name="env"),
    do("no_such_tool"),
    do("write_file", path="b", content="c"),
    pop("The second is done.", store=[stored("found", "it")]),
    reply("", stop="truncated"),
    do("heap_write", name="spec", content="the new essence"),
    pop("The first is done.", store=[stored("last")]),
    do("read_file", path="gone.md"),
)


def story(spelled):
    start = started(spelled, task="The whole task text, mentioned once.", limits=Limits(steps=19))
    return play(*STORY, start=start, world=World({"spec.md": "a long specification " * 100}))


@dataclass
class Story(Played):
    spelled: str = ""


@pytest.fixture(params=SPELLED)
def played(request):
    return Story(**vars(story(request.param)), spelled=request.param)


def states(played):
    """Every state of the run in which the model was asked, with its view."""
    state, found = State(), []
    asked = iter(played.asked)
    for event in played.events:
        if isinstance(event, ModelReplied | ModelFailed):
            found.append((state, next(asked).view))
        state = evolve(state, event)
    return [*found, (state, played.view)]


def test_rendering_is_pure(played):
    for state, view in states(played):
        before = repr(state)
        one, other = played.strategy.render(state), played.strategy.render(state)
        assert one == other == view
        assert one.digest == other.digest == view.digest
        assert repr(state) == before


def test_rendering_is_total_over_every_state_with_a_running_frame(played):
    state = State()
    for event in played.events:
        state = evolve(state, event)
        view = played.strategy.render(state)
        assert view.messages[-1].role in ("user", "assistant")
        assert view.digest == settled(view).digest


def test_a_view_is_what_a_state_folded_anew_shows(played):
    for count in range(1, len(played.events)):
        state = fold(played.events[:count])
        upcoming = advance(state, played.strategy)
        if isinstance(upcoming, AskModel):
            assert upcoming.view.digest == settled(played.strategy.render(state)).digest


def test_the_frames_objective_and_in_the_root_the_task_is_always_visible(played):
    for state, view in states(played):
        wanted = state.running.registers.intent if state.running.depth else state.begun.task
        assert wanted in shown_text(view)


def test_the_last_result_is_always_visible(played):
    for state, view in states(played):
        results = [turn.text for turn in state.running.turns if isinstance(turn, Result)]
        if results:
            assert results[-1] in shown_text(view)


def test_every_prompt_of_a_frame_starts_with_the_bytes_of_the_one_before_or_the_strategy_says_it_does_not(played):
    broken = 0
    last: dict[str, list[bytes]] = {}
    for state, view in states(played):
        now = [json.encode(message) for message in view.messages]
        before = last.get(state.running.id, [])
        system = last.get("system", [view.system.encode()])
        broken += now[: len(before)] != before or system != [view.system.encode()]
        last |= {state.running.id: now, "system": system}
    if played.strategy.prefix_stable:
        assert broken == 0
    elif played.spelled in (*SHORT, *PLACES):
        assert broken > 0


def test_tools_are_equal_in_every_request_and_so_is_system_where_the_prefix_is_stable(played):
    assert len({json.encode(view.tools) for _, view in states(played)}) == 1
    if played.strategy.prefix_stable:
        assert len({view.system for _, view in states(played)}) == 1


def test_there_are_at_most_four_breakpoints_on_parts_that_exist_longer_time_to_live_first(played):
    for _, view in states(played):
        points = view.breakpoints
        assert len(points) <= 4
        assert [point.ttl for point in points] == sorted((point.ttl for point in points), key=("1h", "5m").index)
        places = [(point.message, point.part) for point in points]
        assert places == sorted(set(places)) or len(view.messages) == 1
        for message, part in places:
            assert message == -1 or part < len(view.messages[message].parts)


def test_roles_alternate_no_message_is_empty_and_every_call_is_answered_once_in_its_order(played):
    for _, view in states(played):
        roles = [message.role for message in view.messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        asked: list[str] = []
        for message in view.messages:
            assert message.parts
            if message.role == "user":
                assert [part.call_id for part in message.parts if isinstance(part, ToolResult)] == asked
            asked = [part.id for part in message.parts if isinstance(part, ToolCall)]


def test_the_story_exercises_every_strategy(played):
    assert len(played.of(ModelReplied)) == len(STORY) - 1
    assert played.state.end is None


@pytest.mark.parametrize("spelled", SPELLED)
def test_the_prompt_of_a_strategy_names_only_the_tools_it_offers(spelled):
    strategy = open_strategy(spelled)
    offered = {tool.name for tool in started(spelled).tools}
    every = {tool.name for name in STRATEGIES for tool in started(name).tools}
    text = fill(prompt_text(strategy.prompt), slots(started().budgets))
    assert {name for name in every if (name in text if "_" in name else f"`{name}`" in text)} == offered


def test_a_strategy_without_frames_or_heap_speaks_of_neither():
    text = shown_text(story("full").asked[0].view).lower()
    for word in ("heap", "push", "frame", "stack", "register"):
        assert word not in text.replace("pop_frame", "")
