"""What can be wrong with a workflow.

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

from stackmem.errors import ProgramError


class SexpSyntaxError(ProgramError, ValueError):
    """A source that is no S-expression.

    Attributes:
        sexp_string: The source.
        error_details: What is wrong, in one sentence.
        line, column: Of the place, from 1.

    """

    def __init__(
        self, message: str, sexp_string: str = "", error_details: str = "", place: Place | None = None
    ) -> None:
        self.message = message
        self.sexp_string = sexp_string
        self.error_details = error_details or message
        self.place = place or Place("", 1, 1, "")
        super().__init__(f"{message}\n{self.place.shown}" if place else message)

    @property
    def line(self) -> int:
        return self.place.line

    @property
    def column(self) -> int:
        return self.place.column


class Place:
    """A place in a source, and its line."""

    __slots__ = ("column", "line", "path", "text")

    def __init__(self, path: str, line: int, column: int, text: str) -> None:
        self.path, self.line, self.column, self.text = path, line, column, text

    @classmethod
    def of(cls, path: str, source: str, at: int) -> Place:
        """Of the character ``at``."""
        start = source.rfind("\n", 0, at) + 1
        end = source.find("\n", at)
        text = source[start : end if end >= 0 else len(source)]
        return cls(path, source.count("\n", 0, at) + 1, at - start + 1, text)

    @property
    def shown(self) -> str:
        """``path:line:column``, the line, and a caret under the place."""
        begin = max(0, self.column - 1 - 80)
        line = "".join(char if char.isprintable() else " " for char in self.text[begin : begin + 120])
        caret = " " * (self.column - 1 - begin) + "^"
        return f"{self.path or '<string>'}:{self.line}:{self.column}\n    {line}\n    {caret}"


class Places:
    """Line and column of characters of one source, of which many are asked for."""

    def __init__(self, source: str) -> None:
        self._ends = [found.start() for found in re.finditer("\n", source)]

    def of(self, at: int) -> tuple[int, int]:
        """Of the character ``at``, both from 1."""
        line = bisect_left(self._ends, at)
        return line + 1, at - (self._ends[line - 1] if line else -1)


class SexpEvaluationError(ProgramError):
    """An expression that cannot be evaluated.

    Attributes:
        message: One sentence.
        expression: The source of the innermost expression that is known.
        error_details: What lies below, empty where nothing does.
        place: Where it stands; None until it is known.

    """

    def __init__(self, message: str, expression: str = "", error_details: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.expression = expression
        self.error_details = error_details
        self.place: Place | None = None

    def located(self, place: Place, expression: str) -> SexpEvaluationError:
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
        return f"{text}\n{self.place.shown}" if self.place else text


class UnboundSymbolError(SexpEvaluationError, NameError):
    """A symbol that nothing binds.

    Attributes:
        symbol: Its name, where its value was wanted; empty where it was to be called or set.

    """

    def __init__(self, message: str, symbol: str = "") -> None:
        super().__init__(message)
        self.symbol = symbol


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


def told(error: BaseException) -> str:
    """A stranger's exception in one line."""
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
