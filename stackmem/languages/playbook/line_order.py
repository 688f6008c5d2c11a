"""A playbook's lines by their numbers: looked up, never searched for, so that long playbooks cost no more per line."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from msgspec import Struct

Number = tuple[int, ...]
"""A line's place: ``02.01`` is ``(2, 1)``; leading zeros say nothing."""

_LOOP = re.compile(r"\s*(?:while|for|until|repeat|loop)\b", re.I)
_TARGET = re.compile(r"(?:^|[\s:])(\d{1,9}(?:\.\d{1,9}){0,19})\b")


class StepLine(Struct, frozen=True):
    """One line under ``### Steps``.

    Attributes:
        label: Its number as it was written, such as ``02.01``.
        text: What it says, without number and code.
        line: In the file, from 1.

    """

    number: Number
    label: str
    code: str
    text: str
    line: int


def number_of(label: str) -> Number:
    """``02.01`` as ``(2, 1)``."""
    return tuple(int(part) for part in label.split("."))


def target_of(step: StepLine) -> Number | None:
    """Where a JMP leads."""
    found = _TARGET.search(step.text) if step.code == "JMP" else None
    return number_of(found[1]) if found else None


class _Block:
    """The lines that stand directly in one line, in the order of the file."""

    def __init__(self) -> None:
        self.numbers: list[Number] = []
        self.highest: list[Number] = []  # of the numbers up to each

    def add(self, number: Number) -> None:
        self.numbers.append(number)
        self.highest.append(max(number, self.highest[-1]) if self.highest else number)

    def above(self, number: Number) -> Number | None:
        """The first line with a higher number; ``number`` itself is none of the block."""
        index = bisect_right(self.highest, number)
        return self.numbers[index] if index < len(self.numbers) else None


class LineOrder:
    """The lines of one playbook.

    Attributes:
        place: Number to its index among the steps.

    """

    def __init__(self, steps: tuple[StepLine, ...]) -> None:
        self.steps = steps
        self.place = {step.number: index for index, step in enumerate(steps)}

    @cached_property
    def _blocks(self) -> dict[Number, _Block]:
        """Number around them to the lines inside."""
        found: dict[Number, _Block] = {}
        for step in self.steps:
            found.setdefault(step.number[:-1], _Block()).add(step.number)
        return found

    @cached_property
    def _following(self) -> dict[Number, Number]:
        """A line to the next one of its block."""
        return {
            number: behind
            for block in self._blocks.values()
            for number, behind in zip(block.numbers, block.numbers[1:], strict=False)
        }

    @cached_property
    def _loops(self) -> frozenset[Number]:
        """The heads of loops: those that say so, and those that a JMP of their block leads back to."""
        said = {
            step.number for step in self.steps if step.code == "LOP" or (step.code == "CND" and _LOOP.match(step.text))
        }
        for step in self.steps:
            target = target_of(step)
            if target and step.number[: len(target)] == target and target in self.place:
                said.add(target)
        return frozenset(said)

    def step(self, number: Number) -> StepLine | None:
        index = self.place.get(number)
        return None if index is None else self.steps[index]

    def first_inside(self, number: Number) -> Number | None:
        block = self._blocks.get(number)
        return block.numbers[0] if block else None

    def next_beside(self, number: Number) -> Number | None:
        """The next line of the same block; of a number that is no line, the first one above it."""
        if number in self.place:
            return self._following.get(number)
        block = self._blocks.get(number[:-1])
        return block.above(number) if block else None

    def is_loop(self, number: Number) -> bool:
        return number in self._loops
