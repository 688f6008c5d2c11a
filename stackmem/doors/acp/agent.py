"""Answers an editor's requests in a thread, while the main thread plays the turns.

Only this module uses the ``acp`` library, and only ``stackmem acp`` imports it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from acp import RequestError
from acp.agent.connection import AgentSideConnection
from acp.schema import ClientCapabilities, PermissionOption, RequestPermissionResponse, ToolCallUpdate

from stackmem.core.errors import StackmemError
from stackmem.core.person_facts import Approve, PersonPlanned
from stackmem.core.state import State
from stackmem.core.version import VERSION
from stackmem.doors.chat.command_files import find_commands, request_of
from stackmem.doors.chat.commands import IN_EDITORS, shell_command
from stackmem.run.fork import ForkChanges
from stackmem.run.ports import UserFile
from stackmem.settings.mcp_servers import Server
from stackmem.trace.open_run import Run
from stackmem.trace.walk import state_after

from .config_options import MODES, PLAN, config_options, modes
from .editor_session import EditorSession, TurnFailed
from .messages import LineTransport
from .prompts import Prompt, editor_servers, is_saved, mentioned, read_prompt, wrong
from .stored_sessions import SESSION_ID, found_run, keep_pointer, list_page
from .turns import Turns, command_of
from .updates import Update, message
from .workers import SessionProcesses

PROTOCOL = 1
_LAST_SECONDS = 1.0
"""Time that pending answers get after the last turn has ended."""
_READ_SECONDS = 3.0
"""Time that an editor gets to return the text of a file."""
_OPTIONS = [("allow_once", "Allow"), ("allow_always", "Always allow this tool"), ("reject_once", "Deny")]

Connect = Callable[[Mapping[str, Server], Path], object]


class EditorAgent:
    """Implements the methods that the ``acp`` library calls; the library dictates their names.

    Args:
        runs_dir: Returns the folder for the runs of a folder.
        mode: Which calls need permission in a new session.
        connect: Connects to MCP servers of the editor.
    """

    def __init__(self, turns: Turns, runs_dir: Callable[[Path], Path], mode: Approve, connect: Connect) -> None:
        self._turns, self._runs_dir, self._mode, self._connects = turns, runs_dir, mode, connect
        self._servers: dict[str, Server] = {}
        self._reads_files = False  # whether the editor returns the text of its files
        self._sessions: dict[str, EditorSession] = {}
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._client: AgentSideConnection | None = None

    def on_connect(self, client: AgentSideConnection) -> None:
        self._client = client

    async def initialize(
        self, protocol_version: int, client_capabilities: ClientCapabilities | None = None, **more: Any
    ) -> dict[str, Any]:
        files = client_capabilities.fs if client_capabilities is not None else None
        self._reads_files = bool(files is not None and files.read_text_file)
        return {
            "protocolVersion": PROTOCOL,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": False, "sse": False},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "fork": {}},
            },
            "agentInfo": {"name": "stackmem", "title": "stackmem", "version": VERSION},
            "authMethods": [],
        }

    async def authenticate(self, method_id: str, **more: Any) -> dict[str, Any]:
        raise wrong("stackmem has no login; set the provider's key in the environment")

    async def new_session(self, cwd: str, mcp_servers: Any = (), **more: Any) -> dict[str, Any]:
        folder = _folder(cwd)
        await self._connect(mcp_servers, folder)
        try:
            request = self._turns.prepare(folder, {})  # report errors now, not at the first prompt
        except StackmemError as error:
            raise wrong(str(error)) from error
        conversation = self._begin(secrets.token_hex(16), folder)
        conversation.use_model(request.model)
        conversation.strategy = request.resolved.settings.strategy
        return {"sessionId": conversation.name, **self._choices(conversation)}

    async def load_session(self, cwd: str, session_id: str, mcp_servers: Any = (), **more: Any) -> dict[str, Any]:
        await self._connect(mcp_servers, _folder(cwd))
        return await self._take_up(cwd, session_id, shows=True)

    async def resume_session(self, cwd: str, session_id: str, mcp_servers: Any = (), **more: Any) -> dict[str, Any]:
        await self._connect(mcp_servers, _folder(cwd))
        return await self._take_up(cwd, session_id, shows=False)

    async def fork_session(self, cwd: str, session_id: str, mcp_servers: Any = (), **more: Any) -> dict[str, Any]:
        """Begin a session with the conversation of another one so far. The first prompt makes the fork of the run."""
        folder = _folder(cwd)
        await self._connect(mcp_servers, folder)
        try:
            run_dir = found_run(session_id, self._runs_dir(folder), folder)
            state = Run(run_dir).state
        except (StackmemError, OSError) as error:
            raise wrong(str(error)) from error
        if state.end is None:
            raise wrong("the session is busy; fork it when its turn has ended")
        conversation = self._begin(secrets.token_hex(16), folder)
        conversation.take_up(run_dir, state)
        conversation.changes = ForkChanges()
        return {"sessionId": conversation.name, **self._choices(conversation)}

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **more: Any) -> dict[str, Any]:
        folder = _folder(cwd) if cwd else None
        return list_page(self._runs_dir(folder or Path.cwd()), folder, cursor)

    async def close_session(self, session_id: str, **more: Any) -> dict[str, Any]:
        await self.cancel(self._session(session_id).name)
        self._sessions.pop(session_id)
        return {}

    async def set_session_mode(self, session_id: str, mode_id: str, **more: Any) -> dict[str, Any]:
        conversation = self._session(session_id)
        _set_mode(conversation, mode_id)
        return {}

    async def set_config_option(self, config_id: str, session_id: str, value: Any, **more: Any) -> dict[str, Any]:
        conversation = self._session(session_id)
        options = config_options(conversation, os.environ)
        option = next((each for each in options if each["id"] == config_id), None)
        if option is None:
            raise wrong(f"no option {config_id[:40]!a}; known: {', '.join(each['id'] for each in options)}")
        if value not in [each["value"] for each in option["options"]]:
            raise wrong(f"{value!a:.60} is not a value of {config_id}")
        if config_id == "mode":
            _set_mode(conversation, value)
        else:
            conversation.set_option(**{config_id: value})
        return {"configOptions": config_options(conversation, os.environ)}

    async def prompt(self, session_id: str, prompt: list[Any], **more: Any) -> dict[str, Any]:
        conversation = self._session(session_id)
        parsed = read_prompt(prompt, conversation.folder)
        try:
            text = request_of(parsed.words, conversation.folder, os.environ) or parsed.words
        except StackmemError as error:
            raise wrong(str(error)) from error
        attached, messages = await self._attached(conversation, text, parsed)
        for each in messages:
            await self._send(session_id, message(f"({each})\n"))
        if command_of(text)[0] and conversation.queued:
            raise wrong("commands are not possible during a turn; wait for its end, or cancel it")
        answer, begins = conversation.prompt(text, attached)
        if begins:
            self._turns.begin(conversation)
        try:
            return {"stopReason": await asyncio.wrap_future(answer)}
        except TurnFailed as failed:
            raise RequestError(-32603, str(failed)) from failed

    async def _attached(
        self, conversation: EditorSession, text: str, prompt: Prompt
    ) -> tuple[list[UserFile], list[str]]:
        """Return what a prompt attaches, and messages. Unsaved text of the editor replaces the file on disk."""
        if shell_command(text):
            return [], []
        mentioned_files, messages = mentioned(text, conversation.folder, conversation.has_file)
        unsaved = [await self._unsaved(conversation, path) for path in prompt.linked]
        files = [await self._unsaved(conversation, each.path) or each for each in mentioned_files if each.raw is None]
        return [*prompt.attached, *filter(None, unsaved), *files], messages

    async def _unsaved(self, conversation: EditorSession, path: str) -> UserFile | None:
        """Return the text of a file in the editor, if it differs from the file on disk."""
        file = conversation.folder / path
        if not self._reads_files or path.endswith("/"):
            return None
        try:
            reading = self._connected().read_text_file(session_id=conversation.name, path=str(file))
            text = (await asyncio.wait_for(reading, _READ_SECONDS)).content
        except (RequestError, ConnectionError, TimeoutError, ValueError):  # the file on disk counts
            return None
        return None if is_saved(file, text) else UserFile(f"{path} (not saved)", raw=text.encode("utf-8", "replace"))

    async def _connect(self, entries: Any, folder: Path) -> None:
        """Connect to the editor's servers. This process has one session, whose run offers their tools."""
        try:
            servers = {
                name: each for name, each in editor_servers(entries or ()).items() if self._servers.get(name) != each
            }
            if servers:
                await asyncio.to_thread(self._connects, servers, folder)
                self._servers |= servers
        except StackmemError as error:
            raise wrong(str(error)) from error

    def _choices(self, conversation: EditorSession) -> dict[str, Any]:
        return {"modes": modes(conversation), "configOptions": config_options(conversation, os.environ)}

    def _tell_options(self, conversation: EditorSession) -> None:
        update = {"sessionUpdate": "config_option_update", "configOptions": config_options(conversation, os.environ)}
        self.update(conversation.name, update)

    async def cancel(self, session_id: str, **more: Any) -> None:
        if session_id in self._sessions:
            self._sessions[session_id].cancel()
            self._turns.interrupt(self._sessions[session_id])

    def update(self, session: str, update: Update) -> None:
        with suppress(ConnectionError, CancelledError):
            asyncio.run_coroutine_threadsafe(self._send(session, update), self._loop).result()

    def permit(self, session: str, call: dict[str, Any], *, once: bool = False) -> str:
        options = [each for each in _OPTIONS if not once or each[0] != "allow_always"]
        future: Future[str] = asyncio.run_coroutine_threadsafe(self._permission(session, call, options), self._loop)
        try:
            return future.result()
        finally:
            future.cancel()  # if the user cancelled, do not wait for the editor's answer

    async def _permission(self, session: str, call: dict[str, Any], options: list[tuple[str, str]]) -> str:
        offered = [
            PermissionOption.model_validate({"optionId": id_, "name": name, "kind": id_}) for id_, name in options
        ]
        try:
            response = await self._connected().request_permission(session, ToolCallUpdate.model_validate(call), offered)
        except (RequestError, ConnectionError, ValueError):  # an editor that cannot ask did not allow it
            return ""
        outcome = RequestPermissionResponse.model_validate(response).outcome
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
        conversation.on_options = self._tell_options
        if SESSION_ID.fullmatch(name):
            conversation.on_run = lambda run_dir: keep_pointer(name, run_dir)
        self._sessions[name] = conversation
        by_name = IN_EDITORS | find_commands(folder, os.environ).commands
        commands = [
            {"name": name, "description": each.says, **({"input": {"hint": each.takes}} if each.takes else {})}
            for name, each in by_name.items()
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
            raise wrong("the session is busy; cancel its turn first")
        try:
            run_dir = found_run(session_id, self._runs_dir(folder), folder)
            conversation = self._begin(session_id, folder)
            conversation.run_dir = run_dir
            state = State()
            for record in Run(run_dir).records():
                before, state = state, state_after(state, record)
                for update in conversation.show_again(record.event, before, state) if shows else ():
                    await self._send(session_id, update)
            conversation.take_up(run_dir, state)
        except (StackmemError, OSError) as error:
            self._sessions.pop(session_id, None)
            raise wrong(str(error)) from error
        return self._choices(conversation)

    def _session(self, name: str) -> EditorSession:
        if name not in self._sessions:
            raise RequestError(-32002, f"no session {name[:80]!a}; load it, or start a new one")
        return self._sessions[name]


def _set_mode(conversation: EditorSession, mode: str) -> None:
    if mode not in (*MODES, PLAN):
        raise wrong(f"unknown mode {mode[:40]!a}; choose one of {', '.join((*MODES, PLAN))}")
    if (mode == PLAN) != conversation.planning:
        conversation.choose(PersonPlanned(mode == PLAN))
    conversation.mode = next((each for each in MODES if each == mode), conversation.mode)


def serve_acp(agent: Callable[[], EditorAgent], turns: Turns) -> int:
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
        target=lambda: asyncio.run(_serve(agent, turns, (reads, writes), played)), name="acp", daemon=True
    )
    serving.start()
    code = turns.play_all()
    played.set_result(None)
    serving.join(_LAST_SECONDS)
    return code


async def _serve(
    make: Callable[[], EditorAgent], turns: Turns, streams: tuple[BinaryIO, int], played: Future[None]
) -> None:
    """Answer the editor until the last turn has ended, including requests sent before that."""
    transport = LineTransport(*streams, turns.close)
    workers = SessionProcesses(transport.send)
    transport.diverts = workers.takes
    try:
        agent: Any = make()
        connection = AgentSideConnection(agent, transport, listening=False, use_unstable_protocol=True)
        listening = asyncio.create_task(connection.listen())
        await asyncio.wrap_future(played)
    finally:
        turns.close()
        await workers.close()
    if answers := asyncio.all_tasks() - {asyncio.current_task(), listening}:
        await asyncio.wait(answers, timeout=_LAST_SECONDS)


def _folder(cwd: str) -> Path:
    """Validate and resolve a session's folder."""
    with suppress(OSError, ValueError):
        if Path(cwd).is_absolute() and Path(cwd).is_dir():
            return Path(cwd).resolve()
    raise wrong(f"cwd must be the absolute path of a folder, not {cwd[:200]!a}")
