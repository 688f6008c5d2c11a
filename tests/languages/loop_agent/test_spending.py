"""Dollar and second limits of sub-agents. Clock readings and prices are recorded as events and replayed."""

from __future__ import annotations

from typing import Any

import pytest

from stackmem.core.budgets import Limits
from stackmem.core.facts import ClockRead, FramePopped, ModelReplied
from stackmem.core.program_facts import Said, ToolAnswered

from .seam import Clocked
from .stage import ask, done, step, while_

INNER = "actions: [{name: Poll, tool: shell, retries: 3}], limits: {%s}"
AGENT = "name: boss\nprompt: p\nsub_agents: [{name: helper, inline: {name: helper, prompt: p, %s}}]\n"


def told(played: Clocked) -> str:
    """Return the helper's result that the boss received."""
    return next(event.result for event in played.events if isinstance(event, FramePopped))


def helper(limits: str, *replies: Any, **more: Any) -> Clocked:
    agent = AGENT % (INNER % limits)
    return Clocked(agent, ask("helper"), *replies, done(), **more).play()


POLL = step("Actions", actions=[{"name": "Poll", "params": {"command": "true"}}])


def test_a_sub_agent_that_has_used_its_seconds_ends_before_its_next_turn():
    played = helper("seconds: 15", POLL, POLL)
    assert told(played) == "helper has used 22.0 of its 15.0 seconds"
    assert played.state.outcome == "finished"
    assert played.replayed() == 4


def test_a_sub_agent_that_has_used_its_dollars_ends_before_its_next_turn():
    played = helper("usd: 1.5", POLL, POLL)
    assert told(played) == "helper has used 2.0000 of its 1.5000 USD"
    assert not [event for event in played.events if isinstance(event, ClockRead)]
    assert played.replayed() == 4


def test_limits_count_from_when_it_was_asked_and_each_time_anew():
    agent = AGENT % (INNER % "usd: 1.5, seconds: 15")
    played = Clocked(agent, ask("helper"), done(), ask("helper"), done(), ask("helper"), done(), done()).play()
    assert (played.state.outcome, played.replies) == ("finished", [])
    assert played.replayed() == 7


def test_a_wait_that_outlasts_the_seconds_is_not_begun():
    polls = while_("true", delayBetweenIterationsMs=60_000, action={"name": "Poll", "params": {"command": "true"}})
    played = helper("seconds: 30", polls)
    assert told(played) == "helper has used 11.0 of its 30.0 seconds, and was to wait 60.0 more"
    assert played.waited == []
    assert played.replayed() == 3


def test_a_loop_is_looked_at_before_each_iteration():
    polls = while_("true", action={"name": "Poll", "params": {"command": "true"}})
    played = helper("seconds: 14", polls)
    assert told(played) == "helper has used 14.0 of its 14.0 seconds"
    assert sum(isinstance(event, ToolAnswered) for event in played.events) == 4


def test_a_repetition_that_would_outlast_the_seconds_is_not_waited_for():
    played = helper("seconds: 14", POLL, tool=ToolAnswered(None, "error", "no"))
    assert told(played) == "helper has used 13.0 of its 14.0 seconds, and was to wait 2.0 more"
    assert played.waited == [1.0]


def test_what_a_sub_agent_asks_of_others_counts_and_is_held_to_it_too():
    inner = "sub_agents: [{name: third, inline: {name: third, prompt: p, %s}}], limits: {seconds: 25}"
    played = Clocked(AGENT % (inner % (INNER % "")), ask("helper"), ask("third"), POLL, POLL, done()).play()
    results = [event.result for event in played.events if isinstance(event, FramePopped)]
    assert results[:2] == ["helper has used 32.0 of its 25.0 seconds"] * 2
    assert played.replayed() == 5


def test_side_by_side_each_has_its_own_seconds_and_dollars_keep_them_apart():
    loop = step("ForEach", forEach={
        "collectionPath": "static:[1, 2]", "executionMode": "parallel", "subAgent": {"name": "helper", "message": "m"},
    })  # fmt: skip
    together = Clocked(AGENT % "limits: {seconds: 15}", loop, done(), done(), done()).play()
    apart = Clocked(AGENT % "limits: {usd: 1.5}", loop, done(), done(), done()).play()
    branches = [[event.branch for event in played.events if isinstance(event, ModelReplied)][1:3]
                for played in (together, apart)]  # fmt: skip
    assert branches[0] == [0, 1]
    assert branches[1] != [0, 1]
    assert together.state.outcome == apart.state.outcome == "finished"
    assert together.replayed() == apart.replayed() == 4


def test_dollars_that_cannot_be_counted_are_said_once():
    agent = AGENT % (INNER % "usd: 0.5")
    played = Clocked(agent, ask("helper"), POLL, POLL, done(), ask("helper"), POLL, done(), done(), price=None).play()
    said = [event.text for event in played.events if isinstance(event, Said)]
    assert said.count("helper cannot be held to its 0.5000 USD: the price of the model is not known.") == 1
    assert played.state.outcome == "finished"
    assert played.replayed() == 8


def test_the_limits_of_the_agent_that_is_run_are_the_runs_and_not_looked_at_twice():
    played = Clocked("name: a\nprompt: p\nlimits: {seconds: 1, usd: 0.1}\n", POLL, done()).play()
    assert played.state.outcome == "finished"
    assert not [event for event in played.events if isinstance(event, ClockRead)]


@pytest.mark.parametrize("facts", range(4, 16))
def test_a_run_that_stops_anywhere_goes_on_with_a_look_at_the_clock_and_replays(facts):
    limits = Limits(steps=None, seconds=1_000) if facts % 2 else None
    played = Clocked(AGENT % (INNER % "seconds: 15"), ask("helper"), POLL, POLL, done(), limits=limits).play(facts)
    assert played.stopped_and_resumed().play().state.outcome == "finished"
    assert "of its 15.0 seconds" in told(played)
    assert played.replayed() == 4
