"""The data of a run's page."""

from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from stackmem.core.errors import TraceError
from stackmem.core.facts import Event, ModelReplied, RunEnded, RunForked, RunResumed, RunStarted, ToolReturned
from stackmem.core.messages import Usage
from stackmem.review.report.fold import Breaks
from stackmem.review.report.view import SharedSteps, parting, read_runs
from stackmem.trace.lineage import RunReader
from stackmem.trace.record import Record
from stackmem.trace.store import TraceWriter
from tests.build import World, alloc, do, play, pop, push, reply, started
from tests.golden.stories import STORIES

from .opened import opened, text
from .runs import PRICE, Clock, long_run, record, showpiece
from .test_prompts import written


def frames(shown):
    return {row["name"]: row for row in shown["runs"][0]["frames"]}


def lanes(shown):
    return {lane["name"]: lane for lane in shown["runs"][0]["lanes"]}


def facts(shown, step):
    return shown["runs"][0]["steps"][step - 1][11]


@pytest.fixture(scope="module")
def invoices(made):
    return opened(made["invoices"])


def test_a_frame_spans_its_steps_and_has_its_outcome(invoices):
    found = {name: (row["first"], row["last"], row["depth"], row["outcome"]) for name, row in frames(invoices).items()}
    assert found == {
        "root": (1, 39, 0, "ok"),
        "totals": (5, 18, 1, "ok"),
        "rounding": (9, 13, 2, "ok"),
        "refunds": (20, 29, 1, "forced"),
        "docs": (32, 36, 1, "ok"),
    }
    assert frames(invoices)["refunds"]["forced"] == "constraint"
    assert text(invoices, frames(invoices)["docs"]["result"]) == "README.md: what totals and refunds are."


def test_a_frame_whose_verify_failed_is_told_from_one_that_was_done(tmp_path):
    shown = opened(written(tmp_path / "run", STORIES["mishaps"]()))
    outcomes = [row["outcome"] for row in shown["runs"][0]["frames"]]
    assert "failed" in outcomes
    assert "forced" in outcomes


def test_a_chunk_lives_from_its_step_until_it_is_freed(invoices):
    found = lanes(invoices)
    assert [(one[0], one[1]) for one in found["rounding"]["versions"]] == [(12, 37)]
    assert [(one[0], one[1], one[6]) for one in found["env"]["versions"]] == [(18, 30, False), (30, None, True)]
    assert found["spec"]["reads"] == [5, 20, 32]
    assert text(invoices, found["rounding"]["versions"][0][3]).startswith("float 0.35 is not")


def test_a_chunk_is_stale_from_the_step_that_changed_its_source(invoices):
    assert lanes(invoices)["rounding"]["stale"] == [[14, 37]]
    assert lanes(invoices)["spec"]["stale"] == []


def test_a_chunk_whose_source_is_as_before_again_is_stale_no_more(tmp_path):
    world = World({"a": "1"})
    replies = [
        alloc("spec", source="a"), do("write_file", path="a", content="2"), do("write_file", path="a", content="1"),
        do("write_file", path="a", content="3"), do("heap_free", name="spec"),
    ]  # fmt: skip
    shown = opened(record(tmp_path / "run", started(), replies, world, Clock()))
    assert lanes(shown)["spec"]["stale"] == [[2, 3], [4, 5]]


def test_a_name_that_is_stored_again_has_one_lane(tmp_path):
    replies = [alloc("spec", "one"), do("heap_free", name="spec"), do("list_files"), alloc("spec", "two")]
    shown = opened(record(tmp_path / "run", started(), replies, World(), Clock()))
    assert [one[:2] for one in lanes(shown)["spec"]["versions"]] == [[1, 2], [4, None]]


def test_a_step_shows_its_results(invoices):
    (result,) = facts(invoices, 7)
    assert (result[0], result[2], result[3]) == ("result", 0, 0)
    assert text(invoices, result[1]).endswith("150 passed\n[exit 0]")
    assert [fact[0] for fact in facts(invoices, 11)] == ["result"]
    assert [fact[0] for fact in facts(invoices, 21)] == ["rejected"]
    assert [fact[:3] for fact in facts(invoices, 5)] == [["heap", "read", "spec"]]
    assert [fact[0] for fact in facts(invoices, 39)] == ["popped", "ended", "checks"]
    assert [fact[0] for fact in facts(invoices, 10)] == ["result", "failed"]  # the next request failed once


def test_changed_files_stand_with_the_step_that_changed_them(invoices):
    steps = invoices["runs"][0]["steps"]
    changed = {number: step[12] for number, step in enumerate(steps, 1) if step[12]}
    assert list(changed) == [6, 14, 23, 33, 35]
    (new,) = changed[6]
    assert (new[0], new[2], new[3]) == ("invoices/totals.py (new)", 9, 0)
    (rewritten,) = changed[35]
    assert (rewritten[0], rewritten[2], rewritten[3]) == ("README.md", 1, 0)
    assert "+`refund(lines, quantity)` is what goes back" in rewritten[1]


def test_without_its_history_a_run_says_that_its_files_are_not_there(made, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "trace.jsonl").write_bytes((made["invoices"] / "trace.jsonl").read_bytes())
    run = opened(bare)["runs"][0]
    assert "file history is missing" in run["files_missing"]
    assert [step for step in run["steps"] if step[12]] == []


def test_a_damaged_history_takes_nothing_but_the_files_away(tmp_path):
    folder = showpiece(tmp_path / "run")
    for item in (folder / "history.git" / "objects").glob("??/*"):
        item.chmod(0o644)
        item.write_bytes(b"broken")
    run = opened(folder)["runs"][0]
    assert "cannot be read" in run["files_missing"]
    assert len(run["steps"]) == 39


def test_a_step_that_changes_too_much_shows_its_beginning(tmp_path):
    from stackmem.review.report.files import SHOWN_CHARS, _change

    head = b"diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -0,0 +1,9999 @@\n"
    change = _change(head + b"+line\n" * 50_000, SHOWN_CHARS)
    assert change.added == 50_000
    assert len(change.patch) < SHOWN_CHARS + 100
    assert change.patch.endswith("more characters]")


def full_history(run):
    """Return the tokens of each prompt with the whole history, as the page computes them."""
    steps = run["steps"]
    return [steps[0][2] + step[6] * run["tokens_per_char"] for step in steps]


def test_the_full_history_is_what_one_conversation_would_hold(tmp_path):
    shown = opened(long_run(tmp_path / "full", 60, "full"))
    # For a run with a single conversation, it grows like the run's own prompts, at one constant ratio.
    prompts = [step[2] for step in shown["runs"][0]["steps"]]
    full = full_history(shown["runs"][0])
    assert full[0] == prompts[0]
    assert all(a < b for a, b in pairwise(full))


def test_frames_keep_the_context_below_the_full_history(tmp_path):
    run = opened(long_run(tmp_path / "run", 400))["runs"][0]
    assert full_history(run)[-1] > 3 * run["steps"][-1][2]


def test_the_cost_of_each_step_adds_up_to_that_of_the_run(tmp_path, made):
    from stackmem.core.machine import fold

    steps = opened(made["invoices"])["runs"][0]["steps"]
    state = fold(record.event for record in RunReader(made["invoices"]))
    assert sum(step[7] for step in steps) == pytest.approx(state.usd, abs=1e-5)
    assert sum(step[2] + step[5] for step in steps) == state.usage.total


def test_where_no_usage_is_reported_the_cache_is_simulated(tmp_path):
    def guess(view: object, said: object) -> Usage:
        return Usage(9_000, output=5, estimated=True)

    run = opened(record(tmp_path / "run", started(), [do("list_files")] * 4, World(), Clock(), guess))["runs"][0]
    assert run["simulated"] == 1_024
    assert [step[3] > 0 for step in run["steps"]] == [False, True, True, True]
    assert all(step[3] + step[4] <= step[2] for step in run["steps"])
    assert [step[13] for step in run["steps"]] == [""] * 4


def test_a_torn_end_and_a_run_that_was_killed_are_shown(made, tmp_path):
    torn = tmp_path / "torn"
    torn.mkdir()
    lines = (made["invoices"] / "trace.jsonl").read_bytes().splitlines(keepends=True)
    (torn / "trace.jsonl").write_bytes(b"".join(lines[:50]) + lines[50][:40])
    run = opened(torn)["runs"][0]
    assert (run["outcome"], run["torn_bytes"]) == ("interrupted", 40)
    assert run["frames"][0]["outcome"] == "open"


def test_a_broken_trace_is_refused_by_its_line(made, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    content = (made["invoices"] / "trace.jsonl").read_bytes()
    (broken / "trace.jsonl").write_bytes(content.replace(b"list_files", b"lost_files", 1))
    with pytest.raises(TraceError, match="line "):
        read_runs([broken])


@pytest.mark.parametrize("missing", [RunStarted, ModelReplied])
def test_a_trace_that_no_run_could_write_is_an_error_and_no_traceback(missing, tmp_path):
    events = [event for event in STORIES["calculator"]().events if not isinstance(event, missing)]
    folder = tmp_path / "run"
    folder.mkdir()
    writer = TraceWriter(folder / "trace.jsonl", Clock())
    for event in events:
        writer.append(event)
    with pytest.raises(TraceError, match="RunStarted" if missing is RunStarted else "record"):
        read_runs([folder])


def fork_of(parent: Path, at: int, folder: Path) -> Path:
    """Create a run that continues from record ``at`` of another one with a rewritten reply."""
    reader, last = RunReader(parent), ""
    for one in reader:
        last = reader.digest
        if one.seq == at:
            break
    start = next(iter(RunReader(parent))).event
    writer = TraceWriter(folder / "trace.jsonl", Clock(), after=at, digest=last)
    assert isinstance(start, RunStarted)
    writer.append(RunForked(parent.name, at, last, replace(start, model="another")))
    writer.append(reply("I stop here."))
    writer.close()
    return folder


def test_a_fork_is_shown_with_what_it_shares_and_its_files(tmp_path):
    parent = showpiece(tmp_path / "parent")
    (tmp_path / "child").mkdir()
    at = next(one.seq for one in RunReader(parent) if type(one.event).__name__ == "ToolReturned" and one.seq > 25)
    shown = opened(parent, fork_of(parent, at, tmp_path / "child"))
    child = shown["runs"][1]
    assert child["forked"] == f"parent at record {at}"
    assert child["model"] == "another"
    assert shown["parted"] == {"steps": len(child["steps"]) - 1, "forked": True}
    assert child["steps"][5][12], "the shared part's files are in the parent's history"


def test_runs_part_by_what_happened_and_not_by_time_or_counts(made):
    run = list(RunReader(made["invoices"]))
    again = [replace(one, at=one.at + 9, event=recounted(one.event)) for one in run]
    assert parting(run, again) is None
    resumed = Record(21, 0.0, RunResumed(started().limits, "", ""))
    assert parting(run[:19], [*again[:19], Record(20, 0.0, RunEnded("interrupted", "")), resumed]) is None
    assert parting(run, again[:19]) == SharedSteps(steps_of(run[:19]), forked=False)
    others = play(do("list_files"), pop("At once."), start=started()).events
    assert parting([Record(1, 0.0, event) for event in others], run) == SharedSteps(1, forked=False)


def test_a_duration_in_a_result_is_noted_and_parts_nothing():
    def records(took: str) -> list[Record]:
        output = {"x": ToolReturned(f"3 passed in {took}")}
        events = play(do("run_command", command="x"), pop("Done."), start=started(), world=World(outputs=output)).events
        return [Record(seq, 0.0, event) for seq, event in enumerate(events, 1)]

    one, other = records("0.15s"), records("0.17s")
    shorter = parting([replace(one[0], at=1.0), *one[1:]], other[:-1])
    assert parting([replace(one[0], at=1.0), *one[1:]], other) == SharedSteps(
        None, forked=False, differs_only_in=("durations",)
    )
    assert shorter == SharedSteps(2, forked=False, differs_only_in=("durations",))


def test_runs_that_share_records_part_where_these_end(made):
    run = list(RunReader(made["invoices"]))
    assert parting(run, run) is None
    same_but_later = [*run[:30], *(replace(one, at=one.at + 9) for one in run[30:])]
    assert parting(run, same_but_later) == SharedSteps(steps_of(run[:30]), forked=True)


def steps_of(records: list[Record]) -> int:
    return sum(isinstance(one.event, ModelReplied) for one in records)


def test_the_time_a_run_was_stopped_does_not_count(tmp_path):
    events = STORIES["calculator"]().events
    clock = Clock()
    writer = TraceWriter(tmp_path / "trace.jsonl", clock)
    for event in events[:10]:
        writer.append(event)
    clock.now += 5_000
    writer.append(RunResumed(started().limits, "bubblewrap", "0"))
    for event in events[10:]:
        writer.append(event)
    writer.close()
    run = opened(tmp_path)["runs"][0]
    assert run["wall_seconds"] == pytest.approx(0.4 * (len(events) - 1), abs=0.01)
    assert max(step[1] for step in run["steps"]) < 30


def test_prompts_that_other_rules_rendered_are_said_to_be_so(tmp_path):
    played = STORIES["calculator"]()
    played.events = [
        replace(event, prompt_digest="0" * 64) if isinstance(event, ModelReplied) else event for event in played.events
    ]
    run = opened(written(tmp_path / "run", played))["runs"][0]
    assert run["unrendered"] == "from step 1 on, prompts are rendered by the current rules and differ from those sent"


def test_a_run_of_which_no_history_was_kept_says_so(made):
    assert "no file history" in opened(made["hostile"])["runs"][0]["files_missing"]


def recounted(event: Event) -> Event:
    return replace(event, usage=Usage(1)) if isinstance(event, ModelReplied) else event


def usage(read: int, written: int, uncached: int = 10) -> Usage:
    return Usage(uncached, read, written)


def test_a_prefix_that_broke_is_explained_by_what_was_sent():
    breaks = Breaks()
    assert breaks.reason("frame-0", 0.0, usage(0, 1000), -1, 1) == ""
    assert breaks.reason("frame-0", 10.0, usage(1000, 100), 1, 3) == ""
    assert "message 2 of 3 changed" in breaks.reason("frame-0", 20.0, usage(300, 900), 1, 3)
    assert breaks.reason("frame-1", 21.0, usage(0, 900), -1, 1) == ""
    assert "5.3 minutes ago" in breaks.reason("frame-0", 340.0, usage(300, 900), 3, 5)
    assert "the provider dropped its entry" in breaks.reason("frame-0", 350.0, usage(0, 1300), 5, 7)
    assert breaks.reason("frame-0", 351.0, usage(0, 900), -1, 1) == ""  # another conversation


def test_a_run_with_a_price_and_a_pop_before_its_first_step_is_shown(tmp_path):
    replies = [push(constraint="steps=0"), pop()]
    run = opened(record(tmp_path / "run", started(price=PRICE), replies, World(), Clock()))["runs"][0]
    assert all(row["last"] is None or row["last"] >= row["first"] for row in run["frames"])


def test_a_lost_prefix_of_an_imported_run_is_marked(tmp_path):
    """The recording reports that the third reply read nothing of what the second had written."""
    reads = iter((usage(0, 22_000), usage(22_000, 144), usage(0, 22_300)))
    start = replace(started("full"), version="imported from claude-code")
    replies = [do("list_files"), do("list_files"), do("list_files")]
    folder = record(tmp_path / "run", start, replies, World(), Clock(), lambda *_: next(reads))
    run = opened(folder)["runs"][0]
    assert run["unrendered"].startswith("imported from")
    assert [bool(step[13]) for step in run["steps"]] == [False, False, True]
    assert "22,144 tokens of the last prompt were not read" in run["steps"][2][13]
