"""The tools as a model receives them."""

import re

import pytest
from jsonschema import Draft202012Validator
from msgspec import json
from msgspec.structs import replace

from stackmem.core.facts import CallRejected
from stackmem.core.requests import UseTool
from stackmem.core.state import Registers
from stackmem.core.tool_schemas import spec
from stackmem.core.tools import OPTIONAL_TOOLS, EditFile
from tests.build import do, play, started

STORE = ["name", "content", "description", "source"]
# Each tool's parameters in order; required ones before the bar.
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


EDIT = do("edit_file", path="a.py", old_string="1", new_string="2", replace_all=True)


def with_tools(*names):
    start = started("full")
    return replace(start, tools=(*start.tools, *(spec(OPTIONAL_TOOLS[name], {}) for name in names)))


def test_an_optional_tool_is_offered_only_if_the_start_lists_it():
    (effect,) = (one for one in play(EDIT, start=with_tools("edit_file")).effects if isinstance(one, UseTool))
    assert effect.call == EditFile("a.py", "1", "2", replace_all=True)
    (refused,) = play(EDIT).of(CallRejected)
    assert refused.code == "unknown_tool"
    assert "edit_file" not in refused.reason.partition(";")[2]


@pytest.mark.parametrize(
    ("given", "code"),
    [({"replace_all": "yes"}, "bad_arguments"), ({"replace_all": 1}, "bad_arguments"), ({"more": 1}, "bad_arguments")],
)
def test_an_argument_that_is_not_a_boolean_is_refused(given, code):
    asked = do("edit_file", **{"path": "a", "old_string": "1", "new_string": "2", **given})
    (refused,) = play(asked, start=with_tools("edit_file")).of(CallRejected)
    assert refused.code == code


def test_a_new_text_that_is_larger_than_a_result_is_refused():
    asked = do("edit_file", path="a", old_string="1", new_string="x" * 40_000)
    (refused,) = play(asked, start=with_tools("edit_file")).of(CallRejected)
    assert (refused.code, "new_string is 40,000 bytes" in refused.reason) == ("too_large", True)
