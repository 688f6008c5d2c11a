"""The tools of a client's run as a server of the Model Context Protocol, by the protocol's own library."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server

from stackmem.core.tools import HeapList, tool_name
from stackmem.serve.mcp.client_run import ClientAnswer, ClientCalls, ClientPlan
from stackmem.version import VERSION

INDEX = "stackmem://heap"
"""The resource that holds the heap's index."""


def memory_server(plan: ClientPlan, calls: ClientCalls) -> Server[Any]:
    """The server; each call of a client goes to ``calls``, and its answer comes from there."""

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
            raise ValueError(f"there is no such resource; the one there is: {INDEX}")
        answer = await ask(context, tool_name(HeapList), {})
        held = types.TextResourceContents(uri=INDEX, mime_type="text/plain", text=answer.text)
        return types.ReadResourceResult(contents=[held])

    async def ask(context: Any, name: str, arguments: dict[str, Any]) -> ClientAnswer:
        known = context.session.client_params
        client = f"{known.client_info.name} {known.client_info.version}" if known is not None else ""
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
