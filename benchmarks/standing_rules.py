"""Measure whether the user's rules hold over a day: days of requests with rules, corrections, questions and decoys.

    python benchmarks/standing_rules.py [--requests 200] [--days 3] [--seed 1]

A simulated user talks to a simulated agent in memory, without a model. The agent follows every rule that its prompt
shows and breaks every other one. It answers a question about an earlier request from its prompt, or with ``recall`` if
the conversation offers it. Costs are estimated from the prompts, with reads from the cache at a tenth of the price of
input. A careless agent never calls ``remember``.

The rivals with notes have no memory of stackmem. Their agent keeps the rules in one file, which it reads first in each
request, and what it found in another, which it searches. A careless one reads the rules in every other request.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from msgspec import Struct

from stackmem.core.budgets import Budgets, Limits
from stackmem.core.conversation.session import SESSION_TASK
from stackmem.core.facts import ContextCompacted, Event, ModelReplied, PromptText, RunStarted, ToolReturned
from stackmem.core.machine import advance, evolve
from stackmem.core.messages import Text, ToolCall, Usage, View
from stackmem.core.person_facts import PersonSaid, SessionRules
from stackmem.core.requests import AskModel, AskPerson, Compact, Effect, UseTool
from stackmem.core.state import State
from stackmem.core.text import fill
from stackmem.core.tool_schemas import prompt_slots, spec
from stackmem.core.tools import Recall, Remember
from stackmem.memory import open_strategy
from stackmem.run.prompts import prompt_text

OUTPUT_TOKENS = 150
STEPS = 4
"""Commands of an ordinary request."""
RULES = (
    "From now on, {}.", "Never {}.", "# {}", "{}, please.", "I prefer that you {}.", "For the whole day: {}.",
)  # fmt: skip
DECOYS = ("The test always fails on this machine.", "Why does it never return?", "It was never used before.")
THINGS = ["commit", "name", "test", "comment", "log", "cache", "parser", "table", "column", "margin"]


class Policy(Struct, frozen=True):
    name: str
    strategy: str
    rules: SessionRules
    careful: bool = True
    notes: bool = False  # whether the agent keeps the rules in a file


KEPT = SessionRules(index="brief", words="kept")
POLICIES = (
    Policy("frames, before", "stackheap", SessionRules(index="brief")),
    Policy("frames", "stackheap", KEPT),
    Policy("frames, careless agent", "stackheap", KEPT, careful=False),
    Policy("adaptive", "adaptive", KEPT),
    Policy("flat with summaries, before", "summary", SessionRules(policy="flat")),
    Policy("flat with summaries", "summary", SessionRules(policy="flat", words="kept")),
    Policy("flat, full", "full", SessionRules(policy="flat", words="kept")),
    Policy("frames, notes file", "stackheap", SessionRules(index="brief"), notes=True),
    Policy("frames, notes file, careless agent", "stackheap", SessionRules(index="brief"), careful=False, notes=True),
    Policy("flat with summaries, notes file", "summary", SessionRules(policy="flat"), notes=True),
)
READ_RULES, WRITE_RULES, SEARCH = "cat notes/rules.md", "edit notes/rules.md", "grep -h {name} notes/found.md"


class Said(Struct, frozen=True):
    """One message of the user, and what it means."""

    text: str
    rule: str = ""  # the words of a rule that it states
    replaces: str = ""  # the words of the rule that it contradicts
    asks: str = ""  # the answer to its question, which an earlier result gave
    query: str = ""  # the words that find that answer
    found: str = ""  # a fact that the result of the request states


def day(chance: random.Random, requests: int) -> list[Said]:
    """Return the messages of a day."""
    messages: list[Said] = []
    valid: list[str] = []
    facts: list[tuple[str, str]] = []
    for number in range(requests):
        kind = chance.random()
        if kind < 0.06 and len(valid) < 30:
            words = f"mark each {chance.choice(THINGS)} with {chance.randrange(10**6)}"
            valid.append(words)
            messages.append(Said(chance.choice(RULES).format(words), rule=words))
        elif kind < 0.09 and valid:
            old = valid.pop(chance.randrange(len(valid)))
            words = f"use {chance.randrange(10**6)} instead of {old.rsplit(' ', 1)[1]}"
            valid.append(words)
            messages.append(Said(f"No, from now on {words}.", rule=words, replaces=old))
        elif kind < 0.19 and facts:
            name, answer = chance.choice(facts)
            messages.append(Said(f"As we found out for {name}, what was its number?", asks=answer, query=name))
        elif kind < 0.24:
            messages.append(Said(chance.choice(DECOYS)))
        else:
            name, answer = f"item{number}{chance.choice(THINGS)}", str(chance.randrange(10**8))
            facts.append((name, answer))
            text = f"Look at {name} and mend what is wrong there. {'It matters to us. ' * 8}"
            messages.append(Said(text, found=f"The number of {name} is {answer}."))
    return messages


class Talk:
    """Plays one day under one policy.

    Attributes:
        broken: Rules that a prompt of the model lacked, counted once per request.
        missed: Questions that the agent could not answer.
        costs: Estimated cost of each request, in input tokens.
    """

    def __init__(self, policy: Policy, messages: list[Said]) -> None:
        self.policy, self.messages = policy, messages
        self.strategy = open_strategy(policy.strategy)
        self.state = State()
        self.broken = self.missed = self.asked = 0
        self.costs: list[float] = []
        self._valid: list[str] = []
        self._noted: list[str] = []  # the rules in the notes file
        self._wanted: list[str] = []  # the commands of the request that concern the notes
        self._number, self._step, self._works, self._lacks = -1, 0, 0, 0
        self._answered = False
        self._sent = ""

    def play(self) -> None:
        upcoming: Event | Effect | None = self._start()
        while upcoming is not None and not (isinstance(upcoming, AskPerson) and self._number + 1 == len(self.messages)):
            fact = self._fact(upcoming) if isinstance(upcoming, Effect) else upcoming
            self.state = evolve(self.state, fact)
            upcoming = advance(self.state, self.strategy)
        self._close()

    def _start(self) -> RunStarted:
        budgets = Budgets()
        slots = prompt_slots(budgets, 30.0)
        kept = (Remember, Recall) if self.policy.rules.words == "kept" else ()
        texts = tuple(PromptText(name, prompt_text(name)) for name in getattr(self.strategy, "texts", ()))
        return RunStarted(
            task=SESSION_TASK, task_name="day", model="simulated", strategy=self.strategy.name,
            system=fill(prompt_text(self.strategy.prompt), slots),
            tools=tuple(spec(tool, slots) for tool in (*self.strategy.tools, *kept)),
            workspace="/workspace", isolation="memory", network="none", budgets=budgets, limits=Limits(steps=None),
            window_tokens=200_000, price=None, checked=False, command_seconds=30.0, version="0", texts=texts,
            session=self.policy.rules,
        )  # fmt: skip

    def _fact(self, effect: Effect) -> Event:
        match effect:
            case AskPerson():
                return self._say()
            case AskModel():
                return self._reply(effect)
            case Compact():
                self._pay(effect.ask.view)
                return ContextCompacted(
                    effect.frame, effect.up_to_step, "Work went on.", Usage(), effect.ask.view.digest
                )
            case UseTool():
                return ToolReturned(self._output(getattr(effect.call, "command", "")), exit_code=0)
            case _:
                raise TypeError(f"the day has no answer to {type(effect).__name__}")

    def _output(self, command: str) -> str:
        message = self.messages[self._number]
        if command == READ_RULES:
            return "\n".join(self._noted)
        if command == WRITE_RULES:
            self._noted = [*(words for words in self._noted if words != message.replaces), message.rule]
            return ""
        if command == SEARCH.format(name=message.query):
            return next(each.found for each in self.messages if each.found and message.asks in each.found)
        return "a line of the output\n" * 40

    def _say(self) -> PersonSaid:
        self._close()
        self._number += 1
        message = self.messages[self._number]
        if message.replaces:
            self._valid.remove(message.replaces)
        if message.rule:
            self._valid.append(message.rule)
        self._step, self._works, self._lacks, self._answered = 0, 0, 0, False
        self.costs.append(0.0)
        return PersonSaid(message.text)

    def _close(self) -> None:
        """Count what went wrong in the request that has ended."""
        if self._number < 0:
            return
        self.broken += self._lacks
        if self.messages[self._number].asks:
            self.asked += 1
            self.missed += not self._answered

    def _reply(self, asked: AskModel) -> ModelReplied:
        message, text = self.messages[self._number], self._pay(asked.view)
        self._answered = self._answered or bool(message.asks and message.asks in text)
        self._step += 1
        note = self._note(message) if self.policy.notes else None
        call = note or self._call(message)
        if note is None:  # what reads and writes the notes does not break a rule
            self._lacks = max(self._lacks, sum(words not in text for words in self._valid))
        part = call or Text(message.found or "Done, as you said.")
        return ModelReplied((part,), "call" if call else "end", Usage(), asked.view.digest)

    def _note(self, message: Said) -> ToolCall | None:
        """Return the next call that reads or writes the notes, which come before the work."""
        if self._step == 1:
            reads = self._noted and (self.policy.careful or self._number % 2 == 0)
            self._wanted = [READ_RULES] if reads else []
            self._wanted += [WRITE_RULES] if message.rule else []
            self._wanted += [SEARCH.format(name=message.query)] if message.asks and not self._answered else []
        if self._step > len(self._wanted):
            return None
        return ToolCall(f"n{self.state.step}", "run_command", {"command": self._wanted[self._step - 1]})

    def _call(self, message: Said) -> ToolCall | None:
        """Return the next call of the request, or None if it is done."""
        session = self.state.session
        kept = self.policy.rules.words == "kept"
        if message.asks and not self._answered and kept and self._step == 1:
            return ToolCall(f"r{self.state.step}", "recall", {"query": message.query})
        if message.rule and kept and self.policy.careful and self._step == 1 and session is not None:
            replaced = [each.number for each in session.standing if message.replaces and message.replaces in each.text]
            known = any(message.rule in each.text for each in session.standing)
            if replaced or not known:
                arguments = {"words": message.rule, **({"replaces": replaced[-1]} if replaced else {})}
                return ToolCall(f"r{self.state.step}", "remember", arguments)
        if message.found and self._works < STEPS:
            self._works += 1
            return ToolCall(f"r{self.state.step}", "run_command", {"command": f"make part{self._works}"})
        return None

    def _pay(self, view: View) -> str:
        """Add the cost of a prompt, and return its text."""
        text = shown(view)
        cached = shared_start(text, self._sent)
        self._sent = text
        self.costs[-1] += (cached * 0.1 + (len(text) - cached) * 1.25) / 2.5 + OUTPUT_TOKENS * 5
        return text


def shared_start(one: str, other: str) -> int:
    """Return the number of characters with which both texts start."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def shown(view: View) -> str:
    """Return all text of a prompt."""
    texts = [view.system, *(tool.description + tool.schema for tool in view.tools)]
    for message in view.messages:
        texts += [part.text if hasattr(part, "text") else str(part) for part in message.parts]
    return "\n".join(texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(f"{given.days} days of {given.requests} requests")
    print("| policy | broken rules | missed answers | requests 41 to 60, input tokens each | per day |")
    print("|---|---:|---:|---:|---:|")
    for policy in POLICIES:
        talks = [Talk(policy, day(random.Random(given.seed + number), given.requests)) for number in range(given.days)]
        for talk in talks:
            talk.play()
        middle = [cost for talk in talks for cost in talk.costs[40:60]] or [0.0]
        print(
            f"| {policy.name} | {sum(talk.broken for talk in talks):,} "
            f"| {sum(talk.missed for talk in talks):,} of {sum(talk.asked for talk in talks):,} "
            f"| {sum(middle) / len(middle):,.0f} | {sum(sum(talk.costs) for talk in talks) / len(talks):,.0f} |"
        )


if __name__ == "__main__":
    main()
