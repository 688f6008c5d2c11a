"""Tools whose fields are listed in their description, as sent to servers that constrain output by schema."""

from stackmem.core.messages import ToolSpec, View
from stackmem.core.tool_schemas import shown_schema, spec
from stackmem.core.tools import tool_name
from stackmem.memory.adaptive import Adaptive
from stackmem.providers.gemini_messages import declaration
from stackmem.providers.openai_messages import chat_body
from stackmem.providers.openai_responses import responses_body

PUSH = next(spec(tool, {}) for tool in Adaptive().tools if tool_name(tool) == "push_frame")
FOREIGN = ToolSpec("note", "Keeps what is given: {name, content}", '{"type":"object"}')
VIEW = View("", (PUSH, FOREIGN), (), ())


def sent() -> list[list[dict]]:
    """Return the schemas of both tools in each wire format."""
    return [
        [tool["function"]["parameters"] for tool in chat_body(VIEW, "m")["tools"]],
        [tool["parameters"] for tool in responses_body(VIEW, "m")["tools"]],
        [declaration(tool)["parameters_json_schema"] for tool in VIEW.tools],
    ]


def test_the_fields_are_properties_on_every_wire_that_holds_a_model_to_them():
    for push, _ in sent():
        assert list(push["properties"]) == [
            "name", "objective", "context", "return_spec", "constraint", "verify", "store",
        ]  # fmt: skip
        assert push["required"] == ["name", "objective", "context", "return_spec"]
        chunk = push["properties"]["store"]["items"]["properties"]
        assert list(chunk) == ["name", "content", "description", "source"]


def test_what_a_foreign_tool_says_in_braces_is_no_field():
    assert [foreign["properties"] for _, foreign in sent()] == [{}, {}, {}]


def test_a_recorded_tool_whose_fields_stand_between_commas_has_them_still():
    recorded = ToolSpec("heap_write", "Replace: {name, content}", '{"type":"object"}')
    assert list(shown_schema(recorded)["properties"]) == ["name", "content"]
