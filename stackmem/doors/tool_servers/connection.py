"""Connections to MCP servers (Model Context Protocol): one event loop in one thread, behind synchronous calls."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.messages import ToolSpec
from stackmem.core.schemas.portable import own_arguments, portable
from stackmem.core.text import whole_value
from stackmem.settings.mcp_servers import Server
from stackmem.settings.tools.bounded_calls import next_of
from stackmem.settings.tools.own_tools import PRINTING, TOOLS, OwnTool, ToolFailed

from .content import illustrated
from .mending import MendedAnswers, MendedTransport
from .questions import put_to_person

_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARS = 64
_LOST_NAMES = {"ClosedResourceError", "BrokenResourceError", "EndOfStream"}
_LISTED = 200_000
"""Stop listing tools here, because a faulty server could send an endless list."""


class _Question(Struct, frozen=True):
    """A question that a server asks during a call, and the future for its answer."""

    request: Any
    answer: asyncio.Future[tuple[str, Any]]


Answers = SimpleQueue[Future[Any] | _Question]


class _ServerLink:
    """A server, and the current connection to it."""

    def __init__(self, name: str, server: Server) -> None:
        self.name, self.server = name, server
        self.client: Any = None
        self.waiting: list[Answers] = []  # one for each call under way
        self.answers = MendedAnswers()
        self.restarted = False


class _ConnectionLost(Exception):  # noqa: N818 - it never leaves this file
    """The server ended, or closed the connection."""


def _is_lost(error: Exception) -> bool:
    return type(error).__name__ in _LOST_NAMES or "connection closed" in str(error).lower()


class Connections:
    """An event loop in its own thread, and the connections that it runs."""

    def __init__(self, root: Path, *, asks: bool) -> None:
        """Create it without connections.

        ``root`` is the folder that is reported to servers. ``asks`` says whether servers may ask the user questions.
        """
        self._root, self._asks = root, asks
        self.notes: list[str] = []  # what was mended or left out, one sentence each
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mcp", daemon=True)
        self._stops: list[tuple[asyncio.Event, Future[None]]] = []

    def __enter__(self) -> Self:
        quiet = logging.getLogger("mcp")  # it would print a traceback for each invalid line from a server
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for stop, _done in self._stops:
            self._loop.call_soon_threadsafe(stop.set)
        for _stop, done in self._stops:
            with suppress(Exception):  # errors while a server ends do not matter
                done.result(_STOP_SECONDS)
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(_end_all(), self._loop).result(2 * _STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)

    def connect(self, name: str, server: Server) -> list[OwnTool]:
        """Connect to a server and return its tools. Raise UsageError if the server does not start or answer."""
        link = _ServerLink(name, server)
        tools = self._open(link)
        if len(tools) > server.most:
            raise UsageError(
                f"the server {name} offers {len(tools):,} tools, more than the limit of {server.most:,}; select "
                f"some with tools = [...], such as {[each.name[:40] for each in tools[:3]]}, or raise most"
            )
        own_tools = []
        for full, each in zip(_names(name, server, tools), tools, strict=True):
            schema = link.answers.schemas.get(each.name, each.input_schema)
            try:
                own_tools.append(_tool(full, server, each, schema, self._caller(link, each)))
            except (ValueError, RecursionError) as error:
                link.answers.notes[f"its tool {each.name[:80]} was left out: {error}"] = None
        self.notes += [f"the server {name}: {note}" for note in link.answers.notes]
        return own_tools

    def _open(self, link: _ServerLink) -> list[Any]:
        """Start the server of a link, or connect to it, and return its tools."""
        ready: Future[tuple[Any, list[Any]]] = Future()
        stop = asyncio.Event()
        done = asyncio.run_coroutine_threadsafe(
            _serve(link.server, ready, stop, self._callbacks(link.waiting), link.answers), self._loop
        )
        self._stops.append((stop, done))
        done.add_done_callback(lambda ended: _fail(ready, ended))
        try:
            link.client, tools = ready.result(_START_SECONDS)
        except Exception as error:
            reason = " ".join(str(_cause(error)).split())[:300] or type(error).__name__
            done.cancel()
            location = link.server.url or " ".join(link.server.command)
            raise UsageError(
                f"the server {link.name} ({location[:200]}) does not answer ({reason}); fix or remove it"
            ) from error
        return tools

    def _callbacks(self, waiting: list[Answers]) -> dict[str, Any]:
        """Return callbacks for a server's requests: the folder, and questions for the user of the current call."""
        from mcp.types import ElicitResult, ListRootsResult, Root

        async def list_roots(_: Any) -> Any:
            return ListRootsResult(roots=[Root(uri=self._root.as_uri(), name=self._root.name)])  # type: ignore[arg-type] # it converts

        async def elicit(_: Any, request: Any) -> Any:
            if not waiting:
                return ElicitResult(action="cancel")
            question = _Question(request, self._loop.create_future())
            waiting[0].put(question)
            action, content = await question.answer
            return ElicitResult(action=action, content=content)  # type: ignore[arg-type] # one of the three

        return {"list_roots_callback": list_roots} | ({"elicitation_callback": elicit} if self._asks else {})

    def _caller(self, link: _ServerLink, tool: Any) -> Callable[[dict[str, Any]], Any]:
        repeatable = tool.name in link.server.idempotent or bool(tool.annotations and tool.annotations.read_only_hint)

        def call(arguments: dict[str, Any]) -> Any:
            try:
                return self._call(link, tool.name, arguments)
            except _ConnectionLost as error:
                self._restart(link, error)
            if repeatable:
                return self._call(link, tool.name, arguments)
            raise ToolFailed(
                f"the server {link.name} ended during this call and was started again; find out what the call did, "
                "then repeat it if it is still needed"
            )

        return call

    def _call(self, link: _ServerLink, tool: str, arguments: dict[str, Any]) -> Any:
        answers: Answers = SimpleQueue()
        link.waiting.append(answers)  # before the call starts, because the server may ask immediately
        future = asyncio.run_coroutine_threadsafe(link.client.call_tool(tool, arguments), self._loop)
        future.add_done_callback(answers.put)
        try:
            return illustrated(self._result(answers, link.name, link.server.seconds), link.answers.results.get(tool))
        except Empty as error:
            raise ToolFailed(f"no answer within {link.server.seconds:g} s") from error
        except Exception as error:
            if _is_lost(error):
                raise _ConnectionLost(str(error)) from error
            raise
        finally:
            link.waiting.remove(answers)
            future.cancel()

    def _restart(self, link: _ServerLink, lost: Exception) -> None:
        """Start a server that has ended, once."""
        if link.restarted:
            raise ToolFailed(f"the server {link.name} ended again; do without its tools") from lost
        link.restarted = True
        try:
            self._open(link)
        except UsageError as error:
            raise ToolFailed(f"the server {link.name} ended and cannot be started again: {error}") from error

    def _result(self, answers: Answers, name: str, seconds: float) -> Any:
        """Return the result of a call. Questions from the server go to the user, whose time does not count."""
        deadline = time.monotonic() + seconds
        while isinstance(next_one := next_of(answers, deadline - time.monotonic()), _Question):
            began = time.monotonic()
            outcome: tuple[str, Any] = ("cancel", None)
            try:
                with PRINTING.of_tool(False):
                    outcome = put_to_person(name, next_one.request)
            finally:
                self._loop.call_soon_threadsafe(_settle, next_one.answer, outcome)
            deadline += time.monotonic() - began
        return next_one.result()


def _settle(answer: asyncio.Future[tuple[str, Any]], outcome: tuple[str, Any]) -> None:
    if not answer.done():
        answer.set_result(outcome)


async def _serve(
    server: Server,
    ready: Future[tuple[Any, list[Any]]],
    stop: asyncio.Event,
    callbacks: dict[str, Any],
    answers: MendedAnswers,
) -> None:
    """Keep one connection open until it is stopped; the same task must open and close a connection."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    if server.command:
        command, *arguments = server.command
        transport: Any = stdio_client(StdioServerParameters(command=command, args=arguments, env=server.env or None))
    else:
        transport = streamable_http_client(server.url)
    async with Client(MendedTransport(transport, answers), **callbacks) as client:
        page = await client.list_tools()
        tools = list(page.tools)
        while page.next_cursor and len(tools) < _LISTED:
            page = await client.list_tools(cursor=page.next_cursor)
            tools += page.tools
        tools = [
            each
            for each in tools
            if not server.tools or any(fnmatchcase(each.name, pattern) for pattern in server.tools)
        ]
        ready.set_result((client, tools))
        await stop.wait()


async def _end_all() -> None:
    """Cancel tasks that did not stop on request: a server that never answered would otherwise outlive this process."""
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
    """Return the first failure inside an exception group."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def _names(name: str, server: Server, tools: list[Any]) -> list[str]:
    """Return names for a server's tools: prefixed with the server, and numbered if two would be equal."""
    names: dict[str, None] = {}
    for each in tools:
        base = _STRANGE.sub("_", f"{name}__{server.names.get(each.name, each.name)}")
        full, number = base[:_NAME_CHARS], 1
        while full in names or full in TOOLS:
            number += 1
            full = f"{base[: _NAME_CHARS - 1 - len(str(number))]}_{number}"
        names[full] = None
    return list(names)


def _tool(name: str, server: Server, offered: Any, schema: Any, call: Callable[[dict[str, Any]], Any]) -> OwnTool:
    """Return a tool of a server. Raises ``ValueError`` if no call of it is possible."""
    own = ToolSpec(name, "", json.dumps(whole_value(schema)))
    portable(own)
    return OwnTool(
        name,
        offered.description or "",
        lambda arguments: call(own_arguments(own, arguments)),
        lambda: schema,
        parallel=offered.name in server.parallel,
        idempotent=offered.name in server.idempotent,
    )
