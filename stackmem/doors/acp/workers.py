"""Further sessions: each has its own process, so that sessions work in parallel and each has its editor's servers.

This process answers the editor, and plays its first session. For each further session it starts another ``stackmem
acp`` with the same arguments, and passes that session's messages on in both directions. If a worker ends, its sessions
can be loaded again.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from .messages import LONGEST_BYTES

Message = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]

_BEGINNING = frozenset({"session/new", "session/load", "session/resume", "session/fork"})
_END_SECONDS = 4.0
_FAILED = -32603
_FIRST = "stackmem-worker-begins"


class SessionProcesses:
    """The workers, and which messages belong to them. ``send`` sends a message to the editor."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._initialize: Message = {"protocolVersion": 1}
        self._is_taken = False  # whether this process has its session
        self._owners: dict[str, _SessionProcess] = {}
        self._requests: dict[
            str, tuple[_SessionProcess, Any]
        ] = {}  # requests of workers that the editor has not answered
        self._workers: list[_SessionProcess] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def takes(self, message: Message) -> bool:
        """Pass a message of the editor on to a worker; return False if it is for this process."""
        method, number = message.get("method"), message.get("id")
        if method is None:
            return self._takes_answer(message)
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if method == "initialize":
            self._initialize = params
        session = params.get("sessionId")
        owner = self._owners.get(session) if isinstance(session, str) and method != "session/fork" else None
        if owner is not None:
            owner.pass_on(message)
            return True
        if method not in _BEGINNING or number is None:
            return False
        if not self._is_taken:
            self._is_taken = True
            return False
        worker = _SessionProcess(self._initialize, message, self)
        self._workers.append(worker)
        self._keep(asyncio.get_running_loop().create_task(worker.work()))
        return True

    async def close(self) -> None:
        """End the workers, as when the editor disconnects."""
        for worker in self._workers:
            worker.end()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_END_SECONDS)
        for worker in self._workers:
            worker.kill()

    def add_session(self, worker: _SessionProcess, session: str) -> None:
        """Record that a worker has a session."""
        self._owners[session] = worker

    def has_session(self, worker: _SessionProcess) -> bool:
        return worker in self._owners.values()

    def ask(self, worker: _SessionProcess, number: Any) -> str:
        """Return the number under which the editor gets a request of a worker."""
        own = f"worker-{self._workers.index(worker)}-{number}"
        self._requests[own] = worker, number
        return own

    async def to_editor(self, message: Message) -> None:
        with suppress(ConnectionError):
            await self._send(message)

    def ended(self, worker: _SessionProcess) -> None:
        """Forget the sessions of a worker."""
        self._owners = {name: each for name, each in self._owners.items() if each is not worker}
        self._requests = {own: request for own, request in self._requests.items() if request[0] is not worker}

    def _takes_answer(self, message: Message) -> bool:
        number = message.get("id")
        request = self._requests.pop(number, None) if isinstance(number, str) else None
        if request is None:
            return False
        worker, own = request
        worker.pass_on({**message, "id": own})
        return True

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _SessionProcess:
    """A process with one session."""

    def __init__(self, initialize: Message, first: Message, workers: SessionProcesses) -> None:
        self._workers = workers
        self._initialize = initialize
        self._waiting: list[Message] = [first]  # messages that arrived before the process started
        self._open: dict[Any, Message] = {}  # the editor's requests without an answer
        self._process: asyncio.subprocess.Process | None = None
        self._ends = False

    def pass_on(self, message: Message) -> None:
        """Send a message of the editor to the process."""
        stdin = self._process.stdin if self._process is not None else None
        if stdin is None:
            self._waiting.append(message)
            return
        if "method" in message and message.get("id") is not None:
            self._open[message["id"]] = message
        with suppress(OSError, RuntimeError):  # the process has ended, and its requests are answered
            stdin.write(json.dumps(message).encode("ascii") + b"\n")

    async def work(self) -> None:
        """Start the process, and send its messages to the editor until it ends."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "stackmem", *sys.argv[1:], stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE, limit=LONGEST_BYTES,
            )  # fmt: skip
            begins = {"jsonrpc": "2.0", "id": _FIRST, "method": "initialize", "params": self._initialize}
            waiting, self._waiting = [begins, *self._waiting], []
            for message in waiting:
                self.pass_on(message)
            if self._ends:
                self.end()
            stdout = self._process.stdout
            while stdout is not None and (line := await stdout.readline()):
                await self._receive(json.loads(line))
        except (OSError, ValueError):  # it cannot be started, or it sent something else than messages
            self.kill()
        finally:
            await self._end_requests()

    async def _receive(self, message: Message) -> None:
        number = message.get("id")
        if "method" in message:
            if number is not None:
                message = {**message, "id": self._workers.ask(self, number)}
        elif number == _FIRST:
            return
        else:
            self._note_answer(message)
        await self._workers.to_editor(message)

    def _note_answer(self, message: Message) -> None:
        request = self._open.pop(message.get("id"), None)
        result = message.get("result")
        if request is None or request["method"] not in (*_BEGINNING, "session/close"):
            return
        if request["method"] != "session/close" and isinstance(result, dict):
            self._workers.add_session(self, result.get("sessionId") or request["params"]["sessionId"])
        elif request["method"] == "session/close" or not self._workers.has_session(self):
            self._workers.ended(self)
            self.end()

    async def _end_requests(self) -> None:
        self._workers.ended(self)
        numbers = [*self._open, *(each["id"] for each in self._waiting if each.get("id") is not None)]
        self._open, self._waiting = {}, []
        for number in numbers:
            error = {"code": _FAILED, "message": "the process of this session has ended; load the session again"}
            await self._workers.to_editor({"jsonrpc": "2.0", "id": number, "error": error})
        if self._process is not None:
            await self._process.wait()

    def end(self) -> None:
        """Disconnect from the process, which then ends its run in good order."""
        self._ends = True
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError, RuntimeError):
                self._process.stdin.close()

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
