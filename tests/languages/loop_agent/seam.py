"""Plays agents event by event, with a clock and prices, for tests of replay and resume."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.facts import ClockRead, Event, ModelReplied, RunEnded, RunResumed
from stackmem.core.frames import partial_result
from stackmem.core.machine import evolve
from stackmem.core.messages import Text, Usage
from stackmem.core.program_facts import ProgramStarted, ToolAnswered, Waited
from stackmem.core.requests import AskModel, Effect, InvokeTool, Parallel, ReadClock, Wait
from stackmem.core.state import State
from stackmem.languages.loop_agent.language import start
from stackmem.languages.program import ProgramDecider
from stackmem.languages.running.opening import launch_of
from stackmem.memory import open_strategy
from stackmem.trace.record import Record
from stackmem.trace.verify import verify
from tests.build import PRICE, started

ONE_DOLLAR = Usage(output=500_000)  # at two dollars per million


class Clocked:
    """Plays an agent. Every completion takes ten seconds and costs a dollar; every tool call takes a second."""

    def __init__(self, agent: str, *replies: Any, price: Any = PRICE, tool: Any = None, limits: Any = None) -> None:
        self.text, self.replies, self.tool = agent, list(replies), tool or ToolAnswered("ok")
        self.now, self.waited, self.events = 0.0, list[float](), list[Event]()
        self.calls: list[InvokeTool] = []
        begun = ProgramStarted("loop_agent", "/w/main.agent.yaml", "d", {}, "/w")
        first = started(price=price, limits=limits or Limits(steps=None))
        launch = launch_of(begun, first, agent)
        self.program = ProgramDecider(
            begun, lambda: start(launch), open_strategy("stackheap"), open_strategy, self.text_of
        )
        self.state = State()
        for event in (first, begun):
            self.add(event)

    def text_of(self, digest: str) -> str:
        return self.text

    def add(self, event: Event) -> None:
        self.events.append(event)
        self.state = evolve(self.state, event)
        self.program.note(event, self.state)

    def play(self, facts: int = 1_000) -> Clocked:
        while len(self.events) < facts:
            upcoming = self.program.decide(self.state)
            if upcoming is None:
                return self
            if isinstance(upcoming, ReadClock):
                self.add(ClockRead(self.now))
            elif isinstance(upcoming, Parallel):
                for branch, effect in upcoming.branches:
                    self.add(self.answer(branch, effect))
            elif isinstance(upcoming, Effect):
                self.add(self.answer(None, upcoming))
            else:
                self.add(upcoming)
        return self

    def answer(self, branch: int | None, effect: Any) -> Event:
        match effect:
            case AskModel():
                self.now += 10
                more = {} if branch is None else {"branch": branch}
                said = (Text(json.dumps(self.replies.pop(0))),)
                return ModelReplied(said, "end", ONE_DOLLAR, prompt_digest=effect.view.digest, **more)
            case InvokeTool():
                self.now += 1
                self.calls.append(effect)
                return replace(self.tool, branch=branch or 0)
            case Wait():
                self.now += effect.seconds
                self.waited.append(effect.seconds)
                return Waited(effect.seconds)
        raise AssertionError(effect)

    def replayed(self) -> int:
        return verify([Record(at, 0.0, event) for at, event in enumerate(self.events, 1)], self.text_of).prompts

    def stopped_and_resumed(self) -> Clocked:
        """Stop here and resume as another process would, using only the events."""
        self.add(RunEnded("interrupted", partial_result(self.state)))
        again = verify([Record(at, 0.0, event) for at, event in enumerate(self.events, 1)], self.text_of)
        assert again.program is not None
        self.program, self.state = again.program, again.state
        self.add(RunResumed(self.state.limits, "memory", "0"))
        return self
