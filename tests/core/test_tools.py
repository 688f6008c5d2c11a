"""The tools as a model is shown them."""

import re

import pytest
from jsonschema import Draft202012Validator
from msgspec import json

from stackmem.core.state import Registers
from tests.build import started

STORE = ["name", "content", "description", "source"]
# Each tool's parameters in their order, those it needs before the bar.
TABLE = {
    "read_file": "path | start_line end_line",
    "write_file": "path content |",
    "list_files": "| path",
    "run_command": "command |",
    "push_frame": "name objective context return_spec | constraint verify store",
    "pop_frame": "result | store",
    "heap_alloc": "name content | description source",
    "heap_read": "name | start_line end_line",
    "heap_write": "name content | description source",
    "heap_free": "name |",
}


def shown(strategy):
    return {tool.name: json.decode(tool.schema) for tool in started(strategy).tools}


def test_stackheap_offers_ten_tools_in_a_fixed_order():
    assert list(shown("stackheap")) == list(TABLE)


def test_full_offers_the_four_workspace_tools_and_the_end_of_the_run():
    assert list(shown("full")) == [*list(TABLE)[:4], "pop_frame"]
    assert list(shown("full")["pop_frame"]["properties"]) == ["result"]


@pytest.mark.parametrize("name", TABLE)
def test_a_tool_has_the_parameters_of_the_table(name):
    schema = shown("stackheap")[name]
    needed, optional = (part.split() for part in TABLE[name].split("|"))
    assert set(schema["properties"]) == {*needed, *optional}
    assert schema["required"] == needed
    assert schema["additionalProperties"] is False
    assert all(parameter.get("description", "-") for parameter in schema["properties"].values())
    Draft202012Validator.check_schema(schema)


def test_a_parameter_with_a_budget_names_it():
    told = shown("stackheap")
    for tool, parameters in {
        "push_frame": "name objective context return_spec constraint verify",
        "pop_frame": "result",
        "heap_alloc": "name description",
    }.items():
        for parameter in parameters.split():
            assert re.search(r"at most [\d,]+", told[tool]["properties"][parameter]["description"])


def test_store_is_a_list_of_named_contents():
    for name in ("push_frame", "pop_frame"):
        items = shown("stackheap")[name]["properties"]["store"]["items"]
        assert set(items["properties"]) == set(STORE)
        assert items["required"] == STORE[:2]


def test_a_schema_has_sorted_keys():
    for tool in started("stackheap").tools:
        assert tool.schema == json.encode(json.decode(tool.schema), order="sorted").decode()


def test_there_is_no_register_two():
    assert list(Registers.__struct_fields__) == ["intent", "return_spec", "constraint"]
