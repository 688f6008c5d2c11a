"""The size for small models: few, briefly described tools, memory tools introduced late, short results and replies."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.budgets import FileShown, FirstLook, SmallSize
from stackmem.core.facts import (
    CallRejected,
    ChunkAllocated,
    ChunkRead,
    FramePushed,
    ModelReplied,
    NoticeGiven,
    ToolReturned,
)
from stackmem.core.machine import advance, evolve, fold
from stackmem.core.messages import Text, ToolCall, Usage
from stackmem.core.requests import AskModel, UseTool
from stackmem.core.tool_schemas import prompt_slots, spec
from stackmem.core.tools import EditFile, HeapLoad
from stackmem.memory import open_strategy
from stackmem.memory.small import STRATEGIES_FOR_SMALL, has_small_size, small_offer
from stackmem.run.prompts import prompt_text
from tests.build import call, do, play, pop, push, started

NAMES = list(STRATEGIES_FOR_SMALL)
WINDOW = 4_000


def small_start(name: str, **fields):
    base = started(name, window_tokens=WINDOW, circles="refused", **fields)
    offer = small_offer(open_strategy(name), (EditFile,))
    slots = prompt_slots(base.budgets, 30.0)
    later = tuple(spec(tool, slots) for tool in offer.later)
    return replace(
        base,
        system=prompt_text(offer.prompt),
        tools=tuple(spec(tool, slots) for tool in offer.tools),
        small=SmallSize(later=later),
    )


def half_full(reply: ModelReplied) -> ModelReplied:
    """A reply whose prompt took over half of the window."""
    return replace(reply, usage=Usage(uncached=WINDOW // 2 + 100, output=10))


@pytest.mark.parametrize("name", NAMES)
def test_the_model_is_shown_at_most_six_tools_in_one_line_each(name: str):
    start = small_start(name)
    shown = {tool.name for tool in start.tools}
    assert shown == {"read_file", "write_file", "edit_file", "list_files", "run_command", "pop_frame"}
    assert start.tools[-1].name == "pop_frame"
    assert all("\n" not in tool.description and len(tool.description) <= 70 for tool in start.tools)
    full = sum(len(tool.description) + len(tool.schema) for tool in started(name).tools) + len(started(name).system)
    small = sum(len(tool.description) + len(tool.schema) for tool in start.tools) + len(start.system)
    assert small < full


def test_the_prompt_shows_one_call_and_names_the_tool_that_ends_last():
    text = prompt_text("small+edit")
    assert text.count('{"name"') == 1
    assert "edit_file" in text
    assert "edit_file" not in prompt_text("small")
    assert max(text.index(name) for name in ("read_file", "write_file", "run_command")) < text.index("pop_frame")


@pytest.mark.parametrize("name", NAMES)
def test_the_first_prompt_says_nothing_of_memory(name: str):
    state = fold([small_start(name)])
    request = advance(state, open_strategy(name))
    assert isinstance(request, AskModel)
    said = "\n".join(part.text for message in request.view.messages for part in message.parts if isinstance(part, Text))
    assert state.begun.task in said
    for word in ("HEAP", "FRAME", "R0", "push_frame"):
        assert word not in said


@pytest.mark.parametrize("name", ["adaptive", "stackheap"])
def test_memory_tools_are_unknown_before_half_of_the_window_is_used_and_accepted_after_that(name: str):
    store = do("heap_alloc", name="fact", content="x = 1")
    played = play(store, half_full(do("list_files")), store, start=small_start(name))
    assert [event.code for event in played.of(CallRejected)] == ["unknown_tool"]
    assert "heap_alloc" not in played.of(CallRejected)[0].reason.partition("the tools are")[2]
    (notice,) = played.of(NoticeGiven)
    assert notice.code == "memory_tools"
    for tool in played.state.begun.small.later:
        assert f"- {tool.name}: {tool.description}" in notice.text
    assert len(played.of(ChunkAllocated)) == 1


def test_an_optional_memory_tool_is_announced_with_the_others():
    start = small_start("adaptive")
    offer = small_offer(open_strategy("adaptive"), (EditFile, HeapLoad))
    later = tuple(spec(tool, prompt_slots(start.budgets, 30.0)) for tool in offer.later)
    start = replace(start, small=SmallSize(later=later))
    assert "heap_load" not in {tool.name for tool in start.tools}
    load = do("heap_load", names=["fact"])
    store = do("heap_alloc", name="fact", content="x = 1")
    played = play(load, half_full(do("list_files")), store, load, start=start)
    assert [event.code for event in played.of(CallRejected)] == ["unknown_tool"]
    assert [event.names for event in played.of(ChunkRead)] == [("fact",)]


def test_a_run_without_memory_tools_has_no_announcement():
    assert play(half_full(do("list_files")), do("list_files"), start=small_start("full")).of(NoticeGiven) == []


@pytest.mark.parametrize("name", ["adaptive", "stackheap"])
def test_the_notice_is_appended_and_what_was_sent_before_stays(name: str):
    before, after = small_views(name)
    assert after.system == before.system
    assert after.tools == before.tools
    kept = list(before.messages)
    assert list(after.messages)[: len(kept)] == kept


def small_views(name: str):
    """Return the prompt before the notice, and the one with it."""
    strategy = open_strategy(name)
    state = fold([small_start(name)])
    views = []
    for reply in (half_full(do("list_files")),):
        request = advance(state, strategy)
        views.append(request.view)
        state = evolve(state, reply)
        effect = advance(state, strategy)
        assert isinstance(effect, UseTool)
        state = evolve(state, ToolReturned("a.py"))
        told = advance(state, strategy)
        assert isinstance(told, NoticeGiven)
        state = evolve(state, told)
    views.append(advance(state, strategy).view)
    return views


@pytest.mark.parametrize("name", ["adaptive", "stackheap"])
def test_a_child_frame_gets_the_notice_before_its_first_request(name: str):
    child = push(name="part", objective="Look at a.py.", context="a.py", return_spec="What is in it.")
    played = play(half_full(do("list_files")), child, pop("Nothing."), start=small_start(name))
    assert len(played.of(FramePushed)) == 1
    assert [event.code for event in played.of(NoticeGiven)] == ["memory_tools"] * 2


def test_the_request_names_the_reply_limit_and_what_was_announced():
    state = fold([small_start("adaptive")])
    request = advance(state, open_strategy("adaptive"))
    assert (request.reply_tokens, request.announced) == (1_024, ())
    cut = replace(do("list_files"), stop="truncated")
    state = evolve(state, cut)
    state = evolve(state, advance(state, open_strategy("adaptive")))
    assert advance(state, open_strategy("adaptive")).reply_tokens == 2_048


def test_results_are_clipped_and_a_file_may_still_be_written_whole():
    start = replace(small_start("full"), window_tokens=100_000)
    state = fold([start])
    assert state.shown_bytes == 2_048
    text = "x" * 5_000
    state = evolve(state, do("write_file", path="a.txt", content=text))
    effect = advance(state, open_strategy("full"))
    assert isinstance(effect, UseTool)
    assert (effect.call.content, effect.shown_bytes) == (text, 2_048)


def test_other_runs_are_not_changed():
    start = started("adaptive")
    assert start.small is UNSET
    request = advance(fold([start]), open_strategy("adaptive"))
    assert (request.reply_tokens, request.announced) == (None, ())


def test_strategies_that_depend_on_their_prompt_have_no_small_size():
    assert not has_small_size(open_strategy("mem1"))
    assert has_small_size(open_strategy("stackheap:index=listed"))


def unread(*replies: ModelReplied) -> list[bool]:
    """Return for each call of a workspace tool whether the file was to be shown instead."""
    played = play(*replies, start=small_start("full"))
    return [effect.unread for effect in played.effects if isinstance(effect, UseTool)]


WRITE = do("write_file", path="calc.py", content="x = 1\n")


@pytest.mark.parametrize("arguments", [None, [], "calc.py", 3, {"path": ["calc.py"]}], ids=repr)
def test_a_call_with_odd_arguments_does_not_count_as_reading_the_file(arguments):
    """Small models often write arguments that are not objects."""
    odd = ToolCall("c0", "read_file", arguments, "{" if arguments is None else None)
    assert unread(ModelReplied((odd,), "call", Usage()), WRITE)[-1:] == [True]


def test_the_first_message_shows_the_files_and_counts_as_having_seen_them():
    look = FirstLook("calc.py  (6 bytes)", (FileShown("calc.py", "x = 1\n"),))
    start = small_start("full")
    start = replace(start, small=replace(start.small, look=look))
    request = advance(fold([start]), open_strategy("full"))
    assert isinstance(request, AskModel)
    (first, *_) = request.view.messages
    text = "\n".join(part.text for part in first.parts if isinstance(part, Text))
    assert text.index("calc.py  (6 bytes)") < text.index("x = 1") < text.index(start.task)
    other = do("write_file", path="other.py", content="y = 1\n")
    played = play(WRITE, other, start=start)
    assert [effect.unread for effect in played.effects if isinstance(effect, UseTool)] == [False, True]


def test_an_unperformed_call_does_not_count_as_reading_the_file():
    several = ModelReplied((call("list_files"), call("read_file", path="calc.py")), "call", Usage())
    assert unread(several, WRITE)[-1:] == [True]
    assert unread(do("write_file", path="calc.py"), WRITE) == [True]  # the first call has no content


def test_a_file_that_was_touched_may_be_written_under_each_spelling():
    assert unread(do("write_file", path="./calc.py", content="x = 0\n"), WRITE) == [True, False]
