"""Repeating a run in a fresh copy names the first result that differs, and leaves no files."""

import os
from pathlib import Path

import pytest

from stackmem import Run, TraceError, UsageError, open_run
from stackmem.core.facts import ToolReturned
from stackmem.review.replays.live import replay_live
from stackmem.review.replays.model import replay_model
from stackmem.run.fork import ForkChanges, fork
from tests.stage import SOLVED, Stage, call, command, events, fails, pop, push, rechain, records

CHECK = '[ "$(cat made)" = two ] && ' + SOLVED


@pytest.fixture
def run(stage: Stage) -> Run:
    task = stage.task(
        call("read_file", path="kept.txt"),
        push(verify="cat made"),
        call("write_file", path="made", content="one"),
        command("cat made; echo two > made"),
        fails("529"),
        pop("Inner."),
        pop("Outer."),
        test=CHECK, files={"kept.txt": "from the start\n"},
    )  # fmt: skip
    return open_run(stage.solve(task, max_seconds=90).run_dir)


def forged(run: Run, place: int, **changes) -> Run:
    """Alter the nth result of a run and recompute the chain."""
    from msgspec.structs import replace

    kept = records(run.folder)
    where = [index for index, record in enumerate(kept) if isinstance(record.event, ToolReturned)][place]
    kept[where] = replace(kept[where], event=replace(kept[where].event, **changes))
    rechain(run.folder / "trace.jsonl", kept)
    return Run(run.folder)


def left(stage: Stage) -> int:
    return len(stage.left_behind())


def test_calls_that_return_the_same_are_counted(stage: Stage, run):
    before = (run.folder / "trace.jsonl").read_bytes()
    told = []
    found = replay_live(run, os.environ, observe=told.append)
    assert (found.calls, found.difference, found.seq) == (4, "", 0)
    assert [type(effect).__name__ for effect in told] == ["UseTool", "UseTool", "UseTool", "Verify"]
    assert (run.folder / "trace.jsonl").read_bytes() == before
    assert left(stage) == 2


@pytest.mark.parametrize(("first", "calls"), [(1, 4), (2, 3), (4, 2), (5, 1), (6, 0)])
def test_calls_are_executed_from_a_step_on_with_the_files_of_that_moment(run, first, calls):
    found = replay_live(run, os.environ, first)
    assert (found.calls, found.difference) == (calls, "")


def test_the_first_result_that_differs_is_named_with_what_differs(stage: Stage, run):
    found = replay_live(forged(run, 2, text="something else\n[exit 0]"), os.environ)
    assert (found.calls, found.step) == (2, 4)
    assert found.call == "run_command cat made; echo two > made"
    assert found.difference.splitlines()[0] == "  text (- recorded, + now):"
    assert "    -something else" in found.difference
    assert "    +one" in found.difference
    assert left(stage) == 2


@pytest.fixture
def timed(stage: Stage) -> Run:
    """A run of a command with a different duration each time; the recorded ones are forged."""
    task = stage.task(command('echo "2 passed in 0.$(date +%N)s"'), command("echo once > made; echo done"), pop())
    run = open_run(stage.solve(task).run_dir)
    return forged(run, 0, text="2 passed in 7.12s\n[exit 0]")


def test_a_changed_duration_is_noted_but_is_not_a_difference(timed):
    live = replay_live(timed, os.environ)
    assert (live.equal, live.difference, live.calls, live.differs_only_in) == (True, "", 2, ("durations",))
    model = replay_model(timed, os.environ, 1)
    assert (model.equal, model.difference, model.differs_only_in) == (True, "", ("durations",))


def test_a_changed_count_or_exit_code_is_a_difference(timed):
    fewer = forged(timed, 0, text="1 passed in 7.12s\n[exit 0]")
    for found in (replay_live(fewer, os.environ), replay_model(fewer, os.environ, 1)):
        assert (found.equal, found.step) == (False, 1)
        assert "1 passed" in found.difference
    failed = forged(timed, 0, text="2 passed in 7.12s\n[exit 0]", exit_code=1)
    assert not replay_live(failed, os.environ).equal
    assert not replay_model(failed, os.environ, 1).equal


def test_file_differences_after_a_call_are_shown_by_line(run):
    start = run.start.tree
    found = replay_live(forged(run, 1, tree=start), os.environ)
    assert found.call == "write_file made"
    assert found.difference.splitlines()[:2] == ["  the resulting files differ:", "  made: added now"]
    assert "+one" in found.difference


def test_a_fork_is_executed_from_the_oldest_start(run):
    child = open_run(fork(run.folder, 3, ForkChanges(), os.environ).result.run_dir)
    assert replay_live(child, os.environ).calls == 4
    assert replay_live(child, os.environ, 4).calls == 2


@pytest.mark.parametrize("first", range(1, 7))
def test_the_controller_makes_the_same_facts_of_the_same_replies(stage: Stage, run, first):
    seen = []
    found = replay_model(run, os.environ, first, lambda *told: seen.append(told[1].step))
    assert (found.difference, found.outcome, found.recorded_outcome) == ("", "solved", "solved")
    assert (found.steps, seen[-1]) == (7 - first, 6)
    assert left(stage) == 2


def test_what_the_controller_makes_otherwise_is_named_and_it_plays_on_to_the_end(run):
    found = replay_model(forged(run, 2, text="something else\n[exit 0]"), os.environ, 3)
    assert (found.step, found.outcome) == (4, "solved")
    assert found.difference.startswith("record ")
    assert "ToolReturned with different fields:" in found.difference


def test_a_run_that_was_killed_is_the_same_up_to_there(run):
    rechain(run.folder / "trace.jsonl", records(run.folder)[:-4])
    found = replay_model(Run(run.folder), os.environ, 2)
    assert found.difference == ""
    assert found.recorded_outcome == "interrupted"


def test_a_run_that_was_forked_is_played_again_behind_the_cut(run):
    child = open_run(fork(run.folder, 3, ForkChanges(chunks={"a": "b"}), os.environ).result.run_dir)
    assert replay_model(child, os.environ, 4).difference == ""
    with pytest.raises(UsageError, match="use --from 4 or a later step"):
        replay_model(child, os.environ, 2)


@pytest.mark.parametrize("again", [replay_live, replay_model])
@pytest.mark.parametrize("first", [0, 7, 99])
def test_a_step_that_is_not_there_is_refused(stage: Stage, run, again, first):
    with pytest.raises(UsageError, match="step"):
        again(run, os.environ, first)
    assert left(stage) == 2


def test_a_run_without_its_files_is_refused_and_nothing_is_left(stage: Stage, run):
    (run.folder / "history.git").rename(stage.root / "history")
    with pytest.raises(TraceError, match="lacks"):
        replay_live(run, os.environ)
    assert left(stage) == 2


def test_no_key_is_needed_to_execute_again_what_a_provider_was_asked(stage: Stage):
    from msgspec.structs import replace

    result = stage.solve(stage.task(command("echo x"), pop()))
    kept = records(result.run_dir)
    first = replace(kept[0], event=replace(kept[0].event, model="claude-sonnet-5-5"))
    rechain(Path(result.run_dir) / "trace.jsonl", [first, *kept[1:]])
    assert replay_live(open_run(result.run_dir), os.environ).calls == 1
    assert replay_model(open_run(result.run_dir), os.environ, 1).outcome == "solved"
    assert events(result.run_dir, ToolReturned)
