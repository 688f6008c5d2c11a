"""Tests for the one-line progress display of a run."""

from stackmem.cli.screen.progress import status
from stackmem.core.machine import evolve
from stackmem.core.state import State
from tests.stage import Stage, events, pop, push


def test_the_line_says_which_frames_are_open_and_that_the_checks_are_at_work(stage: Stage):
    state, said = State(), []
    for event in events(stage.solve(stage.task(push(), pop(), pop())).run_dir):
        state = evolve(state, event)
        said.append(status(state).partition(" | ")[0])
    stands = [line for line, before in zip(said, ["", *said], strict=False) if line != before]
    assert stands == ["root", "root > child", "root", "done", "done, running checks", "done"]
