"""The index's position in a prompt, and which parts of a prompt never change."""

import pytest
from msgspec import json

from stackmem.core.budgets import Budgets, Limits
from stackmem.core.errors import UsageError
from stackmem.core.heap import index
from stackmem.core.messages import Text, Thinking, ToolResult
from stackmem.memory import STRATEGIES, open_strategy
from tests.build import World, alloc, call, do, failed, play, pop, push, reply, shown_text, started, stored

PLACES = ("on_change", "delta", "tail", "system")


def at(place, **changes):
    return started(f"stackheap:index={place}", **changes)


def user_texts(view):
    """Return the plain texts of each user message, without results."""
    return [
        [part.text for part in message.parts if isinstance(part, Text)]
        for message in view.messages
        if message.role == "user"
    ]


def test_the_first_message_is_the_run_constants_and_then_the_frames_own_block():
    played = play(push())
    for asked in played.asked:
        constants, block = asked.view.messages[0].parts
        assert constants.text.startswith("RUN\nworkspace: /workspace\nisolation: bubblewrap")
        assert block.text.startswith("FRAME ")
        assert "Build a calculator" not in constants.text
    assert played.asked[0].view.messages[0].parts[0] == played.asked[1].view.messages[0].parts[0]


def test_on_change_prints_the_whole_index_once_per_change():
    played = play(alloc("a", description="first"), do("list_files"), alloc("b"))
    texts = user_texts(played.view)
    assert texts[0][1].endswith("HEAP INDEX: 0 chunks, 0 of 10,000 characters used")
    assert [len(message) for message in texts[1:]] == [1, 0, 1]
    assert texts[3][0] == index(played.state.heap, Budgets())


def test_delta_prints_one_line_per_change():
    played = play(
        alloc("a"), alloc("b"), do("heap_write", name="a", content="x"), do("heap_free", name="b"), start=at("delta")
    )
    news = [message[0].splitlines()[1:] for message in user_texts(played.view)[1:]]
    assert [[line.split(" | ")[0] for line in lines] for lines in news] == [["- a"], ["- b"], ["- a"], ["- b"]]
    assert news[-1] == ["- b | freed"]


def test_tail_prints_the_index_at_the_end_of_every_prompt_and_keeps_none():
    played = play(alloc("a"), do("list_files"), start=at("tail"))
    for asked in played.asked:
        assert shown_text(asked.view).count("HEAP INDEX") == 1
        assert asked.view.messages[-1].parts[-1].text.startswith("HEAP INDEX")


def test_tail_never_caches_what_is_not_kept():
    played = play(alloc("a"), do("list_files"), start=at("tail"))
    for asked, later in zip(played.asked, played.asked[1:], strict=False):
        point = asked.view.breakpoints[-1]
        kept = asked.view.messages[point.message].parts[: point.part + 1]
        assert later.view.messages[point.message].parts[: point.part + 1] == kept


def test_system_prints_the_index_in_the_system_prompt_alone():
    played = play(alloc("a"), start=at("system"))
    assert played.view.system.endswith(index(played.state.heap, Budgets()))
    assert "HEAP INDEX" not in "".join(shown_text(played.view).removeprefix(played.view.system))


@pytest.mark.parametrize("place", ["on_change", "delta"])
def test_a_read_alone_prints_no_index_for_its_result_carries_the_step(place):
    played = play(alloc("a"), do("heap_read", name="a"), do("heap_read", name="a"), start=at(place))
    assert [len(message) for message in user_texts(played.view)[1:]] == [1, 0, 0]
    assert "last read step 3" in played.answer


@pytest.mark.parametrize("place", ["on_change", "delta"])
def test_a_read_in_a_child_reaches_the_parents_index_at_the_pop(place):
    played = play(alloc("a"), push(), do("heap_read", name="a"), pop(), start=at(place))
    assert "last read step 3" in user_texts(played.view)[-1][-1]


def test_a_childs_result_lists_its_heap_changes():
    played = play(alloc("a"), push(), do("heap_free", name="a"), alloc("b"), pop(store=[stored("c")]))
    result, news = played.view.messages[-1].parts
    assert isinstance(result, ToolResult)
    assert news.text == index(played.state.heap, Budgets())


def test_a_staleness_mark_reprints_the_index():
    world = World({"f": "1"})
    played = play(alloc("a", source="f"), do("run_command", command="2 > f"), do("list_files"), world=world)
    assert [len(message) for message in user_texts(played.view)[1:]] == [1, 1, 0]
    assert "STALE" in user_texts(played.view)[2][0]


def test_results_come_first_in_a_message():
    start = started(window_tokens=10_000)
    played = play(alloc("a", "x" * 9_000), alloc("b", "y"), start=start)
    for message in played.view.messages:
        kinds = [isinstance(part, ToolResult) for part in message.parts]
        assert kinds == sorted(kinds, reverse=True)


@pytest.mark.parametrize("parts", [(), ("",), (" \n ", ""), (Thinking({"type": "thinking", "thinking": "x"}),)])
@pytest.mark.parametrize("stop", ["end", "truncated", "refused"])
def test_a_reply_without_text_does_not_give_an_empty_message(parts, stop):
    said = play(reply(*parts, stop=stop)).view.messages[1].parts
    assert isinstance(said[-1], Text)
    assert said[-1].text.strip()


def test_blank_text_beside_a_call_is_left_out_and_thinking_is_kept_as_it_came():
    thought = Thinking({"type": "thinking", "thinking": "", "signature": "abc"})
    said = play(reply(thought, " ", call("list_files"))).view.messages[1].parts
    assert said[0] == thought
    assert [type(part).__name__ for part in said] == ["Thinking", "ToolCall"]


def test_a_push_hits_the_first_two_breakpoints_at_once():
    played = play(do("list_files"), push())
    one, two = (
        (asked.view.system, asked.view.tools, asked.view.messages[0].parts[0], asked.view.breakpoints[:2])
        for asked in (played.asked[0], played.asked[-1])
    )
    assert one == two


def test_a_pop_appends_one_result_to_the_frozen_parent():
    played = play(do("list_files"), push(), do("list_files"), pop())
    before, after = played.asked[1].view.messages, played.view.messages
    assert json.encode(list(after[: len(before)])) == json.encode(list(before))
    assert [message.role for message in after[len(before) :]] == ["assistant", "user"]


def test_the_rolling_breakpoints_stand_after_the_last_two_user_messages():
    played = play(do("list_files"), do("list_files"), do("list_files"))
    assert [(point.message, point.ttl) for point in played.view.breakpoints] == [
        (-1, "1h"), (0, "1h"), (4, "5m"), (6, "5m"),
    ]  # fmt: skip


def test_a_request_that_is_asked_again_has_the_same_bytes_also_when_a_notice_is_due():
    played = play(do("list_files"), failed(), failed(), start=started(limits=Limits(steps=4)))
    assert len({asked.view.digest for asked in played.asked[1:]}) == 1


def test_the_run_constants_say_what_holds_and_name_no_price_that_is_not_known():
    limits = Limits(steps=7, usd=5.0, seconds=60.0)
    text = play(start=started(limits=limits, isolation="none", network="host")).view.messages[0].parts[0].text
    assert "limits of the run: 7 steps, 60 seconds; 30 s per command" in text
    assert "without a sandbox" in text
    assert "the network can be reached" in text


def test_strategies_are_opened_by_name_and_parameters():
    assert [open_strategy(f"stackheap:index={place}").place for place in PLACES] == list(PLACES)
    assert open_strategy("stackheap").name == open_strategy("stackheap:index=on_change").name == "stackheap"
    for name in STRATEGIES:
        opened = open_strategy(name)
        assert open_strategy(opened.name) == opened


@pytest.mark.parametrize(
    ("spelled", "way_out"),
    [
        ("stak", "known: adaptive, agentfold, boundary, clear"),
        ("", "known: adaptive, agentfold, boundary, clear"),
        ("stackheap:place=tail", "known: descriptions, index"),
        ("stackheap:index=top", "index=on_change|delta|tail|system"),
        ("stackheap:index", "index=on_change|delta|tail|system"),
        ("stackheap:index=", "index=on_change|delta|tail|system"),
        ("full:index=tail", "known: none"),
    ],
)
def test_a_misspelled_strategy_is_a_usage_error_with_the_way_out(spelled, way_out):
    with pytest.raises(UsageError) as error:
        open_strategy(spelled)
    assert way_out in str(error.value)
