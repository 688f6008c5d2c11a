"""Rewrites the schema of a tool so that every provider accepts it.

Anthropic and OpenAI refuse a whole request if one tool has ``anyOf``, ``oneOf`` or ``allOf`` at the top of its schema,
no ``type``, or a parameter with an unusual name. The tool still gets what it expects: ``own_arguments`` maps renamed
parameters back.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from msgspec import DecodeError, json
from msgspec.structs import replace

from stackmem.core.messages import ToolSpec

Json = dict[str, Any]

_COMBINED = ("allOf", "anyOf", "oneOf")
_DROPPED = ("not", "enum", "const", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies",
            "patternProperties", "propertyNames", "unevaluatedProperties", "minProperties",
            "maxProperties")  # fmt: skip
_LOCAL = ("#/$defs/", "#/definitions/")
_UNUSUAL = re.compile(r"[^a-zA-Z0-9_.-]")
_NAME_CHARS = 64
_DEEPEST = 60
_MAX_VARIANTS = 50
_SUBSCHEMAS = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS = ("properties", "$defs", "definitions", "patternProperties")


@lru_cache(maxsize=1024)  # a run asks for the same tools in every request
def portable(tool: ToolSpec) -> tuple[ToolSpec, tuple[str, ...]]:
    """Return the tool with a schema that every provider accepts, and a sentence for each change.

    Raise ValueError if no call could have arguments that fit the schema.
    """
    if not tool.schema:
        return tool, ()
    try:
        raw = json.decode(tool.schema)
    except (DecodeError, RecursionError) as error:
        raise ValueError(f"its schema cannot be read: {error}") from None
    schema, notes, hint = _portable(raw)
    if not notes:
        return tool, ()
    text = json.encode(schema, order="sorted").decode()
    description = f"{tool.description} {hint}".strip() if hint else tool.description
    return replace(tool, schema=text, description=description), notes


@lru_cache(maxsize=1024)
def _old_names(schema: str) -> dict[str, str]:
    """Map each renamed parameter to its own name."""
    raw = json.decode(schema) if schema else {}
    flat, _, _ = _flattened(raw) if isinstance(raw, dict) else ({}, [], "")
    return {new: old for old, new in _new_names(_properties(flat)).items() if new != old}


def own_arguments(tool: ToolSpec, arguments: Json) -> Json:
    """Return a call's arguments under the names that the tool itself uses."""
    try:
        old = _old_names(tool.schema)
    except (ValueError, DecodeError, RecursionError):
        return arguments
    return {old.get(name, name): value for name, value in arguments.items()} if old else arguments


def _portable(raw: Any) -> tuple[Json, tuple[str, ...], str]:
    """Return the schema, a sentence for each change, and what the model should know about it."""
    if raw is None or raw is True or raw == {}:
        return {"type": "object", "properties": {}}, ("gave the tool an empty schema, because it has none",), ""
    if not isinstance(raw, dict):
        raise ValueError("its schema is not an object")
    schema, notes, hint = _flattened(raw)
    kinds = schema.get("type")
    if kinds != "object":
        if kinds is not None and "object" not in (kinds if isinstance(kinds, list) else [kinds]):
            raise ValueError(f"its arguments are {str(kinds)[:40]!r}, not an object")
        schema["type"] = "object"
        notes.append("set the type of the schema to object")
    properties = _properties(schema)
    if "properties" in schema and schema["properties"] != properties:
        notes.append("dropped properties that are not schemas")
    if "properties" in schema or "required" in schema:
        new = _new_names(properties)
        renamed = [f"{old[:40]!r} to {name}" for old, name in new.items() if old != name]
        if renamed:
            notes.append(f"renamed parameters: {', '.join(renamed)}")
        schema["properties"] = {new[name]: _tidied(field, 0) for name, field in properties.items()}
        _require(schema, new, notes)
    for name in ("$defs", "definitions"):
        if isinstance(schema.get(name), dict):
            schema[name] = {key: _tidied(field, 0) for key, field in schema[name].items()}
    if not notes and schema != raw:
        notes.append("rewrote parts of the schema that providers refuse")
    return schema, tuple(notes), hint


def _require(schema: Json, new: dict[str, str], notes: list[str]) -> None:
    if "required" not in schema:
        return
    listed = schema["required"] if isinstance(schema["required"], list) else []
    required = [new[name] for name in dict.fromkeys(map(str, listed)) if name in new]
    if len(required) != len(listed) or not isinstance(schema["required"], list):
        notes.append("dropped required parameters that the schema does not define")
    schema["required"] = required
    if listed and not required:
        del schema["required"]


def _properties(schema: Json) -> Json:
    properties = schema.get("properties")
    return {str(name): field for name, field in properties.items()} if isinstance(properties, dict) else {}


def _new_names(properties: Json) -> dict[str, str]:
    """Map each parameter to a name that every provider accepts."""
    new: dict[str, str] = {}
    usual = {name for name in properties if name and len(name) <= _NAME_CHARS and not _UNUSUAL.search(name)}
    used = set(usual)
    for name in properties:
        base = _UNUSUAL.sub("_", name)[:_NAME_CHARS] or "_"
        free, number = base, 1
        while name not in usual and free in used:
            number += 1
            free = f"{base[: _NAME_CHARS - 4]}_{number}"
        used.add(free)
        new[name] = free
    return new


def _flattened(raw: Json) -> tuple[Json, list[str], str]:
    """Return the schema without references and combinators at its top, with notes and a hint for the model."""
    schema, notes, hints = _resolved(raw, raw), list[str](), list[str]()
    for word in _COMBINED:
        if word not in schema:
            continue
        combined = schema.pop(word)
        variants = [_flattened({**_defs(raw), **_resolved(each, raw)})[0]
                    for each in (combined if isinstance(combined, list) else [])[:_MAX_VARIANTS]
                    if isinstance(each, dict)]  # fmt: skip
        variants = [
            variant for variant in variants if variant.get("type", "object") == "object" or "properties" in variant
        ]
        hints += _hint(word, variants)
        schema = _merged(schema, variants, every=word == "allOf")
        notes.append(f"replaced {word} at the top of the schema by one list of parameters")
    dropped = [word for word in _DROPPED if word in schema]
    if dropped:
        schema = {name: value for name, value in schema.items() if name not in dropped}
        notes.append(f"dropped {', '.join(dropped)} at the top of the schema")
    if "$ref" in raw:
        notes.append("replaced the reference at the top of the schema")
    return schema, notes, " ".join(hints)


def _defs(schema: Json) -> Json:
    return {name: schema[name] for name in ("$defs", "definitions") if name in schema}


def _resolved(schema: Json, root: Json) -> Json:
    """Follow a reference at the top of a schema to a definition in ``root``."""
    merged, seen = dict(schema), set[str]()
    while isinstance(reference := merged.pop("$ref", None), str):
        base = next((prefix for prefix in _LOCAL if reference.startswith(prefix)), "")
        definitions = root.get(base.strip("#/"))
        definition = definitions.get(reference.removeprefix(base)) if base and isinstance(definitions, dict) else None
        if reference in seen or not isinstance(definition, dict):
            break
        seen.add(reference)
        merged = {**definition, **merged}
    return merged


def _hint(word: str, variants: list[Json]) -> list[str]:
    """Tell the model which parameters belong together, which one list of parameters cannot say."""
    if word == "allOf":
        return []
    groups = [
        sorted(map(str, variant["required"])) for variant in variants if isinstance(variant.get("required"), list)
    ]
    groups = [group for number, group in enumerate(groups) if group and group not in groups[:number]]
    if len(groups) < 2:
        return []
    return [f"Give {' or '.join(' and '.join(group) for group in groups)}."]


def _merged(schema: Json, variants: list[Json], *, every: bool) -> Json:
    """Return one schema with the parameters of all variants; required are those that each variant requires."""
    properties = _properties(schema)
    for variant in variants:
        for name, field in _properties(variant).items():
            existing = properties.get(name)
            if existing is None or existing is True or existing == {}:
                properties[name] = field
            elif existing != field and not every:
                choices = (
                    existing["anyOf"] if isinstance(existing, dict) and existing.keys() == {"anyOf"} else [existing]
                )
                properties[name] = {"anyOf": choices if field in choices else [*choices, field]}
    required = [_required(variant) for variant in variants]
    shared = set().union(*required) if every else set(required[0]).intersection(*required) if required else set()
    merged = {**schema, "properties": properties}
    for variant in variants:
        merged = {**_defs(variant), **merged}
    names = [name for name in properties if name in shared or name in _required(schema)]
    if names:
        merged["required"] = names
    if any("additionalProperties" in variant for variant in variants):
        merged.setdefault(
            "additionalProperties", all(each.get("additionalProperties") is not False for each in variants)
        )
    return merged


def _required(schema: Json) -> set[str]:
    required = schema.get("required")
    return set(map(str, required)) if isinstance(required, list) else set()


def _tidied(schema: Any, depth: int) -> Any:
    """Return a nested schema: lists have items, nothing is null, and no value that is not a schema stays."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return {}
    tidy = {name: value for name, value in schema.items() if value is not None or name in {"default", "const"}}
    for name in _SUBSCHEMAS:
        if isinstance(tidy.get(name), dict):
            tidy[name] = _tidied(tidy[name], depth + 1)
    for name in _LISTS:
        if isinstance(tidy.get(name), list):
            tidy[name] = [_tidied(item, depth + 1) for item in tidy[name]] or [{}]
    for name in _MAPS:
        if isinstance(tidy.get(name), dict):
            tidy[name] = {key: _tidied(field, depth + 1) for key, field in tidy[name].items()}
    kinds = tidy.get("type")
    if (kinds == "array" or (isinstance(kinds, list) and "array" in kinds)) and not isinstance(tidy.get("items"), dict):
        tidy["items"] = {}
    if tidy.get("required") is not None and not isinstance(tidy["required"], list):
        del tidy["required"]  # draft 3 and 4 put a boolean there
    if isinstance(tidy.get("items"), dict) and isinstance(tidy.get("enum"), list) and not tidy["enum"]:
        del tidy["enum"]
    return tidy
