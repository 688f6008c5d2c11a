"""Evaluates a program up to its first request to the outside world or the user.

An error before that point occurs in every run, whatever its inputs are.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from msgspec.structs import replace

from stackmem.core.messages import ToolSpec
from stackmem.languages.operations import Source

from .definitions import definitions_of
from .errors import Budget, SexpEvaluationError, TaskError, unbound_symbol
from .evaluator import OPERATORS, Evaluation
from .requests import Kind, Request, TextRequest
from .tree import Node, bound_names
from .values import SexpEnvironment
from .workflow import Workflow, text_of

MAX_STEPS = 50_000
"""Maximum number of nodes evaluated. A program that has not failed by then is accepted."""


class _OutOfSightError(TaskError):
    """A name that may be defined by an input or a server's tool. The program's ``try`` does not catch it."""


class _TextAlone(Workflow):
    """A host that knows the program's tasks and the tools but makes no outside requests."""

    def __init__(self, budget: Budget, own: tuple[ToolSpec, ...], bound: frozenset[str]) -> None:
        super().__init__(budget, own)
        self._bound = bound

    def kind(self, name: str) -> Kind:
        kind = super().kind(name)
        if not kind and name not in OPERATORS and name not in self._bound:
            raise _OutOfSightError("VALIDATION_ERROR", f"nothing here binds '{name[:80]}'")
        return kind


def first_failure(
    parts: list[list[Node]],  # expressions of the libraries, then those of the program
    budget: Budget,
    tools: tuple[ToolSpec, ...],
    sources: Mapping[tuple[str, str], Source],  # loaded or unreadable sources by ``(the naming file, name)``
    bound: frozenset[str],  # names that the sources bind; any other may be an input
) -> tuple[Node, SexpEvaluationError | TaskError] | None:
    """Return the top-level expression that fails in every run, and its error; None if that cannot be decided."""
    few = replace(budget, steps=min(budget.steps, MAX_STEPS))
    schemas = {task.schema_name for nodes in parts for task in definitions_of(nodes)}
    if schemas - bound - {""}:
        return None  # an input may be the schema of a task
    evaluation = Evaluation(_TextAlone(few, tools, bound), few)
    env = SexpEnvironment()
    for nodes in parts:
        evaluation.machine.bind_names(bound_names(nodes))
        for node in nodes:
            doing = evaluation.machine.evaluate(node, env)
            try:
                ask = next(doing)
                while isinstance(ask, TextRequest) and (ask.source, ask.path) in sources:
                    ask = _send_text(doing, ask, sources[ask.source, ask.path])
            except StopIteration:
                continue
            except _OutOfSightError:
                return None
            except TaskError as error:
                is_few = evaluation.machine.meter.steps > few.steps and few.steps < budget.steps
                return None if is_few else (node, error)
            except SexpEvaluationError as error:
                return None if unbound_symbol(error) is not None else (node, error)
            finally:
                doing.close()
            return None
    return None


def _send_text(doing: Generator[Request, Any, Any], ask: TextRequest, source: Source) -> Request:
    """Send a loaded text, or its error, to the evaluation, and return its next request."""
    try:
        text = text_of(ask, source)
    except SexpEvaluationError as error:
        return doing.throw(error)
    return doing.send(text)
