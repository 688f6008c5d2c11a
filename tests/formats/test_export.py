"""Rules for every export: deterministic, complete, and a fold over anything in a trace."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from stackmem.core.errors import TraceError
from stackmem.core.facts import FramePushed, ModelReplied, RunForked, RunResumed, RunStarted, ToolReturned
from stackmem.formats.exports import EXPORTS
from stackmem.formats.exports.slices import AttemptSlice, CallSlice, FrameSlice, slices, walk
from stackmem.trace.lineage import RunReader
from stackmem.trace.record import Record
from stackmem.trace.store import TraceReader
from tests.build import PRICE, started
from tests.trace.stories import PLAYED, cut_short, exported, hostile, keep, told

FORMATS = sorted(EXPORTS)
RUNS = {**{name: lambda name=name: told(name) for name in PLAYED}, "cut": cut_short, "hostile": hostile}


@pytest.mark.parametrize("spelled", FORMATS)
@pytest.mark.parametrize("run", RUNS)
def test_two_exports_of_a_run_are_equal_to_the_byte(run, spelled):
    assert exported(spelled, RUNS[run]()) == exported(spelled, RUNS[run]())


@pytest.mark.parametrize("spelled", ["atif", "chrome", "mini", "otel", "sft"])
@pytest.mark.parametrize("run", RUNS)
def test_json_exports_are_valid_json_by_line_or_as_a_whole(run, spelled):
    text = exported(spelled, RUNS[run]())
    for one in text.splitlines() if spelled in ("otel", "sft") else [text]:
        assert isinstance(json.loads(one), dict)


@pytest.mark.parametrize("spelled", FORMATS)
def test_every_beginning_of_a_run_can_be_exported(spelled):
    whole = told("family")
    for length in range(1, len(whole) + 1):
        assert exported(spelled, whole[:length]) or (spelled, length) == ("sft", 1)  # no reply, no sample


@pytest.mark.parametrize("spelled", FORMATS)
def test_a_trace_that_begins_with_something_else_is_named(spelled):
    with pytest.raises(TraceError, match="not RunStarted"):
        exported(spelled, told("family")[1:])


@pytest.mark.parametrize("event", [FramePushed("f", "n", "", "", "", ""), ToolReturned("x")], ids=["push", "tool"])
@pytest.mark.parametrize("spelled", FORMATS)
def test_facts_without_a_call_are_exported_unchanged(spelled, event):
    text = exported(spelled, [Record(1, 1.0, started()), Record(2, 2.0, event), Record(3, 3.0, event)])
    assert bool(text) == (spelled != "sft")  # no reply, no sample


@pytest.mark.parametrize("spelled", FORMATS)
def test_a_record_after_the_last_frame_that_needs_one_is_named(spelled):
    late = told("family")
    number = len(late) + 1
    with pytest.raises(TraceError, match=f"record {number} cannot follow"):
        exported(spelled, [*late, Record(number, 1.0, ToolReturned("too late"))])


def test_every_reply_and_every_call_is_exported_once():
    pieces = list(slices(walk(told("family"))))
    replies = [one for one in pieces if isinstance(one, AttemptSlice) and isinstance(one.event, ModelReplied)]
    calls = [one for one in pieces if isinstance(one, CallSlice)]
    assert [one.step for one in replies] == list(range(1, 13))
    assert sorted((one.step, one.position) for one in calls) == sorted(
        [(step, 0) for step in range(1, 13) if step != 11] + [(5, 1)]
    )
    assert [one.frame.name for one in pieces if isinstance(one, FrameSlice)] == ["inner", "outer", "root"]


def test_nothing_ends_before_it_began_where_the_clock_was_set_back():
    back = [Record(one.seq, one.at - 5 * (one.seq % 3), one.event) for one in told("family")]
    for piece in slices(walk(back)):
        if isinstance(piece, CallSlice | FrameSlice):
            assert piece.ended >= piece.started
        elif isinstance(piece, AttemptSlice):
            assert piece.moment.at >= piece.moment.since


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    return keep(tmp_path / "parent", told("family"))


def fork_of(parent: Path, at: int, **changes: Any) -> Path:
    reader = TraceReader(parent / "trace.jsonl")
    digest = next(reader.digest for record in reader if record.seq == at)
    start = next(iter(reader)).event
    assert isinstance(start, RunStarted)
    rest = [Record(at + 1, 5e9, RunForked("parent", at, digest, replace(start, **changes)))]
    return keep(parent.parent / "child", rest, digest)


@pytest.mark.parametrize("spelled", FORMATS)
def test_a_fork_is_exported_with_what_it_shares(spelled, parent):
    child = fork_of(parent, 9)
    text = "".join(EXPORTS[spelled](RunReader(child), "child"))
    assert "calls" in text or "execute_tool" in text or "heap_alloc" in text
    (parent / "trace.jsonl").unlink()
    with pytest.raises(TraceError, match="forked from parent"):
        "".join(EXPORTS[spelled](RunReader(child), "child"))


def test_a_fork_has_no_total_cost_if_its_parent_had_no_price(tmp_path):
    parent = keep(tmp_path / "parent", told("calculator")[:9])
    child = fork_of(parent, 9, price=PRICE)
    trajectory = json.loads("".join(EXPORTS["atif"](RunReader(child), "child")))
    assert "total_cost_usd" not in trajectory["final_metrics"]
    mini = json.loads("".join(EXPORTS["mini"](RunReader(child), "child")))
    assert mini["info"]["model_stats"]["instance_cost"] is None


def test_a_run_resumed_after_its_end_stays_one_run(parent):
    whole = told("family")
    more = [*whole, Record(len(whole) + 1, 5e9, RunResumed(started().limits, "none", "1"))]
    trajectory = json.loads(exported("atif", more))
    assert trajectory["final_metrics"]["extra"]["replies"] == 12
