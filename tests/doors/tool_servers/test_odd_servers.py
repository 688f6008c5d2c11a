"""Odd MCP servers: what they send is mended or named, and their good tools work."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from stackmem.settings.settings_files import user_folder
from stackmem.settings.tools.mcp_servers import own_servers
from stackmem.settings.tools.own_tools import NOTES, TOOLS

Json = dict[str, Any]

SERVER = r"""
import json, sys
given = json.loads(open(sys.argv[1], encoding="utf-8").read())
print(given.get("banner", ""), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, result = message["method"], {}
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "odd", "version": "1"}, **given.get("greeting", {})}
        result = {name: value for name, value in result.items() if value is not None}
    elif method == "tools/list":
        result = {"tools": given["tools"]}
    elif method == "tools/call":
        name = message["params"]["name"]
        if name == "dies":
            sys.exit(1)
        echo = {"content": [{"type": "text", "text": json.dumps(message["params"].get("arguments"))}]}
        result = given.get("results", {}).get(name, echo)
    elif method == "server/discover":
        error = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    if method == "tools/call" and name in given.get("errors", {}):
        answer = {"jsonrpc": "2.0", "id": message["id"], "error": given["errors"][name]}
    if given.get("ids") == "texts":
        answer["id"] = str(answer["id"])
    if given.get("version") == "missing":
        del answer["jsonrpc"]
    print(json.dumps(answer), flush=True)
"""
GOOD = {
    "name": "good",
    "description": "Echo.",
    "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}},
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    return tmp_path


def offer(place: Path, *tools: Any, **given: Any) -> None:
    """Configure a server that offers these tools and the good one."""
    (place / "given.json").write_text(json.dumps({"tools": [GOOD, *tools], **given}), encoding="utf-8")
    path = user_folder(os.environ, "XDG_CONFIG_HOME", ".config", "mcp.toml")
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(place / "server.py"), str(place / "given.json")]
    path.write_text(f"[odd]\ncommand = {json.dumps(command)}\n", encoding="utf-8")


def works() -> bool:
    return TOOLS["odd__good"].text({"x": "1"}) == ('{"x": "1"}', False)


def test_odd_tools_are_mended_or_named_and_the_good_one_works(place: Path) -> None:
    either = {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                        {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}]}  # fmt: skip
    offer(
        place,
        {"name": "no_type", "inputSchema": {"$schema": "http://json-schema.org/draft-07/schema#"}},
        {"name": "any.of/top", "description": None, "inputSchema": either},
        {"name": "no_schema"},
        {"name": "null", "inputSchema": None},
        {"name": "names", "inputSchema": {"type": "object", "properties": {"a[b]": {"type": "string"}}}},
        {"name": "text", "inputSchema": {"type": "string"}},
        {"name": "lists", "inputSchema": {"type": "object", "properties": [], "required": {}}},
        {"name": "", "inputSchema": {"type": "object"}},
        {"inputSchema": {"type": "object"}},
        "no tool",
    )
    with own_servers(os.environ, place):
        assert works()
        assert sorted(TOOLS) == [
            "odd__any_of_top", "odd__good", "odd__lists", "odd__names", "odd__no_schema", "odd__no_type", "odd__null",
        ]  # fmt: skip
        for tool in TOOLS.values():
            assert tool.spec.parameters["type"] == "object"
            assert "anyOf" not in tool.spec.parameters
        assert TOOLS["odd__names"].text({"a_b_": "1"}) == ('{"a[b]": "1"}', False)
        said = "\n".join(NOTES)
        assert "its tool text was left out: its arguments are 'string', not an object" in said
        assert "no_schema has no schema" in said
        assert said.count("it has no name") == 3
    assert NOTES == []


@pytest.mark.parametrize(
    "given",
    [
        {"banner": "Server 1.2\n\n{}"},
        {"ids": "texts"},
        {"version": "missing"},
        {"greeting": {"protocolVersion": "2031-01-01"}},
        {"greeting": {"serverInfo": None, "capabilities": None}},
        {"greeting": {"serverInfo": {"name": "odd"}}},
    ],
    ids=str,
)
def test_a_server_that_is_slightly_off_is_used(place: Path, given: Json) -> None:
    offer(place, **given)
    with own_servers(os.environ, place):
        assert works()
        assert all("2031" in note for note in NOTES)


TEXT = {"type": "text", "text": "hello"}


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"content": [TEXT]}, "hello"),
        ({"content": "hello"}, "hello"),
        ({"content": TEXT}, "hello"),
        ({"content": None}, ""),
        ({}, ""),
        ({"content": [{"type": "text"}]}, '{"type": "text"}'),
        ({"content": [{"type": "chart", "data": 1}]}, '{"type": "chart", "data": 1}'),
        ({"content": [{"text": "hello"}]}, "hello"),
        ({"structuredContent": {"a": 1}}, '{"a": 1}'),
        ({"structuredContent": [1, 2], "content": []}, "[1, 2]"),
        ({"toolResult": "old"}, '{"toolResult": "old"}'),
        ({"content": [TEXT], "isError": None}, "hello"),
        ([TEXT], "hello"),
        ("hello", "hello"),
    ],
)
def test_every_form_of_a_result_reaches_the_model(place: Path, result: Json, text: str) -> None:
    offer(place, {"name": "odd", "inputSchema": {"type": "object"}}, results={"odd": result})
    with own_servers(os.environ, place):
        assert TOOLS["odd__odd"].text({}) == (text, False)


@pytest.mark.parametrize(
    "error",
    [{"code": 1, "message": "quota"}, {"message": "quota"}, "quota", {"code": "E1", "message": {"text": "quota"}}],
)
def test_an_error_in_any_form_reaches_the_model(place: Path, error: object) -> None:
    offer(place, {"name": "odd", "inputSchema": {"type": "object"}}, errors={"odd": error})
    with own_servers(os.environ, place):
        text, failed = TOOLS["odd__odd"].text({})
    assert failed
    assert "quota" in text


def test_a_required_parameter_that_is_not_a_name_costs_only_itself(place: Path) -> None:
    offer(place, {"name": "odd", "inputSchema": {"type": "object", "properties": {"a": {}}, "required": ["a", 5]}})
    with own_servers(os.environ, place):
        assert works()
        assert TOOLS["odd__odd"].spec.parameters["required"] == ["a"]


def test_an_error_of_the_tool_is_told(place: Path) -> None:
    result = {"content": [{"type": "text", "text": "quota exceeded"}], "isError": True}
    offer(place, {"name": "odd", "inputSchema": {"type": "object"}}, results={"odd": result})
    with own_servers(os.environ, place):
        text, failed = TOOLS["odd__odd"].text({})
    assert failed
    assert "quota exceeded" in text


@pytest.mark.parametrize("result", [{"content": [TEXT]}, {"content": [TEXT], "structuredContent": {"n": "x"}}])
def test_a_result_that_its_schema_does_not_allow_arrives_with_a_note(place: Path, result: Json) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    offer(place, {"name": "odd", "inputSchema": {"type": "object"}, "outputSchema": schema}, results={"odd": result})
    with own_servers(os.environ, place):
        text, failed = TOOLS["odd__odd"].text({})
    assert not failed
    assert text.startswith("hello\n[note: the result does not match the tool's output schema")


def test_a_server_that_ends_is_started_once_more(place: Path) -> None:
    offer(place, {"name": "dies", "inputSchema": {"type": "object"}})
    with own_servers(os.environ, place):
        first, failed = TOOLS["odd__dies"].text({})
        assert failed
        assert "was started again" in first
        assert works()
        second, failed = TOOLS["odd__dies"].text({})
        assert failed
        assert "ended again" in second
