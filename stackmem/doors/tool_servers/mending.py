"""Mends what MCP servers send before the official package checks it, because the package drops a whole answer for one
fault: a tool list for one tool without a schema, a result for one part of an unknown kind.

Each change to the list of tools is a sentence in ``notes``, which the user reads when the server has started.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self

from msgspec import Struct, field

Json = dict[str, Any]

_VERSION = "2025-06-18"
"""The revision that a server is taken to speak if it names one that the package does not know."""
_PARTS = {"text": "text", "image": "data", "audio": "data", "resource": "resource", "resource_link": "uri"}
_INTERNAL_ERROR = -32603
_NAMED_CHARS = 80
_MAX_TEXT = 10_000_000


class MendedAnswers(Struct):
    """Changes to the answers of one server, and what checking them needs."""

    notes: dict[str, None] = field(default_factory=dict)  # a sentence for each change, in order
    schemas: dict[str, Any] = field(default_factory=dict)  # the schema of each tool as the server sent it
    results: dict[str, Any] = field(default_factory=dict)  # the declared schema of each tool's result
    methods: dict[str, str] = field(default_factory=dict)  # the method of each request that waits for an answer

    def note_request(self, message: Any) -> None:
        """Remember the method of a request."""
        if getattr(message, "method", None) and getattr(message, "id", None) is not None:
            self.methods[str(message.id)] = message.method

    def mended(self, received: Any) -> Any:
        """Return what was received, with an answer that the package accepts."""
        from mcp.shared.message import SessionMessage
        from mcp.types import JSONRPCError, JSONRPCResponse

        if isinstance(received, Exception):
            answer = _answer_in(received)
            if answer is None:
                return received
            if "result" not in answer:
                return SessionMessage(JSONRPCError(jsonrpc="2.0", id=answer["id"], error=_error(answer["error"])))
            result = answer["result"] if isinstance(answer["result"], dict) else {"content": answer["result"]}
            received = SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=answer["id"], result=result))
        message = received.message
        if not isinstance(message, JSONRPCResponse):
            return received
        method = self.methods.pop(str(message.id), "")
        if isinstance(message.id, str) and message.id.isdecimal():
            message.id = int(message.id)  # some servers answer the request 1 as "1"
        message.result = self._result(method, message.result)
        return received

    def _result(self, method: str, result: Json) -> Json:
        if method == "initialize":
            return self._greeting(result)
        if method == "tools/list":
            listed = result.get("tools")
            tools = [
                self._tool(each, position) for position, each in enumerate(listed if isinstance(listed, list) else [])
            ]
            cursor = result.get("nextCursor")
            rest = {name: value for name, value in result.items() if name not in ("tools", "nextCursor")}
            more = {"nextCursor": cursor} if isinstance(cursor, str) and cursor else {}
            return {**rest, **more, "tools": [each for each in tools if each is not None]}
        return _call_result(result) if method == "tools/call" else result

    def _greeting(self, result: Json) -> Json:
        from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

        revision = result.get("protocolVersion")
        if revision not in HANDSHAKE_PROTOCOL_VERSIONS:
            self.notes[f"speaks the unknown revision {str(revision)[:_NAMED_CHARS]!r} of the protocol"] = None
            result = {**result, "protocolVersion": _VERSION}
        if not isinstance(result.get("capabilities"), dict):
            result = {**result, "capabilities": {"tools": {}}}
        server = result.get("serverInfo")
        if not isinstance(server, dict) or not isinstance(server.get("name"), str):
            result = {**result, "serverInfo": {"name": "unnamed", "version": "0"}}
        elif not isinstance(server.get("version"), str):
            result = {**result, "serverInfo": {**server, "version": "0"}}
        return result

    def _tool(self, tool: Any, position: int) -> Json | None:
        """Return a tool in the form that the package accepts; its own schema is kept. None if it has no name."""
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not name.strip():
            self.notes[f"its tool {position + 1} was left out: it has no name"] = None
            return None
        schema = tool.get("inputSchema")
        if not isinstance(schema, dict):
            self.notes[f"its tool {name[:_NAMED_CHARS]} has no schema, so it is offered without parameters"] = None
            schema = {}
        self.schemas[name] = schema
        if isinstance(tool.get("outputSchema"), dict):
            self.results[name] = tool["outputSchema"]
        description = tool.get("description")
        return {
            "name": name,
            "description": description if isinstance(description, str) else "",
            "inputSchema": {"type": "object"},  # checked by the package; the tool is offered with its own schema
            **({"annotations": tool["annotations"]} if isinstance(tool.get("annotations"), dict) else {}),
        }


def _answer_in(error: Exception) -> Json | None:
    """Return the answer in a line that the package refused, such as one without the protocol's version."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return None
    inputs = (fault.get("input") for fault in error.errors(include_url=False))
    return next((each for each in inputs if isinstance(each, dict) and ("result" in each or each.get("error"))
                 and isinstance(each.get("id"), int | str)), None)  # fmt: skip


def _error(error: Any) -> Any:
    """Return an error in the form that the package accepts."""
    from mcp.types import ErrorData

    fields = error if isinstance(error, dict) else {}
    code, message = fields.get("code"), fields.get("message")
    return ErrorData(
        code=code if type(code) is int else _INTERNAL_ERROR,
        message=message if isinstance(message, str) and message else _as_text(error),
        data=fields.get("data"),
    )


def _call_result(result: Json) -> Json:
    """Return the result of a call with parts that the package knows; everything else becomes text."""
    if "inputRequests" in result or result.get("resultType", "complete") != "complete":
        return result  # not the result yet: the server asks for something first
    raw_content = result.get("content")
    content = raw_content if isinstance(raw_content, list) else [] if raw_content is None else [raw_content]
    mended: Json = {"content": [_part(each) for each in content], "isError": result.get("isError") is True}
    structured = result.get("structuredContent")
    if isinstance(structured, dict):
        mended["structuredContent"] = structured
    elif structured is not None:
        mended["content"].append({"type": "text", "text": _as_text(structured)})
    if not mended["content"] and "structuredContent" not in mended:
        rest = {name: value for name, value in result.items() if name not in ("content", "isError", "_meta")}
        rest.pop("structuredContent", None)
        if rest:
            mended["content"].append({"type": "text", "text": _as_text(rest)})
    return {**result, **mended} if "resultType" in result else mended


def _part(part: Any) -> Json:
    """Return a part that the package accepts, or its text."""
    from mcp.types import ContentBlock
    from pydantic import TypeAdapter

    if isinstance(part, dict) and isinstance(part.get(_PARTS.get(str(part.get("type")), "")), str | dict):
        try:
            adapter: Any = TypeAdapter(ContentBlock)
            adapter.validate_python(part)
        except ValueError:
            return {"type": "text", "text": _as_text(part)}
        return part
    return {"type": "text", "text": _as_text(part)}


def _as_text(value: Any) -> str:
    import json

    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return str(value["text"])
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)[:_MAX_TEXT]


class MendedTransport:
    """A connection to a server whose answers are mended on their way in."""

    def __init__(self, transport: AbstractAsyncContextManager[Any], answers: MendedAnswers) -> None:
        self._transport, self._answers = transport, answers

    async def __aenter__(self) -> tuple[_MendedReader, _MendedWriter]:
        reads, writes = await self._transport.__aenter__()
        return _MendedReader(reads, self._answers), _MendedWriter(writes, self._answers)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._transport.__aexit__(kind, error, trace)


class _Stream:
    def __init__(self, stream: Any, answers: MendedAnswers) -> None:
        self._stream, self._answers = stream, answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        closed: bool | None = await self._stream.__aexit__(kind, error, trace)
        return closed


class _MendedReader(_Stream):
    async def receive(self) -> Any:
        return self._answers.mended(await self._stream.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return self._answers.mended(await self._stream.__anext__())


class _MendedWriter(_Stream):
    async def send(self, item: Any, /) -> None:
        self._answers.note_request(item.message)
        await self._stream.send(item)
