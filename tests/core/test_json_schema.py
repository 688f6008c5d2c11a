"""Which values a schema allows, and what is said of the first that it does not."""

import pytest

from stackmem.core.json_schema import first_fault, read_json

FORMS = {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 3}]}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 3.0),
        ({"type": ["string", "null"]}, None),
        ({"enum": [1, "a"]}, "a"),
        ({"enum": "no list"}, 5),
        ({"const": 1}, 1.0),
        ({"minLength": 2, "maxLength": 2}, "ab"),
        ({"minimum": 2, "maximum": 2}, 2),
        ({"additionalProperties": {"type": "integer"}}, {"a": 1}),
        (FORMS, 3),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, 1),
        ({"not": {"type": "string"}}, 1),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, 1),
        ({}, {"anything": [None]}),
        (True, 1),
    ],
)
def test_what_fits_has_no_fault(schema, value):
    assert first_fault(value, schema) == ""


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"type": "integer"}, True, "$ must be of type integer, is boolean"),
        ({"type": ["string", "null"]}, 1, "$ must be of type string or null, is integer"),
        ({"enum": [1]}, True, "$ must be one of [1], is true"),
        ({"const": "a"}, "b", '$ must be "a", is "b"'),
        ({"required": ["a"]}, {}, "$.a is missing"),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, "$.b is not asked for; known: a"),
        ({"items": {"type": "string"}}, ["a", 1], "$[1] must be of type string, is integer"),
        ({"minLength": 2}, "a", "$ must be at least 2 characters, is 1"),
        ({"maximum": 2}, 3, "$ must be at most 2, is 3"),
        ({"exclusiveMinimum": 2}, 2, "$ must be above 2, is 2"),
        ({"exclusiveMaximum": 2}, 2, "$ must be below 2, is 2"),
        ({"pattern": "^a"}, "b", "$ must match '^a', is \"b\""),
        ({"anyOf": [{"type": "string"}]}, 1, "$ must be of type string, is integer"),
        (FORMS, 2, "$ fits none of 2 forms; of the first: $ must be of type string, is integer"),
        ({"oneOf": [{}, {"type": "integer"}]}, 1, "$ fits 2 forms where one is asked for"),
        ({"not": {"type": "string"}}, "a", "$ has the form that is ruled out"),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "null"}}}, 1, "$ must be of type null, is integer"),
        ({"$ref": "#"}, 1, "$ is nested more than 100 deep"),
        (False, 1, "$ is not allowed"),
    ],
)
def test_the_first_fault_is_told_by_its_place(schema, value, told):
    assert first_fault(value, schema) == told


def test_a_not_that_refers_to_itself_comes_to_an_end():
    schema = {"not": {"$ref": "#"}}
    assert first_fault(1, schema) in ("", "$ has the form that is ruled out")


def test_a_pattern_that_cannot_be_read_is_the_fault():
    assert first_fault("a", {"pattern": "("}).startswith("the schema's own pattern cannot be read")


@pytest.mark.parametrize("text", ['{"a": 1}', '```json\n{"a": 1}\n```', ' ```\n{"a": 1}\n ``` '])
def test_a_value_is_read_also_from_a_fence(text):
    assert read_json(text) == ({"a": 1}, "")


def test_what_is_no_json_is_told_with_its_place():
    value, fault = read_json('{"a": }')
    assert value is None
    assert fault.endswith("at line 1, column 7)")
