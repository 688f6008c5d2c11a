"""What if: a recorded run replayed under another strategy with the same actions."""

import pytest
from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.facts import ContextCompacted, FramePushed, ModelReplied, ProgramFrame, RunForked
from stackmem.core.log import Log
from stackmem.core.messages import Message, Text, ToolCall, ToolResult, Usage, View
from stackmem.core.program_facts import ProgramStarted
from stackmem.core.requests import AskModel, Compact
from stackmem.core.strategy import has_frames
from stackmem.lab.whatif.rendered import (
    MAX_CHARS,
    OtherStrategy,
    Terms,
    as_recorded,
    by_program,
    extract_summary,
    memory_tools,
    outcome,
)
from stackmem.memory import STRATEGIES, open_strategy
from stackmem.review.measure.cached_steps import bill, cached_steps
from stackmem.review.measure.first_loss import facts_used
from stackmem.review.measure.prefix import text_of
from tests.build import PRICE, alloc, call, do, failed, play, pop, push, reply, shown_text, started, stored
from tests.golden.stories import calculator, mishaps
from tests.review.measure.runs import seen


def letters(block):
    return len(text_of(block))


TERMS = Terms(PRICE, 0, letters)


def started_with(run, name):
    return replace(run[0].after.begun, strategy=name)


def under(run, name, terms=TERMS, strategy=None):
    strategy = strategy or open_strategy(name)
    facts = facts_used(run, flat=not has_frames(strategy))
    return outcome(run, strategy, started_with(run, name), facts, terms)


def views(run, name):
    """Return every prompt of the run as the strategy would have rendered it."""
    strategy = open_strategy(name)
    other = OtherStrategy(started_with(run, name), framed=has_frames(strategy))
    for moment in run:
        if isinstance(moment.event, ModelReplied):
            yield strategy.render(other.state)
        other.take(moment)


STORIES = {
    "calculator": calculator,
    "mishaps": lambda: mishaps("stackheap"),
    "mishaps-full": lambda: mishaps("full"),
    "alone": lambda: play(pop("Nothing to do.")),
}


@pytest.mark.parametrize("story", STORIES)
def test_under_its_own_strategy_a_run_costs_what_the_cache_simulator_says(story):
    run = seen(STORIES[story]())
    billed = bill(cached_steps(run, 0, letters), PRICE)
    found = under(run, run[0].after.begun.strategy)
    assert (found.requests, found.usage, found.usd) == (billed.requests, billed.usage, billed.usd)


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("name", [*STRATEGIES, "stackheap:index=tail", "stackheap:index=system"])
def test_every_prompt_of_every_story_answers_each_call_before_the_next_reply(story, name):
    for view in views(seen(STORIES[story]()), name):
        assert view.messages[-1].role == "user"
        for one, following in zip(view.messages, [*view.messages[1:], None], strict=True):
            calls = [part.id for part in one.parts if isinstance(part, ToolCall)]
            answers = [part.call_id for part in following.parts if isinstance(part, ToolResult)] if calls else []
            assert answers == calls


def test_frames_become_one_conversation_in_which_nothing_is_left_out():
    run = seen(play(alloc("plan", "first this"), push(name="a"), do("list_files"), pop("A is done."), pop("All done.")))
    last = list(views(run, "full"))[-1]
    text = shown_text(last)
    assert [message.role for message in last.messages] == ["user", "assistant"] * 4 + ["user"]
    assert "frame 'a' begins; what it returns follows" in text
    assert "frame 'a' returned:\nA is done." in text
    assert '-> heap_alloc {"name":"plan","content":"first this"}' in text


def test_a_frame_that_the_harness_popped_returns_by_a_notice():
    run = seen(play(push(name="a"), failed("window"), do("list_files")))
    (*_, last) = views(run, "full")
    texts = [part.text for part in last.messages[-1].parts]
    assert texts[0] == "frame 'a' begins; what it returns follows"
    assert texts[1].startswith("frame 'a' was popped by the harness (forced: window)")


def test_calls_of_a_reply_that_ended_its_frame_are_answered():
    full = reply(call("list_files"), call("list_files"), stop="window")
    run = seen(play(push(name="a"), full, do("list_files")))
    (*_, last) = views(run, "full")
    first, second = last.messages[-1].parts
    assert first.text.startswith("frame 'a' was popped by the harness")
    assert second.text == "not executed: the frame was ended first"


def test_a_flat_run_is_one_frame_of_a_strategy_that_has_frames():
    run = seen(play(do("list_files"), do("list_files"), pop(), start=started("full")))
    (*_, last) = views(run, "stackheap")
    assert "FRAME 'root', depth 0" in shown_text(last)
    assert len(last.messages) == 5


def test_the_heap_is_there_where_frames_are_not():
    run = seen(play(push(name="a", store=[stored("plan")]), do("list_files"), pop(), pop()))
    other = OtherStrategy(started_with(run, "full"), framed=False)
    for moment in run:
        other.take(moment)
    assert list(other.state.heap.chunks) == ["plan"]
    assert len(other.state.stack) == 1


def test_notes_and_memory_files_are_there_under_the_strategy_that_kept_them():
    run = seen(play(do("add_note", text="mind the gap"), do("list_files"), start=started("notes")))
    (*_, last) = views(run, "notes")
    assert "mind the gap" in last.messages[-1].parts[-1].text


def test_full_history_reads_more_and_holds_more_than_frames():
    run = seen(calculator())
    frames, flat = under(run, "stackheap"), under(run, "full")
    assert flat.requests == frames.requests
    assert flat.usage.output == frames.usage.output
    assert flat.loss.step is None
    assert (frames.too_long_from, flat.too_long_from) == (None, None)


def test_a_prompt_longer_than_the_window_is_named():
    run = seen(play(*[do("list_files")] * 5, pop(), start=started("full", window_tokens=10**6)))
    sizes = [sum(letters_of(view)) for view in views(run, "full")]
    assert under(run, "full").too_long_from is None
    strategy = open_strategy("full")
    small = replace(run[0].after.begun, window_tokens=sizes[2])
    assert outcome(run, strategy, small, facts_used(run, flat=True), TERMS).too_long_from == 4


def letters_of(view):
    yield len(view.system)
    yield from (len(f"{tool.name}\n{tool.description}\n{tool.schema}") for tool in view.tools)
    for message in view.messages:
        for part in message.parts:
            match part:
                case Text() | ToolResult():
                    yield len(part.text)
                case ToolCall():
                    yield len(f"{part.name}\n{{}}")


def test_time_between_requests_decides_what_is_still_cached():
    run = seen(play(*[do("list_files")] * 5, pop(), start=started("full")))
    soon = under(run, "full", replace(TERMS, latency_seconds=10.0)).usage
    late = under(run, "full", replace(TERMS, latency_seconds=301.0)).usage
    never = under(run, "full", replace(TERMS, latency_seconds=3_601.0)).usage
    assert soon.cache_read > late.cache_read > never.cache_read == 0


def test_without_a_price_there_is_no_bill():
    assert under(seen(calculator()), "full", replace(TERMS, price=None)).usd is None


class Summing(Struct, frozen=True):
    """Requests a summary before every third step, and shows the task and the summary."""

    name: str = "summing"
    tools: tuple = ()
    prefix_stable: bool = True

    def render(self, state):
        return open_strategy("full").render(state)

    def upkeep(self, state):
        due = state.step and state.step % 3 == 0
        if not due or any(
            type(turn).__name__ == "Compaction" and turn.step == state.step for turn in state.running.turns
        ):
            return None
        view = self.render(state)
        asked = Message("user", (Text("COMPACTION REQUEST (kind: summary; at most 300 characters)"),))
        view = replace(view, messages=Log([*view.messages, asked]))
        return Compact(AskModel(view, state.step + 1, state.facts), state.running.id, state.step)


def test_a_summary_is_costed_and_its_row_is_known_for_an_estimate():
    run = seen(play(*[do("list_files")] * 7, pop(), start=started("full")))
    plain, summed = under(run, "full"), under(run, "full", strategy=Summing())
    assert (plain.summaries, summed.summaries) == (0, 2)
    assert summed.requests == plain.requests + 2
    assert summed.usage.prompt > plain.usage.prompt


def test_the_row_of_the_recording_has_the_summaries_that_were_written():
    played = play(*[do("list_files")] * 8, pop(), start=started("rolling_summary:1"))
    run = seen(played)
    written = len(played.of(ContextCompacted))
    assert written > 1
    facts = facts_used(run, flat=True)
    recorded = as_recorded(run, facts, TERMS)
    billed = bill(cached_steps(run, 0, letters), PRICE)
    assert (recorded.summaries, recorded.estimated) == (written, False)
    assert (recorded.requests, recorded.usage, recorded.usd) == (billed.requests, billed.usage, billed.usd)
    assert under(run, "rolling_summary:1").estimated


def by_a_program():
    """A run in which a program requests a completion, then has the agent work in a frame."""
    work = FramePushed("frame-1", "part", "Do the part.", "", "", "", program=ProgramFrame("work", task="The part."))
    done = play(do("list_files"), start=started("stackheap")).events
    program = ProgramStarted("tiny", "x.tiny", "0" * 64, {}, "/p")
    return seen([done[0], program, reply("42", stop="end"), work, done[1], done[2]])


def test_what_a_program_asks_in_its_own_words_is_the_same_in_every_row():
    asked = View("", (), Log([Message("user", (Text("What is it? " * 50),))]))
    run = [replace(one, view=asked) if isinstance(one.event, ModelReplied) and by_program(one) else one
           for one in by_a_program()]  # fmt: skip
    assert [by_program(moment) for moment in run if isinstance(moment.event, ModelReplied)] == [True, False]
    billed = bill(cached_steps(run, 0, letters), PRICE)
    for found in (as_recorded(run, facts_used(run), TERMS), under(run, "stackheap")):
        assert (found.requests, found.usage, found.usd) == (2, billed.usage, billed.usd)
    assert under(run, "stackheap:index=tail").requests == 2
    (first,) = list(views(run, "stackheap"))[1:]
    assert "The part." in shown_text(first)


def test_a_completion_whose_prompt_is_not_known_is_in_no_row():
    run = by_a_program()
    assert as_recorded(run, facts_used(run), TERMS).requests == under(run, "stackheap:index=tail").requests == 1


def test_a_recorded_summary_is_no_part_of_another_strategys_run():
    events = play(*[do("list_files")] * 3, start=started("full")).events
    told = [*events[:3], ContextCompacted("frame-0", 1, "So far so good.", Usage(1)), *events[3:]]
    assert under(seen(told), "full").requests == 3
    assert all("So far so good." not in shown_text(view) for view in views(seen(told), "full"))


def test_a_fork_goes_on_as_the_same_run():
    parent = play(do("list_files"), start=started("full"))
    fork = RunForked("other", 3, "0" * 64, replace(started("stackheap"), limits=parent.state.limits))
    run = seen([*parent.events, fork])
    assert under(run, "full").requests == 1


def view_of(*texts):
    asked = Text("COMPACTION REQUEST (kind: summary; at most 60 characters)")
    return View("", (), Log([Message("user", (*map(Text, texts), asked))]))


def test_the_stand_in_is_the_newest_lines_with_a_literal_within_the_room():
    text = extract_summary(
        view_of("port = port-48731\nnothing here", "again port-48731", "key_name = a", "value_2 = b")
    )
    assert text.splitlines() == ["again port-48731", "key_name = a", "value_2 = b"]


def test_the_stand_in_keeps_its_bounds():
    many = "\n".join(f"name_{number:05} = {'x' * 500}" for number in range(200))
    assert len(extract_summary(view_of(many))) <= 60
    unasked = View("", (), Log([Message("user", (Text(many), Text("Summarise.")))]))
    assert 0 < len(extract_summary(unasked)) <= MAX_CHARS
    assert extract_summary(View("", (), Log())) == ""


def test_a_line_that_just_fits_is_in_the_stand_in():
    line = f"name_1 = {'x' * 50}"  # with its line end, the requested 60 characters
    assert (extract_summary(view_of(line)), extract_summary(view_of(f"{line}x"))) == (line, "")


def test_the_tools_of_a_strategy_are_those_that_touch_no_file():
    assert memory_tools(["read_file", "pop_frame", "heap_read", "notes"]) == {"heap_read", "notes"}
