"""What an evaluation may use; beyond it is a ``TaskError``, which nothing in the language catches."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from .errors import TaskError


class Budget(Struct, frozen=True):
    """How much each thing may be.

    Attributes:
        steps: Nodes evaluated, atoms among them.
        depth: Calls of closures within each other.
        text: Characters of one text.
        digits: Decimal digits of one integer.
        items: Of one list.
        nested: Levels of one value that is quoted, given from outside, handed on or returned.
        source: Characters of one source.

    """

    steps: int = 1_000_000
    depth: int = 1_000
    text: int = 10_000_000
    digits: int = 10_000
    items: int = 1_000_000
    nested: int = 1_000
    source: int = 1_000_000


BREATH = 2_000_000
"""Steps, less than a second or two of them."""


class Meter:
    """What one evaluation has used of its budget."""

    __slots__ = ("_breath", "budget", "steps")

    def __init__(self, budget: Budget) -> None:
        self.budget, self.steps = budget, 0
        self._breath = BREATH

    def needs_breath(self) -> bool:
        """Whether so much was done since the last time that somebody may want to stop it."""
        if self.steps < self._breath:
            return False
        self._breath = self.steps + BREATH
        return True

    def charge(self, steps: int) -> None:
        """Count work that is more than a node's: long lists and texts cost what their length costs.

        Raises:
            TaskError: The steps are used up.

        """
        self.steps += steps
        if self.steps > self.budget.steps:
            raise exhausted("steps", self.budget.steps, "evaluation steps")


def exhausted(what: str, most: int, word: str) -> TaskError:
    """What a spent budget is; ``what`` is its name here."""
    return TaskError("RESOURCE_EXHAUSTION", f"The evaluation takes more than {most:,} {word}.", what)


def checked(value: Any, budget: Budget) -> Any:
    """The number or the list, where it is within the budget."""
    if isinstance(value, int):
        if value.bit_length() > budget.digits * 3.33:
            raise exhausted("digits", budget.digits, "digits in one number")
    elif isinstance(value, list) and len(value) > budget.items:
        raise exhausted("items", budget.items, "items in one list")
    return value
