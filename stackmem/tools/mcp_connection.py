"""Connections to servers of the Model Context Protocol: one event loop in one thread, behind plain calls."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Self

from stackmem.errors import UsageError
from stackmem.settings.mcp_servers import Server

from .own_tools import OwnTool, ToolFailed

_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")


class Connections:
    """An event loop in a thread of its own, and the connections that live in it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mcp", daemon=True)
        self._stops: list[tuple[asyncio.Event, Future[None]]] = []

    def __enter__(self) -> Self:
        quiet = logging.getLogger("mcp")  # it would print a traceback for each line of a server that talks nonsense
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for stop, _done in self._stops:
            self._loop.call_soon_threadsafe(stop.set)
        for _stop, done in self._stops:
            with suppress(Exception):  # a server that ends badly has ended
                done.result(_STOP_SECONDS)
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(_end_all(), self._loop).result(2 * _STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)

    def connect(self, name: str, server: Server) -> list[OwnTool]:
        """A server's tools, once it is there.

        Raises:
            UsageError: It does not start or answer.
        """
        ready: Future[tuple[Any, list[Any]]] = Future()
        stop = asyncio.Event()
        done = asyncio.run_coroutine_threadsafe(_serve(server, ready, stop), self._loop)
        self._stops.append((stop, done))
        done.add_done_callback(lambda ended: _fail(ready, ended))
        try:
            client, tools = ready.result(_START_SECONDS)
        except Exception as error:
            reason = " ".join(str(_cause(error)).split())[:300] or type(error).__name__
            done.cancel()
            where = server.url or " ".join(server.command)
            raise UsageError(
                f"the server {name} ({where[:200]}) does not answer ({reason}); mend or remove it"
            ) from error
        return [_tool(name, server, each, self._caller(client, each.name, server)) for each in tools]

    def _caller(self, client: Any, tool: str, server: Server) -> Callable[[dict[str, Any]], Any]:
        def call(arguments: dict[str, Any]) -> Any:
            request = client.call_tool(tool, arguments, read_timeout_seconds=server.seconds)
            future = asyncio.run_coroutine_threadsafe(request, self._loop)
            try:
                return _value(future.result(server.seconds + 5))
            except TimeoutError as error:
                future.cancel()
                raise ToolFailed(f"no answer within {server.seconds:g} s") from error

        return call


async def _serve(server: Server, ready: Future[tuple[Any, list[Any]]], stop: asyncio.Event) -> None:
    """Hold one connection until it is stopped; a connection is opened and closed by one task."""
    from mcp import Client, StdioServerParameters

    place: Any = server.url
    if server.command:
        place = StdioServerParameters(command=server.command[0], args=list(server.command[1:]), env=server.env or None)
    async with Client(place) as client:
        page = await client.list_tools()
        tools = list(page.tools)
        while page.next_cursor:
            page = await client.list_tools(cursor=page.next_cursor)
            tools += page.tools
        tools = [each for each in tools if not server.tools or each.name in server.tools]
        ready.set_result((client, tools))
        await stop.wait()


async def _end_all() -> None:
    """End what did not end when it was told to: a server that never got as far as to answer would outlive us."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_STOP_SECONDS)


def _fail(ready: Future[tuple[Any, list[Any]]], ended: Future[None]) -> None:
    error = None if ended.cancelled() else ended.exception()
    if not ready.done() and not ready.cancelled():
        ready.set_exception(error or UsageError("it ended before it answered"))


def _cause(error: BaseException) -> BaseException:
    """The first failure inside a group of them."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def _tool(name: str, server: Server, offered: Any, call: Callable[[dict[str, Any]], Any]) -> OwnTool:
    full_name = _STRANGE.sub("_", f"{name}__{offered.name}")[:64]
    return OwnTool(
        full_name,
        offered.description or "",
        call,
        lambda: dict(offered.input_schema),
        parallel=offered.name in server.parallel,
        idempotent=offered.name in server.idempotent,
    )


def _value(result: Any) -> Any:
    """What a call gave: its structured content, else its texts; an error is a failure."""
    texts = [part.text for part in result.content if getattr(part, "type", "") == "text"]
    if result.is_error:
        raise ToolFailed("\n".join(texts)[:2_000] or "the server says that it failed")
    if result.structured_content is not None:
        content = result.structured_content
        return content["result"] if isinstance(content, dict) and set(content) == {"result"} else content
    others = sorted({getattr(part, "type", "?") for part in result.content} - {"text"})
    if others and not texts:
        raise ToolFailed(f"the result is no text ({', '.join(others)})")
    return "\n".join(texts)
