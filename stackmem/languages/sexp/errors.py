"""Errors of workflows, and the budget of an evaluation.

::

    SexpSyntaxError      a source that cannot be parsed; also a ValueError
    SexpEvaluationError  an expression that cannot be evaluated
    └── UnboundSymbolError   a name without a value; also a NameError
    TaskError            an error of a collaborator, a spent budget or a limit; ``try`` never catches it
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Any

from msgspec import Struct

from stackmem.core.errors import ProgramError

from ..frame.bounds import DIGITS, TEXT_CHARS


class SexpSyntaxError(ProgramError, ValueError):
    """A source that is not a valid S-expression.

    Attributes:
        line, column: The position, counted from 1.
    """

    def __init__(
        self, message: str, sexp_string: str = "", error_details: str = "", position: SourcePlace | None = None
    ) -> None:
        self.message = message
        self.sexp_string = sexp_string  # the source
        self.error_details = error_details or message  # what is wrong, in one sentence
        self.position = position or SourcePlace("", 1, 1, "")
        super().__init__(f"{message}\n{self.position.excerpt}" if position else message)

    @property
    def line(self) -> int:
        return self.position.line

    @property
    def column(self) -> int:
        return self.position.column


class SourcePlace:
    """A position in a source, with its line."""

    __slots__ = ("column", "line", "path", "text")

    def __init__(self, path: str, line: int, column: int, text: str) -> None:
        self.path, self.line, self.column, self.text = path, line, column, text

    @classmethod
    def of(cls, path: str, source: str, at: int) -> SourcePlace:
        """Return the place of the character at index ``at``."""
        start = source.rfind("\n", 0, at) + 1
        end = source.find("\n", at)
        text = source[start : end if end >= 0 else len(source)]
        return cls(path, source.count("\n", 0, at) + 1, at - start + 1, text)

    @property
    def excerpt(self) -> str:
        """``path:line:column``, the source line, and a caret under the column."""
        begin = max(0, self.column - 1 - 80)
        line = "".join(char if char.isprintable() else " " for char in self.text[begin : begin + 120])
        caret = " " * (self.column - 1 - begin) + "^"
        return f"{self.path or '<string>'}:{self.line}:{self.column}\n    {line}\n    {caret}"


class LineIndex:
    """Fast lookup of line and column for many positions in one source."""

    def __init__(self, source: str) -> None:
        self._ends = [match.start() for match in re.finditer("\n", source)]

    def of(self, at: int) -> tuple[int, int]:
        """Return line and column of the character at index ``at``, both counted from 1."""
        line = bisect_left(self._ends, at)
        return line + 1, at - (self._ends[line - 1] if line else -1)


class SexpEvaluationError(ProgramError):
    """An expression that cannot be evaluated."""

    def __init__(self, message: str, expression: str = "", error_details: str = "") -> None:
        super().__init__(message)
        self.message = message  # one sentence
        self.expression = expression  # source text of the innermost known expression
        self.error_details = error_details  # the underlying error, if any
        self.position: SourcePlace | None = None  # its position; None until known

    def locate(self, position: SourcePlace, expression: str) -> SexpEvaluationError:
        """Set the position, unless it is already set."""
        if self.position is None:
            self.position = position
            self.expression = self.expression or expression
        return self

    def __str__(self) -> str:
        text = self.message
        if self.expression:
            text += f"\nExpression: '{self.expression}'"
        if self.error_details:
            text += f"\nDetails: {self.error_details}"
        return f"{text}\n{self.position.excerpt}" if self.position else text


class UnboundSymbolError(SexpEvaluationError, NameError):
    """A symbol that is not bound."""

    def __init__(self, message: str, symbol: str = "") -> None:
        super().__init__(message)
        self.symbol = symbol  # name of the symbol if its value was read; empty if it was called or set


def unbound_symbol(error: BaseException | None) -> str | None:
    """Return the ``symbol`` of the unbound symbol that caused an error; None if there is none."""
    while error is not None and not isinstance(error, UnboundSymbolError):
        error = error.__cause__
    return error.symbol if error is not None else None


class TaskError(ProgramError):
    """An error that no expression can catch: a collaborator's error, a spent budget, or a limit of the run.

    Attributes:
        type: ``RESOURCE_EXHAUSTION``, ``TASK_FAILURE``, ``INVALID_OUTPUT`` or ``VALIDATION_ERROR``.
        reason: The limit that ran out, or the cause of the failure.
    """

    def __init__(self, kind: str, message: str, reason: str = "", details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.type, self.message, self.reason = kind, message, reason
        self.details = details or {}
        # position of the failed top-level expression; None until known
        self.position: SourcePlace | None = None


def error_line(error: BaseException) -> str:
    """Format an exception from outside code on one line."""
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class Budget(Struct, frozen=True):
    """Limits of an evaluation."""

    steps: int = 1_000_000  # evaluated nodes, including atoms
    depth: int = 1_000  # nested calls of closures
    text: int = 10_000_000  # characters of one text
    digits: int = DIGITS  # decimal digits of one integer
    items: int = 1_000_000  # items of one list
    nested: int = 1_000  # levels of a value that is quoted, passed in or out, or returned
    source: int = TEXT_CHARS  # characters of one source


BREATH = 2_000_000
"""Number of steps between two pauses; they take about a second or two."""


class Meter:
    """The usage of one evaluation."""

    __slots__ = ("_breath", "budget", "steps")

    def __init__(self, budget: Budget) -> None:
        self.budget, self.steps = budget, 0
        self._breath = BREATH

    def needs_breath(self) -> bool:
        """Return whether enough steps have passed to let the user stop the evaluation."""
        if self.steps < self._breath:
            return False
        self._breath = self.steps + BREATH
        return True

    def charge(self, steps: int) -> None:
        """Charge extra steps, for operations whose cost depends on the length of lists and texts.

        Raise TaskError if the steps are used up.
        """
        self.steps += steps
        if self.steps > self.budget.steps:
            raise exhaustion("steps", self.budget.steps, "evaluation steps")


def exhaustion(limit: str, most: int, word: str) -> TaskError:
    """Return the error for a spent budget. ``limit`` is the name of the limit."""
    return TaskError("RESOURCE_EXHAUSTION", f"The evaluation takes more than {most:,} {word}.", limit)


def within_budget(value: Any, budget: Budget) -> Any:
    """Return the number or list if it is within the budget, otherwise raise."""
    if isinstance(value, int):
        if value.bit_length() > budget.digits * 3.33:
            raise exhaustion("digits", budget.digits, "digits in one number")
    elif isinstance(value, list) and len(value) > budget.items:
        raise exhaustion("items", budget.items, "items in one list")
    return value
