"""Finds the phases of a flat run: after a stated sub-goal, when tests turn green, or every so many steps.

A rule uses only what was known at that step and never looks ahead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from stackmem.core.facts import ModelReplied, ToolReturned
from stackmem.core.messages import Text, ToolCall

from .foreign_tools import runs_tests, shows_failure
from .moments import Moment

Rule = Literal["boundaries", "sub-goals", "green", "fixed"]

_SUB_GOAL = re.compile(
    r"\b(?:now|next|first|finally|lastly|step \d+|moving on|the (?:next|final|last) step|let's (?:start|begin|move on)|"
    r"with (?:that|this) (?:done|fixed|in place)|time to)\b",
    re.IGNORECASE,
)
_OPENING_CHARS = 120


class FlatStep(Struct, frozen=True):
    """A reply with everything that followed it until the next one."""

    reply: Moment
    rest: tuple[Moment, ...]

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        event = self.reply.event
        parts = event.parts if isinstance(event, ModelReplied) else ()
        return tuple(part for part in parts if isinstance(part, ToolCall))

    @property
    def text(self) -> str:
        """The text of the reply outside its calls."""
        event = self.reply.event
        parts = event.parts if isinstance(event, ModelReplied) else ()
        return "\n".join(part.text for part in parts if isinstance(part, Text)).strip()

    def answers(self) -> Iterator[tuple[ToolCall, Moment]]:
        """Yield each call with the moment of its result."""
        results = [moment for moment in self.rest if isinstance(moment.event, ToolReturned)]
        yield from zip(self.calls, results, strict=False)


class PhaseRule(Struct, frozen=True):
    """The way in which a flat run is divided."""

    rule: Rule = "boundaries"
    # least, most: steps of a phase; equal for a fixed length
    least: int = 8
    most: int = 40


def steps_of(run: Sequence[Moment]) -> tuple[tuple[Moment, ...], tuple[FlatStep, ...]]:
    """Return the moments before the first reply, and the steps."""
    starts = [index for index, moment in enumerate(run) if isinstance(moment.event, ModelReplied)]
    ends = [*starts[1:], len(run)] if starts else []
    steps = tuple(FlatStep(run[at], tuple(run[at + 1 : end])) for at, end in zip(starts, ends, strict=True))
    return tuple(run[: starts[0]] if starts else run), steps


def phases(steps: Sequence[FlatStep], rule: PhaseRule, first: int = 0) -> list[range]:
    """Return the steps of each phase, from number ``first`` on.

    The last step is not in a phase, because it ends the run. A remainder of one step is not in a phase either.
    """
    begins = beginnings(steps, rule.rule)
    ranges, start, end = [], first, len(steps) - 1
    while start < end:
        stop = next(
            (at for at in range(start + rule.least, min(start + rule.most, end)) if at in begins),
            min(start + rule.most, end),
        )
        if stop - start > 1:
            ranges.append(range(start, stop))
        start = stop
    return ranges


def beginnings(steps: Sequence[FlatStep], rule: Rule) -> frozenset[int]:
    """Return the steps before which a piece of work ends, as far as the recording shows it until then."""
    starts = set[int]()
    red = False
    for number, step in enumerate(steps):
        if rule in ("boundaries", "sub-goals") and _SUB_GOAL.search(step.text[:_OPENING_CHARS]):
            starts.add(number)
        for call, moment in step.answers():
            event = moment.event
            if not runs_tests(call) or not isinstance(event, ToolReturned):
                continue
            failed = event.failed or shows_failure(event.text)
            if red and not failed and rule in ("boundaries", "green"):
                starts.add(number + 1)
            red = failed
    return frozenset(starts)
