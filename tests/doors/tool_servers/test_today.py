"""Features of current servers: mixed content, many tools, colliding names, roots, and questions to the user."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.program_facts import ToolAnswered
from stackmem.doors.tool_servers.questions import answered_by, put_to_person
from stackmem.settings.tools.mcp_servers import own_servers
from stackmem.settings.tools.own_tools import TOOLS
from tests.doors.tool_servers.test_servers import settings, write_own

SERVER = """
from typing import Annotated
from mcp.server.mcpserver import Elicit, ListRoots, MCPServer, Resolve
from mcp.server.elicitation import ElicitationResult
from mcp.types import (
    AudioContent, BlobResourceContents, CallToolResult, EmbeddedResource, ImageContent, ListRootsResult, ResourceLink,
    TextContent, TextResourceContents,
)
from pydantic import BaseModel, Field
from typing import Literal

server = MCPServer("today")
SHOT = ImageContent(type="image", data="aGVsbG8=", mime_type="image/png")

@server.tool()
def mixed() -> list:
    "Everything there is."
    return [
        "before", SHOT, AudioContent(type="audio", data="aGk=", mime_type="audio/wav"),
        ResourceLink(type="resource_link", name="spec", uri="file:///spec.md", description="what to do",
                     mime_type="text/markdown"),
        EmbeddedResource(
            type="resource", resource=TextResourceContents(uri="file:///a", text="inner", mime_type="text/x")
        ),
        EmbeddedResource(type="resource", resource=BlobResourceContents(uri="file:///b", blob="aGVsbG8=")), "after",
    ]

@server.tool()
def both() -> CallToolResult:
    "Structured content, and more than that."
    return CallToolResult(content=[TextContent(type="text", text="seen"), SHOT], structured_content={"a": 1})

@server.tool()
def numbers() -> list[int]:
    "Texts that repeat what is structured."
    return [1, 2]

@server.tool()
def picture() -> ImageContent:
    "Only a picture."
    return SHOT

class Form(BaseModel):
    name: str = Field(title="Your name", min_length=2)
    count: int = 3
    size: Literal["small", "large"]
    sure: bool

async def who() -> Elicit[Form]:
    return Elicit("Who are you?", Form)

@server.tool()
async def ask(form: Annotated[ElicitationResult[Form], Resolve(who)]) -> str:
    "Ask in mid call."
    return form.action + (f" {form.data.model_dump()}" if form.action == "accept" else "")

async def folders() -> ListRoots:
    return ListRoots()

@server.tool()
async def roots(known: Annotated[ListRootsResult, Resolve(folders)]) -> str:
    "The folders."
    return " ".join(str(root.uri) for root in known.roots)

server.add_tool(numbers, name="a" * 70 + "1")
server.add_tool(numbers, name="a" * 70 + "2")
server.add_tool(numbers, name="dotted.name")
server.add_tool(numbers, name="dotted_name")
server.run("stdio")
"""


@pytest.fixture
def server(tmp_path: Path) -> Path:
    path = tmp_path / "server.py"
    path.write_text(SERVER, encoding="utf-8")
    return path


def test_all_that_a_result_holds_is_told_and_names_that_collide_get_numbers(server: Path, tmp_path: Path) -> None:
    write_own(settings(server, 'names = { picture = "look" }'))
    with own_servers(os.environ, tmp_path):
        assert TOOLS["numbers__mixed"].answer({}).value == (
            "before\n[image: image/png, 5 bytes]\n[audio: audio/wav, 2 bytes]\n"
            "[resource link: spec, file:///spec.md, text/markdown: what to do]\n"
            "[resource: file:///a, text/x]\ninner\n[resource: file:///b, 5 bytes]\nafter"
        )
        both = {"content": "seen\n[image: image/png, 5 bytes]", "structured_content": {"a": 1}}
        assert TOOLS["numbers__both"].answer({}) == ToolAnswered(both)
        assert TOOLS["numbers__numbers"].answer({}) == ToolAnswered([1, 2])
        assert TOOLS["numbers__look"].text({}) == ("[image: image/png, 5 bytes]", False)
        long = "numbers__" + "a" * 55
        assert {long, f"{long[:-2]}_2", "numbers__dotted_name", "numbers__dotted_name_2"} < TOOLS.keys()
        assert "numbers__picture" not in TOOLS
        # No user is available for questions, and the server is informed.
        assert TOOLS["numbers__ask"].answer({}).failed == "error"
    assert not TOOLS


def test_of_a_server_with_too_many_tools_the_person_chooses(server: Path, tmp_path: Path) -> None:
    write_own(settings(server, "most = 4"))
    told = r"offers 10 tools, more than the limit of 4; select some with tools = \[\.\.\.\], such as \['mixed'"
    with pytest.raises(UsageError, match=told), own_servers(os.environ, tmp_path):
        pass
    write_own(settings(server, 'most = 4\ntools = ["pict*", "both", "dotted.*"]'))
    with own_servers(os.environ, tmp_path):
        assert sorted(TOOLS) == ["numbers__both", "numbers__dotted_name", "numbers__picture"]
    for wrong, said in (('names = { a = "b c" }', "not a valid tool name"), ("most = 0", "above 0")):
        write_own(settings(server, wrong))
        with pytest.raises(UsageError, match=said), own_servers(os.environ, tmp_path):
            pass


def test_a_servers_questions_are_put_to_the_person_field_by_field(server: Path, tmp_path: Path) -> None:
    write_own(settings(server))
    said = iter(["x", "Ada", "", "huge", "small", "perhaps", "yes"])
    asked: list[tuple[str, tuple[str, ...]]] = []

    def person(question: str, options: tuple[str, ...]) -> str | None:
        asked.append((question, options))
        return next(said, None)

    with own_servers(os.environ, tmp_path, asks=True), answered_by(person):
        form = {"name": "Ada", "count": 3, "size": "small", "sure": True}
        assert TOOLS["numbers__ask"].answer({}) == ToolAnswered(f"accept {form}")
        assert asked[0][0] == ("The server numbers asks: Who are you?\nYour name (string; /no declines)")
        assert asked[1][0].startswith("That is not valid: ")
        assert "Enter accepts '3'" in asked[2][0]
        assert [options for _, options in asked[3:6]] == [("small", "large")] * 2 + [("yes", "no")]
        assert TOOLS["numbers__ask"].answer({}) == ToolAnswered("cancel")
        with answered_by(lambda _, __: "/no"):
            assert TOOLS["numbers__ask"].answer({}) == ToolAnswered("decline")


def test_a_server_receives_the_work_folder(server: Path, tmp_path: Path) -> None:
    write_own(settings(server))
    folder = tmp_path / "mine"
    folder.mkdir()
    with own_servers(os.environ, tmp_path, root=folder):
        assert TOOLS["numbers__roots"].answer({}) == ToolAnswered(folder.as_uri())


def test_a_question_whose_schema_is_not_valid_is_declined_unasked() -> None:
    asked: list[str] = []
    fields = {"properties": {"name": {"type": "string", "pattern": "("}}, "required": ["name"]}
    with answered_by(lambda question, _: asked.append(question) or "Ada"):
        told = put_to_person("numbers", SimpleNamespace(message="Who are you?", requested_schema=fields))
    assert told == ("decline", None)
    assert asked == []
