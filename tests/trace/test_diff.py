"""Two runs side by side: where they diverge, and the results of each."""

import pytest
from msgspec import json
from msgspec.structs import replace

from stackmem import TraceError
from stackmem.core.budgets import Limits
from stackmem.core.facts import RunEnded, RunForked, RunResumed, ToolReturned
from stackmem.core.messages import Usage
from stackmem.review.diff import diff_runs
from stackmem.trace.lineage import RunReader
from stackmem.trace.open_run import Run
from stackmem.trace.store import TraceWriter
from tests.build import PRICE, World, alloc, do, failed, play, pop, push, reply, started
from tests.trace.kept import keep, tree

STORY = (alloc("spec", "line"), push(), do("run_command", command="x"), pop("Inner."), pop("Outer."))


def kept(folder, *replies, world=None, **start) -> Run:
    return Run(keep(folder, play(*(replies or STORY), start=started(**start), world=world).events))


def compared(tmp_path, *replies, world=None, **start):
    return diff_runs(kept(tmp_path / "a"), kept(tmp_path / "b", *replies, world=world, **start))


def test_two_runs_of_one_story_never_part(tmp_path):
    found = compared(tmp_path)
    assert (found.parting, found.conditions, found.heap, found.files) == (None, "", (), ())
    assert found.same_facts == len(list(kept(tmp_path / "c").records())) - 1
    assert (found.a.steps, found.a.frames, found.a.outcome, found.a.heap_chars) == (5, 1, "finished", 4)


def test_they_part_at_the_first_fact_that_differs_with_its_step_and_frame(tmp_path):
    found = compared(tmp_path, *STORY[:2], do("run_command", command="y"), *STORY[3:])
    part = found.parting
    assert (part.a.step, part.a.frame, part.a.seq) == (part.b.step, part.b.frame, part.b.seq) == (3, "child", 6)
    assert '"command": "x"' in part.fields
    assert '"command": "y"' in part.fields


def test_results_that_differ_part_them_although_the_replies_do_not(tmp_path):
    found = compared(tmp_path, world=World(outputs={"x": ToolReturned("boom", True, 1)}))
    assert found.parting.b.event.startswith("ToolReturned")
    assert found.parting.fields.splitlines() == [
        "  text: A 'exit 0', B 'boom'",
        "  failed: A false, B true",
        "  exit_code: A 0, B 1",
    ]


def test_a_duration_parts_nothing_and_is_noted(tmp_path):
    outputs = [{"x": ToolReturned(f"3 passed in {took}")} for took in ("0.15s", "0.17s")]
    for name, output in zip("ab", outputs, strict=True):
        keep(tmp_path / name, play(*STORY, start=started(), world=World(outputs=output)).events)
    found = diff_runs(Run(tmp_path / "a"), Run(tmp_path / "b"))
    assert (found.equal, found.parting, found.differs_only_in) == (True, None, ("durations",))


def test_a_different_count_next_to_a_duration_is_a_difference(tmp_path):
    for name, said in (("a", "3 passed in 0.15s"), ("b", "2 passed in 0.17s")):
        output = {"x": ToolReturned(said)}
        keep(tmp_path / name, play(*STORY, start=started(), world=World(outputs=output)).events)
    found = diff_runs(Run(tmp_path / "a"), Run(tmp_path / "b"))
    assert (found.equal, found.differs_only_in) == (False, ())
    assert "text: A '3 passed in 0.15s', B '2 passed in 0.17s'" in found.parting.fields


def test_what_a_model_says_is_compared_to_the_letter(tmp_path):
    found = compared(tmp_path, *STORY[:3], pop("Passed in 0.1s."), pop("Outer."))
    kept(tmp_path / "c", *STORY[:3], pop("Passed in 0.2s."), pop("Outer."))
    other = diff_runs(Run(tmp_path / "b"), Run(tmp_path / "c"))
    assert (found.equal, other.equal, other.differs_only_in) == (False, False, ())


def test_files_that_differ_only_in_a_time_part_nothing(tmp_path):
    long = "x" * 200_000
    logs = {"a": "done in 0.1s\n", "b": "done in 0.2s\n", "c": "not done in 0.2s\n", "d": f"done in 0.1s\n{long}",
            "e": f"done in 0.2s\n{long}"}  # fmt: skip
    for name, log in logs.items():
        kept_tree = tree(tmp_path / name, {"log.txt": log})
        result = ToolReturned("ok", tree=kept_tree, digests={"log.txt": f"{ord(name):064x}"})
        events = play(*STORY, start=started(tree=kept_tree)).events
        keep(tmp_path / name, [result if isinstance(event, ToolReturned) else event for event in events])
    found = diff_runs(Run(tmp_path / "a"), Run(tmp_path / "b"))
    assert (found.parting, found.files, found.differs_only_in) == (None, (), ("durations",))
    other = diff_runs(Run(tmp_path / "a"), Run(tmp_path / "c"))
    assert [file.path for file in other.files] == ["log.txt"]
    assert other.parting.a.event.startswith("ToolReturned")
    assert diff_runs(Run(tmp_path / "d"), Run(tmp_path / "e")).files, "a text too long to compare counts as changed"


def test_a_run_that_ends_earlier_is_reported(tmp_path):
    found = compared(tmp_path, *STORY[:3])
    assert (found.parting.a.step, found.parting.b) == (4, None)
    assert (found.a.outcome, found.b.outcome) == ("finished", "interrupted")


def test_how_they_began_is_told_and_parts_nothing_by_itself(tmp_path):
    found = compared(tmp_path, model="other", window_tokens=100_000)
    assert found.parting is None
    assert "model: A 'script', B 'other'" in found.conditions
    assert "window_tokens: A 200000, B 100000" in found.conditions


def test_tokens_and_cost_are_shown_but_are_not_differences(tmp_path):
    dearer = [replace(event, usage=Usage(uncached=500, output=1)) for event in STORY]
    found = compared(tmp_path, *dearer, price=PRICE)
    assert found.parting is None
    assert (found.a.usd, found.a.peak_context_tokens, found.b.peak_context_tokens) == (None, 100, 500)
    assert found.b.usd == pytest.approx(5 * (500 * 1.0 + 1 * 2.0) / 1e6)


def test_heaps_are_told_by_the_chunks_that_differ_at_the_end(tmp_path):
    found = compared(tmp_path, alloc("spec", "other"), alloc("more", "x"), pop())
    assert [(chunk.name, chunk.a_chars, chunk.b_chars) for chunk in found.heap] == [("spec", 4, 5), ("more", None, 1)]


def test_files_that_differ_at_the_end_are_told_with_their_lines(tmp_path):
    for name, files in (("a", {"same": "1\n", "f.py": "one\n"}), ("b", {"same": "1\n", "f.py": "two\n", "new": ""})):
        events = play(*STORY, start=started(tree=tree(tmp_path / name, files))).events
        keep(tmp_path / name, events)
    found = diff_runs(Run(tmp_path / "a"), Run(tmp_path / "b"))
    assert [(file.path, file.kind) for file in found.files] == [("f.py", "modified"), ("new", "added")]
    assert "-one\n+two" in found.files[0].diff


def test_files_that_nobody_kept_or_that_are_gone_are_said_to_be(tmp_path):
    assert compared(tmp_path).files_missing == "A and B stored no files"
    keep(tmp_path / "c", play(*STORY, start=started(tree=tree(tmp_path / "c", {"f": "1"}))).events)
    keep(tmp_path / "d", play(*STORY, start=started(tree="0" * 40)).events)
    assert "lacks" in diff_runs(Run(tmp_path / "c"), Run(tmp_path / "d")).files_missing


def test_an_interruption_that_was_taken_back_parts_nothing(tmp_path):
    events = play(*STORY, start=started()).events
    place = next(index for index, event in enumerate(events) if isinstance(event, ToolReturned)) + 1
    more = [RunEnded("interrupted", ""), RunResumed(Limits(), "bubblewrap", "0")]
    stopped = Run(keep(tmp_path / "stopped", [*events[:place], *more, *events[place:]]))
    assert diff_runs(kept(tmp_path / "a"), stopped).parting is None


def test_a_fork_is_compared_with_its_parent_from_the_start(tmp_path):
    parent = kept(tmp_path / "a")
    moment = parent.moment(2)
    events = play(*STORY[:2], do("run_command", command="z"), pop("No."), pop(), start=started()).events
    (tmp_path / "b").mkdir()
    writer = TraceWriter(tmp_path / "b" / "trace.jsonl", after=moment.at, digest=moment.digest)
    for event in [RunForked("a", moment.at, moment.digest, parent.start), *events[moment.at :]]:
        writer.append(event)
    writer.close()
    found = diff_runs(parent, Run(tmp_path / "b"))
    assert (found.parting.a.step, found.parting.a.seq, found.parting.b.seq) == (3, 6, 7)
    assert found.b.forked == f"a at record {moment.at}"
    assert len(list(RunReader(tmp_path / "b"))) == len(events) + 1


def test_a_provider_that_failed_in_one_of_them_parts_them(tmp_path):
    found = compared(tmp_path, failed(), *STORY)
    assert found.parting.b.event.startswith("ModelFailed")


def test_the_comparison_is_plain_json(tmp_path):
    decoded = json.decode(json.encode(compared(tmp_path, reply("no call"), *STORY)))
    assert decoded["parting"]["a"]["step"] == 1


def test_a_broken_trace_is_named(tmp_path):
    broken = keep(tmp_path / "c", [])
    with pytest.raises(TraceError, match="never began"):
        diff_runs(kept(tmp_path / "a"), Run(broken))
