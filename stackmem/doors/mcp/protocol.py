"""Serves the tools of a client's run over the Model Context Protocol, with the protocol's own library."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from stackmem.core.text import whole_value
from stackmem.core.tools import HeapList, tool_name
from stackmem.core.version import VERSION

from .client_run import ClientAnswer, ClientCalls, ClientPlan

INDEX = "stackmem://heap"
"""URI of the resource with the heap's index."""


class AnsweredLines:
    """A client's stdio stream; repairs or answers lines that the library cannot parse and would drop."""

    def __init__(self, read: Any, write: Any) -> None:
        self._read, self._write = read, write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._read, name)

    async def __aenter__(self) -> Self:
        await self._read.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._read.__aexit__(*raised)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream as error:
            raise StopAsyncIteration from error

    async def receive(self) -> SessionMessage | Exception:
        while True:
            item: SessionMessage | Exception = await self._read.receive()
            if not isinstance(item, ValidationError):
                return item
            message = _mended(item)
            if not isinstance(message, types.JSONRPCError):
                return SessionMessage(message)
            await self._write.send(SessionMessage(message))


def _mended(error: ValidationError) -> types.JSONRPCMessage:
    """Repair a line with a broken character by replacing it; otherwise return the error to answer."""
    fault = error.errors()[0]
    wrong = types.ErrorData(code=types.INVALID_REQUEST, message=f"Invalid request: {fault['msg']}")
    if fault["type"] != "json_invalid":
        return types.JSONRPCError(jsonrpc="2.0", id=None, error=wrong)
    try:
        text = json.dumps(whole_value(json.loads(fault["input"])))
        return types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValidationError:
        return types.JSONRPCError(jsonrpc="2.0", id=None, error=wrong)
    except (ValueError, RecursionError):
        wrong = types.ErrorData(code=types.PARSE_ERROR, message="Parse error: the line is not JSON")
        return types.JSONRPCError(jsonrpc="2.0", id=None, error=wrong)


def memory_server(plan: ClientPlan, calls: ClientCalls) -> Server[Any]:
    """Build the server; it passes each call to ``calls`` and returns the answer."""

    async def list_tools(context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(name=tool.name, description=tool.description, input_schema=tool.parameters)
                for tool in plan.tools
            ]
        )

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        answer = await ask(context, params.name, params.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=answer.text)], is_error=answer.failed)

    async def list_resources(context: Any, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        says = "Each chunk's name, size, description and source, and whether it is STALE."
        index = types.Resource(name="heap index", uri=INDEX, description=says, mime_type="text/plain")
        return types.ListResourcesResult(resources=[index])

    async def read_resource(context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        if str(params.uri) != INDEX:
            raise ValueError(f"unknown resource {str(params.uri)[:80]!r}; known: {INDEX}")
        answer = await ask(context, tool_name(HeapList), {})
        contents = types.TextResourceContents(uri=INDEX, mime_type="text/plain", text=answer.text)
        return types.ReadResourceResult(contents=[contents])

    async def ask(context: Any, name: str, arguments: dict[str, Any]) -> ClientAnswer:
        params = context.session.client_params
        client = f"{params.client_info.name} {params.client_info.version}" if params is not None else ""
        return await asyncio.shield(asyncio.wrap_future(calls.call(name, arguments, client)))

    return Server(
        "stackmem",
        version=VERSION,
        instructions=plan.system,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )
