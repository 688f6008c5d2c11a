"""Strategies without checkpoints do not pay for those of the recording: the same script without them costs the same."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.facts import CallRejected, ModelReplied
from stackmem.core.messages import Usage
from stackmem.core.strategy import has_frames
from stackmem.lab.whatif.checkpoints import without_checkpoints
from stackmem.lab.whatif.recorded import WhatIfQuestion, tell_again
from stackmem.memory import STRATEGIES, open_strategy
from tests.build import World, alloc, do, failed, play, pop, push, started, stored
from tests.review.measure.runs import seen

SERVED = "anthropic/claude-sonnet-5-5"
WITHOUT_FRAMES = sorted(name for name in STRATEGIES if not has_frames(open_strategy(name)))
NOTES, PLAN = "notes/durations.md", "notes/plan_2.md"


def read(path):
    return do("read_file", path=path)


def script(*, answered):
    """Two frames. ``answered`` adds the attempts that a checkpoint answers."""

    def first(*replies):
        return replies if answered else ()

    return [
        read(NOTES),
        *first(failed(), push(name="a", context="Too little.")),
        alloc("durations", "1h is 60 min-utes"),
        push(name="a", context=f"Read {NOTES} first."),
        read(PLAN),
        *first(pop("Done.")),
        pop(f"Done as in {PLAN}.", store=[stored("plan", "port-48731")]),
        read("notes/key_3.md"),
        *first(push(name="b")),
        push(name="b"),
        read(NOTES),
        *first(pop(f"Seen again: {PLAN}.")),
        pop(f"Seen again: {PLAN}."),
        read(PLAN),
        pop("All is done."),
    ]


REPEATED = 4


def recorded(strategy="stackheap", model="script", *, checkpoints="on", replies=None):
    files = {NOTES: "1h is 60 min-utes\n" * 40, PLAN: "port-48731 in src/app.py\n" * 40, "notes/key_3.md": "key_name_3"}
    start = started(strategy, model=model)
    start = replace(start, checkpoints=checkpoints) if checkpoints else start
    replies = script(answered=bool(checkpoints)) if replies is None else replies
    replies = [replace(each, usage=Usage(output=7)) if isinstance(each, ModelReplied) else each for each in replies]
    return tuple(seen(play(*replies, start=start, world=World(files=files))))


def answers(run):
    return [each for each in run if isinstance(each.event, CallRejected) and each.event.code == "checkpoint"]


def rows(run, *strategies):
    question = WhatIfQuestion(strategies, "claude-sonnet-5-5", latency_seconds=10.0)
    return {row.strategy.partition(":")[0]: row for row in tell_again("a-run", lambda: iter(run), question).rows}


def test_a_strategy_without_checkpoints_costs_what_the_script_without_them_costs():
    with_them, without = recorded(), recorded(checkpoints=None)
    assert (len(answers(with_them)), len(answers(without))) == (REPEATED, 0)
    estimated, exact = rows(with_them, *WITHOUT_FRAMES), rows(without, *WITHOUT_FRAMES)
    for name in WITHOUT_FRAMES:
        assert (name, estimated[name].outcome) == (name, exact[name].outcome)
        assert estimated[name].note == exact[name].note
    assert estimated["full"].outcome.usage == exact["full"].outcome.usage
    assert estimated["full"].outcome.requests == estimated["stackheap"].outcome.requests - REPEATED


def test_the_recorded_row_keeps_its_checkpoints():
    with_them, without = rows(recorded())["stackheap"].outcome, rows(recorded(checkpoints=None))["stackheap"].outcome
    assert with_them.requests == without.requests + REPEATED
    assert with_them.usage.prompt > without.usage.prompt


@pytest.mark.parametrize("name", ["stack", "stackheap_lossless"])
def test_requested_checkpoints_stay_under_every_strategy_with_frames(name):
    found = rows(recorded(), name)
    assert found[name].outcome.requests == found["stackheap"].outcome.requests


@pytest.mark.parametrize("name", ["stack", "stackheap_lossless", "adaptive"])
def test_default_checkpoints_are_only_those_of_the_strategy_that_has_them_by_default(name):
    estimated = rows(recorded(model=SERVED), name, "stackheap:index=system")
    exact = rows(recorded(model=SERVED, checkpoints=None), name)
    assert estimated[name].outcome == exact[name].outcome
    (variant,) = (row for row in (estimated["stackheap"],) if not row.recorded)
    assert variant.outcome.requests == exact["stackheap"].outcome.requests + REPEATED


def test_a_strategy_that_answers_only_pops_keeps_only_those_of_pops():
    found = rows(recorded(), "stackheap_fork")
    assert found["stackheap_fork"].outcome.requests == found["stackheap"].outcome.requests - 2


def test_a_push_that_is_never_repeated_is_left_out():
    flat = [read(NOTES), push(), read(PLAN), pop("All is done.")]
    run, exact = recorded(replies=flat), recorded(checkpoints=None, replies=[flat[0], *flat[2:]])
    assert len(answers(run)) == 1
    assert rows(run, "full")["full"].outcome == rows(exact, "full")["full"].outcome


def test_the_calls_of_an_answered_reply_and_its_failed_requests_are_left_out_together():
    run = recorded()
    kept = without_checkpoints(run, UNSET)
    gone = [type(each.event).__name__ for each in run if each.seq not in {other.seq for other in kept}]
    assert gone == ["ModelFailed", *["ModelReplied", "CallRejected"] * REPEATED]
    assert kept[-1].after.step == run[-1].after.step - REPEATED
    assert {each.seq: (each.at, each.since) for each in run}.items() >= {
        each.seq: (each.at, each.since) for each in kept
    }.items()


def test_a_run_without_answers_is_not_copied():
    run = recorded(checkpoints=None)
    assert without_checkpoints(run, UNSET) is run
    assert without_checkpoints(answered := recorded(), "on") is answered


def test_a_run_that_stopped_after_an_answer_has_rows():
    run = recorded()
    cut = next(number for number, each in enumerate(run) if isinstance(each.event, CallRejected))
    assert rows(run[: cut + 1], "full")["full"].outcome.requests == 1


def test_a_run_whose_only_reply_was_answered_has_rows_without_requests():
    start = replace(started("stackheap", model=SERVED), checkpoints="on")
    run = tuple(seen([start, push(), CallRejected("checkpoint", "checkpoint: push_frame was not made yet.")]))
    found = rows(run, *STRATEGIES)
    assert set(found) == set(STRATEGIES)
    assert {row.outcome.requests for name, row in found.items() if name != "stackheap"} == {0}
