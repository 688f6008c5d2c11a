"""Registers and frames: pushes, pops, a child's view, and returned results."""

import pytest

from stackmem.core.budgets import Budgets, Limits
from stackmem.core.facts import (
    CallRejected,
    FramePopped,
    FramePushed,
    NoticeGiven,
    ReplyNudged,
    RunEnded,
    SourcesDigested,
    VerifyReturned,
)
from stackmem.core.requests import AskModel, ReadClock, Verify
from tests.build import World, alloc, do, play, pop, push, reply, shown_text, started, stored

OVER = [("objective", 200), ("context", 500), ("return_spec", 200), ("constraint", 100), ("verify", 200)]


def rejected(played):
    (event,) = played.of(CallRejected)
    return event


def test_exactly_on_budget_is_accepted():
    played = play(push(objective="o" * 200, context="c" * 500, return_spec="r" * 200, constraint="b" * 100))
    assert played.of(FramePushed)
    assert not played.of(CallRejected)


def test_lengths_count_unicode_code_points():
    played = play(push(objective="🙂" * 200, context="é" * 500, return_spec="字" * 200))
    assert played.of(FramePushed)


@pytest.mark.parametrize(("label", "most"), OVER)
def test_one_character_over_is_refused_with_length_maximum_and_what_to_do(label, most):
    reason = rejected(play(push(**{label: "🙂" * (most + 1)}))).reason
    assert f"{label} is {most + 1} chars, maximum is {most}" in reason
    assert "move data to the heap" in reason


@pytest.mark.parametrize(("label", "most"), OVER[:3])
@pytest.mark.parametrize("value", ["", "   ", ..., None, 7, True, ["x"], {"a": 1}])
def test_an_empty_missing_or_mistyped_register_is_refused_with_its_maximum(label, most, value):
    reason = rejected(play(push(**{label: value}))).reason
    assert label in reason
    assert f"maximum is {most}" in reason


@pytest.mark.parametrize("name", ["", " ", ..., None, 7, "two words", "x" * 65])
def test_a_frame_name_follows_the_rule_of_chunk_names(name):
    assert "1 to 64 of letters, digits, _ . - /" in rejected(play(push(name=name))).reason


def test_every_fault_of_a_push_is_listed_at_once():
    reason = rejected(
        play(
            push(
                name="a b",
                objective="o" * 201,
                context=...,
                return_spec=3,
                constraint="c" * 101,
                store=[stored("", "")],
            )
        )
    ).reason
    for fault in (
        "name 'a b'", "objective is 201 chars, maximum is 200", "context is missing", "maximum is 500",
        "return_spec must be a string, is a number", "constraint is 101 chars, maximum is 100",
    ):  # fmt: skip
        assert fault in reason


def test_faults_of_store_and_typos_are_listed_with_the_others():
    played = play(alloc("spec"), push(objective="Per heap 'spce'.", return_spec="r" * 201, store=[stored("b", "")]))
    for fault in ("did you mean 'spec'", "return_spec is 201", "the content of 'b' is empty"):
        assert fault in rejected(played).reason


def test_a_refused_push_changes_nothing_and_is_answered_in_the_parents_conversation():
    played = play(push(objective=""))
    assert len(played.state.stack) == 1
    assert played.state.pushes == 0
    assert played.answer == rejected(played).reason


def test_five_pushes_deep_are_accepted_and_the_sixth_is_refused_as_the_tool_result_itself():
    played = play(*(push() for _ in range(6)))
    assert [frame.depth for frame in played.state.stack] == [0, 1, 2, 3, 4, 5]
    assert "depth 5, the deepest allowed" in played.answer
    assert rejected(played).code == "too_deep"
    assert len(played.of(FramePushed)) == 5


def test_the_depth_is_a_setting():
    assert "depth 0, the deepest allowed" in rejected(play(push(), start=started(budgets=Budgets(depth=0)))).reason


def test_the_child_sees_its_registers_context_and_the_index_and_never_the_parents_conversation():
    played = play(
        reply("SECRET PLAN"),
        alloc("spec", "CHUNK-CONTENT", description="what it is"),
        push(objective="Objective-O", context="Context-C", return_spec="Return-R", constraint="steps=9", verify="make"),
    )
    shown = shown_text(played.view)
    for seen in (
        "R0 INTENT: Objective-O",
        "R1 RETURN: Return-R",
        "R3 CONSTRAINT: steps=9",
        "Context-C",
        "- spec",
        "make",
    ):
        assert seen in shown
    assert "SECRET PLAN" not in shown
    assert "CHUNK-CONTENT" not in shown
    assert played.state.begun.task not in shown
    assert len(played.view.messages) == 1


def test_the_childs_result_comes_back_as_the_result_of_the_parents_own_push():
    played = play(push(name="part"), do("run_command", command="ls"), pop("Made it."))
    last = played.view.messages[-1].parts[0]
    assert last.call_id == played.events[1].parts[0].id
    assert last.text == "frame 'part' returned:\nMade it."
    assert "run_command" not in shown_text(played.view).split(played.view.system)[1]


def test_frames_are_numbered_and_names_may_repeat():
    played = play(push(name="x"), pop(), push(name="x"), push(name="x"))
    assert [event.frame for event in played.of(FramePushed)] == ["frame-1", "frame-2", "frame-3"]
    assert [frame.id for frame in played.state.stack] == ["frame-0", "frame-2", "frame-3"]


def test_the_roots_intent_is_the_task_cut_to_200_characters_with_a_mark():
    task = "word " * 100
    played = play(start=started(task=task))
    intent = played.state.running.registers.intent
    assert len(intent) == 200
    assert intent.endswith("[…]")
    assert f"TASK\n{task}" in shown_text(played.view)


def test_a_short_task_is_the_roots_intent_uncut():
    assert play(start=started(task="short\ntask")).state.running.registers.intent == "short task"


def test_popping_the_root_ends_the_run_with_its_full_result():
    played = play(pop("r" * 4_000))
    assert played.state.result == "r" * 4_000
    assert played.of(RunEnded) == [RunEnded("popped", "r" * 4_000)]
    assert played.state.outcome == "finished"
    assert played.upcoming is None


@pytest.mark.parametrize(("pushes", "most"), [(0, 4_000), (1, 1_000)])
@pytest.mark.parametrize("over", ["", " \n", 1])
def test_a_result_over_budget_or_empty_is_refused(pushes, most, over):
    result = "r" * (most + 1) if over == 1 else over
    played = play(*[push()] * pushes, pop(result))
    assert f"maximum is {most}" in rejected(played).reason
    assert len(played.state.stack) == pushes + 1


def test_a_childs_result_exactly_on_budget_is_accepted():
    assert play(push(), pop("🙂" * 1_000)).of(FramePopped)


def test_verify_is_run_after_the_pop_is_accepted_and_stamped_on_the_result():
    world = World(verified=VerifyReturned("exit 3", "\n".join(f"line {number}" for number in range(20))))
    played = play(push(verify="make test"), pop("Done."), world=world)
    assert [effect.command for effect in played.effects if isinstance(effect, Verify)] == ["make test"]
    assert "frame 'child' returned:\nDone.\n[verified: exit 3]\nline 10\n" in played.answer
    assert played.answer.endswith("line 19")
    assert "line 9\n" not in played.answer
    assert played.of(FramePopped)[0].verified == "exit 3"


def test_a_verify_that_times_out_is_stamped_so_and_does_not_undo_the_pop():
    played = play(push(verify="sleep 99"), pop(), world=World(verified=VerifyReturned("timeout", "")))
    assert "[verified: timeout]" in played.answer
    assert played.state.running.id == "frame-0"


def test_verify_shows_at_most_1000_characters_outside_the_results_own_limit():
    played = play(push(verify="v"), pop("r" * 1_000), world=World(verified=VerifyReturned("exit 0", "x" * 5_000)))
    assert "r" * 1_000 in played.answer
    assert played.answer.count("x") == 1_000 + "exit".count("x")


def test_verify_does_not_count_as_a_step():
    played = play(push(verify="v"), pop())
    assert played.state.step == 2
    assert played.asked[-1].step == 3


def test_a_refused_pop_does_not_run_verify():
    played = play(push(verify="v"), pop("x" * 1_001), pop(store=[stored("a", "")]))
    assert not [effect for effect in played.effects if isinstance(effect, Verify)]


def test_a_blank_verify_is_none():
    assert not [effect for effect in play(push(verify="  "), pop()).effects if isinstance(effect, Verify)]


def test_a_stored_source_is_digested_before_verify_and_its_path_goes_along():
    world = World({"f.py": "1"})
    played = play(push(verify="v"), pop(store=[stored("a", source="f.py")]), world=world)
    order = [type(event) for event in played.events]
    assert order.index(SourcesDigested) < order.index(VerifyReturned) < order.index(FramePopped)
    assert [effect.sources for effect in played.effects if isinstance(effect, Verify)] == [("f.py",)]


def test_the_parent_is_informed_of_chunks_stored_by_a_pop():
    played = play(push(), pop(store=[stored("a"), stored("b")]))
    assert "[stored on the heap: a, b]" in played.answer
    assert list(played.state.heap.chunks) == ["a", "b"]


@pytest.mark.parametrize("quoted", ["heap 'spce'", 'heap "spec2"', "heap `sp`", "Heap chunk 'spec_1'", "HEAP  'speck'"])
@pytest.mark.parametrize("where", ["objective", "context"])
def test_a_pointer_that_is_nearly_an_existing_name_is_refused_as_a_typo(quoted, where):
    played = play(alloc("spec"), push(**{where: f"See {quoted}."}))
    assert "did you mean 'spec'" in rejected(played).reason


def test_a_typo_near_many_names_suggests_three():
    played = play(*map(alloc, ("spec1", "spec2", "spec3", "spec4")), push(objective="See heap 'spec'."))
    assert "did you mean 'spec1', 'spec2', 'spec3'?" in rejected(played).reason


@pytest.mark.parametrize("pointer", ["results", "spec123", "env"])
def test_other_dangling_pointers_are_accepted_with_a_notice(pointer):
    played = play(alloc("spec"), push(objective=f"Store it as heap '{pointer}'."))
    assert played.of(FramePushed)[0].missing == (pointer,)
    assert f"heap '{pointer}' does not exist yet" in shown_text(played.view)


def test_a_pointer_to_an_existing_chunk_is_valid():
    played = play(alloc("spec"), alloc("spec2"), push(objective="Per heap 'spec' and heap 'spec2'."))
    assert played.of(FramePushed)[0].missing == ()


def test_chunks_of_the_same_calls_store_count_as_existing():
    played = play(push(objective="Per heap 'spec'.", store=[stored("spec")]))
    assert played.of(FramePushed)[0].missing == ()
    assert rejected(play(push(objective="Per heap 'spce'.", store=[stored("spec")])))


def test_words_that_only_resemble_a_pointer_are_none():
    played = play(alloc("spec"), push(objective="A cheap 'spce', a heap of 'spce', and heap spce."))
    assert played.of(FramePushed)[0].missing == ()


def test_a_hostile_number_of_pointers_is_answered_at_once():
    replies = [alloc(f"name-{number:02}") for number in range(60)]
    played = play(*replies, push(objective="heap 'name-xx' " * 100_000), start=started(window_tokens=10_000_000))
    assert "maximum is 200" in rejected(played).reason


def test_a_push_without_a_constraint_shows_the_steps_and_tokens_left_and_never_time():
    played = play(push(), start=started(limits=Limits(steps=50, tokens=10_000, seconds=600.0)))
    assert played.of(FramePushed)[0].constraint == "steps left: 49, tokens left: 9,880"
    unlimited = play(push(), start=started(limits=Limits(steps=None)))
    assert unlimited.of(FramePushed)[0].constraint == "steps left: no limit, tokens left: no limit"


def test_what_is_left_for_a_grandchild_is_bounded_by_its_ancestors():
    played = play(push(constraint="steps=10 tokens=1k"), push())
    assert played.of(FramePushed)[1].constraint == "steps left: 9, tokens left: 880"


def test_a_blank_constraint_is_none():
    assert "steps left" in play(push(constraint="  ")).of(FramePushed)[0].constraint


def test_the_clock_is_read_at_a_push_whose_seconds_are_limited_so_that_they_count_from_there():
    world = World(seconds=500.0)
    played = play(push(constraint="seconds=100"), do("list_files"), world=world)
    assert played.state.running.started_seconds == 501.0
    assert not played.of(CallRejected)
    assert ReadClock() in played.effects


def test_without_a_limit_in_seconds_the_clock_is_never_read():
    played = play(push(constraint="steps=5"), do("list_files"), pop(), pop())
    assert ReadClock() not in played.effects


def test_a_popped_frame_is_kept_in_the_state_and_gone_from_every_later_prompt():
    played = play(push(), do("run_command", command="a-command-of-the-child"), pop(), do("list_files"), pop())
    (done, _root) = played.state.popped
    assert "a-command-of-the-child" in repr(done.frame.turns)
    for asked in played.asked[3:]:
        assert isinstance(asked, AskModel)
        assert "a-command-of-the-child" not in shown_text(asked.view)


def test_notices_and_nudges_stay_in_the_frame_they_were_given_to():
    played = play(push(), reply("thinking aloud"), pop())
    assert played.of(ReplyNudged)
    assert not played.of(NoticeGiven)
    assert "No tool was called" not in shown_text(played.view)
