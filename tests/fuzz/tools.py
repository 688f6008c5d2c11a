"""MCP servers and schemas of tools.

Rule 1: One odd tool, line or result never takes the server's other tools down.
Rule 2: Every tool of a server is offered or named in a note; every word of a result reaches the model, or a note says
    what is missing.
Rule 3: A schema becomes one that every provider accepts, or the tool is left out with a reason; each change has a note.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyio
import msgspec
from mcp.client.stdio import _parse_line

from stackmem.core.errors import UsageError
from stackmem.core.messages import ToolSpec
from stackmem.core.schemas.portable import own_arguments, portable
from stackmem.core.text import whole_value
from stackmem.doors.tool_servers.connection import Connections
from stackmem.settings.mcp_servers import Server
from tests.fuzz.choices import Choices
from tests.fuzz.seeds import encoded

Json = dict[str, Any]

REFUSED_AT_TOP = {"anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref", "if", "patternProperties"}


def _has_reason(error: Exception) -> None:
    if not str(error).strip():
        raise AssertionError("refused without a reason") from error


def schema(data: bytes, place: Path) -> None:
    try:
        tool = ToolSpec("odd__tool", "Odd.", json.dumps(whole_value(json.loads(data.decode("utf-8", "replace")))))
    except (ValueError, RecursionError):
        return
    try:
        made, notes = portable(tool)
    except ValueError as error:
        _has_reason(error)
        return
    assert (made == tool) == (not notes), f"{notes} for {made.schema}"
    shown = msgspec.json.decode(made.schema)
    assert isinstance(shown, dict)
    assert shown["type"] == "object"
    assert not REFUSED_AT_TOP & shown.keys(), made.schema
    names = shown.get("properties", {})
    assert all(name.isascii() and 0 < len(name) <= 64 and not set(name) & set("[]$ /") for name in names), list(names)
    assert set(shown.get("required", ())) <= set(names), made.schema
    assert portable(made)[0].schema == made.schema, "a second look changes it again"
    given = dict.fromkeys(names, 1)
    assert len(own_arguments(tool, given)) == len(given), "two arguments became one"


SCHEMAS: tuple[Any, ...] = (
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
    {"anyOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"$ref": "#/$defs/b"}],
     "$defs": {"b": {"type": "object", "properties": {"b c": {"type": ["array", "null"]}}}}},
    {"oneOf": [{"type": "object", "properties": {"a[0]": {"enum": []}}}, {"type": "string"}], "required": ["x", 5]},
    {"allOf": [{"properties": {"a": {"const": None}}}, {"additionalProperties": False}], "not": {"required": ["q"]}},
    {"$ref": "#/definitions/t", "definitions": {"t": {"type": ["object", "null"], "properties": {"é": True}}}},
    {"type": "object", "properties": {"a/b": {}, "a_b": {"items": [1]}, "$x": None}, "patternProperties": {"^a": {}}},
    {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"anyOf": []}}, "required": True}}},
    None, True, {},
)  # fmt: skip
KEYWORDS = tuple(
    json.dumps(word).encode()
    for word in ("anyOf", "oneOf", "allOf", "$ref", "#/$defs/b", "type", "object", "required", "properties", "$defs",
                 "additionalProperties", "x" * 70, "a.b", "items", "not", "if")
)  # fmt: skip


def schema_seeds() -> list[bytes]:
    return encoded(*SCHEMAS)


class _Served:
    """A server that behaves as the choices say. Its tool ``good`` always works."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.offered = [self._offer(choices, number) for number in range(choices.below(4))]
        self.tools = [each for each, _ in self.offered]
        self.tools.insert(choices.below(len(self.tools) + 1), {"name": "good", "inputSchema": {"type": "object"}})
        self.noise = choices.of("", "Server ready", "{}", "[]", '{"jsonrpc": "2.0", "method": "notifications/odd"}',
                                '{"jsonrpc": "2.0", "id": 99, "result": {}}', "null", '{"id": {}}')  # fmt: skip
        self.version = choices.of("2025-06-18", "2026-03-26", "2031-01-01", 7, None)
        self.ids = choices.of(None, "text")
        self.protocol = choices.of("2.0", None)
        self.greets = choices.of({"serverInfo": {"name": "odd", "version": "1"}, "capabilities": {"tools": {}}}, {},
                                 {"capabilities": None, "serverInfo": "odd"}, {"serverInfo": {"name": 5}},
                                 {"capabilities": {"tools": None}})  # fmt: skip
        self.paged = choices.rarely()
        self.word = choices.word()
        self.result = self._result(choices, self.word)
        self.error = choices.of(None, None, {"code": -1, "message": self.word}, {"message": self.word}, self.word,
                                {"code": "E", "message": {"text": self.word}}, [self.word])  # fmt: skip

    def _offer(self, choices: Choices, number: int) -> tuple[Any, str]:
        name = choices.of(f"tool{number}", f"tool {number}/ü", "good2", "x" * 90, "tool0")
        tool: Any = {"name": name, "inputSchema": choices.one(SCHEMAS)}
        tool |= choices.of({}, {"description": None}, {"description": 5}, {"annotations": []},
                           {"outputSchema": []}, {"title": 7}, {"_meta": 1},
                           {"outputSchema": {"type": "object", "required": ["n"]}})  # fmt: skip
        if choices.below(6) == 5:
            tool = choices.of({"inputSchema": {}}, {"name": ""}, "tool", None, 5, {"name": 7}, {"name": name})
        return tool, name

    def _result(self, choices: Choices, word: str) -> Any:
        text = {"type": "text", "text": word}
        return choices.of(
            {"content": [text]}, {"content": text}, {"content": word}, {"content": [{"type": "chart", "data": word}]},
            {"structuredContent": {"n": word}}, {"structuredContent": [word], "content": []}, {"toolResult": word},
            {"content": [text], "isError": None}, {"content": [{"type": "text", "text": 5, "more": word}]},
            {"content": [{"type": "resource", "resource": {"uri": "a:b", "text": word}}]}, {"content": [None, word]},
            {"content": [{"type": "resource_link", "uri": word}]}, [word], word,
            {"content": [text, {"type": "image", "data": "aGk="}], "structuredContent": None},
            {"content": [{"type": "text", "text": word, "annotations": {"priority": 9}}]}, {"content": {"a": [word]}},
            {"content": [{"type": "resource", "resource": {"uri": "not a uri", "text": word}}], "isError": "no"},
        )  # fmt: skip

    def answer(self, message: Json) -> list[str]:
        method, result, good = message.get("method"), {}, False
        if "id" not in message:
            return []
        if method == "initialize":
            result = {"protocolVersion": self.version, **self.greets}
        elif method == "tools/list":
            cursor = (message.get("params") or {}).get("cursor")
            part = self.tools[1:] if cursor else self.tools[:1] if self.paged else self.tools
            result = {"tools": part} | ({"nextCursor": "more"} if self.paged and not cursor else {})
        elif method == "tools/call":
            good = message["params"]["name"] == "good"
            result = {"content": [{"type": "text", "text": "good"}]} if good else self.result
        else:
            error = {"code": -32601, "message": "no"}
            return [json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error})]
        identity = str(message["id"]) if self.ids else message["id"]
        refused = not good and method == "tools/call" and self.error
        answer = {"id": identity, **({"error": self.error} if refused else {"result": result})} | (
            {"jsonrpc": self.protocol} if self.protocol else {}
        )
        return [*([self.noise] if self.noise else []), json.dumps(answer)]


def _pipes(served: _Served) -> Any:
    @asynccontextmanager
    async def stdio(*_: Any, **__: Any) -> AsyncIterator[Any]:
        """Take the place of a process: lines go through the same parser as those of a server."""
        into, reads = anyio.create_memory_object_stream[Any](100)
        writes, out = anyio.create_memory_object_stream[Any](100)

        async def serve() -> None:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                async with into:
                    async for sent in out:
                        message = json.loads(sent.message.model_dump_json(by_alias=True, exclude_unset=True))
                        for line in served.answer(message):
                            await into.send(_parse_line(line))

        task = asyncio.ensure_future(serve())
        try:
            yield reads, writes
        finally:
            task.cancel()
            await asyncio.wait([task])
            for stream in (into, reads, writes, out):
                stream.close()

    return stdio


def server(data: bytes, place: Path) -> None:
    served = _Served(Choices(data))
    with patch("mcp.client.stdio.stdio_client", _pipes(served)), Connections(place, asks=False) as connections:
        tools = connections.connect("odd", Server(command=("odd",), seconds=2.0))
        names = {each.name for each in tools}
        assert "odd__good" in names, connections.notes
        good = next(each for each in tools if each.name == "odd__good")
        assert good.text({}) == ("good", False)
        assert len(tools) + sum("left out" in note for note in connections.notes) >= len(served.tools), (
            f"{len(served.tools)} tools, but only {names} and {connections.notes}"
        )
        for each in tools:
            assert each.spec.parameters.get("type") == "object", each.spec
        if len(tools) > 1:
            other = next(each for each in tools if each is not good)
            text, failed = other.text({})
            assert served.word in text, f"lost {served.word} of {served.result} in {text!r}, {failed}"


def server_seeds() -> list[bytes]:
    return [bytes(row) for row in ((), (1,), range(40), [3, 1, 2] * 12, range(90, 20, -1))]


def faulty_server(data: bytes, place: Path) -> None:
    """Answer with the lines of the input, whatever they are. The server is used, or refused with a reason."""
    lines = data.split(b"\n")

    class Served:
        def answer(self, message: Json) -> list[str]:
            identity = str(message.get("id")).encode()
            line = lines.pop(0) if lines else b""
            return [line.replace(b"ID", identity).decode("utf-8", "replace")] if "id" in message else []

    with (
        patch("mcp.client.stdio.stdio_client", _pipes(Served())),  # type: ignore[arg-type]
        patch("stackmem.doors.tool_servers.connection._START_SECONDS", 0.1),
        Connections(place, asks=False) as connections,
    ):
        try:
            tools = connections.connect("odd", Server(command=("odd",), seconds=0.05))
        except UsageError as error:
            _has_reason(error)
            return
        for each in tools[:2]:
            text, failed = each.text({})
            assert text.strip() or not failed


def faulty_seeds() -> list[bytes]:
    greeting = {"jsonrpc": "2.0", "id": "ID", "result": {"protocolVersion": "2025-06-18", "capabilities": {}}}
    listed = {"jsonrpc": "2.0", "id": "ID", "result": {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}}
    called = {"jsonrpc": "2.0", "id": "ID", "result": {"content": [{"type": "text", "text": "x"}]}}
    refused = {"jsonrpc": "2.0", "id": "ID", "error": {"code": -32601, "message": "no"}}
    spelled = [b"\n".join(encoded(*each)).replace(b'"ID"', b"ID") for each in (
        (refused, greeting, listed, called), (greeting, listed, called), (refused, greeting, refused),
        (refused, greeting, listed, refused))]  # fmt: skip
    return [*spelled, b"Traceback (most recent call last):\nKeyError"]
