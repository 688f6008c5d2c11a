"""Plays agents in memory. Replies, tool results and users are plain values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from stackmem.core.messages import ToolSpec, Usage
from stackmem.core.requests import AskUser, InvokeTool
from stackmem.languages.language import Launch
from stackmem.languages.loop_agent.language import start
from stackmem.languages.operations import Complete, Completion, ToolAnswer
from tests.languages.in_memory import Done, run_in_memory

Tool = Callable[[InvokeTool], ToolAnswer]
OWN = tuple(ToolSpec(name, "A tool of my own.", '{"type": "object"}') for name in ("fetch", "poll", "flaky"))
PATH = "/w/main.agent.yaml"
AGENT = """
name: tester
prompt: Do it.
actions:
  - {name: Fetch Page, tool: fetch, parallel: true}
  - {name: Poll, tool: poll}
"""


class Played(Struct):
    """The outcome of an agent.

    Attributes:
        asked: Every completion, in order.
        calls: Every tool call, in order.
        questions: The questions to the user.
    """

    done: Done
    asked: list[Complete]
    calls: list[InvokeTool]
    questions: list[str]

    @property
    def value(self) -> Any:
        return self.done.value

    @property
    def halted(self) -> tuple[str, str]:
        assert self.done.halted is not None, self.done.value
        return self.done.halted.kind, self.done.halted.report

    def prompt(self, number: int) -> str:
        """Return the complete prompt of one completion."""
        return "\n".join(part.text for message in self.asked[number].messages for part in message.parts)

    @property
    def last(self) -> str:
        return self.prompt(-1)


def play(
    *replies: Any,
    agent: str = AGENT,
    tool: Tool | None = None,
    answers: tuple[str, ...] = (),
    sources: dict[str, str] | None = None,
    inputs: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
) -> Played:
    """Run an agent. A reply is an object, a text, or a ``Completion``."""
    left, told = iter(replies), iter(answers)
    played = Played(Done(None, [], [], None, {}), [], [], [])

    def answer(effect: Any) -> Any:
        match effect:
            case Complete():
                played.asked.append(effect)
                return _completion(left)
            case InvokeTool():
                played.calls.append(effect)
                return tool(effect) if tool else ToolAnswer({"got": effect.arguments})
            case AskUser():
                played.questions.append(effect.question)
                return next(told)
        raise AssertionError(effect)

    launch = Launch(PATH, agent, inputs or {}, "/w", "/w", options or {}, OWN)
    played.done = run_in_memory(start(launch), answer, sources)
    return played


def _completion(left: Iterator[Any]) -> Completion:
    reply = next(left)
    if isinstance(reply, Completion):
        return reply
    return Completion(reply if isinstance(reply, str) else json.dumps(reply), usage=Usage(uncached=10, output=5))


def done(message: str = "done", **more: Any) -> dict[str, Any]:
    return {"taskComplete": True, "message": message, **more}


def step(kind: str, **more: Any) -> dict[str, Any]:
    return {"nextStep": {"type": kind, **more}}


def actions(*names: str, **params: Any) -> dict[str, Any]:
    return step("Actions", actions=[{"name": name, "params": params} for name in names])


def for_each(**more: Any) -> dict[str, Any]:
    return step("ForEach", forEach={"collectionPath": "items", "action": {"name": "Fetch Page"}, **more})


def while_(condition: str, **more: Any) -> dict[str, Any]:
    return step("While", **{"while": {"condition": condition, "action": {"name": "Poll"}, **more}})


def ask(name: str, message: str = "please", **more: Any) -> dict[str, Any]:
    return step("Sub-Agent", subAgent={"name": name, "message": message, **more})


def change(**words: Any) -> dict[str, Any]:
    return {"payloadChangeRequest": words}
