"""What a program comes to by its text alone: it is evaluated as long as nothing is asked of the world or of a person.

What fails until then fails in every run, whatever the inputs are.
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

MOST_STEPS = 50_000
"""Nodes that are evaluated at most; a program that has not failed by then is let alone."""


class _OutOfSightError(TaskError):
    """A name that an input, or a tool of a server, may have; no ``try`` of the program catches it."""


class _TextAlone(Workflow):
    """A host that knows the program's own tasks and the tools, and asks nobody."""

    def __init__(self, budget: Budget, own: tuple[ToolSpec, ...], bound: frozenset[str]) -> None:
        super().__init__(budget, own)
        self._bound = bound

    def kind(self, name: str) -> Kind:
        found = super().kind(name)
        if not found and name not in OPERATORS and name not in self._bound:
            raise _OutOfSightError("VALIDATION_ERROR", f"nothing here binds '{name[:80]}'")
        return found


def first_failure(
    parts: list[list[Node]],  # the libraries' expressions, then the program's
    budget: Budget,
    tools: tuple[ToolSpec, ...],
    sources: Mapping[tuple[str, str], Source],  # what is loaded, or cannot be, by ``(file that names it, name)``
    bound: frozenset[str],  # names that the sources bind; any other may be an input's
) -> tuple[Node, SexpEvaluationError | TaskError] | None:
    """The expression at the top of a source that fails in every run, and why; None where nobody can say."""
    few = replace(budget, steps=min(budget.steps, MOST_STEPS))
    schemas = {task.schema_name for nodes in parts for task in definitions_of(nodes)}
    if schemas - bound - {""}:
        return None  # an input may be a task's schema
    evaluation = Evaluation(_TextAlone(few, tools, bound), few)
    env = SexpEnvironment()
    for nodes in parts:
        evaluation.machine.bind_names(bound_names(nodes))
        for node in nodes:
            doing = evaluation.machine.evaluate(node, env)
            try:
                ask = next(doing)
                while isinstance(ask, TextRequest) and (ask.beside, ask.path) in sources:
                    ask = _answered(doing, ask, sources[ask.beside, ask.path])
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


def _answered(doing: Generator[Request, Any, Any], ask: TextRequest, source: Source) -> Request:
    """What is asked for next, once a text is there or has failed."""
    try:
        text = text_of(ask, source)
    except SexpEvaluationError as error:
        return doing.throw(error)
    return doing.send(text)
