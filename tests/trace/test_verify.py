"""A trace with a valid chain may still contradict the rules: replay names the record."""

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from stackmem import Record, RulesDiffer, TraceError, replay
from stackmem.core.budgets import Limits
from stackmem.core.facts import (
    CallRejected,
    ChecksReturned,
    ChunkAllocated,
    ClockRead,
    FramePopped,
    FramePushed,
    ModelReplied,
    NoticeGiven,
    RunEnded,
    RunStarted,
    ToolReturned,
)
from stackmem.core.frames import partial_result
from stackmem.trace.verify import verify
from tests.build import alloc, call, do, failed, play, pop, push, reply, started

OTHER = 999


def trace(*replies, **start) -> list[Record]:
    given = {"limits": Limits(steps=9), "checked": True} | start
    played = play(*replies, start=started(**given))
    return [Record(number, 0.0, event) for number, event in enumerate(played.events, 1)]


def a_run() -> list[Record]:
    return trace(
        failed(),
        alloc("spec", "line", source="spec.md"),
        alloc("spec", "line"),
        push(),
        do("run_command", command="true"),
        pop("It works."),
        reply("no call"),
        pop(),
    )


def place_of(records: list[Record], kind: type) -> int:
    return next(index for index, record in enumerate(records) if isinstance(record.event, kind))


def altered(records: list[Record], index: int, **changes) -> list[Record]:
    record = records[index]
    return [*records[:index], replace(record, event=replace(record.event, **changes)), *records[index + 1 :]]


def difference(records: list[Record]) -> str:
    with pytest.raises(RulesDiffer) as raised:
        verify(records)
    return str(raised.value)


def test_a_run_follows_from_its_own_rules():
    records = a_run()
    found = verify(records)
    assert (found.events, found.same_rules, found.state.outcome) == (len(records), True, "solved")
    assert found.prompts == 8


@pytest.mark.parametrize("length", range(1, 12))
def test_every_beginning_of_a_run_follows_too(length):
    assert verify(a_run()[:length]).state.outcome == "running"


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (ChunkAllocated, {"chars": 5}),
        (CallRejected, {"code": "other"}),
        (CallRejected, {"reason": "another reason"}),
        (FramePushed, {"intent": "Do another part."}),
        (FramePopped, {"result": "It failed."}),
        (NoticeGiven, {"text": "Only 4 of 9 steps are left."}),
        (RunEnded, {"ending": "stalled"}),
        (RunEnded, {"result": "Everything."}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else next(iter(value)),
)
def test_a_derived_fact_that_was_altered_is_named(kind, changes):
    records = a_run()
    index = place_of(records, kind)
    assert f"record {index + 1}: recorded {kind.__name__}" in difference(altered(records, index, **changes))


def test_an_altered_prompt_digest_is_named():
    records = a_run()
    index = place_of(records, ModelReplied)
    assert f"record {index + 1}: the prompt differs" in difference(altered(records, index, prompt_digest="0" * 64))


def test_an_altered_result_changes_the_next_prompt():
    records = a_run()
    index = place_of(records, ToolReturned)
    assert f"record {index + 2}: the prompt differs" in difference(altered(records, index, text="something else"))


def test_an_altered_system_prompt_changes_the_first_prompt():
    records = a_run()
    assert "record 2: the prompt differs" in difference(altered(records, 0, system="Do as you like."))


def test_an_unrequested_outside_fact_is_named():
    records = a_run()
    extra = [*records[:2], Record(3, 0.0, ClockRead(1.0)), *records[2:]]
    assert "record 3: recorded ClockRead" in difference(extra)
    assert "a request for step 1" in difference(extra)


def test_a_second_start_is_named():
    records = a_run()
    assert "record 2: recorded RunStarted" in difference([records[0], Record(2, 0.0, records[0].event)])


def test_a_fact_after_the_end_is_named():
    records = a_run()
    assert isinstance(records[-1].event, ChecksReturned)
    after = [*records, Record(len(records) + 1, 0.0, records[-1].event)]
    assert "today's rules derive that the run is over" in difference(after)


def test_a_run_that_a_person_ended_is_whole():
    records = a_run()[:5]
    so_far_told = partial_result(verify(records).state)
    found = verify([*records, Record(6, 0.0, RunEnded("interrupted", so_far_told))])
    assert found.state.outcome == "interrupted"


def test_what_an_interrupted_run_achieved_is_compared_too():
    records = a_run()[:5]
    assert "record 6" in difference([*records, Record(6, 0.0, RunEnded("interrupted", "Everything is done."))])


def test_a_run_is_not_interrupted_while_a_fact_still_follows():
    records = a_run()
    index = place_of(records, FramePushed)
    cut = [*records[:index], Record(index + 1, 0.0, RunEnded("interrupted", ""))]
    assert "today's rules derive FramePushed" in difference(cut)


def test_a_trace_that_does_not_begin_with_a_start_is_none():
    with pytest.raises(TraceError, match="not RunStarted"):
        verify(a_run()[1:])
    with pytest.raises(TraceError, match="no record"):
        verify([])


def test_a_missing_strategy_is_reported():
    records = altered(a_run(), 0, strategy="somebody-elses")
    with pytest.raises(TraceError, match=r"a strategy that is not available .*install the package"):
        verify(records)


def under_other_rules(records: list[Record]) -> list[Record]:
    return altered(records, 0, rules=OTHER)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (CallRejected, {"reason": "No: that name is taken."}),
        (NoticeGiven, {"text": "Hurry."}),
        (ModelReplied, {"prompt_digest": "0" * 64}),
        (RunStarted, {"system": "Another prompt."}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_under_other_rules_wording_and_prompts_are_not_compared(kind, changes):
    records = under_other_rules(a_run())
    found = verify(altered(records, place_of(records, kind), **changes))
    assert (found.same_rules, found.prompts) == (False, 0)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (CallRejected, {"code": "other"}),
        (ChunkAllocated, {"name": "other"}),
        (FramePushed, {"frame": "frame-7"}),
        (RunEnded, {"ending": "stalled"}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_under_other_rules_kinds_codes_and_fields_are_compared(kind, changes):
    records = under_other_rules(a_run())
    index = place_of(records, kind)
    assert f"record {index + 1}: " in difference(altered(records, index, **changes))


def test_under_other_rules_a_fact_of_another_kind_is_a_difference():
    records = under_other_rules(a_run())
    index = place_of(records, ToolReturned)
    swapped = [*records[:index], Record(index + 1, 0.0, CallRejected("closed", "no")), *records[index + 1 :]]
    assert f"record {index + 1}: recorded CallRejected" in difference(swapped)


@pytest.mark.parametrize(
    ("name", "outcome", "recorded"),
    [
        ("solve", "finished", "heap_read refused: there is no chunk 'spce'; nearest: spec"),
        ("loop_agent", "finished", "dance was not run: there is no action 'dance'"),
        ("apl", "halted", "There is no tool `nope`."),
    ],
)
def test_a_run_recorded_under_rules_2_still_verifies(name, outcome, recorded, tmp_path):
    run = shutil.copytree(Path(__file__).parent / "rules2" / name, tmp_path / name)
    assert recorded in (run / "trace.jsonl").read_text("utf-8")
    found = replay(run)
    assert (found.same_rules, found.prompts) == (False, 0)
    assert found.outcome == outcome


def test_hostile_records_in_a_whole_chain_raise_only_what_is_documented():
    hostile = [RunEnded("popped", ""), FramePopped("frame-0", ""), reply(call("pop_frame")), ChunkAllocated("x", 1),
               ToolReturned("x"), ChecksReturned({}), failed(), NoticeGiven("", "")]  # fmt: skip
    records = a_run()
    for length in range(1, len(records) + 1):
        for event in hostile:
            for rules in (records[0].event.rules, OTHER):
                kept = altered(records[:length], 0, rules=rules)
                try:
                    verify([*kept, Record(length + 1, 0.0, event), *records[length:]])
                except (RulesDiffer, TraceError):
                    continue
