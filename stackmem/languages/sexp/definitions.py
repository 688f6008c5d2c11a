"""Reads a ``defatom`` statically into a task template and a list of its faults.

The evaluator raises the first fault; the linter reports all of them.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct, structs

from stackmem.core.schemas.json_schema import read_json, schema_error

from .calls import history_of
from .errors import Budget, SexpEvaluationError
from .tree import Form, Name, Node, Symbol, datum, name_of, walk
from .values import as_mapping, is_null, to_source

SUBTYPES = ("standard", "subtask", "director", "evaluator", "associative_matching")
SLOT = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")
_TEXTS = ("subtype", "description", "model", "type")
_LISTS = ("output_format", "history_config", "depends")
OPTIONS = (*_TEXTS, *_LISTS)


class TaskDefinition(Struct, frozen=True):
    """A task as defined in the source."""

    template: dict[str, Any]  # the template that a host registers, with its output format as written
    # each fault with its node; an evaluation raises the first one
    faults: tuple[tuple[Node, SexpEvaluationError], ...]
    types: tuple[Name, ...]  # nodes that name the types of its parameters
    form: Form  # the whole form

    @property
    def params(self) -> dict[str, dict[str, Any]]:
        """Maps each parameter to ``{type, optional?}``."""
        params: dict[str, dict[str, Any]] = self.template.get("params", {})
        return params

    @property
    def _schema(self) -> str:
        schema = self.template.get("output_format", {}).get("schema")
        return str.__str__(schema) if isinstance(schema, str) and not schema.lstrip().startswith("{") else ""

    @property
    def schema_file(self) -> str:
        """The file that contains its schema; empty if there is none."""
        return self._schema if self._schema.endswith(".json") else ""

    @property
    def schema_name(self) -> str:
        """The name to which its schema is bound; empty if there is none."""
        return "" if self.schema_file else self._schema

    @property
    def slots(self) -> dict[str, str]:
        """Maps each slot of the instructions to the parameter that fills it, or to "" if none does."""
        slots: dict[str, str] = {}
        for slot in SLOT.findall(self.template.get("instructions", "")):
            first = slot.split(".")[0]
            slots[slot] = slot if slot in self.params else first if first in self.params else ""
        return slots


def definition_of(form: Form, budget: Budget | None = None) -> TaskDefinition:
    """Read the task of a ``(defatom …)``. The clauses after its name can be in any order."""
    items = form.items[1:]
    if len(items) < 3:
        message = f"'defatom' requires at least name, params, and instructions arguments. Got {len(items)}."
        return TaskDefinition({}, ((form, SexpEvaluationError(message)),), (), form)
    faults: Faults = []
    name = name_of(items[0])
    if not name:
        _add(faults, items[0], f"'defatom' task name must be a symbol, got: {_datum_source(items[0])}")
    params, types = _params(_clause(items[1:], "params"), form, faults)
    template: dict[str, Any] = {
        "name": name,
        "type": "atomic",
        "subtype": "standard",
        "description": f"Dynamically defined task: {name}",
        "params": params,
        "instructions": _instructions(_clause(items[1:], "instructions"), form, faults),
    }
    seen: set[str] = set()
    for option in items[1:]:
        key = _key(option)
        if key in seen:
            kind = "clause" if key in ("params", "instructions") else "optional argument"
            _add(faults, option, f"Duplicate {kind} '{key}' for 'defatom'.")
        elif key not in ("params", "instructions"):
            try:
                template[key] = _option(option, key, budget)
            except SexpEvaluationError as error:
                faults.append((option, error))
        seen.update([key] if key else [])
    return TaskDefinition(template, tuple(faults), types, form)


def definitions_of(nodes: list[Node]) -> list[TaskDefinition]:
    """Return every named task that the source defines."""
    definitions = []
    for node in walk(nodes):
        if isinstance(node, Form) and len(node.items) > 3 and name_of(node.items[0]) == "defatom":
            definition = definition_of(node)
            if definition.template["name"]:
                definitions.append(definition)
    return definitions


Faults = list[tuple[Node, SexpEvaluationError]]


def _add(faults: Faults, node: Node, message: str) -> None:
    faults.append((node, SexpEvaluationError(message)))


def _key(node: Node) -> str:
    return name_of(node.items[0]) if isinstance(node, Form) and node.items else ""


def _clause(nodes: list[Node], key: str) -> Form | None:
    return next((node for node in nodes if isinstance(node, Form) and _key(node) == key), None)


def _params(clause: Form | None, form: Form, faults: Faults) -> tuple[dict[str, dict[str, Any]], tuple[Name, ...]]:
    """Return ``(parameters, nodes that name types)``.

    A parameter is written ``p``, ``(p type)``, or ``(p optional type)``.
    """
    params: dict[str, dict[str, Any]] = {}
    types: list[Name] = []
    if clause is None:
        _add(faults, form, "'defatom' requires (params ...) after the name.")
        return params, ()
    for item in clause.items[1:]:
        words = item.items if isinstance(item, Form) else [item]
        names = [name_of(word) for word in words]
        optional = names[1:2] == ["optional"]
        if not names or not all(names) or len(names) > (3 if optional else 2):
            message = "A param of 'defatom' is a symbol or (symbol type), got: "
            _add(faults, item, f"{message}{_datum_source(item)}; one that may be left out is (symbol optional type)")
            continue
        if names[0] in params:
            _add(faults, item, f"Duplicate param '{names[0]}' for 'defatom'.")
        kind = "any" if len(names) == 1 or (optional and len(names) == 2) else names[-1]
        types += [word for word in words[1:][-1:] if isinstance(word, Name) and kind != "any"]
        params[names[0]] = {"type": f"{kind.removesuffix('?')}?", "optional": True} if optional else {"type": kind}
    return params, tuple(types)


def _instructions(clause: Form | None, form: Form, faults: Faults) -> str:
    text = datum(clause.items[1]) if clause is not None and len(clause.items) == 2 else None
    if isinstance(text, str):
        return str(text)
    _add(faults, clause or form, "'defatom' requires (instructions \"text\") after the params.")
    return ""


def _option(node: Node, key: str, budget: Budget | None) -> Any:
    """Read the value of an optional clause.

    Raise SexpEvaluationError if the clause does not exist, or its value is not allowed.
    """
    if not isinstance(node, Form) or not key:
        raise SexpEvaluationError(f"An optional argument of 'defatom' is (name value), got: {_datum_source(node)}")
    items = node.items
    if key not in OPTIONS:
        raise SexpEvaluationError(f"Unknown optional argument '{key}' for 'defatom'. Allowed: {', '.join(OPTIONS)}")
    if key in _TEXTS:
        return _text_option(items, key)
    content = items[1] if len(items) == 2 else Form(items[1:], node.at, node.at, node.source)
    plain = _unquote(datum(content, budget))
    if key == "depends":
        return [str(item) for item in plain] if isinstance(plain, list) else [str(plain)]
    pairs = as_mapping(plain)
    if pairs is None:
        raise SexpEvaluationError(f"'{key}' of 'defatom' must be a list of pairs, got: {to_source(plain, 80)}")
    if key == "output_format":
        _check_format(pairs)
        return pairs
    settings = history_of(pairs)
    return structs.asdict(settings) if settings else {}


def _text_option(items: list[Node], key: str) -> str:
    value = datum(items[1]) if len(items) == 2 else None
    if not isinstance(value, str) or isinstance(value, Symbol):
        raise SexpEvaluationError(f"'{key}' of 'defatom' must be a text.")
    if key == "subtype" and value not in SUBTYPES:
        raise SexpEvaluationError(f"'subtype' of 'defatom' must be one of {', '.join(SUBTYPES)}, got: {value[:80]}")
    if key == "type" and value != "atomic":
        raise SexpEvaluationError(f"'type' of 'defatom' must be atomic, got: {value[:80]}")
    return value


def _check_format(output_format: dict[str, Any]) -> None:
    unknown = sorted(output_format.keys() - {"type", "schema"})
    if unknown:
        raise SexpEvaluationError(f"Unknown setting '{unknown[0]}' of 'output_format'. Known: type, schema")
    kind = str(output_format.get("type", "json"))
    if kind not in ("json", "text"):
        raise SexpEvaluationError(f"'type' of 'output_format' must be json or text, got: {kind[:80]}")
    schema = output_format.get("schema")
    if is_null(schema):
        return
    if kind == "text":
        raise SexpEvaluationError("'output_format' with a schema is of type json.")
    if not isinstance(schema, str):
        raise schema_fault(schema)
    if schema.lstrip().startswith("{"):
        read_schema(schema)


def schema_fault(value: Any) -> SexpEvaluationError:
    """Return the error for a value that is not a schema."""
    return SexpEvaluationError(
        "The schema of 'output_format' is a JSON Schema as text, a file that ends in .json, or a name that is "
        f"bound to one, got: {to_source(value, 80)}"
    )


def read_schema(text: str) -> dict[str, Any]:
    """Parse a text as a JSON Schema. Raise SexpEvaluationError if the text is not a schema."""
    value, fault = read_json(text)
    if fault or not isinstance(value, dict):
        raise SexpEvaluationError("The schema of 'output_format' is not a JSON object.", "", fault)
    return checked_schema(value)


def checked_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema if it can be used, otherwise raise."""
    error = schema_error(schema)
    if error:
        raise SexpEvaluationError("The schema of 'output_format' cannot be used.", "", error)
    return schema


def _unquote(value: Any) -> Any:
    """Remove the quote from ``'x`` and ``(quote x)``, at the top and in the values of pairs."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], Symbol) and value[0] == "quote":
        return value[1]
    if isinstance(value, list):
        return [[pair[0], _unquote(pair[1])] if isinstance(pair, list) and len(pair) == 2 else pair for pair in value]
    return value


def _datum_source(node: Node) -> str:
    return to_source(datum(node), 80)
