"""Which values a schema allows, and the message about the first one it does not."""

import http.server
import threading

import pytest

from stackmem.core.schemas.json_schema import first_fault, read_json, schema_error

FORMS = {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 3}]}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 3.0),
        ({"type": ["string", "null"]}, None),
        ({"enum": [1, "a"]}, "a"),
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
def test_valid_values_have_no_fault(schema, value):
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
        ({"oneOf": [{}, {"type": "integer"}]}, 1, "$ fits 2 forms, but must fit exactly one"),
        ({"not": {"type": "string"}}, "a", "$ has the form that is ruled out"),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "null"}}}, 1, "$ must be of type null, is integer"),
        ({"$ref": "#"}, 1, "the schema refers to itself without end"),
        ({"not": {"$ref": "#"}}, 1, "the schema refers to itself without end"),
        (False, 1, "$ is not allowed"),
    ],
)
def test_the_first_fault_is_reported_with_its_position(schema, value, told):
    assert first_fault(value, schema) == told


def test_a_pattern_that_cannot_be_read_is_the_fault():
    assert first_fault("a", {"pattern": "("}).startswith("the schema's own pattern cannot be read")


@pytest.mark.parametrize("text", ['{"a": 1}', '```json\n{"a": 1}\n```', ' ```\n{"a": 1}\n ``` '])
def test_a_value_is_read_also_from_a_fence(text):
    assert read_json(text) == ({"a": 1}, "")


def test_invalid_json_is_reported_with_its_position():
    value, fault = read_json('{"a": }')
    assert value is None
    assert fault.endswith("at line 1, column 7)")


DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
NAMES = {"patternProperties": {"^x-": {"type": "string"}}, "properties": {"a": {}}, "additionalProperties": False}
CHOICE = {"if": {"properties": {"kind": {"const": "n"}}}, "then": {"required": ["n"]}, "else": {"required": ["s"]}}
TREE = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}, "required": ["name"]}


@pytest.mark.parametrize(
    ("schema", "value", "wrong", "told"),
    [
        (NAMES, {"a": 1, "x-b": "c"}, {"a": 1, "b": 2}, "$.b is not asked for; known: a"),
        (NAMES, {}, {"x-b": 1}, "$.x-b must be of type string, is integer"),
        ({"uniqueItems": True}, [1, True, "1"], [1, 1.0], "$ must not have the same item twice"),
        ({"multipleOf": 5}, 10, 7, "$ must be a multiple of 5, is 7"),
        ({"multipleOf": 0.01}, 0.07, 0.075, "$ must be a multiple of 0.01, is 0.075"),
        ({"minProperties": 1}, {"a": 1}, {}, "$ must be at least 1 members, is 0"),
        ({"maxProperties": 1}, {"a": 1}, {"a": 1, "b": 2}, "$ must be at most 1 members, is 2"),
        ({"prefixItems": [{"type": "string"}]}, ["a", 1], [1], "$[0] must be of type string, is integer"),
        ({"prefixItems": [{}], "items": False}, [1], [1, 2], "$[1] is not allowed"),
        ({**DRAFT_7, "items": [{}], "additionalItems": False}, [1], [1, 2], "$[1] is not allowed"),
        ({"contains": {"const": 1}}, [0, 1], [0], "$ must have at least 1 items of the form that `contains` asks for"),
        (
            {"contains": {"const": 1}, "maxContains": 1}, [1], [1, 1],
            "$ must have at most 1 items of the form that `contains` asks for",
        ),
        (CHOICE, {"kind": "n", "n": 1}, {"kind": "n"}, "$.n is missing"),
        (CHOICE, {"kind": "s", "s": 1}, {"kind": "s"}, "$.s is missing"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 2}, {"a": 1}, "$.b is missing"),
        (
            {"propertyNames": {"pattern": "^[a-z]+$"}}, {"a": 1}, {"A": 1},
            'the name "A" in $ must match \'^[a-z]+$\', is "A"',
        ),
        (
            {"propertyNames": {"anyOf": [{"maxLength": 1}]}}, {"a": 1}, {"ab": 1},
            'the name "ab" in $ must be at most 1 characters, is 2',
        ),
        (
            {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, {"a": 1}, {"b": 1},
            "$.b is not asked for",
        ),
        ({"properties": {"a": False}}, {}, {"a": 1}, "$.a is not allowed"),
        (TREE, {"name": 1, "children": [{"name": 2}]}, {"name": 1, "children": [{}]}, "$.children[0].name is missing"),
        (
            {"items": {"oneOf": [{"properties": {"b": {"type": "string"}}}, {"type": "null"}]}}, [{"b": ""}],
            [{"b": 1}],
            "$[0] fits none of 2 forms; of the first: $[0].b must be of type string, is integer",
        ),
        ({"$id": "https://example.org/a", "$ref": "#b", "$defs": {"b": {"$anchor": "b", "const": 1}}}, 1, 2,
         "$ must be 1, is 2"),
        ({"maximum": 10**30}, 10**30, 10**30 + 1, f"$ must be at most {10**30}, is {10**30 + 1}"),
        ({"format": "email"}, "not an address", None, ""),
    ],
)  # fmt: skip
def test_every_word_of_a_schema_counts(schema, value, wrong, told):
    assert schema_error(schema) == ""
    assert first_fault(value, schema) == ""
    assert first_fault(wrong, schema) == told


def test_the_first_fault_is_the_first_in_the_value():
    schema = {"additionalProperties": {"type": "string"}, "minProperties": 9, "required": ["z"]}
    assert first_fault({"b": 1, "a": 2}, schema) == "$.z is missing"
    assert first_fault({"z": "", "b": 1, "a": 2}, schema) == "$.b must be of type string, is integer"
    assert first_fault({"z": ""}, schema) == "$ must be at least 9 members, is 1"


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("text", 'the schema must be an object, is "text"'),
        (5, "the schema must be an object, is 5"),
        (None, "the schema must be an object, is null"),
        ([{}], "the schema must be an object, is [{}]"),
        ({"type": 5}, "the schema is not valid at /type: 5 is not valid under any of the schemas listed in"),
        ({"properties": [1]}, "the schema is not valid at /properties: [1] is not of type"),
        ({"properties": {"a": {"enum": "b"}}}, "the schema is not valid at /properties/a/enum: "),
        ({"required": "a"}, "the schema is not valid at /required: "),
        ({"pattern": "("}, "the schema's own pattern cannot be read ("),
        ({"patternProperties": {"(": {}}}, "the schema's own pattern cannot be read ("),
        ({"pattern": "(((a{1000}){1000}){1000})"}, "the schema's own pattern cannot be read ("),
        ({"$ref": 5}, "the schema is not valid at /$ref: "),
        ({"$schema": "urn:own", "type": "string"}, "the schema is not valid: Unknown meta-schema: 'urn:own'"),
        ({"enum": [float("nan")]}, "the schema is not JSON: it contains nan"),
        ({"const": {1: 2}}, "the schema is not JSON: it contains a Python int as a name"),
        ({"const": object()}, "the schema is not JSON: it contains a Python object"),
        ({"const": "\ud800"}, "the schema is not valid: "),
    ],
)
def test_a_schema_that_is_none_is_the_fault(schema, told):
    assert schema_error(schema).startswith(told)
    assert first_fault({"a": 1}, schema).startswith(told)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("\ud800", "$ cannot be checked: "),
        (float("inf"), "$ is not JSON: it contains inf"),
        ({1: 2}, "$ is not JSON: it contains a Python int as a name"),
        ({"a": object()}, "$ is not JSON: it contains a Python object"),
    ],
)
def test_a_value_that_is_not_json_is_a_fault(value, told):
    assert first_fault(value, {"type": "integer"}).startswith(told)


def test_nothing_outside_the_schema_is_read(tmp_path):
    """No file or address is read, even if the standard defines the address."""
    asked: list[str] = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

    decoy = tmp_path / "decoy.json"
    decoy.write_text('{"type": "string"}')
    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        for place in (
            f"{address}/a.json",
            decoy.as_uri(),
            "other.json",
            "https://json-schema.org/draft/2020-12/schema",
        ):
            for word in ("$ref", "$dynamicRef"):
                told = first_fault("text", {word: place})
                assert told == (
                    f"the schema refers to {place!r}, which is not a part of it; other schemas are never fetched"
                )
        behind = {"properties": {"never": {"$ref": f"{address}/b.json"}}}
        assert first_fault("text", behind).startswith("the schema is not valid: ")
        assert first_fault("text", {"$schema": f"{address}/meta.json"}).startswith("the schema is not valid: ")
        assert first_fault("text", {"$id": f"{address}/root.json", "$ref": "b.json"}).startswith("the schema refers to")
        server.shutdown()
    assert asked == []
