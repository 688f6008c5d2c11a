"""What ``adaptive`` tells the model about frames, and when."""

import pytest
from msgspec.structs import replace

from stackmem.core.budgets import Budgets, Limits
from stackmem.core.errors import UsageError
from stackmem.core.facts import ToolReturned
from stackmem.core.heap import Heap
from stackmem.core.pricing import Price
from stackmem.core.state import Result
from stackmem.core.tool_schemas import shown_schema
from stackmem.lab.simulated import policy
from stackmem.memory import open_strategy
from stackmem.memory.adaptive import EACH_STEP, SHOWN_CHARS, STEP_TOKENS, index_tokens
from stackmem.models.tokens import count
from tests.build import Played, World, alloc, do, play, pop, push, shown_text, started, stored

GUIDE, FAREWELL, ADVICE, PRIORITIES = (
    "A child sees nothing of this conversation",
    "must be searched for",
    "FRAMES PAY",
    "do the first that applies",
)
OUTPUT = "x" * int(STEP_TOKENS * 2.5)


def run(*replies, seconds: float = 0.0, **changes) -> Played:
    """A run whose command ``make`` prints the output of a typical step."""
    return play(*replies, start=started(changes.pop("strategy", "adaptive"), **changes), world=typical(seconds))


def typical(seconds: float = 0.0) -> World:
    return World(outputs={"make": ToolReturned(OUTPUT, exit_code=0)}, tick_seconds=seconds)


def steps(number: int):
    return [do("run_command", command="make") for _ in range(number)]


def shown(played: Played) -> str:
    """Return the last prompt without the system prompt."""
    return shown_text(played.view).removeprefix(played.view.system)


def test_the_first_prompt_says_how_much_work_pays_in_frames():
    assert shown(run()).count("push phases of 9.") == 1
    assert "FRAMES PAY above 18 steps" in shown(run())


@pytest.mark.parametrize(("read", "phase"), [(0.1, 9), (0.05, 13), (0.025, 15)])
def test_cheaper_reads_make_longer_phases_whether_the_run_records_them_or_they_are_given(read, phase):
    price = Price(2.0, 10.0, 2.5, 4.0, 2.0 * read, "a test")
    for played in (run(price=price), run(strategy=f"adaptive:read={read:g}")):
        assert f"push phases of {phase}." in shown(played)


def test_the_task_stands_once_and_the_index_in_every_prompt():
    played = run(*steps(1), alloc("env"))
    assert all("HEAP INDEX: " in shown_text(asked.view) for asked in played.asked)
    assert shown(played).count(played.state.begun.task) == 1


def test_no_advice_while_a_useless_frame_would_be_a_large_share_of_the_bill():
    assert shown(run(*steps(38))).count(ADVICE) == 1
    assert GUIDE not in shown(run(*steps(38)))


def test_a_conversation_that_has_cost_thirty_frames_is_told_by_its_own_length_and_how_to_push():
    text = shown(run(*steps(42)))
    assert text.count(ADVICE) == 2
    assert f"{GUIDE}, only its objective (what to do and the command that proves it; at most 200 characters)" in text
    assert "Each step rereads these 29,192 tokens." in text
    assert "FRAMES PAY above 4 steps: push phases of 9." in text


def test_the_advice_repeats_at_double_length_without_the_push_instructions():
    text = shown(run(*steps(84)))
    assert text.count(ADVICE) == 3
    assert text.count(GUIDE) == 1


def test_cheaper_reads_delay_the_advice():
    def first(read: str) -> int:
        played = run(*steps(80), strategy=f"adaptive:read={read}")
        return next(at for at, asked in enumerate(played.asked) if GUIDE in shown_text(asked.view))

    assert first("0.1") < first("0.05") < first("0.025")


def test_a_run_with_a_clock_is_advised_earlier_if_pauses_let_its_cache_expire():
    def first(seconds: float) -> int | None:
        played = run(*steps(60), seconds=seconds, limits=Limits(seconds=10**6))
        return next((at for at, asked in enumerate(played.asked) if GUIDE in shown_text(asked.view)), None)

    short, long = first(20.0), first(400.0)
    assert short is not None
    assert long is not None
    assert long < short / 2


def test_a_child_learns_how_to_pop_and_the_deepest_has_no_frame_advice():
    child, deepest = shown(run(push())), shown(run(push(), budgets=Budgets(depth=1)))
    assert (FAREWELL in child, ADVICE in child) == (True, True)
    assert (FAREWELL in deepest, ADVICE in deepest) == (True, False)
    assert FAREWELL not in shown(run())


def test_the_priorities_come_once_in_a_child_and_with_the_push_instructions():
    assert PRIORITIES not in shown(run())
    root, child = shown(run(*steps(42))), shown(run(push(), *steps(42)))
    assert (root.count(GUIDE), root.count(PRIORITIES)) == (1, 1)
    assert (child.count(GUIDE), child.count(PRIORITIES)) == (1, 1)
    assert child.index(PRIORITIES) < child.index(GUIDE)
    order = [PRIORITIES, "heap_alloc", "push", "heap_read", "work", "heap_free", "heap_write", "pop_frame"]
    places = [root.index(word, root.index(PRIORITIES)) for word in order]
    assert places == sorted(places)


def test_a_run_recorded_without_the_priorities_has_the_same_prompts_as_before():
    start = started("adaptive")
    older = replace(start, texts=tuple(text for text in start.texts if text.name != EACH_STEP))
    for replies in ((push(), *steps(2)), steps(42)):
        before, now = (
            shown(play(*replies, start=older, world=typical())),
            shown(play(*replies, start=start, world=typical())),
        )
        assert PRIORITIES not in before
        (text,) = (text.text for text in start.texts if text.name == EACH_STEP)
        assert now.replace(f"\n{text}", "") == before


def test_a_child_is_shown_the_chunks_that_are_named_to_it_and_the_others_in_the_index():
    entries = [stored("spec", "reals are 80 bits wide"), stored("env", "make -j2"), stored("big", "x" * 3_990)]
    child = shown(run(push(objective="Do it per heap 'spec'.", context="See heap 'big'.", store=entries)))
    assert "heap 'spec', 22 characters\nreals are 80 bits wide" in child
    assert "make -j2" not in child
    assert "- env | 8 chars" in child
    assert "xxx" not in child  # the two are over 4,000 characters


def test_the_guide_and_the_simulated_reader_know_how_much_a_child_is_shown():
    assert f"the child sees {SHOWN_CHARS:,} characters" in shown(run(*steps(42)))
    assert policy.SHOWN_CHARS == SHOWN_CHARS


def test_stale_chunks_are_not_shown_to_a_child():
    told = "reals are 80 bits wide"
    for command, there in (("ls", 1), ("two > a.md", 0)):
        replies = (
            alloc("spec", told, source="a.md"),
            do("run_command", command=command),
            push(objective="Do it per heap 'spec'."),
        )
        played = play(*replies, start=started("adaptive"), world=World(files={"a.md": "one"}))
        opened = shown_text(played.view).partition("FRAME 'child'")[2]
        assert (opened.count(told), opened.count("| STALE: ")) == (there, 1 - there)


def test_what_no_frame_handed_on_is_found_in_the_conversations_of_the_others():
    def search(**named: str):
        return do("heap_read", name="frame:", **named)

    told = World(outputs={"make": ToolReturned("the port is 8123", exit_code=0)})
    replies = (push(), *steps(1), pop("Done."), push(), search(query="port"), search(query="which port"), search())
    played = play(*replies, start=started("adaptive"), world=told)
    found = [result.text for result in played.state.running.turns if isinstance(result, Result)]
    assert "found in 2 other frames for 'port'" in found[0]
    assert "result\nthe port is 8123" in found[0]
    assert found[1].count("port is 8123") == 1  # not counted again from the earlier excerpts
    assert "query is empty" in found[2]


def test_a_child_reckons_with_the_steps_of_its_parent():
    long = [do("write_file", path="a", content=4 * OUTPUT) for _ in range(14)]
    assert "push phases of 9." in shown(run(push()))
    assert "push phases of 5." in shown(run(*long, push()))


def test_a_child_that_was_too_short_for_its_price_is_named():
    assert "That frame took 3 steps and cost more than it saved" in shown(run(push(), *steps(2), pop()))
    assert "cost more" not in shown(run(push(), *steps(5), pop()))


def test_what_frames_share_lives_five_minutes_unless_the_pace_says_that_an_hour_pays():
    lives = {
        seconds: [point.ttl for point in run(*steps(3), seconds=seconds, limits=Limits(seconds=1e6)).view.breakpoints]
        for seconds in (10.0, 100.0)
    }
    assert lives == {10.0: ["5m"] * 4, 100.0: ["1h", "1h", "5m", "5m"]}


def test_its_tools_and_its_prompt_are_no_longer_than_those_of_one_conversation():
    def tokens(name: str) -> int:
        start = started(name)
        tools = "".join(tool.name + tool.description + tool.schema for tool in start.tools)
        return count(start.system + tools, "claude-sonnet-5-5").tokens

    assert tokens("adaptive") <= tokens("full")
    assert tokens("adaptive") <= tokens("isolated") - 400


def test_no_phase_outlives_the_cache_of_the_frame_that_waits_for_it():
    cheapest = run(strategy="adaptive:read=0.01")
    assert "FRAMES PAY above 57 steps: push phases of 15." in shown(cheapest)


def test_a_tool_whose_fields_are_spelled_is_checked_as_any_other():
    played = run(do("heap_alloc", name="env", text="make"))
    assert "content is missing" in shown(played)
    assert "text is not a parameter" in shown(played)
    shown_tools = {tool.name: tool for tool in played.view.tools}
    assert shown_tools["heap_alloc"].description.endswith("{name content description? source?}")
    schema = shown_schema(shown_tools["push_frame"])
    assert schema["required"] == ["name", "objective", "context", "return_spec"]
    chunk = schema["properties"]["store"]["items"]["properties"]
    assert list(chunk) == ["name", "content", "description", "source"]


def test_a_run_forked_from_another_strategy_has_no_guide():
    start = started("stackheap")
    assert open_strategy("adaptive").render(play(push(), start=start).state).messages


def test_a_price_that_is_none_of_those_known_is_refused():
    with pytest.raises(UsageError, match=r"takes read=run\|0\.5"):
        open_strategy("adaptive:read=2")


def test_the_tokens_of_the_index_grow_with_each_chunks_name_and_description():
    heap = play(alloc("a" * 10), alloc("b" * 20, description="d" * 30)).state.heap
    assert index_tokens(Heap()) == 0
    assert index_tokens(heap) == (60 + 10 + 60 + 20 + 30) / 2.5
