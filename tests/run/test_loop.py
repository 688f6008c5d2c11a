"""Whole runs in this process: endings, limits, forced pops, and the model's notices along the way."""

import os
from collections import deque

import pytest
from msgspec.structs import replace

from stackmem import replay
from stackmem.core.decider import AgentDecider
from stackmem.core.errors import TraceError, WorkspaceError
from stackmem.core.facts import (
    CallRejected,
    ChecksReturned,
    ClockRead,
    FramePopped,
    ModelFailed,
    ModelReplied,
    NoticeGiven,
    ReplyNudged,
    RunEnded,
    ToolReturned,
    VerifyReturned,
)
from stackmem.core.requests import AskModel
from stackmem.core.state import State
from stackmem.lab.simulated.script_language import parse_script
from stackmem.lab.simulated.scripted import ScriptedModel
from stackmem.memory import open_strategy
from stackmem.models.spoken import overheard
from stackmem.run.interrupts import Interrupts
from stackmem.run.loop import run
from stackmem.run.perform import World as Outside
from stackmem.run.prepare import prepare
from stackmem.run.solve import solve
from stackmem.workspace.outcome import ToolOutcome
from tests.build import started
from tests.stage import UNSOLVED, Stage, call, command, events, fails, pop, push


def test_a_run_is_the_fold_of_its_trace(stage: Stage):
    task = stage.task(
        push(store=[{"name": "a", "content": "b"}]), command("echo hi > made"), pop("inner"), pop("outer")
    )
    seen: list[State] = []
    result = stage.solve(task, observe=lambda _, state: seen.append(state))
    assert (result.outcome, result.ending, result.result, result.steps, result.frames) == (
        "solved",
        "popped",
        "outer",
        4,
        1,
    )
    assert result.changed == ("made",)
    found = replay(result.run_dir)
    assert (found.outcome, found.events, found.prompts, found.steps) == ("solved", len(seen), 4, 4)
    assert result.records == len(seen) == len(events(result.run_dir))


def test_the_progress_of_reading_a_prompt_reaches_the_observer_of_the_run(stage: Stage):
    shown: list[tuple[int, int]] = []
    event = '{"prompt_progress": {"processed": 5, "total": 31}}'
    places = {"model": "demo", "runs_dir": str(stage.runs), "sandbox_dir": str(stage.work)}
    request = prepare(str(stage.task(pop())), None, places, os.environ, stage.elsewhere)
    solve(
        request, os.environ, lambda fact, _: deque(overheard([event] * isinstance(fact, ModelReplied))),
        observe_reading=lambda read, total: shown.append((read, total)),
    )  # fmt: skip
    deque(overheard([event]))  # after the run
    assert shown == [(5, 31)]


@pytest.mark.parametrize("place", ["on_change", "delta", "tail", "system"])
def test_every_placement_of_the_index_solves_and_replays(stage: Stage, place):
    task = stage.task(call("heap_alloc", name="a", content="b"), push(), call("heap_read", name="a"), pop(), pop())
    result = stage.solve(task, strategy=f"stackheap:index={place}")
    assert result.outcome == "solved"
    assert replay(result.run_dir).prompts == 5


def test_the_baseline_solves_with_its_five_tools_and_refuses_the_others(stage: Stage):
    task = stage.task(push(), command("true"), pop())
    result = stage.solve(task, strategy="full")
    assert (result.outcome, result.frames, result.strategy) == ("solved", 0, "full")
    assert [type(event) for event in events(result.run_dir, CallRejected, ToolReturned)] == [CallRejected, ToolReturned]
    assert len(events(result.run_dir)[0].tools) == 5
    assert replay(result.run_dir).prompts == 3


@pytest.mark.parametrize(
    ("settings", "ending"),
    [({"max_steps": 2}, "limit:steps"), ({"max_tokens": 2_000}, "limit:tokens"), ({"max_seconds": 1}, "limit:seconds")],
)
def test_a_run_at_its_limit_keeps_everything_and_is_still_checked(stage: Stage, settings, ending):
    replies = [
        call("heap_alloc", name="found", content="x"),
        command("echo kept > partial; sleep 1.1"),
        *[command("true")] * 4,
    ]
    task = stage.task(*replies, test='test -f partial && echo 1 > "$VERIFIER_DIR/reward.txt"\n')
    result = stage.solve(task, **settings)
    assert (result.ending, result.exit_code) == (ending, 0 if result.outcome == "solved" else 3)
    assert len(events(result.run_dir, ChecksReturned)) == 1
    assert replay(result.run_dir).outcome == result.outcome


def test_a_run_at_its_limit_that_did_not_solve_ends_with_3_after_being_told(stage: Stage):
    result = stage.solve(stage.task(*[command("true")] * 6, test=UNSOLVED), max_steps=4)
    assert (result.ending, result.outcome, result.exit_code, result.steps) == ("limit:steps", "unsolved", 3, 4)
    assert [notice.code for notice in events(result.run_dir, NoticeGiven)] == ["limit:steps"]
    assert events(result.run_dir, ChecksReturned) == [ChecksReturned({"reward": 0.0}, text="[exit 0]")]


def test_a_run_that_solved_before_its_limit_ends_with_0(stage: Stage):
    result = stage.solve(stage.task(*[command("true")] * 6), max_steps=2)
    assert (result.ending, result.outcome, result.exit_code) == ("limit:steps", "solved", 0)


def test_three_replies_without_a_call_stall_the_run_which_is_still_checked(stage: Stage):
    task = stage.task({"text": "Hm."}, {"text": "Well."}, {"text": "So."}, test=UNSOLVED)
    result = stage.solve(task)
    assert (result.ending, result.outcome, result.exit_code, result.steps) == ("stalled", "unsolved", 1, 3)
    assert len(events(result.run_dir, ReplyNudged)) == 3
    assert len(events(result.run_dir, ChecksReturned)) == 1


def test_a_stalled_run_without_checks_ends_with_1(stage: Stage):
    script = stage.script(*[{"text": "Hm."}] * 3)
    (stage.root / "folder").mkdir()
    result = stage.solve(stage.root / "folder", "Do it.", model=script)
    assert (result.outcome, result.exit_code) == ("stalled", 1)


def test_two_calls_in_one_reply_do_neither(stage: Stage):
    task = stage.task(fails("two_calls", call="run_command", args={"command": "touch made"}), pop())
    result = stage.solve(task)
    assert result.changed == ()
    assert len(events(result.run_dir, CallRejected)) == 1


@pytest.mark.parametrize("fault", ["malformed", "no_call", "truncated", "refusal"])
def test_an_invalid_reply_is_a_fact_and_the_run_continues(stage: Stage, fault):
    result = stage.solve(stage.task(fails(fault), pop()))
    assert (result.outcome, result.steps) == ("solved", 2)
    assert len(events(result.run_dir, CallRejected, ReplyNudged)) == 1
    replay(result.run_dir)


def test_a_spent_constraint_closes_the_frame_and_then_pops_it(stage: Stage):
    task = stage.task(push(constraint="steps=1"), *[command("true")] * 5, pop("after"))
    result = stage.solve(task)
    assert result.outcome == "solved"
    assert [event.forced for event in events(result.run_dir, FramePopped)] == ["constraint", ""]
    assert {event.code for event in events(result.run_dir, CallRejected)} == {"constraint"}
    assert len(events(result.run_dir, CallRejected)) == 3
    replay(result.run_dir)


def test_a_full_window_closes_the_frame_and_then_pops_it(stage: Stage):
    large = command("head -c 5500 /dev/zero | tr '\\0' x")
    task = stage.task(push(), *[large] * 14, pop("after"))
    result = stage.solve(task, window_tokens=16_000)
    forced = [event.forced for event in events(result.run_dir, FramePopped)]
    assert forced[0] == "window"
    assert "window" in {event.code for event in events(result.run_dir, NoticeGiven)}
    assert result.outcome == "solved"
    replay(result.run_dir)


def test_a_verified_frame_carries_the_verdict_which_undoes_nothing(stage: Stage):
    task = stage.task(push(verify="echo seen; exit 3"), pop("inner"), pop("outer"))
    result = stage.solve(task)
    assert [event.outcome for event in events(result.run_dir, VerifyReturned)] == ["exit 3"]
    assert events(result.run_dir, FramePopped)[0].verified == "exit 3"
    assert (result.outcome, result.steps) == ("solved", 3)


def test_a_script_that_runs_dry_ends_the_run_unchecked_with_4(stage: Stage):
    result = stage.solve(stage.task(command("true")))
    assert (result.ending, result.outcome, result.exit_code) == ("model_error", "model_error", 4)
    assert "has no reply left: it has 1 reply" in result.failure
    assert events(result.run_dir, ChecksReturned) == []


def test_an_expectation_that_fails_tells_what_was_there(stage: Stage):
    task = stage.task({**pop(), "expect": {"depth": 3, "frame": "deep", "heap_has": "chunk"}})
    result = stage.solve(task)
    assert result.exit_code == 4
    assert "depth: expected 3, is 0" in result.failure
    assert "no chunk 'chunk'" in result.failure


class Clock:
    """A clock with preset readings; the last one is repeated."""

    def __init__(self, *seconds: float) -> None:
        self._seconds = list(seconds)

    def __call__(self) -> float:
        return self._seconds.pop(0) if len(self._seconds) > 1 else self._seconds[0]


class Files:
    """A workspace that answers everything, or fails like a sandbox."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def run_command(self, command: str, seconds: float, shown_bytes: int) -> ToolOutcome:
        if self._error:
            raise self._error
        return ToolOutcome("exit 0", failed=False, exit_code=0, reason="")

    def digest(self, path: str) -> str:
        return "unknown"


def played(
    script: str, recorded: list, *, limits=None, workspace=None, refuse_after: int | None = None, **world
) -> State:
    start = started(**({"limits": limits} if limits else {}))
    outside = Outside(
        model=ScriptedModel(parse_script(script)), workspace=workspace or Files(), checks=None,
        scrub=lambda text: text.replace("hunter22", "[secret]"), sync=lambda: None, command_seconds=30.0, **world,
    )  # fmt: skip

    def record(event, state):
        if refuse_after is not None and len(recorded) >= refuse_after:
            raise TraceError("the disk is full")
        recorded.append(event)

    return run(start, State(), AgentDecider(open_strategy("stackheap")), outside, record, Interrupts())


TRUE = "- {call: run_command, args: {command: 'true'}}\n"
POP = "- {call: pop_frame, args: {result: done}}\n"


def test_a_clock_that_jumps_back_takes_no_time_away():
    recorded: list = []
    limits = replace(started().limits, seconds=100)
    clock = Clock(50.0, 10.0, 90.0, 90.0)
    state = played("replies:\n" + TRUE * 3 + POP, recorded, limits=limits, clock=clock, started=20.0)
    readings = [event.elapsed_seconds for event in recorded if isinstance(event, ClockRead)]
    assert readings == [30.0, 0.0, 70.0, 70.0]
    assert (state.seconds, state.end.ending) == (70.0, "popped")


def test_a_clock_that_jumps_ahead_ends_a_run_with_a_limit_in_good_order():
    recorded: list = []
    limits = replace(started().limits, seconds=100)
    state = played("replies:\n" + TRUE * 3 + POP, recorded, limits=limits, clock=Clock(1.0, 1e9))
    assert state.end.ending == "limit:seconds"
    assert isinstance(recorded[-1], RunEnded)


def test_without_a_limit_in_seconds_no_clock_is_read():
    recorded: list = []
    played("replies:\n" + TRUE + POP, recorded, clock=Clock(float("nan")))
    assert not [event for event in recorded if isinstance(event, ClockRead)]


def test_a_sandbox_that_fails_ends_the_run_resumable_and_without_secrets():
    recorded: list = []
    state = played("replies:\n" + TRUE + POP, recorded, workspace=Files(WorkspaceError("no room for hunter22")))
    assert recorded[-1] == RunEnded("workspace_error", "no room for [secret]")
    assert state.outcome == "workspace_error"


def test_a_provider_is_asked_again_after_the_waits_and_given_up_after_six():
    recorded, slept = [], []
    state = played("replies:\n" + "- {fault: 529}\n" * 6, recorded, sleep=slept.append)
    assert state.end.ending == "model_error"
    assert len([event for event in recorded if isinstance(event, ModelFailed)]) == 6
    assert [full <= slept[at] <= full * 1.25 for at, full in enumerate([1, 2, 4, 8, 16])] == [True] * 5


def test_a_providers_requested_wait_is_limited_to_a_minute():
    recorded, slept = [], []
    script = "replies:\n- {fault: 429, retry_after_seconds: 7}\n- {fault: 429, retry_after_seconds: 3600}\n" + POP
    played(script, recorded, sleep=slept.append)
    assert 7 <= slept[0] <= 7 * 1.25
    assert 60 <= slept[1] <= 60 * 1.25


def test_the_trace_is_made_durable_before_each_request():
    order: list = []
    outside_sync = lambda: order.append("sync")  # noqa: E731 - a name for one line

    class Asked:
        def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
            order.append("ask")
            return ScriptedModel(parse_script("replies:\n" + TRUE + POP)).reply(request)

    world = Outside(model=Asked(), workspace=Files(), checks=None, scrub=str, sync=outside_sync, command_seconds=1.0)
    run(started(), State(), AgentDecider(open_strategy("stackheap")), world, lambda *_: None, Interrupts())
    assert order == ["sync", "ask"] * 2


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_nothing_is_done_after_a_fact_that_could_not_be_kept(kept):
    recorded: list = []
    with pytest.raises(TraceError, match="full"):
        played("replies:\n" + TRUE * 3 + POP, recorded, refuse_after=kept)
    assert len(recorded) == kept
