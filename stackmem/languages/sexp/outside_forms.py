"""Forms that make requests to the host: ``get_context``, ``log-message``, ``load``, ``parallel`` and ``defatom``.

``defatom`` defines a task with typed outputs and history settings. Its schema can be in a file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .definitions import checked_schema, definition_of, read_schema, schema_fault
from .errors import SexpEvaluationError, SexpSyntaxError, exhaustion
from .interpreter import Doing, Env, Handler, Machine
from .reader import read
from .requests import ContextGenerationInput, ContextRequest, Host, Logged, RefusedRequest, TextRequest, Together
from .tree import Form, Symbol, bound_names, datum, pair_of
from .values import as_mapping, is_null, to_source

_MAX_BRANCHING = 20
_MAX_LOADING = 50
CONTEXT_KEYS = ContextGenerationInput.__struct_fields__


def context_fault(key: str, value: Any) -> str:
    """Return what is wrong with the value of a parameter of ``get_context``; empty if it is valid."""
    got = to_source(value, 80)
    if key == "matching_strategy" and value not in ("content", "metadata"):
        return f"Invalid value for 'matching_strategy'. Expected 'content' or 'metadata', got: {got}"
    if key in ("query", "templateDescription", "templateType", "templateSubtype") and not isinstance(value, str):
        return f"'{key}' of 'get_context' must be a text, got: {got}"
    if key == "inputs" and as_mapping(value) is None:
        return f"'inputs' of 'get_context' must be a mapping or a list of pairs, got: {got}"
    return ""


def get_context_form(machine: Machine, form: Form, env: Env) -> Doing:
    """Handle ``(get_context (query "…") …)``: matching paths and chunks, best first."""
    if len(form.items) < 2:
        raise machine.fault("'get_context' requires at least one parameter like (query ...).", form)
    settings: dict[str, Any] = {}
    for item in form.items[1:]:
        pair = pair_of(item)
        if pair is None:
            got = to_source(datum(item), 80)
            raise machine.fault(
                f"Invalid argument format for 'get_context'. Expected (key value_expression), got: {got}", form
            )
        key = pair[0].name
        if key not in CONTEXT_KEYS:
            raise machine.fault(f"Unknown parameter '{key}' of 'get_context'. Known: {', '.join(CONTEXT_KEYS)}", form)
        if key in settings:
            raise machine.fault(f"Duplicate parameter '{key}' of 'get_context'.", form)
        settings[key] = yield (pair[1], env)
    for key, value in settings.items():
        if message := context_fault(key, value):
            raise machine.fault(message, form)
    if "inputs" in settings:
        settings["inputs"] = as_mapping(settings["inputs"])
    try:
        return (yield ContextRequest(ContextGenerationInput(**settings)))
    except SexpEvaluationError as error:
        raise machine.locate(error, form) from None


def log_message_form(machine: Machine, form: Form, env: Env) -> Doing:
    """Log the arguments as one line.

    An argument's error becomes part of the text, so expressions cannot make it fail.
    """
    if len(form.items) == 1:
        return []
    parts = []
    for item in form.items[1:]:
        try:
            value = yield (item, env)
            parts.append(value if isinstance(value, str) else to_source(value, meter=machine.meter))
        except SexpEvaluationError as error:
            parts.append(f"<Error evaluating: {error.message}>")
    text = " ".join(parts)
    if len(text) > machine.meter.budget.text:
        raise exhaustion("text", machine.meter.budget.text, "characters in one text")
    yield Logged(text)
    return text


def load_form(machine: Machine, form: Form, env: Env) -> Doing:
    """Handle ``(load "lib.sexp")``: evaluate another file in this scope. The value is that of its last expression."""
    path = (yield (form.items[1], env)) if len(form.items) == 2 else None
    if not isinstance(path, str) or not path:
        raise machine.fault("'load' requires the path of a file: (load \"lib.sexp\")", form)
    if machine.loading >= _MAX_LOADING:
        raise machine.fault(f"More than {_MAX_LOADING} files load each other; break the circle", form)
    try:
        loaded_path, text = yield TextRequest(str.__str__(path), form.source.path)
    except SexpEvaluationError as error:
        raise machine.locate(error, form) from None
    try:
        nodes = read(text, loaded_path, machine.meter.budget.source)
    except SexpSyntaxError as error:
        raise machine.fault(f"The file {to_source(path, 200)} cannot be read: {error.error_details}", form) from error
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
    """Handle ``(parallel e…)``.

    Each branch runs to its next request, in order; then all these requests are made as a group. The error of the form
    is that of the first failing branch, in their order. The other branches are then abandoned.
    """
    if machine.branches >= _MAX_BRANCHING:
        raise exhaustion("depth", _MAX_BRANCHING, "parallel forms within each other")
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
            requests: list[tuple[int, Any]] = []
            for number, answer in waiting:
                machine.depth = open_calls[number]
                branch = running[number]
                try:
                    refused = isinstance(answer, RefusedRequest)
                    ask = branch.throw(answer.error) if refused else branch.send(answer)
                except StopIteration as stop:
                    results[number] = stop.value
                    continue
                open_calls[number] = machine.depth
                requests.append((number, ask))
            machine.depth = depth
            answers = (yield Together(tuple(ask for _, ask in requests))) if requests else []
            waiting = [(number, answer) for (number, _), answer in zip(requests, answers, strict=True)]
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


def defatom_of(host: Host) -> Callable[[Machine, Form, Env], Doing]:
    """Return the handler that registers tasks with ``host``."""

    def defatom(machine: Machine, form: Form, env: Env) -> Doing:
        definition = definition_of(form, machine.meter.budget)
        for _, error in definition.faults:
            raise machine.locate(error, form)
        template = definition.template
        output_format = template.get("output_format")
        if output_format is not None:
            template["output_format"] = yield from _output_format(machine, form, env, output_format)
        fault = host.define(template)
        if fault:
            raise machine.fault(f"Failed to register template '{template['name']}'.", form, fault)
        machine.replan()
        return Symbol(template["name"])

    return defatom


def _output_format(machine: Machine, form: Form, env: Env, output_format: dict[str, Any]) -> Doing:
    """Return the output format with its schema resolved to a JSON Schema."""
    kind = str(output_format.get("type", "json"))
    schema_source = output_format.get("schema")
    if schema_source is None or is_null(schema_source):
        return {"type": kind}
    text, schema = str.__str__(schema_source), None
    try:
        if text.lstrip().startswith("{"):
            schema = read_schema(text)
        elif text.endswith(".json"):
            _, content = yield TextRequest(text, form.source.path)
            schema = read_schema(content)
        elif text in env:
            bound = env.lookup(text)
            schema = read_schema(bound) if isinstance(bound, str) else as_mapping(bound)
        if schema is None:
            raise schema_fault(schema_source)
        checked_schema(schema)
    except SexpEvaluationError as error:
        raise machine.locate(error, form) from None
    return {"type": kind, "schema": schema}
