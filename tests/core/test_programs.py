"""Frames pushed by a program: the text in their prompt, and results that do not match the requested form."""

from msgspec.structs import replace

from stackmem.core.budgets import UNFIT_RESULTS, Limits
from stackmem.core.facts import FramePopped, FramePushed, ProgramFrame, RunResumed
from stackmem.core.machine import evolve
from stackmem.core.pricing import Answerer
from stackmem.core.programs import open_frame, refuse_misfit
from stackmem.core.tools import Refusal
from tests.build import PRICE, play


def test_the_prompt_of_a_programs_frame_contains_its_preamble_and_task():
    given = ProgramFrame(task="t" * 30, kind="work")
    event = FramePushed("frame-1", "one", "Do it.", "What was done", "none", "", program=given)
    assert open_frame(play().state, event, 100).running.chars == 130


def test_the_third_result_that_does_not_fit_ends_the_frame_as_it_is():
    frame = replace(play().state.running, schema='{"type": "integer"}')
    for unfit in range(UNFIT_RESULTS):
        found = refuse_misfit(replace(frame, unfit=unfit), '"one"')
        if unfit < UNFIT_RESULTS - 1:
            assert isinstance(found, Refusal)
            assert found.code == "misfit"
        else:
            assert found == FramePopped(frame.id, '"one"', forced="misfit")
    assert refuse_misfit(frame, "1") is None


def test_a_run_resumed_with_another_model_uses_its_window_if_known():
    state = play().state
    for window, expected in ((50_000, 50_000), (0, state.window_tokens)):
        resumed = RunResumed(Limits(), "none", "0", answerer=Answerer("other", PRICE, window))
        on = evolve(state, resumed)
        assert (on.window_tokens, on.begun.model, on.begun.price) == (expected, "other", PRICE)
