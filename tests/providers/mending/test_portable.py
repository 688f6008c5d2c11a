"""Schemas of other people's tools become schemas that every provider accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.budgets import Budgets
from stackmem.core.messages import ToolSpec
from stackmem.core.schemas.portable import own_arguments, portable
from stackmem.core.tool_schemas import spec
from stackmem.core.tools import OPTIONAL_TOOLS
from tests.build import slots, started

Json = dict[str, Any]
TEXT = {"type": "string"}
AT_TOP = ("anyOf", "oneOf", "allOf", "enum", "not", "const", "$ref")


def tool(schema: Any) -> ToolSpec:
    return ToolSpec("odd", "Do it.", json.dumps(schema))


def made(schema: Any) -> tuple[Json, tuple[str, ...]]:
    changed, notes = portable(tool(schema))
    assert portable(changed) == (changed, ())
    return changed.parameters, notes


def test_a_usual_schema_stays_byte_for_byte() -> None:
    usual = tool({"type": "object", "properties": {"a": TEXT}, "required": ["a"], "additionalProperties": False})
    assert portable(usual) == (usual, ())


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
def test_alternatives_become_one_list_of_parameters(word: str) -> None:
    first = {"type": "object", "properties": {"id": TEXT, "kind": TEXT}, "required": ["id", "kind"]}
    second = {"properties": {"name": TEXT, "kind": {"type": "integer"}}, "required": ["name", "kind"]}
    schema, notes = made({word: [first, second]})
    assert schema["type"] == "object"
    assert schema["required"] == ["kind"]
    assert schema["properties"] == {"id": TEXT, "name": TEXT, "kind": {"anyOf": [TEXT, {"type": "integer"}]}}
    assert word in notes[0]


def test_the_model_learns_which_parameters_belong_together() -> None:
    schema = {
        "type": "object",
        "properties": {"a": TEXT, "b": TEXT},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    changed, _ = portable(tool(schema))
    assert changed.description == "Do it. Give a or b."


def test_parts_of_all_of_are_joined() -> None:
    base = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
    schema, _ = made({"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": TEXT}, "required": ["b"]}],
                      "$defs": {"base": base}})  # fmt: skip
    assert schema["properties"] == {"a": TEXT, "b": TEXT}
    assert schema["required"] == ["a", "b"]


@pytest.mark.parametrize("reference", ["#/$defs/args", "#/definitions/args"])
def test_a_reference_at_the_top_is_followed(reference: str) -> None:
    place = reference.split("/")[1]
    schema, _ = made({"$ref": reference, place: {"args": {"type": "object", "properties": {"a": TEXT}}}})
    assert schema["properties"] == {"a": TEXT}


@pytest.mark.parametrize(
    ("schema", "properties"),
    [
        ({}, {}),
        (None, {}),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, None),
        ({"properties": {"a": TEXT}}, {"a": TEXT}),
        ({"type": "object", "required": ["", 5]}, {}),
        ({"type": ["object", "null"], "properties": {"a": TEXT}}, {"a": TEXT}),
        ({"type": "object", "properties": None}, {}),
        ({"type": "object", "properties": {"a": None, "b": True}}, {"a": {}, "b": {}}),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, {"a": {"type": "array", "items": {}}}),
        ({"type": "object", "properties": {"a": {"type": "string", "required": True}}}, {"a": TEXT}),
        ({"type": "object", "properties": {"a": TEXT}, "required": None}, {"a": TEXT}),
        ({"type": "object", "properties": {"a": TEXT}, "required": ["a", "gone"]}, {"a": TEXT}),
        ({"type": "object", "properties": {"a": TEXT}, "not": {"required": ["a"]}}, {"a": TEXT}),
        ({"type": "object", "properties": {"a": TEXT}, "if": {}, "then": {}, "else": {}}, {"a": TEXT}),
        ({"type": "object", "properties": {"a": TEXT}, "dependentRequired": {"a": ["b"]}}, {"a": TEXT}),
    ],
)
def test_each_fault_is_mended_with_a_note(schema: Any, properties: Any) -> None:
    changed, notes = made(schema)
    assert changed["type"] == "object"
    assert changed.get("properties") == properties
    assert notes
    assert set(changed.get("required", [])) <= set(properties or {})


def test_a_renamed_parameter_reaches_the_tool_under_its_own_name() -> None:
    given_schema = {"type": "object", "properties": {"user[name]": TEXT, "user_name_": TEXT, "é" * 90: TEXT},
                    "required": ["user[name]"]}  # fmt: skip
    schema, notes = made(given_schema)
    names = list(schema["properties"])
    assert schema["required"] == ["user_name__2"]
    assert len(set(names)) == 3
    assert "renamed parameters" in notes[0]
    arguments = own_arguments(tool(given_schema), dict.fromkeys(names, "x") | {"extra": 1})
    assert arguments == {"user[name]": "x", "user_name_": "x", "é" * 90: "x", "extra": 1}


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "array"}, [], "x", 3, False])
def test_arguments_that_are_no_object_cannot_be_mended(schema: Any) -> None:
    with pytest.raises(ValueError, match="its"):
        portable(tool(schema))


KEYS = st.sampled_from([*AT_TOP, "type", "properties", "required", "items", "$defs", "definitions", "a", "b c", ""])
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.sampled_from(["object", "string", "#/$defs/a", "a"]))
SCHEMAS = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
                       max_leaves=30)  # fmt: skip


@given(st.dictionaries(KEYS, SCHEMAS, max_size=6))
def test_any_schema_is_mended_once_or_refused(schema: Json) -> None:
    try:
        changed, _ = portable(tool(schema))
    except ValueError:
        return
    assert changed.parameters["type"] == "object"
    assert not set(AT_TOP) & changed.parameters.keys()
    again, notes = portable(changed)
    assert (again, notes) == (changed, ())


def test_our_own_tools_are_sent_as_they_are():
    for tool in (*started("stackheap").tools, *(spec(each, slots(Budgets())) for each in OPTIONAL_TOOLS.values())):
        assert portable(tool) == (tool, ())
