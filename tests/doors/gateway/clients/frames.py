"""Lets a real agent push and pop a frame of ``stackmem mcp``, directly or from a program, behind a gateway."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from stackmem.doors.gateway.status import GatewayRunStatus, gateway_status
from stackmem.doors.gateway.verifying import GatewayVerified, verify_gateway_run
from stackmem.doors.gateway.wires.wire import ForeignRequest
from tests.doors.gateway.clients.job import namespaces_of
from tests.doors.gateway.clients.provider import SHELLS, ScriptedProvider, filled, named
from tests.doors.gateway.clients.spelling import Call, Reply
from tests.doors.gateway.clients.table import CLIENTS, environ_of, place_of
from tests.doors.gateway.upstream import RawUpstream
from tests.stage import ROOT

TASK = "Work with frames."
_PUSH = {"name": "count", "objective": "Count.", "context": "None.", "return_spec": "A number."}
_POP = {"result": "It is 7."}
_SCRIPT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("run", {"cmd": "sleep 8; echo before; seq 1 300"}), ("push_frame", _PUSH),
    ("run", {"cmd": "echo inside; seq 1 300"}),
    ("run", {"cmd": "echo again; seq 1 300"}), ("pop_frame", _POP), ("run", {"cmd": "echo after"}),
)  # fmt: skip
_PUSHES = 2
"""The step that pushes."""
_MISSING = re.compile(rb"push_frame is not a function|unsupported (custom tool )?call|No such tool available")
_MAX_WAITS = 20
_WORDS = (b"echo before", b"echo inside", b"echo after")
_SHOWN: tuple[list[bytes], ...] = (
    [], [b"echo inside"], [b"echo inside"], [b"echo before"], [b"echo before", b"echo after"],
)  # fmt: skip
"""The words that the requests from the push on contain: of those before the frame, in it and after it."""
FRAME_AGENTS = {
    "claude-code": "claude-sonnet-5-5", "claude-code-4": "claude-haiku-4-5", "codex": "gpt-5.6-sol",
    "codex-tools": "gpt-5.4", "opencode": "claude-sonnet-5-5", "opencode-4": "claude-haiku-4-5",
    "gemini-cli": "gemini-3.8-flash",
}  # fmt: skip
"""Agents that can have tools of an MCP server, and their models."""
_SERVER = "mcp__stackmem__"
_NAMED = {client.name: client for client in CLIENTS}
_SECONDS = 400


def run_with_frames(
    name: str, clients: Path, scratch: Path
) -> tuple[FrameProvider, list[GatewayRunStatus], list[GatewayVerified]]:
    """Run an agent with the memory server; return its provider, the status of its runs, and their replays."""
    model = FRAME_AGENTS[name]
    client = next(_NAMED[one] for one in (name, name.rpartition("-")[0]) if one in _NAMED)
    place = place_of(client, clients)
    if place is None:
        raise FileNotFoundError(name)
    home, work, runs = scratch / "home", scratch / "work", scratch / "runs"
    for folder in (home / ".gemini", work):
        folder.mkdir(parents=True)
    server = ["-m", "stackmem", "mcp", "--runs-dir", str(scratch / "memory")]
    servers = {"stackmem": {"command": sys.executable, "args": server}}
    environ = environ_of(client, home) | {"PYTHONPATH": str(ROOT)}
    match client.name:
        case "codex":
            settings = ("mcp_servers.stackmem.startup_timeout_sec=200",
                        f"mcp_servers.stackmem.command={json.dumps(sys.executable)}",
                        f"mcp_servers.stackmem.args={json.dumps(server)}")  # fmt: skip
            command = [str(place / "codex"), "exec", "--skip-git-repo-check",
                       "--dangerously-bypass-approvals-and-sandbox",
                       *(word for one in settings for word in ("-c", one)), "-m", model, TASK]  # fmt: skip
        case "claude-code":
            command = [str(place / "claude"), "-p", TASK, "--dangerously-skip-permissions", "--model", model,
                       "--mcp-config", json.dumps({"mcpServers": servers})]  # fmt: skip
        case "opencode":
            local = {"type": "local", "command": [sys.executable, *server], "enabled": True}
            config = json.loads(environ["OPENCODE_CONFIG_CONTENT"]) | {"mcp": {"stackmem": local}}
            environ["OPENCODE_CONFIG_CONTENT"] = json.dumps(config)
            command = [str(place / "opencode"), "run", "--model", f"anthropic/{model}", TASK]
        case _:
            auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
            trusted = {"stackmem": {**servers["stackmem"], "trust": True}}
            (home / ".gemini/settings.json").write_text(json.dumps({**auth, "mcpServers": trusted}))
            command = [str(place / "gemini"), "--model", model, "--yolo", "-p", TASK]
    provider = FrameProvider()
    with RawUpstream(at=provider.answer) as upstream:
        gateway = [sys.executable, "-m", "stackmem", "gateway", "run", "--upstream", upstream.url, "--strategy",
                   "stackheap", "-o", str(runs), "--", *command]  # fmt: skip
        subprocess.run(gateway, cwd=work, env=environ, capture_output=True, check=True, input=b"", timeout=_SECONDS)
    rows = gateway_status(runs)
    return provider, rows, [verify_gateway_run(runs / row.run) for row in rows]


def framed(provider: FrameProvider, rows: list[GatewayRunStatus], verified: list[GatewayVerified]) -> str:
    """Return what contradicts the rules for frames; empty if each prompt contained only what its frame shows."""
    if provider.refused or len(rows) != 1 or rows[0].no_effect:
        return f"{len(rows)} runs; refused: {provider.refused}; no effect: {[row.no_effect for row in rows]}"
    if provider.searched > 1:
        return f"the agent searched its tools {provider.searched} times"
    if (verified[0].cuts, verified[0].not_followed) != (rows[0].requests, 0):
        return f"replay decided {verified[0].cuts} of {rows[0].requests} cuts"
    before = provider.searched + provider.waited
    requests = rows[0].requests - provider.titles - before
    shown = tuple([word for word in _WORDS if word in body] for body in provider.worked[2 + before :])
    return "" if (requests, shown) == (len(_SCRIPT) + 1, _SHOWN) else f"{requests} requests showed {shown}"


class FrameProvider(ScriptedProvider):
    """Answers one agent's requests in order: a command, a frame with two commands, and another command."""

    def __init__(self) -> None:
        super().__init__()
        self.worked: list[bytes] = []  # the bodies of all requests but those for titles
        self.titles = 0
        self.searched = 0
        self.waited = 0  # requests before the server's tools could be called

    def _reply(self, asked: ForeignRequest, body: bytes) -> Reply:
        if not asked.tools or asked.wants_json:
            self.titles += 1
            return Reply('{"title": "Frames"}')
        self.worked.append(body)
        missing = len(_MISSING.findall(body)) > self.waited // _PUSHES
        if self._calls == _PUSHES and missing and self.waited < _MAX_WAITS:
            self.waited, self._calls = self.waited + _PUSHES, 0  # the server has not started: wait once more
        self._calls += 1
        if self._calls > len(_SCRIPT):
            return self.last
        kind, given = _SCRIPT[self._calls - 1]
        shell, hidden = named(asked, SHELLS), _deferred(body)
        own = (tool for tool in asked.tools if tool.name.endswith(kind) and tool.name not in hidden)
        tool = next(own, shell if kind == "run" else None)
        search = named(asked, ("toolsearch",))
        if tool is None and search is not None:  # Claude Code sends a server's tools once the model has searched them
            self.searched, self._calls = self.searched + 1, self._calls - 1
            found = ",".join(f"{_SERVER}{one}" for one in ("push_frame", "pop_frame"))
            return Reply("I need tools.", (Call(search.name, {"query": f"select:{found}"}),))
        if tool is not None:
            arguments = filled(tool, {**given, "command": given.get("cmd")})
            call = Call(tool.name, arguments, namespaces_of(body).get(tool.name, ""))
            return Reply(f"Step {self._calls}.", (call,))
        name = "exec_command" if kind == "run" else f"{_SERVER}{kind}"
        program = f"text(JSON.stringify(await tools.{name}({json.dumps(given)})));"
        return Reply(f"Step {self._calls}.", (Call("exec", program, "functions"),))

    def _fails_now(self, asked: ForeignRequest, body: bytes) -> bool:
        return False


def _deferred(body: bytes) -> set[str]:
    """Return the names of tools that the model does not see: deferred, and not referenced by a search's result."""
    value = json.loads(body)
    found = {tool["name"] for tool in value.get("tools") or () if tool.get("defer_loading")}
    spelled = json.dumps(value)
    return {name for name in found if json.dumps({"type": "tool_reference", "tool_name": name}) not in spelled}
