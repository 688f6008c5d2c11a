"""Tests for the one-line progress display of a run."""

from stackmem.cli.screen.progress import Progress, status
from stackmem.core.facts import ModelReplied, RunResumed, ToolReturned
from stackmem.core.machine import evolve
from stackmem.core.state import State
from tests.stage import Stage, call, command, events, pop, push


def test_the_line_says_which_frames_are_open_and_that_the_checks_are_at_work(stage: Stage):
    state, said = State(), []
    for event in events(stage.solve(stage.task(push(), pop(), pop())).run_dir):
        state = evolve(state, event)
        said.append(status(state).partition(" | ")[0])
    stands = [line for line, before in zip(said, ["", *said], strict=False) if line != before]
    assert stands == ["root", "root > child", "root", "done", "done, running checks", "done"]


def test_a_resumed_run_shows_the_call_that_it_repeats(stage: Stage):
    state, screen = State(), Progress()
    for event in events(stage.solve(stage.task(command("echo a"), pop())).run_dir):
        if isinstance(event, ToolReturned):
            break
        state = evolve(state, event)
        last = event
    assert isinstance(last, ModelReplied)
    resumed = RunResumed(state.begun.limits, state.begun.isolation, "0")
    state = evolve(state, resumed)
    assert screen.lines(resumed, state) == []
    assert screen.lines(event, evolve(state, event)) == ["   1  run_command echo a"]


def test_each_call_of_a_reply_that_only_reads_has_a_line(stage: Stage):
    reads = {"calls": [call("read_file", path=name) for name in ("a.txt", "b.txt")]}
    result = stage.solve(stage.task(reads, reads, pop(), files={"a.txt": "one"}), read_calls="many")
    state, screen, lines = State(), Progress(), []
    for event in events(result.run_dir):
        state = evolve(state, event)
        lines += screen.lines(event, state)
    shown = [line for line in lines if "read_file" in line]
    assert [line.split(" ->")[0].strip() for line in shown] == [
        "1  read_file a.txt", "1  read_file b.txt", "2  read_file a.txt", "2  read_file b.txt"
    ]  # fmt: skip
    assert "does not exist" in shown[1]
