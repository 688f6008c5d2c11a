"""Promises of every strategy, checked for each entry of STRATEGIES and for the parameters that change most."""

from dataclasses import dataclass
from functools import cached_property

import pytest
from msgspec import json
from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.facts import CallAnswered, ContextCompacted, ModelFailed, ModelReplied
from stackmem.core.machine import advance, evolve, fold
from stackmem.core.messages import Thinking, ToolCall, ToolResult
from stackmem.core.requests import AskModel, Compact
from stackmem.core.state import Result, State
from stackmem.core.text import fill
from stackmem.core.tool_schemas import parameters
from stackmem.core.tools import tool_name
from stackmem.memory import STRATEGIES, open_strategy
from stackmem.trace.record import Record
from stackmem.trace.verify import verify
from tests.build import (
    SPENT,
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
ABLATIONS = (
    "stackheap:index=listed", "stackheap:descriptions=off", "stackheap:registers=100", "stackheap:registers=2000",
    "stackheap:registers=off", "stackheap:store=off", "stackheap:index=tail,store=off",
    "stackheap:index=listed,registers=off,store=off", "stackheap_lossless:index=delta",
    "stackheap_lossless:index=listed",
)  # fmt: skip
SPELLED = sorted({*STRATEGIES, *PLACES, *ABLATIONS, *SHORT})
THOUGHT = Thinking({"type": "thinking", "thinking": "hm", "signature": "s"})

# A run with a bit of everything; a strategy without frames refuses the tools it does not offer.
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
    do("heap_list"),
    do("heap_read", name="frame:second", query="list files"),
    do("add_note", text="make test works"),
    do("expand", index=2),
    do("memory", command="create", path="/memories/env", file_text="make test works"),
    do("conversation_search", query="heap spec"),
    do("compact_context", summary="make test works"),
    do("read_file", path="gone.md"),
)
STARTS = ("push_frame", "delegate", "branch")


def story(spelled):
    start = started(spelled, task="The whole task text, mentioned once.", limits=Limits(steps=len(STORY) + 1))
    told = [as_offered(one, open_strategy(spelled)) for one in STORY]
    played = play(*told, start=start, world=World({"spec.md": "a long specification " * 100}))
    return Story(**vars(played), spelled=spelled)


def as_offered(fact, strategy):
    """Translate the push or pop for a strategy with other tools for it, or with fewer arguments."""
    kinds = {tool_name(tool): tool for tool in strategy.tools}
    starts = next((kinds[name] for name in STARTS if name in kinds), None)
    if not isinstance(fact, ModelReplied) or starts is None:
        return fact
    ends = kinds["return"] if "return" in kinds else kinds["pop_frame"]
    return replace(fact, parts=tuple(_spelled(part, starts, ends) for part in fact.parts))


def _spelled(part, starts, ends):
    if not isinstance(part, ToolCall) or part.name not in ("push_frame", "pop_frame"):
        return part
    kind = starts if part.name == "push_frame" else ends
    given = {**part.arguments, "prompt": part.arguments.get("objective")}
    return ToolCall(part.id, tool_name(kind), {name: given[name] for name in parameters(kind) if name in given})


@dataclass
class Story(Played):
    spelled: str = ""

    @cached_property
    def states(self):
        """Return every state in which the model was asked, with its view."""
        state, found = State(), []
        asked = iter(self.asked)
        for event in self.events:
            if isinstance(event, ModelReplied | ModelFailed):
                found.append((state, next(asked).view))
            state = evolve(state, event)
        return [*found, (state, self.view)]


@pytest.fixture(params=SPELLED, scope="module")
def played(request):
    """Played once for all tests. They must not change it, and the first of them checks that."""
    return story(request.param)


def test_rendering_is_pure(played):
    for state, view in played.states:
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


def test_a_view_equals_that_of_a_freshly_folded_state(played):
    for count in range(1, len(played.events)):
        state = fold(played.events[:count])
        upcoming = advance(state, played.strategy)
        if isinstance(upcoming, AskModel):
            assert upcoming.view.digest == settled(played.strategy.render(state)).digest


def test_the_frames_objective_and_in_the_root_the_task_is_always_visible(played):
    for state, view in played.states:
        wanted = state.running.registers.intent if state.running.depth else state.begun.task
        assert wanted in shown_text(view)


def test_the_last_result_is_always_visible(played):
    for state, view in played.states:
        results = [turn.text for turn in state.running.turns if isinstance(turn, Result)]
        if results:
            assert results[-1] in shown_text(view)


def test_every_prompt_of_a_frame_starts_with_the_bytes_of_the_one_before_or_the_strategy_says_it_does_not(played):
    broken = 0
    last: dict[str, list[bytes]] = {}
    for state, view in played.states:
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
    assert len({json.encode(view.tools) for _, view in played.states}) == 1
    if played.strategy.prefix_stable:
        assert len({view.system for _, view in played.states}) == 1


def test_there_are_at_most_four_breakpoints_on_parts_that_exist_longer_time_to_live_first(played):
    for _, view in played.states:
        points = view.breakpoints
        assert len(points) <= 4
        assert [point.ttl for point in points] == sorted((point.ttl for point in points), key=("1h", "5m").index)
        places = [(point.message, point.part) for point in points]
        assert places == sorted(set(places)) or len(view.messages) == 1
        for message, part in places:
            assert message == -1 or part < len(view.messages[message].parts)


def test_roles_alternate_no_message_is_empty_and_every_call_is_answered_once_in_its_order(played):
    for _, view in played.states:
        assert_well_formed(view)


def assert_well_formed(view):
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
    every = {tool.name for name in SPELLED for tool in started(name).tools}
    text = fill(prompt_text(strategy.prompt), slots(started().budgets))
    named = {name for name in every if (name in text if "_" in name else f"`{name}`" in text)}
    assert named <= offered
    assert named == offered or spelled == "adaptive"  # whose tools explain their own purpose


def test_a_strategy_without_frames_or_heap_speaks_of_neither():
    text = shown_text(story("full").asked[0].view).lower()
    for word in ("heap", "push", "frame", "stack", "register"):
        assert word not in text.replace("pop_frame", "")


def test_a_run_replays_and_every_prompt_has_the_digest_that_was_recorded(played):
    records = [Record(number, float(number), event) for number, event in enumerate(played.events, 1)]
    found = verify(records)
    assert found.prompts == len(played.of(ModelReplied, ModelFailed, ContextCompacted))
    assert found.state == played.state


def test_its_name_opens_it_again(played):
    assert open_strategy(played.strategy.name) == played.strategy
    assert open_strategy(played.spelled).name == played.strategy.name


def test_lookup_calls_are_answered_if_their_tools_are_offered(played):
    offered = {tool.name for tool in played.state.begun.tools}
    frames = "lossless" in played.spelled or played.spelled.startswith("adaptive")
    wanted = {"heap_list", "add_note", "expand", "memory", "conversation_search", "compact_context"} & offered | (
        {"heap_read"} if frames else set()
    )
    assert {event.tool for event in played.of(CallAnswered)} == wanted


def test_compacting_strategies_show_the_summary_and_others_never_request_one(played):
    asked = [effect for effect in played.effects if isinstance(effect, Compact)]
    told = played.of(ContextCompacted)
    assert len(told) == len(asked)
    for effect, event in zip(asked, told, strict=True):
        assert (event.frame, event.up_to_step) == (effect.frame, effect.up_to_step)
        after = fold(played.events[: played.events.index(event) + 1])
        assert event.text in shown_text(played.strategy.render(after))
        assert 0 < event.up_to_step <= after.step


def test_a_conversation_is_rendered_with_a_text_in_it_that_another_strategy_had_asked_for(played):
    """Happens when a run is forked from a strategy that compacts to one that does not."""
    replied = [place for place, event in enumerate(played.events) if isinstance(event, ModelReplied)]
    for place in replied[3:]:
        state = fold(played.events[:place])
        told = evolve(state, ContextCompacted(state.running.id, state.step - 1, "What was done so far.", SPENT))
        assert (told.facts, told.step, told.usage) == (state.facts + 1, state.step, state.usage + SPENT)
        view = played.strategy.render(told)
        assert view.digest == settled(view).digest
        assert_well_formed(view)


@pytest.fixture(scope="module")
def others():
    """Return states of runs under strategies of each kind, as a fork hands them to another strategy."""
    return [
        state for name in ("stackheap", "fold", "isolated", "summary:1000,keep=1") for state, _ in story(name).states
    ]


@pytest.mark.parametrize("spelled", SPELLED)
def test_a_run_that_another_strategy_began_is_rendered_whole(spelled, others):
    strategy = open_strategy(spelled)
    framed = {tool_name(tool) for tool in strategy.tools} & set(STARTS)
    for state in others:
        view = strategy.render(state)
        assert_well_formed(view)
        if framed and state.running.depth and "registers=off" not in spelled:
            assert state.running.registers.intent in shown_text(view)
