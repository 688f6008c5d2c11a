"""First loss: the step at which a fact needed later was no longer in the prompt."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.facts import ContextCompacted, ToolReturned
from stackmem.core.log import Log
from stackmem.core.messages import ToolCall
from stackmem.memory import open_strategy
from stackmem.review.measure.first_loss import FactSight, FirstLoss, facts_used, first_loss, literals, literals_of
from tests.build import World, alloc, do, play, pop, push, reply, started

from .runs import seen

PORT = "listening on port-48731"


def told(text=PORT):
    return World(outputs={"look": ToolReturned(text, exit_code=0), "again": ToolReturned(text, exit_code=0)})


def look(command="look"):
    return do("run_command", command=command)


def use(fact="port-48731"):
    return do("run_command", command=f"curl {fact}")


class Forgetful(Struct, frozen=True):
    """Shows the task and the last messages of the whole conversation, as a window does."""

    kept: int

    def render(self, state):
        view = open_strategy("full").render(state)
        return replace(view, messages=Log([view.messages[0], *view.messages[1:][-self.kept :]]))


def under(run, strategy):
    moments = seen(run)
    sight = FactSight(facts_used(moments))
    for moment in moments:
        if type(moment.event).__name__ == "ModelReplied":
            before = moment.before
            sight.see(moment.after.step, strategy.render(before), before)
    return sight.result


def flat(*replies, world=None):
    start = started("full", limits=Limits(steps=None), window_tokens=10**9)
    return play(*replies, start=start, world=world or told())


def test_full_history_loses_nothing():
    run = flat(look(), *[do("list_files")] * 20, use())
    assert first_loss(seen(run)) == FirstLoss(facts=1)


def test_a_window_loses_a_fact_at_the_step_whose_prompt_no_longer_holds_it():
    run = flat(look(), *[do("list_files")] * 5, use())
    found = under(run, Forgetful(4))  # the prompts of steps 2 and 3 contain the first result
    assert found == FirstLoss(facts=1, step=4, lost=1, gone_step=4, gone=1)


def test_values_never_used_again_are_not_facts_or_losses():
    run = flat(look(), use(), *[do("list_files")] * 5)
    assert under(run, Forgetful(4)) == FirstLoss(facts=1)
    assert first_loss(seen(flat(look(), do("list_files")))) == FirstLoss()


def test_a_fact_that_was_found_again_had_been_lost():
    run = flat(look(), *[do("list_files")] * 5, look("again"), use())
    assert under(run, Forgetful(4)).step == 4


def test_values_first_stated_by_task_or_model_are_not_facts():
    guessed = flat(use(), look(), use())
    assert first_loss(seen(guessed)).facts == 0
    named = play(look(), use(), start=started("full", task="Ask port-48731."), world=told())
    assert first_loss(seen(named)).facts == 0


def test_a_child_does_not_see_what_its_parent_found():
    run = play(look(), push(), use(), pop(), pop(), world=told())
    assert first_loss(seen(run)) == FirstLoss(facts=1, step=3, lost=1, gone_step=3, gone=1)


def test_a_child_with_the_fact_in_its_context_loses_nothing():
    run = play(look(), push(context="Ask port-48731."), use(), pop(), pop(), world=told())
    assert first_loss(seen(run)).step is None


def test_a_fact_on_the_heap_is_out_of_sight_until_it_is_read_and_never_gone():
    run = play(look(), alloc("port", PORT), push(), do("heap_read", name="port"), use(), pop(), pop(), world=told())
    assert first_loss(seen(run)) == FirstLoss(facts=1, step=4, lost=1)


def test_a_fact_in_a_file_of_the_memory_tool_is_never_gone():
    noted = do("memory", command="create", path="/memories/port", file_text=PORT)
    run = play(look(), noted, *[do("list_files")] * 5, use(), start=started("memory_dir"), world=told())
    assert under(run, Forgetful(4)) == FirstLoss(facts=1, step=5, lost=1)


def test_a_frame_that_waits_loses_nothing():
    run = play(look(), push(), do("list_files"), pop(), use(), pop(), world=told())
    assert first_loss(seen(run)) == FirstLoss(facts=1)


def test_facts_a_child_does_not_return_are_lost_to_its_parent():
    silent = play(push(), look(), pop(), do("list_files"), use(), pop(), world=told())
    assert first_loss(seen(silent)).step == 4
    spoken = play(push(), look(), pop("It is port-48731."), do("list_files"), use(), pop(), world=told())
    assert first_loss(seen(spoken)).step is None


def test_as_one_conversation_frames_hide_nothing_of_who_needs_what():
    run = play(look(), push(), use(), pop(), pop(), world=told())
    assert facts_used(seen(run), flat=True).needed == {"frame-0": {"port-48731": 3}}


def test_facts_of_many_steps_are_counted_once_each():
    world = told("alpha_1 beta_22 gamma_3")
    run = flat(look(), *[do("list_files")] * 5, use("alpha_1 beta_22"), use("alpha_1"), world=world)
    found = under(run, Forgetful(4))
    assert (found.facts, found.lost, found.step) == (2, 2, 4)


def test_a_fact_in_the_system_prompt_is_seen_there():
    run = play(
        look(), alloc("port", PORT, description="port-48731"), push(), use(), pop(), pop(),
        start=started("stackheap:index=system"), world=told(),
    )  # fmt: skip
    assert first_loss(seen(run)).step is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see src/app/main.py:17, please", {"src/app/main.py:17", "main.py"}),
        ("customer_reference is optional", {"customer_reference"}),
        ("parseConfig failed with 0x7f3a and 12345.", {"parseConfig", "0x7f3a", "12345"}),
        ("Hello world, nothing special here", set()),
        ("a_b x1 12.5", set()),
        ("", set()),
        ("é" * 50 + "…", set()),
        ("k" * 199 + "_1", set()),
    ],
)
def test_literals_are_words_that_tell_something(text, found):
    assert literals(text) == found


@given(st.text())
def test_every_literal_occurs_in_its_text(text):
    assert all(one in text and 5 <= len(one) <= 200 for one in literals(text))


@pytest.mark.parametrize("arguments", [None, [], {"a": ["x_long", {"b": "y_long"}]}, 1234567, True, "x_long"])
def test_arguments_of_any_shape_are_read(arguments):
    assert literals_of(ToolCall("", "f", arguments)) <= {"x_long", "y_long", "1234567"}


def test_a_reply_cut_to_pieces_is_read():
    assert literals_of(ToolCall("", "f", None, '{"path": "src/ab_c.py')) >= {"src/ab_c.py"}


def test_a_long_run_takes_time_by_its_length():
    def taken(steps):
        world = World(outputs={f"c{n}": ToolReturned(f"value_{n:05}", exit_code=0) for n in range(steps)})
        given = [do("run_command", command=f"c{n}") for n in range(steps)]
        uses = [do("run_command", command=f"echo value_{n:05}") for n in range(steps)]
        run = seen(flat(*given, *uses, reply("no call", stop="end"), world=world))
        begun = time.process_time()
        found = first_loss(run)
        assert found.facts >= steps
        assert found.lost == 0
        return time.process_time() - begun

    taken(50)
    assert taken(1_000) < 10 * taken(250) + 0.5


def test_a_request_for_a_summary_is_no_prompt_that_loses_anything():
    start = started("summary:3,prefix=cold", limits=Limits(steps=None), window_tokens=10**9)
    run = play(*[do("list_files")] * 4, look(), *[do("list_files")] * 2, use(), start=start, world=told())
    assert run.of(ContextCompacted)
    assert first_loss(seen(run)) == FirstLoss(facts=1)
