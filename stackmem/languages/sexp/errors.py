"""What can be wrong with a workflow, and what an evaluation may use before it is wrong, too.

::

    SexpSyntaxError      a source that cannot be read; a ValueError
    SexpEvaluationError  an expression that cannot be evaluated
    └── UnboundSymbolError   a name without a value; a NameError, too
    TaskError            a collaborator's, a spent budget or limit: no ``try`` catches it
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Any

from msgspec import Struct

from stackmem.errors import ProgramError


class SexpSyntaxError(ProgramError, ValueError):
    """A source that is no S-expression.

    Attributes:
        line, column: Of the place, from 1.
    """

    def __init__(
        self, message: str, sexp_string: str = "", error_details: str = "", place: SourcePlace | None = None
    ) -> None:
        self.message = message
        self.sexp_string = sexp_string  # the source
        self.error_details = error_details or message  # what is wrong, in one sentence
        self.place = place or SourcePlace("", 1, 1, "")
        super().__init__(f"{message}\n{self.place.excerpt}" if place else message)

    @property
    def line(self) -> int:
        return self.place.line

    @property
    def column(self) -> int:
        return self.place.column


class SourcePlace:
    """A place in a source, and its line."""

    __slots__ = ("column", "line", "path", "text")

    def __init__(self, path: str, line: int, column: int, text: str) -> None:
        self.path, self.line, self.column, self.text = path, line, column, text

    @classmethod
    def of(cls, path: str, source: str, at: int) -> SourcePlace:
        """Of the character ``at``."""
        start = source.rfind("\n", 0, at) + 1
        end = source.find("\n", at)
        text = source[start : end if end >= 0 else len(source)]
        return cls(path, source.count("\n", 0, at) + 1, at - start + 1, text)

    @property
    def excerpt(self) -> str:
        """``path:line:column``, the line, and a caret under the place."""
        begin = max(0, self.column - 1 - 80)
        line = "".join(char if char.isprintable() else " " for char in self.text[begin : begin + 120])
        caret = " " * (self.column - 1 - begin) + "^"
        return f"{self.path or '<string>'}:{self.line}:{self.column}\n    {line}\n    {caret}"


class LineIndex:
    """Line and column of characters of one source, of which many are asked for."""

    def __init__(self, source: str) -> None:
        self._ends = [found.start() for found in re.finditer("\n", source)]

    def of(self, at: int) -> tuple[int, int]:
        """Of the character ``at``, both from 1."""
        line = bisect_left(self._ends, at)
        return line + 1, at - (self._ends[line - 1] if line else -1)


class SexpEvaluationError(ProgramError):
    """An expression that cannot be evaluated."""

    def __init__(self, message: str, expression: str = "", error_details: str = "") -> None:
        super().__init__(message)
        self.message = message  # one sentence
        self.expression = expression  # the source of the innermost expression that is known
        self.error_details = error_details  # what lies below, empty where nothing does
        self.place: SourcePlace | None = None  # where it stands; None until it is known

    def locate(self, place: SourcePlace, expression: str) -> SexpEvaluationError:
        """Told where it happened, unless it knows already."""
        if self.place is None:
            self.place = place
            self.expression = self.expression or expression
        return self

    def __str__(self) -> str:
        text = self.message
        if self.expression:
            text += f"\nExpression: '{self.expression}'"
        if self.error_details:
            text += f"\nDetails: {self.error_details}"
        return f"{text}\n{self.place.excerpt}" if self.place else text


class UnboundSymbolError(SexpEvaluationError, NameError):
    """A symbol that nothing binds."""

    def __init__(self, message: str, symbol: str = "") -> None:
        super().__init__(message)
        self.symbol = symbol  # its name, where its value was wanted; empty where it was to be called or set


def unbound_symbol(error: BaseException | None) -> str | None:
    """The ``symbol`` of the unbound one that an error comes from; None where it comes from none."""
    while error is not None and not isinstance(error, UnboundSymbolError):
        error = error.__cause__
    return error.symbol if error is not None else None


class TaskError(ProgramError):
    """What no expression can catch: a collaborator's error, a spent budget, a limit of the run.

    Attributes:
        type: ``RESOURCE_EXHAUSTION``, ``TASK_FAILURE``, ``INVALID_OUTPUT`` or ``VALIDATION_ERROR``.
        reason: What ran out, or why.
    """

    def __init__(self, kind: str, message: str, reason: str = "", details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.type, self.message, self.reason = kind, message, reason
        self.details = details or {}
        # of the expression at the top of a source that it ended; None until it is known
        self.place: SourcePlace | None = None


def error_line(error: BaseException) -> str:
    """A stranger's exception in one line."""
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class Budget(Struct, frozen=True):
    """How much each thing may be."""

    steps: int = 1_000_000  # nodes evaluated, atoms among them
    depth: int = 1_000  # calls of closures within each other
    text: int = 10_000_000  # characters of one text
    digits: int = 10_000  # decimal digits of one integer
    items: int = 1_000_000  # of one list
    nested: int = 1_000  # levels of one value that is quoted, given from outside, handed on or returned
    source: int = 1_000_000  # characters of one source


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
        """Count work that is more than a node's: long lists and texts cost what their length costs."""
        self.steps += steps
        if self.steps > self.budget.steps:
            raise exhaustion("steps", self.budget.steps, "evaluation steps")


def exhaustion(what: str, most: int, word: str) -> TaskError:
    """What a spent budget is; ``what`` is its name here."""
    return TaskError("RESOURCE_EXHAUSTION", f"The evaluation takes more than {most:,} {word}.", what)


def within_budget(value: Any, budget: Budget) -> Any:
    """The number or the list, where it is within the budget."""
    if isinstance(value, int):
        if value.bit_length() > budget.digits * 3.33:
            raise exhaustion("digits", budget.digits, "digits in one number")
    elif isinstance(value, list) and len(value) > budget.items:
        raise exhaustion("items", budget.items, "items in one list")
    return value
