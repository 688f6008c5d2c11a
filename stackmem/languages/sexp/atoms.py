"""``defatom``: a task that the program defines, with typed outputs and settings of its history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from stackmem.core.json_schema import read_json

from .asks import Host, TextRequest
from .errors import SexpEvaluationError
from .invoking import history_of
from .machine import Doing, Env, Machine
from .nodes import Form, Name, Node, Symbol, datum
from .values import as_mapping, is_null, written

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
        raise machine.fault(f"'defatom' task name must be a symbol, got: {_shown(items[0])}", form)
    name = items[0].name
    params = _params(machine, form, items[1])
    text = items[2]
    said = text.items if isinstance(text, Form) else []
    if len(said) != 2 or _name(said[0]) != "instructions" or not isinstance(datum(said[1]), str):
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
    if not items or _name(items[0]) != "params":
        raise machine.fault("'defatom' requires (params ...) after the name.", form)
    found: dict[str, Any] = {}
    for item in items[1:]:
        pair = item.items if isinstance(item, Form) else [item]
        if not 1 <= len(pair) <= 2 or not all(isinstance(one, Name) for one in pair):
            raise machine.fault(f"A param of 'defatom' is a symbol or (symbol type), got: {_shown(item)}", form)
        name = _name(pair[0])
        if name in found:
            raise machine.fault(f"Duplicate param '{name}' for 'defatom'.", form)
        found[name] = {"type": _name(pair[1]) if len(pair) == 2 else "any"}
    return found


def _option(machine: Machine, form: Form, node: Node) -> tuple[str, Any]:
    items = node.items if isinstance(node, Form) else []
    key = _name(items[0]) if items else ""
    if not key:
        raise machine.fault(f"An optional argument of 'defatom' is (name value), got: {_shown(node)}", form)
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
    plain = _unquoted(datum(given, machine.meter.budget))
    if key == "depends":
        return key, [str(one) for one in plain] if isinstance(plain, list) else [str(plain)]
    try:
        found = as_mapping(plain)
        if found is None:
            raise SexpEvaluationError(f"'{key}' of 'defatom' must be a list of pairs, got: {written(plain, 80)}")
        if key == "history_config":
            settings = history_of(found)
            return key, structs.asdict(settings) if settings else {}
    except SexpEvaluationError as error:
        raise machine.located(error, form) from None
    return key, found


def _unquoted(value: Any) -> Any:
    """``'x`` and ``(quote x)`` are x here, at the top and as a value of a pair."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], Symbol) and value[0] == "quote":
        return value[1]
    if isinstance(value, list):
        return [[pair[0], _unquoted(pair[1])] if isinstance(pair, list) and len(pair) == 2 else pair for pair in value]
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
            f"bound to one, got: {written(named, 80)}",
            form,
        )
    return {"type": kind, "schema": schema}


def _read(machine: Machine, form: Form, text: str) -> dict[str, Any]:
    value, fault = read_json(text)
    if fault or not isinstance(value, dict):
        raise machine.fault("The schema of 'output_format' is no JSON object.", form, fault)
    return value


def _name(node: Node) -> str:
    return node.name if isinstance(node, Name) else ""


def _shown(node: Node) -> str:
    return written(datum(node), 80)
