"""``stackmem mcp --programs``: the programs of a folder as tools, called by the protocol's own client."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from stackmem.core.errors import UsageError
from stackmem.doors.mcp.programs import answer_of
from stackmem.languages.running.catalog import catalog
from tests.stage import Stage

PROGRAMS = {
    "double.sexp": "; Doubles a number.\n(list n (* n 2))\n",
    "greet.apl": "# Greets.\ninputs:\n  - {name: who, description: Whom., required: true}\n"
    "  - {name: how, description: How., default: Hello}\n"
    "main:\n  - {name: Say, tool: log, message: '{{how}} {{who}}'}\n",
    "ask.pb": "# A\nsays\n## Main($topic:str, $depth:int=2)\nAnswers a question.\n### Steps\n- 01:RET $topic\n",
    "kid.agent.yaml": "name: kid\ndescription: Counts.\nprompt: p\npayload: {n: 0}\n"
    "start_schema: {properties: {m: {type: string}}, required: [m]}\n",
    "deep/main.sexp": '(write_file (path "out.txt") (content "done"))\n',
    "notes.txt": "no program",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in PROGRAMS.items():
        path = tmp_path / "programs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (tmp_path / "project").mkdir()
    return tmp_path


def test_each_program_has_a_name_a_description_and_the_schema_of_its_inputs(folder: Path) -> None:
    found = {entry.name: (entry.description, entry.schema) for entry in catalog(folder / "programs")}
    shape = {"type": "object", "additionalProperties": False}
    assert found == {
        "ask": (
            "Answers a question.",
            {**shape, "properties": {"topic": {"type": "string"}, "depth": {"type": "integer", "default": 2}},
             "required": ["topic"]},
        ),
        "deep": ("Runs the program main.sexp.", {**shape, "properties": {}}),
        "double": ("Doubles a number.", {**shape, "properties": {"n": {}}, "required": ["n"]}),
        "greet": (
            "Greets.",
            {**shape, "required": ["who"],
             "properties": {"who": {"description": "Whom."}, "how": {"description": "How.", "default": "Hello"}}},
        ),
        "kid": (
            "Counts.",
            {**shape, "required": ["m"],
             "properties": {"n": {"type": "integer", "default": 0}, "m": {"type": "string"}}},
        ),
    }  # fmt: skip


def test_a_folder_that_cannot_be_served_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no programs"):
        catalog(tmp_path)
    with pytest.raises(UsageError, match="is not a folder"):
        catalog(tmp_path / "none")
    (tmp_path / "a.sexp").write_text("1", "utf-8")
    (tmp_path / "a.apl").write_text("main: []", "utf-8")
    with pytest.raises(UsageError, match="are both called a"):
        catalog(tmp_path)
    (tmp_path / "a.apl").write_text("main: [", "utf-8")
    with pytest.raises(UsageError, match="cannot be offered as a tool"):
        catalog(tmp_path)


@pytest.mark.parametrize(
    ("output", "errors", "answer"),
    [
        (b'{"outcome": "finished", "value": 1, "said": []}', b"", ('{"outcome": "finished", "value": 1}', False)),
        (b'{"outcome": "halted", "result": "why"}', b"", ('{"outcome": "halted", "result": "why"}', True)),
        (b"", b"stackmem: no such input", ("stackmem: no such input", True)),
        (b"[]", b"", ("the program ended with exit code 7 and without a result", True)),
        (b"\xff" * 9, b"\xff", ("\ufffd", True)),
    ],
)  # fmt: skip
def test_the_answer_is_made_of_what_the_run_printed(output: bytes, errors: bytes, answer: tuple[str, bool]) -> None:
    assert answer_of(output, errors, 7) == answer


def test_a_client_calls_programs(stage: Stage, folder: Path) -> None:
    from mcp import Client, StdioServerParameters

    command = stage.arguments("mcp", str(folder / "project"), "--programs", str(folder / "programs"), "--apply")
    server = StdioServerParameters(command=command[0], args=list(command[1:]), env=stage.environ())

    async def work() -> list[Any]:
        async with Client(server) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            calls = [
                client.call_tool("double", {"n": 21}), client.call_tool("deep", {}),
                client.call_tool("greet", {"name": "Ada"}),
            ]  # fmt: skip
            return [tools, *(await asyncio.gather(*calls))]

    tools, double, deep, greet = asyncio.run(work())
    assert tools == ["ask", "deep", "double", "greet", "kid"]
    assert (double.is_error, json.loads(double.content[0].text)["value"]) == (False, [21, 42])
    assert (deep.is_error, (folder / "project" / "out.txt").read_text("utf-8")) == (False, "done")
    assert (greet.is_error, "no input 'name'" in greet.content[0].text or "name" in greet.content[0].text) == (
        True,
        True,
    )
