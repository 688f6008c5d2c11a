"""Messages between the harness and a model, as the decoder reads them."""

import msgspec
import pytest

from stackmem.core.messages import ToolSpec


@pytest.mark.parametrize("schema", ["{", "not JSON", "NaN", "{} {}", "[" * 100_000, '{"a": 1e999}'])
def test_a_tool_whose_schema_is_not_json_is_refused(schema):
    raw = msgspec.json.encode({"name": "run", "description": "Runs.", "schema": schema})
    with pytest.raises(msgspec.ValidationError, match="the schema of the tool 'run' is not JSON"):
        msgspec.json.decode(raw, type=ToolSpec)


@pytest.mark.parametrize(
    ("schema", "parameters"), [("", {}), ("null", {}), ("[1]", {}), ('{"type": "object"}', {"type": "object"})]
)
def test_a_schema_that_is_not_an_object_accepts_anything(schema, parameters):
    raw = msgspec.json.encode({"name": "run", "description": "Runs.", "schema": schema})
    assert msgspec.json.decode(raw, type=ToolSpec).parameters == parameters
