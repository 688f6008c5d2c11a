"""``--max-seconds`` applies during a command, a verify command and a user's own tool."""

import signal
import time
from pathlib import Path

import pytest

from stackmem import RulesDiffer, UsageError, replay
from stackmem.core.facts import RunEnded, ToolReturned, VerifyReturned
from stackmem.run.interrupts import Interrupts, OutOfTime
from stackmem.settings.tools.own_tools import TOOLS, from_function
from tests.run.killed import resumed
from tests.stage import Reply, Stage, call, command, events, pop, push, rechain, records


def slow_tool() -> str:
    """Takes its time."""
    time.sleep(600)
    return "late"


UNLIMITED = {"name": None, "description": None, "parallel": False, "idempotent": False, "seconds": None}
SLOW: dict[str, list[Reply]] = {
    "a command": [command("sleep 600")],
    "a verify command": [push("child", verify="sleep 600"), pop("Part done.")],
    "a user's tool": [call("slow_tool")],
}


@pytest.mark.parametrize("replies", SLOW.values(), ids=SLOW.keys())
def test_the_limit_ends_what_is_under_way_and_the_run_is_judged(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, replies: list[Reply]
):
    monkeypatch.setitem(TOOLS, "slow_tool", from_function(slow_tool, **UNLIMITED))
    result = stage.solve(stage.task(*replies, pop("Done.")), max_seconds=1.5, command_seconds=900)
    assert (result.ending, result.outcome) == ("limit:seconds", "solved")
    assert events(result.run_dir, ToolReturned, VerifyReturned) == []
    assert replay(result.run_dir).outcome == "solved"


def test_a_run_whose_time_was_over_in_a_command_goes_on_with_more_of_it_and_repeats_the_command(stage: Stage):
    task = stage.task(command("sleep 600"), pop("Done."))
    run = Path(stage.solve(task, max_seconds=1.5, command_seconds=900).run_dir)
    with pytest.raises(UsageError, match="used up its limit of seconds; raise it"):
        resumed(run)
    result = resumed(run, max_seconds="+1").result
    assert (result.ending, events(run, ToolReturned)) == ("limit:seconds", [])
    assert result.wall_seconds >= 2.5
    assert replay(run).outcome == "solved"


def test_an_end_by_a_time_that_nobody_limited_follows_from_nothing(stage: Stage):
    run = Path(stage.solve(stage.task(command("true"), pop("Done."))).run_dir)
    (run / "result.json").unlink()
    begun, asked, *_ = records(run)
    forged = type(begun)(3, asked.at, RunEnded("limit:seconds", "partial"))
    rechain(run / "trace.jsonl", [begun, asked, forged])
    with pytest.raises(RulesDiffer):
        replay(run)


def test_the_end_of_the_time_interrupts_what_is_allowed_and_is_forgotten_where_it_is_taken_back():
    with Interrupts() as interrupts:
        interrupts.end_after(0.01)
        with pytest.raises(OutOfTime), interrupts.allowed():
            time.sleep(600)
        assert (interrupts.out_of_time, interrupts.signal) == (True, 0)
        interrupts.end_after(0.01)
        interrupts.end_after(None)
        with interrupts.allowed():
            time.sleep(0.05)
        interrupts.end_after(600)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
