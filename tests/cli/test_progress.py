"""Tests for the one-line progress display of a run."""

from stackmem.cli.screen.progress import Progress, status
from stackmem.core.facts import ModelReplied, RunResumed, ToolReturned
from stackmem.core.machine import evolve
from stackmem.core.state import State
from tests.stage import Stage, command, events, pop, push


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
