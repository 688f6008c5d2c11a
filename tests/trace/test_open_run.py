"""A stored run in Python: any step's state, heap, prompt and files, loaded lazily."""

import tracemalloc
import zlib

import pytest
from msgspec import json
from msgspec.structs import replace

import stackmem
from stackmem import RulesDiffer, State, TraceError, UsageError, fold
from stackmem.core.budgets import Limits
from stackmem.core.facts import ModelReplied, RunEnded, RunResumed, RunStarted, ToolReturned
from stackmem.trace.open_run import Run
from stackmem.trace.snapshot import Snapshot, changes
from tests.build import PRICE, alloc, call, do, failed, play, pop, push, reply, started
from tests.trace.kept import keep, tree

REPLIES = (
    alloc("spec", "line"),
    push(),
    do("run_command", command="text > a.txt"),
    failed(),
    do("heap_read", name="spec"),
    pop("It works."),
    pop("All of it works."),
)


def played(*replies, **start):
    return play(*(replies or REPLIES), start=started(**start))


@pytest.fixture
def run(tmp_path) -> Run:
    return Run(keep(tmp_path / "a-run", played(price=PRICE).events))


def test_steps_tell_who_replied_what_and_what_came_of_it(run):
    told = [(step.number, step.frame, step.depth, step.call.name) for step in run.steps]
    assert told == [
        (1, "frame-0", 0, "heap_alloc"),
        (2, "frame-0", 0, "push_frame"),
        (3, "frame-1", 1, "run_command"),
        (4, "frame-1", 1, "heap_read"),
        (5, "frame-1", 1, "pop_frame"),
        (6, "frame-0", 0, "pop_frame"),
    ]
    assert [type(event).__name__ for step in run.steps for event in step.followed] == [
        "ChunkAllocated", "FramePushed", "ToolReturned", "ModelFailed", "ChunkRead", "FramePopped", "FramePopped",
        "RunEnded",
    ]  # fmt: skip


def test_frames_tell_what_they_were_for_what_they_took_and_how_they_ended(run):
    root, child = run.frames
    assert (root.first, root.last, root.steps, root.popped, root.result) == (1, 6, 3, True, "All of it works.")
    assert (child.parent, child.first, child.last, child.steps, child.result) == ("frame-0", 3, 5, 3, "It works.")
    assert (root.usage.total, child.usage.total) == (360, 360)
    assert root.usd + child.usd == pytest.approx(run.cost)


def test_the_cost_is_that_of_all_replies_and_unknown_without_a_price(run, tmp_path):
    assert run.cost == pytest.approx(run.state.usd)
    assert Run(keep(tmp_path / "free", played().events)).cost is None


def test_prompts_are_the_very_ones_that_were_sent(run):
    asked = [request.view for request in played(price=PRICE).asked if request.attempt == 1]
    assert [run.prompt(step).digest for step in range(1, 7)] == [view.digest for view in asked]
    assert run.prompt(3) == asked[2]


def test_a_steps_state_is_as_its_call_left_it(run):
    assert [sorted(run.heap_at(step).chunks) for step in (0, 1)] == [[], ["spec"]]
    assert [len(run.state_at(step).stack) for step in range(7)] == [1, 1, 2, 2, 2, 1, 0]
    assert all(run.state_at(step).step == step and run.state_at(step).pending is None for step in range(7))
    assert run.state_at(3).failures == ()
    assert run.moment(4).before.failures != ()


def test_steps_may_be_asked_for_in_any_order(run):
    forth = [run.state_at(step) for step in range(7)]
    assert [run.state_at(step) for step in (6, 0, 3, 3, 2, 5, 1, 4)] == [
        forth[step] for step in (6, 0, 3, 3, 2, 5, 1, 4)
    ]


def test_many_steps_may_be_asked_for_in_any_order(tmp_path):
    run = Run(keep(tmp_path / "long", played(*[do("run_command", command="x")] * 80, pop()).events))
    assert [run.state_at(step).step for step in (70, 2, 81, 80, 1, 40)] == [70, 2, 81, 80, 1, 40]


@pytest.mark.parametrize("step", [-1, 7, 10**9])
def test_a_step_that_is_not_there_is_named_with_those_that_are(run, step):
    for _ in range(2):
        with pytest.raises(UsageError, match=rf"a-run has no step {step}; it has steps 1 to 6"):
            run.state_at(step)
    assert run.state_at(2).step == 2


def test_the_start_has_no_prompt(run):
    with pytest.raises(UsageError, match="no prompt"):
        run.prompt(0)


def test_a_run_cut_short_within_a_step_has_its_call_still_pending(tmp_path):
    events = played(do("run_command", command="x"), do("run_command", command="y")).events
    run = Run(keep(tmp_path / "cut", events[:-1]))
    assert (run.state_at(2).pending is None, run.state.outcome) == (False, "running")


def test_what_ended_a_run_that_was_resumed_belongs_to_no_steps_state(tmp_path):
    first = played(do("run_command", command="x"), do("run_command", command="y"), limits=Limits(steps=2))
    assert isinstance(first.events[-1], RunEnded)
    resumed = [*first.events, RunResumed(Limits(steps=9), "bubblewrap", "0")]
    run = Run(keep(tmp_path / "resumed", resumed))
    assert (run.state_at(2).end, run.state_at(2).limits.steps) == (None, 2)
    assert (run.state.end, run.state.limits.steps) == (None, 9)


def test_files_are_those_of_the_moment(tmp_path):
    folder = tmp_path / "a-run"
    before = tree(folder, {"kept.txt": "same", "old.txt": "old"})
    after = tree(folder, {"kept.txt": "same", "src/new.py!": "new", "src/link@": "../kept.txt", "bin": b"\xff\x00"})
    events = played(do("run_command", command="x"), do("run_command", command="y"), tree=before).events
    place = next(index for index, event in enumerate(events) if isinstance(event, ToolReturned))
    events[place] = replace(events[place], tree=after)
    run = Run(keep(folder, events))
    files = run.files_at(1)
    assert files.keys() == ["bin", "kept.txt", "src/link", "src/new.py"]
    assert (files["bin"], files["src/link"], files.entries["src/new.py"].mode) == (
        b"\xff\x00",
        b"../kept.txt",
        "100755",
    )
    assert (len(run.files_at(0)), "old.txt" in run.files_at(0), "old.txt" in files) == (2, True, False)
    assert run.files_at(2).tree == after


def test_files_are_written_byte_for_byte_with_their_modes_and_links(tmp_path):
    folder = tmp_path / "a-run"
    kept = {"a/b/c!": b"#!\r\n\xff", "d@": b"../outside", "e": b""}
    run = Run(keep(folder, [started(tree=tree(folder, kept))]))
    target = tmp_path / "target"
    target.mkdir()
    run.files_at(0).write_into(target)
    assert (target / "a/b/c").read_bytes() == kept["a/b/c!"]
    assert (target / "a/b/c").stat().st_mode & 0o111
    assert (target / "d").readlink().as_posix() == "../outside"
    assert not (target / "e").stat().st_mode & 0o111


def test_a_file_that_the_history_lacks_or_holds_damaged_is_named(tmp_path):
    folder = tmp_path / "a-run"
    run = Run(keep(folder, [started(tree=tree(folder, {"a.txt": "content"}))]))
    entry = run.files_at(0).entries["a.txt"]
    stored = folder / "history.git" / "objects" / entry.id[:2] / entry.id[2:]
    stored.chmod(0o600)
    for content, why in ((zlib.compress(b"blob 5\0other"), "does not match"), (b"no zlib", "damaged")):
        stored.write_bytes(content)
        with pytest.raises(TraceError, match=why):
            run.files_at(0)["a.txt"]
    stored.unlink()
    with pytest.raises(TraceError, match="lacks"):
        run.files_at(0)["a.txt"]


def test_an_undecodable_name_is_shown_as_text(tmp_path):
    folder = tmp_path / "a-run"
    other = Snapshot(folder / "history.git", tree(folder, {"caf\udce9.txt": "x\n"}))
    none = Snapshot(folder / "history.git", tree(folder, {}))
    (change,) = changes(none, other)
    assert change.path == r"caf\xe9.txt"
    assert r"+++ b/caf\xe9.txt" in change.diff
    assert json.decode(json.encode(change))["kind"] == "added"


@pytest.mark.parametrize("name", [b"..", b".", b"", b"a/b", b".git", b".GIT"])
def test_a_hostile_history_leads_out_of_no_folder(tmp_path, name):
    from stackmem.history.objects import ObjectStore

    folder = tmp_path / "a-run"
    store = ObjectStore(folder / "history.git")
    blob = store.add("blob", b"evil")
    hostile = store.add("tree", b"100644 %s\0%s" % (name, bytes.fromhex(blob)))
    run = Run(keep(folder, [started(tree=hostile)]))
    with pytest.raises(TraceError, match="contains the name"):
        run.files_at(0).write_into(tmp_path)


def test_a_prompt_that_is_rendered_otherwise_today_is_not_shown_as_the_one_sent(tmp_path):
    events = played().events
    place = next(index for index, event in enumerate(events) if isinstance(event, ModelReplied))
    events[place] = replace(events[place], prompt_digest="0" * 64)
    run = Run(keep(tmp_path / "other", events))
    with pytest.raises(RulesDiffer, match="prompt of step 1"):
        run.prompt(1)
    assert run.prompt(2)


def test_records_that_cannot_follow_one_another_are_a_trace_error(tmp_path):
    events = [started(), reply(call("pop_frame", result="x")), RunEnded("popped", "x"), started()]
    run = Run(keep(tmp_path / "hostile", events))
    with pytest.raises(TraceError, match="record 4"):
        _ = run.state
    with pytest.raises(TraceError, match="not RunStarted"):
        _ = Run(keep(tmp_path / "headless", events[1:])).start


def test_the_last_state_is_the_fold_of_all_records(run):
    assert run.state == fold(record.event for record in run.records())
    assert isinstance(run.start, RunStarted)
    assert run.state != State()


def test_the_result_is_read_from_its_own_file(run):
    assert run.result is None
    (run.folder / "result.json").write_text('{"outcome": "solved"}', encoding="utf-8")
    assert run.result == {"outcome": "solved"}
    (run.folder / "result.json").write_text("[1", encoding="utf-8")
    with pytest.raises(TraceError, match="cannot be read"):
        _ = run.result


def test_a_run_is_opened_by_its_folder_and_nothing_is_read_before_it_is_asked_for(run):
    (run.folder / "trace.jsonl").write_bytes(b"no trace\n")
    opened = stackmem.open_run(run.folder)
    with pytest.raises(TraceError, match="line 1"):
        list(opened.steps)
    with pytest.raises(UsageError, match="no run"):
        stackmem.open_run(run.folder / "elsewhere")


def test_steps_frames_and_cost_hold_one_step_of_a_long_trace_at_a_time(tmp_path):
    long = ToolReturned("x" * 100_000)
    step = [do("run_command", command="y"), long]
    run = Run(keep(tmp_path / "long", [started(price=PRICE), *step * 200]))
    size = (run.folder / "trace.jsonl").stat().st_size
    tracemalloc.start()
    try:
        assert sum(1 for _ in run.steps) == 200
        assert run.frames[0].steps == 200
        assert run.cost
        assert tracemalloc.get_traced_memory()[1] < size / 10
    finally:
        tracemalloc.stop()
