"""The timeline: slices nest as the viewer requires, and counters and marks appear at the right time."""

import json

import pytest

from stackmem.trace.record import Record
from tests.trace.stories import PLAYED, cut_short, exported, hostile, told

RUNS = {**{name: lambda name=name: told(name) for name in PLAYED}, "cut": cut_short, "hostile": hostile}
RUNS["at once"] = lambda: [Record(one.seq, 1e9, one.event) for one in told("family")]


def timeline(run):
    return json.loads(exported("chrome", run))["traceEvents"]


def slices(run):
    return [one for one in timeline(run) if one["ph"] == "X"]


@pytest.mark.parametrize("run", RUNS)
def test_slices_of_the_one_track_nest_and_never_cross(run):
    found = sorted(slices(RUNS[run]()), key=lambda one: (one["ts"], -one["dur"]))
    open_ends = []
    for one in found:
        while open_ends and open_ends[-1] <= one["ts"]:
            open_ends.pop()
        end = one["ts"] + one["dur"]
        assert one["dur"] >= 1
        assert not open_ends or end <= open_ends[-1], one
        open_ends.append(end)


@pytest.mark.parametrize("run", RUNS)
def test_every_event_has_what_its_phase_needs(run):
    for one in timeline(RUNS[run]()):
        assert {"name", "ph", "pid", "tid"} <= one.keys()
        assert one["ph"] in "XCiM"
        if one["ph"] != "M":
            assert one["ts"] >= 0


def test_a_frame_spans_its_steps_and_a_push_its_frame():
    found = {one["name"]: one for one in slices(told("family"))}
    inner, outer = found["inner (frame-2)"], found["outer (frame-1)"]
    assert outer["ts"] < inner["ts"]
    assert inner["ts"] + inner["dur"] < outer["ts"] + outer["dur"]
    assert found["step 6"]["dur"] == 1_000_000
    assert found["failed attempt: overloaded"]["cat"] == "model"


def test_times_are_counted_from_the_start_of_the_run():
    assert min(one["ts"] for one in slices(told("family"))) == 0


def test_prompt_and_heap_are_counters():
    counted = [one for one in timeline(told("family")) if one["ph"] == "C"]
    assert [one["args"]["characters"] for one in counted if one["name"] == "heap"][:3] == [0, 5, 15]
    assert {one["args"]["tokens"] for one in counted if one["name"] == "prompt tokens"} == {100}
