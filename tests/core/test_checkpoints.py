"""A push or pop that leaves out what its frame found is answered once; the second attempt passes."""

from typing import ClassVar

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.facts import CallRejected, FramePopped, FramePushed, ToolReturned
from stackmem.core.machine import fold
from stackmem.review.measure.metrics import measure
from stackmem.review.measure.moments import moments
from tests.build import World, do, play, pop, push, started, stored

CHECKED = replace(started(), checkpoints="on")
PLAIN, WORKS = "pytest -q", "cd src && python -m pytest -q ../tests"
READ = do("read_file", path="notes/durations.md")
ROOT_ENDS = pop()


def run(command):
    return do("run_command", command=command)


class Shell(World):
    """Commands of a table end with an exit code and an output; every other one prints nothing."""

    table: ClassVar = {PLAIN: (1, "no module named app"), WORKS: (0, "ok"), "python total.py": (0, "42.17")}

    def perform(self, effect):
        answer = super().perform(effect)
        command = getattr(getattr(effect, "call", None), "command", None)
        if isinstance(answer, ToolReturned) and command is not None:
            code, output = self.table.get(command, (0, ""))
            return ToolReturned(f"{output}\n[exit {code}]", exit_code=code)
        return answer


def shell(*replies, start=CHECKED, **files):
    return play(*replies, start=start, world=Shell(files={"notes/durations.md": "1h is an hour"} | files))


def answers(played):
    return [event.reason for event in played.of(CallRejected) if event.code == "checkpoint"]


def effects(played):
    return [event.checkpoint for event in played.of(FramePushed, FramePopped) if event.checkpoint is not UNSET]


def test_a_push_names_what_was_found_once_and_then_passes():
    played = shell(run(PLAIN), run(WORKS), READ, push(), push(), pop(), ROOT_ENDS)
    [text] = answers(played)
    assert f"{WORKS} (failed before: {PLAIN})" in text
    assert "notes/durations.md" in text
    assert len(played.of(FramePushed)) == 1
    assert effects(played) == ["unchanged"]


def test_what_the_objective_a_chunk_or_the_context_names_is_not_missing():
    told = push(objective=f"Write units.py. Verify: {WORKS}.", context="See notes/durations.md.")
    assert answers(shell(run(PLAIN), run(WORKS), READ, told, pop(), ROOT_ENDS)) == []
    kept = push(store=[stored("env", f"tests: {WORKS}"), stored("durations", source="notes/durations.md")])
    assert answers(shell(run(PLAIN), run(WORKS), READ, kept, pop(), ROOT_ENDS)) == []
    earlier = do("heap_alloc", name="durations.md", content="1h is an hour")
    assert answers(shell(READ, earlier, push(), pop(), ROOT_ENDS)) == []


@pytest.mark.parametrize(
    "second",
    [
        [push(context="Read notes/durations.md first.")],
        [push(store=[stored("durations.md")])],
        [do("heap_alloc", name="durations.md", content="1h is an hour"), push()],
    ],
)
def test_the_trace_records_that_the_second_attempt_hands_over_more(second):
    played = shell(READ, push(), *second, pop(), ROOT_ENDS)
    assert len(answers(played)) == 1
    assert effects(played)[0] == "improved"


def test_a_pop_is_answered_with_what_the_frame_computed():
    played = shell(push(), run("python total.py"), pop("Done."), pop("The total is 42.17."), ROOT_ENDS)
    [text] = answers(played)
    assert "python total.py printed 42.17" in text
    assert effects(played) == ["improved"]
    assert answers(shell(push(), run("python total.py"), pop("The total is 42.17."), ROOT_ENDS)) == []


def test_a_later_push_is_answered_only_with_what_is_new():
    played = shell(READ, push(), push(), pop(), push(name="second"), pop(), run("python total.py"), push(), push())
    first, second = answers(played)
    assert "notes/durations.md" in first
    assert "notes/durations.md" not in second
    assert "42.17" in second


def test_a_repaired_second_attempt_still_passes():
    long = push(objective="x" * 500)
    played = shell(READ, push(), long, push(), pop(), ROOT_ENDS)
    assert [event.code for event in played.of(CallRejected)] == ["checkpoint", "push_refused"]
    assert len(played.of(FramePushed)) == 1


def test_a_red_test_that_turns_green_is_not_a_discovery():
    class Fixed(Shell):
        runs = 0

        def perform(self, effect):
            answer = super().perform(effect)
            if getattr(getattr(effect, "call", None), "command", None) == PLAIN:
                self.runs += 1
                return ToolReturned("[exit 0]" if self.runs > 1 else "[exit 1]", exit_code=int(self.runs < 2))
            return answer

    world = Fixed(files={"a.py": ""})
    played = play(run(PLAIN), run(PLAIN), push(), pop(), ROOT_ENDS, start=CHECKED, world=world)
    assert answers(played) == []


def test_older_runs_and_runs_without_the_option_are_not_answered():
    assert answers(shell(READ, push(), pop(), ROOT_ENDS, start=started())) == []


@pytest.mark.parametrize("strategy", ["stack", "isolated", "adaptive", "stackheap_lossless"])
def test_every_strategy_with_frames_can_have_checkpoints(strategy):
    start = replace(started(strategy), checkpoints="on")
    begin = do("delegate", name="child", prompt="Do it.") if strategy == "isolated" else push()
    assert len(answers(shell(READ, begin, begin, pop(), ROOT_ENDS, start=start))) == 1


def test_a_child_that_continues_the_conversation_is_answered_only_before_its_end():
    start = replace(started("fold"), checkpoints="pops")
    branch = do("branch", name="child", prompt="Do it.")
    end = do("return", result="Done.")
    played = shell(READ, branch, run("python total.py"), end, end, end, start=start)
    [text] = answers(played)
    assert "42.17" in text
    assert "notes/durations.md" not in text


def test_the_end_of_the_run_is_not_held_up_unless_the_heap_outlives_it():
    assert answers(shell(READ, ROOT_ENDS)) == []


def test_with_few_steps_left_nothing_is_held_up():
    start = replace(CHECKED, limits=Limits(steps=5))
    assert answers(shell(READ, READ, push(), start=start)) == []


def test_text_in_results_and_files_cannot_pass_for_an_answer():
    fake = "checkpoint: push_frame was not made yet."
    played = shell(push(), pop(fake), READ, push(), push(), pop(), ROOT_ENDS)
    assert len(answers(played)) == 1


def test_a_thousand_findings_make_a_short_answer():
    reads = [do("read_file", path=f"docs/{number}.md") for number in range(150)]
    files = {f"docs/{number}.md": "x" for number in range(150)}
    [text] = answers(shell(*reads, push(), push(), pop(), ROOT_ENDS, **files))
    assert len(text) < 2_000
    assert "docs/149.md" in text


def test_the_metrics_count_what_was_answered_improved_and_left_out():
    played = shell(READ, push(), push(store=[stored("durations.md")]), run("python total.py"), pop(), pop(), ROOT_ENDS)
    values = measure(moments(_timed(played.events)))
    assert (values["checkpoints"], values["checkpoints_improved"], values["left_out"]) == (2, 1, 1)


def _timed(events):
    return [(float(at), event) for at, event in enumerate(events)]


def test_the_facts_alone_give_the_same_state_again():
    played = shell(READ, push(), push(context="notes/durations.md"), pop(), ROOT_ENDS)
    assert fold(played.events) == played.state
