"""The pages of ``stackmem ui`` and their HTTP API."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from html import escape
from pathlib import Path
from threading import Event, Lock
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from stackmem.core.errors import StackmemError, UsageError
from stackmem.doors.listening.guard import Guard
from stackmem.lab.comparison.write import report_page
from stackmem.review.report.live import LiveRun
from stackmem.review.report.page import index_page, live_page
from stackmem.review.report.view import read_runs

from .commands import StartedCommand, command_line, command_of
from .home import Home
from .places import ALL, Places

MAX_ROWS = 2_000
MAX_COMPARED = 6
_MAX_LIVE = 8
_MAX_BODY = 64_000
_LOOK_SECONDS = 0.5
_SHORT_SECONDS = 0.05
_SILENCE_SECONDS = 15.0
_READ_SECONDS = 1.0
"""Time limit for reading a long run before its page is shown; the rest follows in pieces."""


class Studio:
    """Handlers of all pages, and the commands that pages have started."""

    def __init__(self, places: Places) -> None:
        """Serve these places."""
        self.places = places
        self._home = Home(places)
        self.jobs: list[StartedCommand] = []
        self._live: OrderedDict[Path, LiveRun] = OrderedDict()
        self._lock = Lock()
        self._readers = 0  # open lists; the places are scanned only while there are any
        self._closing = Event()

    def app(self, token: str, hosts: frozenset[str]) -> ASGIApp:
        """Build the application behind its guard."""
        routes = [
            Route("/", self.index),
            Route("/rows", self.rows),
            Route("/home", self.home),
            Route("/benches", self.benches),
            Route("/changes", self.changes),
            Route("/run", self.run),
            Route("/facts", self.facts),
            Route("/bench/{place}/", self.bench),
            Route("/bench/{place}/runs/{run:path}", self.trial),
            Route("/command", self.command, methods=["POST"]),
            Route("/jobs/{number:int}", self.job),
        ]
        handlers: dict[Any, Any] = {StackmemError: _error_response}
        return Guard(Starlette(routes=routes, exception_handlers=handlers), token, hosts, pages=True)

    def watch(self) -> None:
        """Scan the places once, then repeatedly while a list is open, until ``stop``. Slow scans run less often."""
        seconds = 0.0
        while True:
            began = time.monotonic()
            self.places.refresh()
            seconds = time.monotonic() - began
            self.places.measure()
            while not self._closing.wait(max(_LOOK_SECONDS, 10 * seconds)) and not self._readers:
                pass
            if self._closing.is_set():
                return

    def stop(self) -> None:
        """End ``watch`` and every stream."""
        self._closing.set()

    def close(self) -> list[str]:
        """Interrupt the commands that pages started; return those that were still running."""
        ended = [job for job in self.jobs if job.exit_code is None]
        for job in ended:
            job.interrupt()
        for job in ended:
            job.wait()
        return [job.command for job in ended]

    def index(self, request: Request) -> Response:
        return HTMLResponse(index_page())

    def rows(self, request: Request) -> Response:
        query = request.query_params
        limit = query.get("limit", "200")
        if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:9]) <= MAX_ROWS:
            raise UsageError(f"limit must be from 1 to {MAX_ROWS:,} runs")
        conditions = [text for text in query.getlist("filter") if text.strip()]
        sort, scope = query.get("sort", "-started"), query.get("in", ALL)
        try:
            return _json(self.places.rows(query.get("q", ""), conditions, sort, int(limit), scope))
        except UsageError as error:  # an incomplete condition is not a failed request
            return _json({"unclear": str(error)})

    def home(self, request: Request) -> Response:
        with self._lock:
            return _json(self._home.state())

    def benches(self, request: Request) -> Response:
        return _json(self.places.benches())

    async def changes(self, request: Request) -> Response:
        """Notify a list of changes; the page then requests its rows again."""
        return _stream(self._changes())

    async def _changes(self) -> AsyncIterator[bytes]:
        version, looked, sent_at = -1, self.places.looked, time.monotonic()
        self._readers += 1
        try:
            while not self._closing.is_set():
                now, waited = self.places.version, time.monotonic() - sent_at
                # Notify immediately when the first scan is complete; before that, no more often than a list can
                # redraw.
                if now != version and (version < 0 or looked != self.places.looked or waited > _LOOK_SECONDS):
                    version, looked, sent_at = now, self.places.looked, time.monotonic()
                    yield b"event: changed\ndata: %d\n\n" % now
                elif waited > _SILENCE_SECONDS:
                    sent_at = time.monotonic()
                    yield b": still here\n\n"
                await asyncio.sleep(_LOOK_SECONDS if self.places.looked else _SHORT_SECONDS)
        finally:
            self._readers -= 1

    def run(self, request: Request) -> Response:
        """Show one run and follow it, or compare several."""
        names = request.query_params.getlist("id")
        if not 1 <= len(names) <= MAX_COMPARED:
            raise UsageError(f"a page shows 1 to {MAX_COMPARED} runs; select that many")
        folders = [self._folder(name) for name in names]
        more = "".join(f'<meta name="run" content="{escape(name)}">\n' for name in names)
        if len(folders) > 1:
            return HTMLResponse(live_page(msgspec.json.encode(read_runs(folders)), more))
        live = self._live_run(folders[0])
        live.refresh(_READ_SECONDS)
        version, content = live.content()
        return HTMLResponse(live_page(content, f'{more}<meta name="version" content="{version}">\n'))

    async def facts(self, request: Request) -> Response:
        """Stream the events of a run that are newer than the page's version."""
        folder = await run_in_threadpool(self._folder, request.query_params.get("id", ""))
        last_id = request.headers.get("last-event-id") or request.query_params.get("after", "")
        version = int(last_id) if last_id.isascii() and last_id.isdigit() and len(last_id) < 10 else 0
        return _stream(self._facts(self._live_run(folder), version))

    async def _facts(self, live: LiveRun, version: int) -> AsyncIterator[bytes]:
        sent_at = time.monotonic()
        while not self._closing.is_set():
            try:
                await run_in_threadpool(live.refresh, _READ_SECONDS)
            except StackmemError as error:
                yield b"event: broken\ndata: %s\n\n" % msgspec.json.encode(str(error))
                return
            changes = live.since(version)
            if changes is None:
                yield b"event: whole\ndata: {}\n\n"
                return
            for number, change in changes:
                version, sent_at = number, time.monotonic()
                yield b"id: %d\nevent: facts\ndata: %s\n\n" % (number, change)
            if time.monotonic() - sent_at > _SILENCE_SECONDS:
                sent_at = time.monotonic()
                yield b": still here\n\n"
            await asyncio.sleep(0 if live.reading else _LOOK_SECONDS)

    def bench(self, request: Request) -> Response:
        folder = self.places.folder_at(request.path_params["place"])
        if not folder.is_bench:
            raise UsageError(f"{folder.name} contains runs, not a bench")
        return HTMLResponse(report_page(folder.folder, "../../"))

    def trial(self, request: Request) -> Response:
        """Redirect a bench page's link to the run of a trial."""
        name = f"{request.path_params['place']}/{request.path_params['run'].removesuffix('/view.html')}"
        self._folder(name)
        root = "../" * (request.path_params["run"].count("/") + 3)
        return RedirectResponse(f"{root}run?id={quote(name)}", 303)

    async def command(self, request: Request) -> Response:
        """Preview a command, and run it if the page asks for it."""
        body = b""
        try:
            async for part in request.stream():
                body += part
                if len(body) > _MAX_BODY:
                    raise UsageError("the request is too long")
        except ClientDisconnect:
            return Response(status_code=499)  # the client is gone and its request incomplete
        try:
            order = msgspec.json.decode(body, type=_Asked)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"the request is not a valid command: {error}") from error
        return await run_in_threadpool(self._command, order)

    def _command(self, order: _Asked) -> Response:
        folder = self.places.folder_at(order.run).folder if order.action == "prune" else self._folder(order.run)
        words = command_of(order.action, folder.absolute(), order.values, dry_run=order.dry_run)
        if not order.start:
            return _json({"command": command_line(words)})
        with self._lock:
            self.jobs.append(StartedCommand(words))
            return _json({"command": command_line(words), "job": len(self.jobs) - 1})

    def job(self, request: Request) -> Response:
        number = request.path_params["number"]
        if number >= len(self.jobs):
            raise UsageError("no such command")
        job = self.jobs[number]
        return _json({"command": job.command, "exit_code": job.exit_code, "lines": list(job.lines)})

    def _folder(self, run: str) -> Path:
        try:
            return self.places.folder_of(run)
        except UsageError:
            self.places.refresh()  # the run may have started since the last scan
            return self.places.folder_of(run)

    def _live_run(self, folder: Path) -> LiveRun:
        with self._lock:
            live = self._live.pop(folder, None) or LiveRun(folder)
            self._live[folder] = live
            while len(self._live) > _MAX_LIVE:
                self._live.popitem(last=False)
            return live


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    action: str
    run: str
    values: dict[str, str] = {}
    dry_run: bool = False
    start: bool = False


def _stream(parts: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(parts, media_type="text/event-stream")


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def _error_response(request: Request, error: Exception) -> Response:
    return PlainTextResponse(f"{error}\n", 404 if request.method == "GET" else 400)
