"""Any call, written in any shape, is read as intended; text without a tool's name never becomes a call."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stackmem.providers.calls.reader import find_calls

TOOLS = ("read_file", "write_file", "run_command", "pop_frame")
Render = Callable[[str, dict[str, Any]], str]


def plain(name: str, arguments: dict[str, Any]) -> str:
    return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)


def python(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def xml(name: str, arguments: dict[str, Any]) -> str:
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"


JSON_SHAPES: dict[str, Render] = {
    "bare": plain,
    "indented": lambda name, given: json.dumps({"name": name, "arguments": given}, indent=4),
    "a JSON string": lambda name, given: json.dumps({"name": name, "arguments": json.dumps(given)}),
    "parameters": lambda name, given: json.dumps({"name": name, "parameters": given}),
    "tool and args": lambda name, given: json.dumps({"tool": name, "args": given}),
    "function": lambda name, given: json.dumps({"function": name, "arguments": given}),
    "OpenAI": lambda name, given: json.dumps(
        {"tool_calls": [{"id": "c", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}]}
    ),
    "Anthropic": lambda name, given: json.dumps({"type": "tool_use", "id": "c", "name": name, "input": given}),
    "arguments first": lambda name, given: json.dumps({"arguments": given, "name": name}),
    "a fence": lambda name, given: f"I do it.\n\n```json\n{plain(name, given)}\n```\n",
    "another fence": lambda name, given: f"```tool_code\n{plain(name, given)}\n```",
    "Hermes": lambda name, given: f"<tool_call>\n{plain(name, given)}\n</tool_call>",
    "Hermes, not closed": lambda name, given: f"Now.\n<tool_call>\n{plain(name, given)}",
    "Llama": lambda name, given: f"<|python_tag|>{json.dumps({'name': name, 'parameters': given})}<|eom_id|>",
    "Mistral": lambda name, given: f"[TOOL_CALLS] [{plain(name, given)}]</s>",
    "Mistral, newer": lambda name, given: f"[TOOL_CALLS]{name}[CALL_ID]ab12[ARGS]{json.dumps(given)}",
    "DeepSeek": lambda name, given: (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{json.dumps(given)}\n```"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "a missing brace": lambda name, given: plain(name, given)[:-1],
    "several": lambda name, given: f"{plain(name, given)}\n{plain('pop_frame', {'result': 'done'})}",
}
values = st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("\n\"\\{}[]<>`'")) | st.integers(
    0, 99
)
calls = st.tuples(
    st.sampled_from(TOOLS), st.dictionaries(st.sampled_from(["path", "content", "command", "line"]), values, min_size=1)
)


def read(text: str, *, answers: bool) -> tuple[str, Any]:
    found = find_calls(text, TOOLS, answers=answers)
    assert found is not None, text
    first = found.calls[0]
    return first.name, json.loads(first.arguments) if isinstance(first.arguments, str) else first.arguments


@pytest.mark.parametrize("shape", JSON_SHAPES)
@settings(max_examples=40)
@given(call=calls, answers=st.booleans())
def test_every_call_is_read_from_every_shape_of_json(shape: str, call: tuple[str, dict[str, Any]], answers: bool):
    assert read(JSON_SHAPES[shape](*call), answers=answers) == call


@settings(max_examples=100)
@given(call=calls, answers=st.booleans())
def test_every_call_is_read_from_python(call: tuple[str, dict[str, Any]], answers: bool):
    assert read(python(*call), answers=answers) == call
    assert read(f"```python\n{python(*call)}\n```", answers=answers) == call


words = st.text(st.characters(categories=("L", "N", "P", "Zs"), exclude_characters="<>"), min_size=1)


@settings(max_examples=60)
@given(name=st.sampled_from(TOOLS), path=words, content=words, answers=st.booleans())
def test_every_call_is_read_from_xml_and_its_values_stay_text(name: str, path: str, content: str, answers: bool):
    call = (name, {"path": path, "content": content})
    assert read(xml(*call), answers=answers) == call


letters = st.text(st.sampled_from("{}[]\"':,()<>=`\n abcxyz_/|") | st.characters(categories=("L",)), max_size=300)


@settings(max_examples=200)
@given(text=letters, answers=st.booleans())
def test_text_without_a_tool_is_not_a_call(text: str, answers: bool):
    assert find_calls(text, ("write_file", "read_file"), answers=answers) is None


def test_a_file_that_is_written_may_speak_of_thoughts_and_calls():
    content = "<think>\nnot a thought\n</think>\n<tool_call>{}</tool_call>"
    call = ("write_file", {"path": "a.md", "content": content})
    assert read(plain(*call), answers=True) == call
    assert read(f"<think>I write.</think>\n{plain(*call)}", answers=True) == call
    assert read(f"I think.\n</think>\n\n{plain(*call)}", answers=True) == call


def test_a_name_that_is_spelled_otherwise_is_the_offered_tool():
    for name in ("Write_File", "write-file", "functions.write_file", "write file"):
        assert read(plain(name, {"path": "a"}), answers=True) == ("write_file", {"path": "a"})
    assert read(plain("writeFile", {"path": "a"}), answers=True)[0] == "writeFile"  # the machine maps it to our tool
