"""A difference names the record, the recorded and derived values, and the position of the difference in them."""

import pytest
from msgspec.structs import replace

from stackmem import Record, RulesDiffer
from stackmem.core.facts import CallRejected, ChunkAllocated, FramePopped, ModelReplied, RunEnded, ToolReturned
from stackmem.trace.difference import explain_difference, field_diff
from stackmem.trace.verify import verify
from tests.build import alloc, do, play, pop, push, started


def records(*replies):
    return [Record(number, 0.0, event) for number, event in enumerate(play(*replies, start=started()).events, 1)]


def difference(kept, index, **changes):
    record = kept[index]
    kept = [*kept[:index], replace(record, event=replace(record.event, **changes)), *kept[index + 1 :]]
    with pytest.raises(RulesDiffer) as raised:
        verify(kept)
    return str(raised.value)


def place_of(kept, kind):
    return next(index for index, record in enumerate(kept) if isinstance(record.event, kind))


def test_a_short_field_is_shown_with_both_values():
    kept = records(alloc("spec", "line"))
    said = difference(kept, place_of(kept, ChunkAllocated), chars=5)
    assert said.splitlines() == [
        "record 3: recorded ChunkAllocated, today's rules derive ChunkAllocated with different fields:",
        "  chars: recorded 5, derived 4",
    ]


def test_only_differing_fields_are_shown():
    said = field_diff(FramePopped("frame-1", "It works."), FramePopped("frame-1", "It failed.", forced="window"))
    assert said.splitlines() == [
        "  result: recorded 'It works.', derived 'It failed.'",
        "  forced: recorded '', derived 'window'",
    ]


def test_a_long_text_is_told_line_by_line_with_its_surroundings():
    old = "\n".join(f"line {number}" for number in range(30))
    said = field_diff(CallRejected("x", old), CallRejected("x", old.replace("line 15", "line fifteen")))
    assert said.splitlines()[0] == "  reason (- recorded, + derived):"
    assert "    -line 15" in said
    assert "    +line fifteen" in said
    assert "line 25" not in said


def test_a_difference_of_any_size_is_told_in_bounds():
    said = field_diff(RunEnded("popped", "a\n" * 100_000), RunEnded("popped", "b" * 1_000_000))
    assert len(said) < 20_000
    assert "more lines" in said


def test_of_forty_lines_that_differ_none_is_left_out():
    told = [field_diff(CallRejected("x", "a\n" * lines), CallRejected("x", "b")) for lines in (38, 39)]
    assert ["more lines" in text for text in told] == [False, True]
    assert all(text.count("    -a") == 38 for text in told[:1])


def test_facts_of_two_kinds_are_shown_in_full():
    said = explain_difference(7, RunEnded("popped", "x"), CallRejected("code", "why"))
    assert said == (
        'record 7: recorded RunEnded {"type":"RunEnded","ending":"popped","result":"x"}, '
        """today's rules derive CallRejected {"type":"CallRejected","code":"code","reason":"why"}"""
    )


def test_of_a_prompt_that_differs_the_messages_that_an_equal_one_began_with_are_cleared():
    kept = records(do("run_command", command="a"), do("run_command", command="b"), pop())
    second = [index for index, record in enumerate(kept) if isinstance(record.event, ToolReturned)][1]
    said = difference(kept, second, text="something else")
    assert "record 6: the prompt differs" in said
    assert "its first 3 messages are those of step 2, whose prompt is equal" in said
    assert "message 5, user, as derived today:" in said
    assert '\n      {\n        "' in said
    assert '"text": "something else"' in said


@pytest.mark.parametrize("step", [0, 1])
def test_of_the_first_prompt_of_a_frame_nothing_is_claimed(step):
    kept = records(push(), pop(), pop())
    replies = [index for index, record in enumerate(kept) if isinstance(record.event, ModelReplied)]
    said = difference(kept, replies[step], prompt_digest="0" * 64)
    assert "the prompt that was sent is not stored" in said
    assert "message" not in said


def test_values_stand_side_by_side_up_to_160_characters_together():
    sides = [field_diff(RunEnded("popped", ""), RunEnded("popped", "x" * chars)) for chars in (158, 159)]
    assert [text.startswith("  result: recorded ''") for text in sides] == [True, False]


def test_a_long_line_is_cut_and_a_short_one_is_not():
    said = field_diff(CallRejected("x", "a\nb"), CallRejected("x", "a\n" + "c" * 500)).splitlines()
    assert said[-2:] == ["    -b", f"    +{'c' * 398}…"]
