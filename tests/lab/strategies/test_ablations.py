"""The effect of each stackheap parameter, and of each strategy that lacks a part of it."""

import pytest

from stackmem.core.budgets import Budgets
from stackmem.core.errors import UsageError
from stackmem.core.facts import CallRejected, ChunkRead, FramePushed
from stackmem.core.strategy import budgets_of
from stackmem.core.tools import tool_name
from stackmem.memory import open_strategy
from tests.build import alloc, do, play, pop, prompt_text, push, shown_text, started, stored


def tools(spelled):
    return [tool_name(tool) for tool in open_strategy(spelled).tools]


def told(played):
    """Return the last prompt without the system prompt."""
    return shown_text(played.view).removeprefix(played.view.system)


def test_a_listed_index_is_not_in_prompts_but_available_by_a_tool():
    played = play(alloc("a", description="first"), push(), start=started("stackheap:index=listed"))
    assert all("HEAP INDEX" not in shown_text(request.view) for request in played.asked)
    assert tools("stackheap:index=listed") == [*tools("stackheap"), "heap_list"]


def test_without_descriptions_the_index_shows_none_in_no_place():
    for place in ("on_change", "delta", "tail", "system"):
        start = started(f"stackheap:index={place},descriptions=off")
        played = play(
            alloc("a", description="what it says"), push(), do("heap_write", name="a", content="x"), start=start
        )
        for request in played.asked:
            lines = [line for line in shown_text(request.view).splitlines() if line.startswith("- a | ")]
            assert not any("what it says" in line for line in lines)
        assert any("- a | " in shown_text(request.view) for request in played.asked)


def test_without_descriptions_there_is_no_list_that_shows_them():
    with pytest.raises(UsageError, match="remove descriptions=off"):
        open_strategy("stackheap:index=listed,descriptions=off")


@pytest.mark.parametrize("size", [100, 200, 2_000])
def test_the_size_of_the_registers_is_a_budget_of_the_run(size):
    spelled = f"stackheap:registers={size}"
    budgets = budgets_of(open_strategy(spelled), Budgets(depth=3))
    assert budgets == Budgets(depth=3, intent_chars=size, return_chars=size)
    exact = push(objective="x" * size, return_spec="y" * size)
    assert len(play(exact, start=started(spelled)).of(FramePushed)) == 1
    over = play(push(objective="x" * (size + 1)), start=started(spelled))
    assert f"objective is {size + 1} chars, maximum is {size}" in over.answer
    assert f"at most {size} characters" in str(over.state.begun.tools)


def test_other_strategies_leave_the_budgets_as_they_were_asked_for():
    for name in ("full", "stack", "fold"):
        assert budgets_of(open_strategy(name), Budgets(depth=3)) == Budgets(depth=3)


def test_without_registers_a_push_carries_a_context_and_the_child_sees_that_and_the_task():
    start = started("stackheap:registers=off")
    played = play(do("push_frame", name="part", context="Do it per heap 'x'.", store=[stored("x")]), start=start)
    assert "CONTEXT\nDo it per heap 'x'." in told(played)
    assert f"TASK\n{start.task}" in told(played)
    for word in ("R0", "R1", "R3", "INTENT", "BUDGET"):
        assert all(word not in told_of for told_of in (told(played), played.view.system))
    assert list(played.state.heap.chunks) == ["x"]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"name": "a", "context": ""}, "context is empty"),
        ({"name": "a", "context": "x" * 501}, "context is 501 chars, maximum is 500"),
        ({"name": "a"}, "context is missing"),
        ({"name": "a", "context": "x", "objective": "y"}, "objective is not a parameter"),
        ({"name": "a", "context": "per heap 'spek'"}, "did you mean 'spec'"),
    ],
)
def test_a_push_without_registers_is_refused_for_what_it_has(given, fault):
    played = play(alloc("spec"), do("push_frame", **given), start=started("stackheap:registers=off"))
    assert fault in played.answer
    assert "return_spec" not in played.answer


@pytest.mark.parametrize("registers", ["on", "off"])
def test_without_store_a_push_and_a_pop_take_none(registers):
    spelled = "stackheap:store=off" + (",registers=off" if registers == "off" else "")
    given = {"name": "a", "context": "x"} | ({} if registers == "off" else {"objective": "y", "return_spec": "z"})
    start = started(spelled)
    assert "`store`" not in start.system + str(start.tools)
    played = play(do("push_frame", **given, store=[stored("a")]), do("push_frame", **given), start=start)
    assert [event.code for event in played.of(CallRejected)] == ["bad_arguments"]
    assert len(played.of(FramePushed)) == 1
    popped = play(do("push_frame", **given), pop("Done.", store=[stored("a")]), start=start)
    assert "store is not a parameter" in popped.answer


def test_a_stack_without_heap_speaks_of_none():
    played = play(push(), do("list_files"), start=started("stack"))
    assert "heap" not in (shown_text(played.view) + str(played.state.begun.tools)).lower()
    assert "R0 INTENT: Do the part." in told(played)


def test_a_heap_without_stack_has_one_frame():
    assert "push_frame" not in tools("heap")
    played = play(alloc("a"), do("heap_read", name="a"), start=started("heap"))
    assert len(played.of(ChunkRead)) == 1
    assert "HEAP INDEX: 1 chunk" in told(played)


def test_a_lossless_stackheap_is_a_stackheap_with_one_parameter_more():
    assert tools("stackheap_lossless") == tools("stackheap")
    assert "query" in str(started("stackheap_lossless").tools)
    assert "query" not in str(started("stackheap").tools)


def test_every_trait_of_the_prompt_changes_it_and_leaves_no_mark():
    plain = prompt_text("stackheap")
    for trait in ("inherits", "lossless", "listed", "undescribed", "unregistered", "unstored"):
        other = prompt_text(f"stackheap+{trait}")
        assert other != plain
        assert "{{+" not in other
        assert "{{-" not in other
