"""Forms that ask the outside: ``get_context``, ``log-message``, ``load`` and ``parallel``."""

from __future__ import annotations

from typing import Any

from .asks import ContextGenerationInput, ContextRequest, Logged, Refused, TextRequest, Together
from .budget import exhausted
from .errors import SexpEvaluationError, SexpSyntaxError
from .machine import Doing, Env, Handler, Machine
from .nodes import Form, Name, bound_names, datum
from .reader import read
from .values import as_mapping, written

_MOST_BRANCHING = 20
_MOST_LOADING = 50
_KEYS = ContextGenerationInput.__struct_fields__


def get_context_form(machine: Machine, form: Form, env: Env) -> Doing:
    """``(get_context (query "…") …)``: paths and chunks that fit, best first."""
    if len(form.items) < 2:
        raise machine.fault("'get_context' requires at least one parameter like (query ...).", form)
    found: dict[str, Any] = {}
    for item in form.items[1:]:
        pair = item.items if isinstance(item, Form) else []
        if len(pair) != 2 or not isinstance(pair[0], Name):
            got = written(datum(item), 80)
            raise machine.fault(
                f"Invalid argument format for 'get_context'. Expected (key value_expression), got: {got}", form
            )
        key = pair[0].name
        if key not in _KEYS:
            raise machine.fault(f"Unknown parameter '{key}' of 'get_context'. Known: {', '.join(_KEYS)}", form)
        if key in found:
            raise machine.fault(f"Duplicate parameter '{key}' of 'get_context'.", form)
        found[key] = yield (pair[1], env)
    strategy = found.get("matching_strategy", "content")
    if strategy not in ("content", "metadata"):
        got = written(strategy, 80)
        raise machine.fault(
            f"Invalid value for 'matching_strategy'. Expected 'content' or 'metadata', got: {got}", form
        )
    for key in ("query", "templateDescription", "templateType", "templateSubtype"):
        if key in found and not isinstance(found[key], str):
            raise machine.fault(f"'{key}' of 'get_context' must be a text, got: {written(found[key], 80)}", form)
    if "inputs" in found:
        inputs = as_mapping(found["inputs"])
        if inputs is None:
            got = written(found["inputs"], 80)
            raise machine.fault(f"'inputs' of 'get_context' must be a mapping or a list of pairs, got: {got}", form)
        found["inputs"] = inputs
    try:
        return (yield ContextRequest(ContextGenerationInput(**found)))
    except SexpEvaluationError as error:
        raise machine.located(error, form) from None


def log_message_form(machine: Machine, form: Form, env: Env) -> Doing:
    """Its arguments as one line, an argument's error among them; nothing an expression does can make it fail."""
    if len(form.items) == 1:
        return []
    parts = []
    for item in form.items[1:]:
        try:
            value = yield (item, env)
            parts.append(value if isinstance(value, str) else written(value, meter=machine.meter))
        except SexpEvaluationError as error:
            parts.append(f"<Error evaluating: {error.message}>")
    text = " ".join(parts)
    if len(text) > machine.meter.budget.text:
        raise exhausted("text", machine.meter.budget.text, "characters in one text")
    yield Logged(text)
    return text


def load_form(machine: Machine, form: Form, env: Env) -> Doing:
    """``(load "lib.sexp")``: every expression of another file, in this scope; the last one's value."""
    path = (yield (form.items[1], env)) if len(form.items) == 2 else None
    if not isinstance(path, str) or not path:
        raise machine.fault("'load' requires the path of a file: (load \"lib.sexp\")", form)
    if machine.loading >= _MOST_LOADING:
        raise machine.fault(f"More than {_MOST_LOADING} files load each other; break the circle", form)
    try:
        found, text = yield TextRequest(str.__str__(path), form.source.path)
    except SexpEvaluationError as error:
        raise machine.located(error, form) from None
    try:
        nodes = read(text, found, machine.meter.budget.source)
    except SexpSyntaxError as error:
        raise machine.fault(f"The file {written(path, 200)} cannot be read: {error.error_details}", form) from error
    machine.bind_names(bound_names(nodes))
    machine.loading += 1
    try:
        value: Any = []
        for node in nodes:
            value = yield (node, env)
        return value
    finally:
        machine.loading -= 1


def parallel_form(machine: Machine, form: Form, env: Env) -> Doing:
    """``(parallel e…)``: each branch runs to what it asks next, in order; then all of that is asked at once.

    The first branch, in their order, that fails is the form's error; the others are given up.
    """
    if machine.branches >= _MOST_BRANCHING:
        raise exhausted("depth", _MOST_BRANCHING, "parallel forms within each other")
    machine.branches += 1
    depth = machine.depth
    results: dict[int, Any] = {}
    running: dict[int, Doing] = {}
    open_calls: dict[int, int] = {}
    waiting: list[tuple[int, Any]] = [(number, None) for number in range(len(form.items) - 1)]
    for number, item in enumerate(form.items[1:]):
        running[number], open_calls[number] = machine.evaluate(item, env), depth
    try:
        while waiting:
            asked: list[tuple[int, Any]] = []
            for number, answer in waiting:
                machine.depth = open_calls[number]
                branch = running[number]
                try:
                    refused = isinstance(answer, Refused)
                    ask = branch.throw(answer.error) if refused else branch.send(answer)
                except StopIteration as stop:
                    results[number] = stop.value
                    continue
                open_calls[number] = machine.depth
                asked.append((number, ask))
            machine.depth = depth
            answers = (yield Together(tuple(ask for _, ask in asked))) if asked else []
            waiting = [(number, answer) for (number, _), answer in zip(asked, answers, strict=True)]
        return [results[number] for number in sorted(results)]
    finally:
        machine.depth = depth
        machine.branches -= 1
        for branch in running.values():
            branch.close()


OUTSIDE_FORMS: dict[str, Handler] = {
    "get_context": get_context_form, "get-context": get_context_form, "log-message": log_message_form,
}  # fmt: skip
OUTSIDE_ADDED: dict[str, Handler] = {"load": load_form, "parallel": parallel_form}
