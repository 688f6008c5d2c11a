"""A flat run with its phases as hypothetical frames: the actions stay, and the cost of handing over is added."""

import pytest
from msgspec.structs import replace

from stackmem.core.budgets import Budgets
from stackmem.core.facts import ChunkRead, FramePopped, FramePushed, ModelReplied, ToolReturned
from stackmem.core.machine import fold
from stackmem.core.messages import ToolCall, Usage
from stackmem.lab.whatif.hypothetical_frames import estimated_outputs, framed, handing
from stackmem.lab.whatif.rendered import Terms, outcome
from stackmem.memory import open_strategy
from stackmem.review.measure.first_loss import facts_used
from stackmem.review.measure.moments import moments
from stackmem.review.measure.prefix import text_of
from tests.build import PRICE, started
from tests.review.measure.foreign import flat

FOUND = "the rate is in src/rates_2031.py"
RUN = [
    ("First, look.", "ls src", FOUND), ("Hm.", "ls docs", "nothing"), ("Hm.", "ls tests", "nothing"),
    ("Now fix it.", "sed -i s/1/2/ src/rates_2031.py", ""), ("Hm.", "pytest", "2 passed"), ("Hm.", "ls", "a"),
    ("Done.", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", ""),
]  # fmt: skip
SPANS = [range(3), range(3, 6)]


def letters(block):
    return len(text_of(block))


def cut(name, missed, replies=RUN, spans=SPANS, budgets=None):
    strategy, run = open_strategy(name), flat(replies)
    budgets = budgets or started(name).budgets
    return framed(run, spans, handing(strategy, budgets), budgets, missed, letters)


def calls(events, name):
    return [
        part.arguments for _, event in events if isinstance(event, ModelReplied)
        for part in event.parts if isinstance(part, ToolCall) and part.name == name
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["stackheap", "stack", "isolated", "fold", "adaptive"])
@pytest.mark.parametrize("missed", [0.0, 1.0])
def test_recorded_replies_stay_in_order_and_the_facts_fold(name, missed):
    events, handed = cut(name, missed)
    own = [event for _, event in events if isinstance(event, ModelReplied) and not event.usage.estimated]
    assert own == [moment.event for moment in flat(RUN) if isinstance(moment.event, ModelReplied)]
    state = fold([replace(event, strategy=name) if number == 0 else event for number, (_, event) in enumerate(events)])
    assert (state.pushes, len(state.popped), handed.frames) == (2, 2, 2)


def test_what_a_later_frame_uses_is_handed_over_in_the_result_and_the_context():
    events, handed = cut("stack", 0.0)
    first, _ = [event for _, event in events if isinstance(event, FramePopped)]
    _, second = [event for _, event in events if isinstance(event, FramePushed)]
    assert FOUND in first.result
    assert FOUND in second.context
    assert (handed.facts, handed.rereads) == (2, 0)  # the path, and the name in it
    assert calls(events, "ls src") == []


def test_missing_facts_are_reread_right_before_their_use():
    events, handed = cut("stack", 1.0)
    assert handed.rereads == 1
    commands = [given["command"] for given in calls(events, "bash")]
    assert commands[3:5] == ["ls src", "sed -i s/1/2/ src/rates_2031.py"]
    assert [event.text for _, event in events if isinstance(event, ToolReturned)].count(FOUND) == 2
    assert not any(FOUND in event.result for _, event in events if isinstance(event, FramePopped))


def test_the_share_that_is_missed_grows_with_the_share():
    told = [(f"Now {number}.", "ls", f"see src/part_{number:03}.py") for number in range(40)]
    used = [("Hm.", f"cat src/part_{number:03}.py", "") for number in range(40)]
    run, spans = [*told, *used, RUN[-1]], [range(40), range(40, 80)]
    wide = Budgets(result_chars=4_000, context_chars=4_000)
    again = [cut("stack", missed, run, spans, wide)[1].rereads for missed in (0.0, 0.25, 0.5, 1.0)]
    assert again[0] == 0
    assert again == sorted(again)
    assert 10 < again[2] < 40
    assert again[3] == 40


def test_what_the_budgets_do_not_fit_goes_through_the_heap_if_there_is_one_and_is_lost_elsewhere():
    narrow = Budgets(context_chars=20, result_chars=320)
    events, handed = cut("stackheap", 0.0, budgets=narrow)
    assert (handed.rereads, handed.chunk_reads) == (0, 1)
    assert calls(events, "pop_frame")[0]["store"][0]["content"] == FOUND
    assert [event.name for _, event in events if isinstance(event, ChunkRead)] == ["phase-1"]
    events, handed = cut("stack", 0.0, budgets=narrow)
    assert (handed.rereads, handed.chunk_reads) == (0, 0)
    assert not any(FOUND in event.result for _, event in events if isinstance(event, FramePopped))


@pytest.mark.parametrize(("chars", "reads"), [(len(FOUND), 1), (len(FOUND) - 1, 0)])
def test_a_heap_is_filled_to_its_last_character_and_not_beyond(chars, reads):
    narrow = Budgets(context_chars=20, result_chars=320, heap_chars=chars)
    _, handed = cut("stackheap", 0.0, budgets=narrow)
    assert handed.chunk_reads == reads


def test_a_phase_ends_when_its_last_command_was_answered():
    events, _ = cut("stack", 0.0)
    run = flat(RUN)
    answered = [moment.at for moment in run if isinstance(moment.event, ToolReturned)]
    asked = [moment.at for moment in run if isinstance(moment.event, ModelReplied)]
    popped = [at for at, event in events if isinstance(event, FramePopped)]
    assert popped == [answered[span.stop - 1] for span in SPANS]
    assert popped != [asked[span.stop - 1] for span in SPANS]


def test_a_branch_sees_its_parents_conversation_and_needs_no_context():
    events, handed = cut("fold", 0.0)
    assert FOUND in next(event for _, event in events if isinstance(event, FramePopped)).result
    assert FOUND not in [event for _, event in events if isinstance(event, FramePushed)][1].context
    assert handed.rereads == 0


def test_a_strategy_without_frames_hands_nothing_over():
    assert handing(open_strategy("mask"), Budgets()) is None


def test_the_replies_that_are_made_up_cost_what_they_say():
    events, _ = cut("stackheap", 0.5)
    made_up = [event for _, event in events if isinstance(event, ModelReplied) and event.usage.estimated]
    assert len(made_up) >= 4
    assert all(event.usage.output > 0 for event in made_up)


def bill(name, missed):
    strategy = open_strategy(name)
    (at, start), *rest = cut(name, missed)[0]
    start = replace(start, strategy=strategy.name, budgets=started(name).budgets)
    run = tuple(moments([(at, start), *rest]))
    return outcome(run, strategy, start, facts_used(run), Terms(PRICE, 0, letters))


@pytest.mark.parametrize("name", ["stackheap", "isolated", "fold"])
def test_looking_again_costs_more_than_handing_over(name):
    assert bill(name, 1.0).usd > bill(name, 0.0).usd


def test_a_fact_that_is_handed_over_is_in_sight_when_it_is_used_and_a_missed_one_was_not():
    assert bill("stack", 0.0).loss.lost == 0
    assert bill("stack", 1.0).loss.lost == 2


def test_replies_without_usage_have_an_estimated_length_and_others_keep_theirs():
    run = [(moment.at, moment.event) for moment in flat(RUN[:2], Usage())]
    found, number = estimated_outputs(run, letters)
    assert number == 2
    replies = [event for _, event in found if isinstance(event, ModelReplied)]
    assert all(reply.usage.estimated and reply.usage.output > 0 for reply in replies)
    known = [(moment.at, moment.event) for moment in flat(RUN[:2])]
    assert estimated_outputs(known, letters) == (known, 0)
