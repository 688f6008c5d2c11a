"""Answers an editor's requests in a thread, while the main thread plays the turns.

Only this module uses the ``acp`` library, and only ``stackmem acp`` imports it.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import sys
import threading
from base64 import b64decode
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from acp import RequestError
from acp.agent.connection import AgentSideConnection
from acp.schema import PermissionOption, RequestPermissionResponse, ToolCallUpdate
from msgspec import UNSET

from stackmem.core.person_facts import Approve, PersonPlanned, PersonSaid
from stackmem.core.state import State
from stackmem.core.text import mark_cut
from stackmem.doors.chat.command_files import find_commands, request_of
from stackmem.doors.chat.commands import IN_EDITORS
from stackmem.errors import StackmemError, TraceError
from stackmem.foreign.files import read_regular
from stackmem.run.companion.conversations import kept_sessions
from stackmem.run.ports import UserFile
from stackmem.run.request import read_request
from stackmem.run.run_folder import TRACE, is_run
from stackmem.trace.open_run import Run
from stackmem.trace.private import owners
from stackmem.trace.walk import state_after
from stackmem.version import VERSION

from .editor_session import EditorSession, TurnFailed
from .messages import LineTransport
from .turns import Turns, command_of
from .updates import Update

PROTOCOL = 1
_POINTERS = ".editor_sessions"
_LAST_SECONDS = 1.0
"""Time that pending answers get after the last turn has ended."""
_PAGE = 50
"""Sessions per page of a list."""
_ID = re.compile(r"[0-9a-f]{32}")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,200}")
_MODES: dict[Approve, tuple[str, str]] = {
    "never": ("Never ask", "Calls in the sandbox need no permission."),
    "writes": ("Ask for writes", "File changes need permission."),
    "commands": ("Ask for commands", "File changes and commands need permission."),
    "all": ("Ask for everything", "Every call in the workspace needs permission."),
}
_PLAN = "plan"
_OPTIONS = [("allow_once", "Allow"), ("allow_always", "Always allow this tool"), ("reject_once", "Deny")]


class EditorAgent:
    """Implements the methods that the ``acp`` library calls; the library dictates their names.

    Args:
        runs_dir: Returns the folder for the runs of a folder.
        mode: Which calls need permission in a new session.
    """

    def __init__(self, turns: Turns, runs_dir: Callable[[Path], Path], mode: Approve) -> None:
        self._turns, self._runs_dir, self._mode = turns, runs_dir, mode
        self._sessions: dict[str, EditorSession] = {}
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._client: AgentSideConnection | None = None

    def on_connect(self, client: AgentSideConnection) -> None:
        self._client = client

    async def initialize(self, protocol_version: int, **more: Any) -> dict[str, Any]:
        return {
            "protocolVersion": PROTOCOL,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": False},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
            },
            "agentInfo": {"name": "stackmem", "title": "stackmem", "version": VERSION},
            "authMethods": [],
        }

    async def authenticate(self, method_id: str, **more: Any) -> dict[str, Any]:
        raise _wrong("stackmem has no login; set the provider's key in the environment")

    async def new_session(self, cwd: str, **more: Any) -> dict[str, Any]:
        folder = _folder(cwd)
        try:
            self._turns.prepare(folder)  # report errors now, not at the first prompt
        except StackmemError as error:
            raise _wrong(str(error)) from error
        conversation = self._begin(secrets.token_hex(16), folder)
        return {"sessionId": conversation.name, "modes": _modes(conversation)}

    async def load_session(self, cwd: str, session_id: str, **more: Any) -> dict[str, Any]:
        return await self._take_up(cwd, session_id, shows=True)

    async def resume_session(self, cwd: str, session_id: str, **more: Any) -> dict[str, Any]:
        return await self._take_up(cwd, session_id, shows=False)

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **more: Any) -> dict[str, Any]:
        folder = _folder(cwd) if cwd else None
        runs = self._runs_dir(folder or Path.cwd())
        names = _names_of(runs)
        found: list[dict[str, Any]] = []
        last = ""
        for run_dir, subject in kept_sessions(runs):
            if (cursor and run_dir.name >= cursor) or folder not in (None, subject):
                continue
            if len(found) == _PAGE:
                return {"sessions": found, "nextCursor": last}
            last = run_dir.name
            found.append({"sessionId": names.get(last, last), "cwd": str(subject), **_title(run_dir)})
        return {"sessions": found}

    async def close_session(self, session_id: str, **more: Any) -> dict[str, Any]:
        await self.cancel(self._session(session_id).name)
        self._sessions.pop(session_id)
        return {}

    async def set_session_mode(self, session_id: str, mode_id: str, **more: Any) -> dict[str, Any]:
        conversation = self._session(session_id)
        if mode_id not in (*_MODES, _PLAN):
            raise _wrong(f"unknown mode {mode_id[:40]!a}; choose one of {', '.join((*_MODES, _PLAN))}")
        if (mode_id == _PLAN) != conversation.planning:
            conversation.choose(PersonPlanned(mode_id == _PLAN))
        conversation.mode = next((mode for mode in _MODES if mode == mode_id), conversation.mode)
        return {}

    async def prompt(self, session_id: str, prompt: list[Any], **more: Any) -> dict[str, Any]:
        conversation = self._session(session_id)
        text = _text(prompt, conversation.folder)
        attached = _images(prompt)
        try:
            text = request_of(text, conversation.folder, os.environ) or text
        except StackmemError as error:
            raise _wrong(str(error)) from error
        if command_of(text)[0] and conversation.queued:
            raise _wrong("commands are not possible during a turn; wait for its end, or cancel it")
        answer, begins = conversation.prompt(text, attached)
        if begins:
            self._turns.begin(conversation)
        try:
            return {"stopReason": await asyncio.wrap_future(answer)}
        except TurnFailed as failed:
            raise RequestError(-32603, str(failed)) from failed

    async def cancel(self, session_id: str, **more: Any) -> None:
        if session_id in self._sessions:
            self._sessions[session_id].cancel()
            self._turns.interrupt(self._sessions[session_id])

    def update(self, session: str, update: Update) -> None:
        with suppress(ConnectionError, CancelledError):
            asyncio.run_coroutine_threadsafe(self._send(session, update), self._loop).result()

    def permit(self, session: str, call: dict[str, Any], *, once: bool = False) -> str:
        options = [each for each in _OPTIONS if not once or each[0] != "allow_always"]
        asked: Future[str] = asyncio.run_coroutine_threadsafe(self._permission(session, call, options), self._loop)
        try:
            return asked.result()
        finally:
            asked.cancel()  # if the user cancelled, do not wait for the editor's answer

    async def _permission(self, session: str, call: dict[str, Any], options: list[tuple[str, str]]) -> str:
        offered = [
            PermissionOption.model_validate({"optionId": id_, "name": name, "kind": id_}) for id_, name in options
        ]
        try:
            found = await self._connected().request_permission(session, ToolCallUpdate.model_validate(call), offered)
        except (RequestError, ConnectionError, ValueError):  # an editor that cannot ask did not allow it
            return ""
        outcome = RequestPermissionResponse.model_validate(found).outcome
        return outcome.option_id if outcome.outcome == "selected" else ""

    async def _send(self, session: str, update: Update) -> None:
        message: Any = update
        await self._connected().session_update(session, message)

    def _connected(self) -> AgentSideConnection:
        if self._client is None:
            raise ConnectionError("no editor is connected")
        return self._client

    def _begin(self, name: str, folder: Path) -> EditorSession:
        conversation = EditorSession(name, folder, self._mode, self)
        if _ID.fullmatch(name):
            conversation.on_run = lambda run_dir: _keep(name, run_dir)
        self._sessions[name] = conversation
        known = IN_EDITORS | find_commands(folder, os.environ).commands
        commands = [
            {"name": name, "description": each.says, **({"input": {"hint": each.takes}} if each.takes else {})}
            for name, each in known.items()
        ]
        update = {"sessionUpdate": "available_commands_update", "availableCommands": commands}
        task = self._loop.create_task(self._send(name, update))  # runs after the session's own answer was sent
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return conversation

    async def _take_up(self, cwd: str, session_id: str, *, shows: bool) -> dict[str, Any]:
        """Reopen an earlier session; with ``shows``, send its history to the editor again."""
        folder = _folder(cwd)
        if session_id in self._sessions and self._sessions[session_id].queued:
            raise _wrong("the session is busy; cancel its turn first")
        try:
            run_dir = self._found(session_id, folder)
            conversation = self._begin(session_id, folder)
            conversation.run_dir = run_dir
            state = State()
            for record in Run(run_dir).records():
                before, state = state, state_after(state, record)
                for update in conversation.show_again(record.event, before, state) if shows else ():
                    await self._send(session_id, update)
            conversation.state = state
        except (StackmemError, OSError) as error:
            self._sessions.pop(session_id, None)
            raise _wrong(str(error)) from error
        return {"modes": _modes(conversation)}

    def _session(self, name: str) -> EditorSession:
        if name not in self._sessions:
            raise RequestError(-32002, f"no session {name[:80]!a}; load it, or start a new one")
        return self._sessions[name]

    def _found(self, name: str, folder: Path) -> Path:
        """Return the run folder of a session about this folder; a run id works as a session name too.

        Raises:
            RequestError: The session does not exist.
        """
        runs = self._runs_dir(folder)
        run = name
        if _ID.fullmatch(name):
            with suppress(OSError, UnicodeDecodeError):
                run = read_regular(runs / _POINTERS / name).decode()
        if not _RUN_ID.fullmatch(run) or not is_run(runs / run):
            raise RequestError(-32002, f"no session {name[:80]!a} in {runs}")
        path = runs / run
        subject, begun = Path(read_request(path).subject), Run(path).state.start
        if begun is None or begun.session is UNSET:
            raise TraceError(f"{run} is not a conversation; continue it with stackmem resume")
        if subject.resolve() != folder:
            raise TraceError(f"the session belongs to {subject}, not to {folder}; open that folder")
        return path


def serve_acp(turns: Turns, runs_dir: Callable[[Path], Path], mode: Approve) -> int:
    """Serve the editor on stdin and stdout until it disconnects; return the exit code.

    The protocol gets private copies of both streams. After that, anything else that writes to stdout goes to
    stderr, and anything else that reads stdin sees end of file, so neither can corrupt the protocol.
    """
    reads, writes = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    played: Future[None] = Future()
    serving = threading.Thread(
        target=lambda: asyncio.run(_serve(turns, runs_dir, mode, (reads, writes), played)), name="acp", daemon=True
    )
    serving.start()
    code = turns.play_all()
    played.set_result(None)
    serving.join(_LAST_SECONDS)
    return code


async def _serve(
    turns: Turns,
    runs_dir: Callable[[Path], Path],
    mode: Approve,
    streams: tuple[BinaryIO, int],
    played: Future[None],
) -> None:
    """Answer the editor until the last turn has ended, including requests sent before that."""
    try:
        agent: Any = EditorAgent(turns, runs_dir, mode)
        transport = LineTransport(*streams, turns.close)
        connection = AgentSideConnection(agent, transport, listening=False, use_unstable_protocol=True)
        listening = asyncio.create_task(connection.listen())
        await asyncio.wrap_future(played)
    finally:
        turns.close()
    if answers := asyncio.all_tasks() - {asyncio.current_task(), listening}:
        await asyncio.wait(answers, timeout=_LAST_SECONDS)


def _keep(name: str, run_dir: Path) -> None:
    """Record which run belongs to a session, so that the session can be loaded by name."""
    path = run_dir.parent / _POINTERS
    path.mkdir(mode=0o700, exist_ok=True)
    with open(path / name, "w", encoding="utf-8", opener=owners) as file:
        file.write(run_dir.name)


def _names_of(runs: Path) -> dict[str, str]:
    """Map run ids to the names of the editor sessions that started them."""
    try:
        places = [path for path in (runs / _POINTERS).iterdir() if _ID.fullmatch(path.name)]
    except OSError:
        return {}
    found = {}
    for place in places:
        with suppress(OSError, UnicodeDecodeError):
            found[read_regular(place).decode()] = place.name
    return found


def _title(run_dir: Path) -> dict[str, str]:
    """Return the session's first request and last activity; empty if the trace cannot be read."""
    with suppress(StackmemError, OSError):
        requests = (record.event.text for record in Run(run_dir).records() if isinstance(record.event, PersonSaid))
        at = datetime.fromtimestamp((run_dir / TRACE).stat().st_mtime, UTC)
        return {"title": mark_cut(" ".join(next(requests, "").split()), 80), "updatedAt": at.isoformat()}
    return {}


def _folder(cwd: str) -> Path:
    """Validate and resolve a session's folder."""
    with suppress(OSError, ValueError):
        if Path(cwd).is_absolute() and Path(cwd).is_dir():
            return Path(cwd).resolve()
    raise _wrong(f"cwd must be the absolute path of a folder, not {cwd[:200]!a}")


def _modes(conversation: EditorSession) -> dict[str, Any]:
    known = [{"id": mode, "name": name, "description": says} for mode, (name, says) in _MODES.items()]
    known.append({"id": _PLAN, "name": "Plan", "description": "The agent only looks, and answers with a plan."})
    return {"currentModeId": _PLAN if conversation.planning else conversation.mode, "availableModes": known}


def _text(prompt: list[Any], folder: Path) -> str:
    """Convert a prompt to text; links to files in the folder become relative paths."""
    parts, images = [], 0
    for block in prompt:
        if block.type == "image":
            images += 1
            parts.append(f"[Image {images}]")
        elif block.type == "text":
            parts.append(block.text)
        elif block.type == "resource_link":
            parts.append(_link(block.uri, folder))
        else:
            raise _wrong(f"a prompt may contain text, images and links to files, but not {block.type}")
    text = "".join(parts)
    if not text.strip():
        raise _wrong("the prompt is empty")
    return text


def _images(prompt: list[Any]) -> list[UserFile]:
    """Return the images of a prompt under the names that its text uses."""
    blocks = [block for block in prompt if block.type == "image"]
    try:
        return [
            UserFile(f"Image {number}", raw=b64decode(block.data, validate=True))
            for number, block in enumerate(blocks, 1)
        ]
    except ValueError as error:
        raise _wrong("the data of an image is not base64") from error


def _link(uri: str, folder: Path) -> str:
    with suppress(ValueError):
        split = urlsplit(uri)
        path = Path(unquote(split.path))
        if split.scheme == "file" and path.is_relative_to(folder):
            return f"`{path.relative_to(folder)}`"
    return uri


def _wrong(text: str) -> RequestError:
    return RequestError(-32602, text)
