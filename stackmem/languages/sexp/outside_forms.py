"""Forms that ask the outside: ``get_context``, ``log-message``, ``load``, ``parallel``, and ``defatom``.

``defatom`` defines a task, with typed outputs and settings of its history; its schema may stand in a file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from stackmem.core.json_schema import read_json

from .calls import history_of
from .errors import SexpEvaluationError, SexpSyntaxError, exhaustion
from .interpreter import Doing, Env, Handler, Machine
from .reader import read
from .requests import ContextGenerationInput, ContextRequest, Host, Logged, RefusedRequest, TextRequest, Together
from .tree import Form, Name, Node, Symbol, bound_names, datum, name_of, pair_of
from .values import as_mapping, is_null, to_source

_MOST_BRANCHING = 20
_MOST_LOADING = 50
_KEYS = ContextGenerationInput.__struct_fields__


def get_context_form(machine: Machine, form: Form, env: Env) -> Doing:
    """``(get_context (query "…") …)``: paths and chunks that fit, best first."""
    if len(form.items) < 2:
        raise machine.fault("'get_context' requires at least one parameter like (query ...).", form)
    found: dict[str, Any] = {}
    for item in form.items[1:]:
        pair = pair_of(item)
        if pair is None:
            got = to_source(datum(item), 80)
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
        got = to_source(strategy, 80)
        raise machine.fault(
            f"Invalid value for 'matching_strategy'. Expected 'content' or 'metadata', got: {got}", form
        )
    for key in ("query", "templateDescription", "templateType", "templateSubtype"):
        if key in found and not isinstance(found[key], str):
            raise machine.fault(f"'{key}' of 'get_context' must be a text, got: {to_source(found[key], 80)}", form)
    if "inputs" in found:
        inputs = as_mapping(found["inputs"])
        if inputs is None:
            got = to_source(found["inputs"], 80)
            raise machine.fault(f"'inputs' of 'get_context' must be a mapping or a list of pairs, got: {got}", form)
        found["inputs"] = inputs
    try:
        return (yield ContextRequest(ContextGenerationInput(**found)))
    except SexpEvaluationError as error:
        raise machine.locate(error, form) from None


def log_message_form(machine: Machine, form: Form, env: Env) -> Doing:
    """Its arguments as one line, an argument's error among them; nothing an expression does can make it fail."""
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
    """``(load "lib.sexp")``: every expression of another file, in this scope; the last one's value."""
    path = (yield (form.items[1], env)) if len(form.items) == 2 else None
    if not isinstance(path, str) or not path:
        raise machine.fault("'load' requires the path of a file: (load \"lib.sexp\")", form)
    if machine.loading >= _MOST_LOADING:
        raise machine.fault(f"More than {_MOST_LOADING} files load each other; break the circle", form)
    try:
        found, text = yield TextRequest(str.__str__(path), form.source.path)
    except SexpEvaluationError as error:
        raise machine.locate(error, form) from None
    try:
        nodes = read(text, found, machine.meter.budget.source)
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
    """``(parallel e…)``: each branch runs to what it asks next, in order; then all of that is asked at once.

    The first branch, in their order, that fails is the form's error; the others are given up.
    """
    if machine.branches >= _MOST_BRANCHING:
        raise exhaustion("depth", _MOST_BRANCHING, "parallel forms within each other")
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
                    refused = isinstance(answer, RefusedRequest)
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


SUBTYPES = ("standard", "subtask", "director", "evaluator", "associative_matching")
_TEXTS = ("subtype", "description", "model", "type")
_LISTS = ("output_format", "history_config", "depends")
OPTIONS = (*_TEXTS, *_LISTS)


def defatom_of(host: Host) -> Callable[[Machine, Form, Env], Doing]:
    """The handler that registers with ``host``."""

    def defatom(machine: Machine, form: Form, env: Env) -> Doing:
        template = _template(machine, form)
        wanted = template.get("output_format")
        if wanted is not None:
            template["output_format"] = yield from _output_format(machine, form, env, wanted)
        fault = host.define(template)
        if fault:
            raise machine.fault(f"Failed to register template '{template['name']}'.", form, fault)
        machine.replan()
        return Symbol(template["name"])

    return defatom


def _template(machine: Machine, form: Form) -> dict[str, Any]:
    items = form.items[1:]
    if len(items) < 3:
        raise machine.fault(
            f"'defatom' requires at least name, params, and instructions arguments. Got {len(items)}.", form
        )
    if not isinstance(items[0], Name):
        raise machine.fault(f"'defatom' task name must be a symbol, got: {_datum_source(items[0])}", form)
    name = items[0].name
    params = _params(machine, form, items[1])
    text = items[2]
    said = text.items if isinstance(text, Form) else []
    if len(said) != 2 or name_of(said[0]) != "instructions" or not isinstance(datum(said[1]), str):
        raise machine.fault("'defatom' requires (instructions \"text\") after the params.", form)
    template: dict[str, Any] = {
        "name": name,
        "type": "atomic",
        "subtype": "standard",
        "description": f"Dynamically defined task: {name}",
        "params": params,
        "instructions": str(datum(said[1])),
    }
    seen: set[str] = set()
    for option in items[3:]:
        key, value = _option(machine, form, option)
        if key in seen:
            raise machine.fault(f"Duplicate optional argument '{key}' for 'defatom'.", form)
        seen.add(key)
        template[key] = value
    return template


def _params(machine: Machine, form: Form, node: Node) -> dict[str, Any]:
    items = node.items if isinstance(node, Form) else []
    if not items or name_of(items[0]) != "params":
        raise machine.fault("'defatom' requires (params ...) after the name.", form)
    found: dict[str, Any] = {}
    for item in items[1:]:
        pair = item.items if isinstance(item, Form) else [item]
        if not 1 <= len(pair) <= 2 or not all(isinstance(one, Name) for one in pair):
            raise machine.fault(f"A param of 'defatom' is a symbol or (symbol type), got: {_datum_source(item)}", form)
        name = name_of(pair[0])
        if name in found:
            raise machine.fault(f"Duplicate param '{name}' for 'defatom'.", form)
        found[name] = {"type": name_of(pair[1]) if len(pair) == 2 else "any"}
    return found


def _option(machine: Machine, form: Form, node: Node) -> tuple[str, Any]:
    items = node.items if isinstance(node, Form) else []
    key = name_of(items[0]) if items else ""
    if not key:
        raise machine.fault(f"An optional argument of 'defatom' is (name value), got: {_datum_source(node)}", form)
    if key not in OPTIONS:
        raise machine.fault(f"Unknown optional argument '{key}' for 'defatom'. Allowed: {', '.join(OPTIONS)}", form)
    if key in _TEXTS:
        value = datum(items[1]) if len(items) == 2 else None
        if not isinstance(value, str) or isinstance(value, Symbol):
            raise machine.fault(f"'{key}' of 'defatom' must be a text.", form)
        if key == "subtype" and value not in SUBTYPES:
            raise machine.fault(f"'subtype' of 'defatom' must be one of {', '.join(SUBTYPES)}, got: {value[:80]}", form)
        if key == "type" and value != "atomic":
            raise machine.fault(f"'type' of 'defatom' must be atomic, got: {value[:80]}", form)
        return key, value
    given = items[1] if len(items) == 2 else Form(items[1:], node.at, node.at, form.source)
    plain = _unquote(datum(given, machine.meter.budget))
    if key == "depends":
        return key, [str(one) for one in plain] if isinstance(plain, list) else [str(plain)]
    try:
        found = as_mapping(plain)
        if found is None:
            raise SexpEvaluationError(f"'{key}' of 'defatom' must be a list of pairs, got: {to_source(plain, 80)}")
        if key == "history_config":
            settings = history_of(found)
            return key, structs.asdict(settings) if settings else {}
    except SexpEvaluationError as error:
        raise machine.locate(error, form) from None
    return key, found


def _unquote(value: Any) -> Any:
    """``'x`` and ``(quote x)`` are x here, at the top and as a value of a pair."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], Symbol) and value[0] == "quote":
        return value[1]
    if isinstance(value, list):
        return [[pair[0], _unquote(pair[1])] if isinstance(pair, list) and len(pair) == 2 else pair for pair in value]
    return value


def _output_format(machine: Machine, form: Form, env: Env, wanted: dict[str, Any]) -> Doing:
    """The wanted format with its schema as a JSON Schema."""
    unknown = sorted(wanted.keys() - {"type", "schema"})
    if unknown:
        raise machine.fault(f"Unknown setting '{unknown[0]}' of 'output_format'. Known: type, schema", form)
    kind = str(wanted.get("type", "json"))
    if kind not in ("json", "text"):
        raise machine.fault(f"'type' of 'output_format' must be json or text, got: {kind[:80]}", form)
    named = wanted.get("schema")
    if named is None or is_null(named):
        return {"type": kind}
    if kind == "text":
        raise machine.fault("'output_format' with a schema is of type json.", form)
    schema = named if isinstance(named, dict) else None
    if isinstance(named, str):
        text = str.__str__(named)
        if text.lstrip().startswith("{"):
            schema = _read(machine, form, text)
        elif text.endswith(".json"):
            _, content = yield TextRequest(text, form.source.path)
            schema = _read(machine, form, content)
        elif text in env:
            bound = env.lookup(text)
            schema = _read(machine, form, bound) if isinstance(bound, str) else as_mapping(bound)
    if not isinstance(schema, dict):
        raise machine.fault(
            "The schema of 'output_format' is a JSON Schema as text, a file that ends in .json, or a name that is "
            f"bound to one, got: {to_source(named, 80)}",
            form,
        )
    return {"type": kind, "schema": schema}


def _read(machine: Machine, form: Form, text: str) -> dict[str, Any]:
    value, fault = read_json(text)
    if fault or not isinstance(value, dict):
        raise machine.fault("The schema of 'output_format' is no JSON object.", form, fault)
    return value


def _datum_source(node: Node) -> str:
    return to_source(datum(node), 80)
