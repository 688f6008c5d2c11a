"""Lets a real agent push and pop a frame of ``stackmem mcp``, directly or from a program, behind a gateway."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from stackmem.doors.gateway.status import GatewayRunStatus, gateway_status
from stackmem.doors.gateway.wires.wire import ForeignRequest
from tests.doors.gateway.clients import claims
from tests.doors.gateway.clients.job import namespaces_of
from tests.doors.gateway.clients.provider import SHELLS, ScriptedProvider, filled, named
from tests.doors.gateway.clients.spelling import Call, Reply
from tests.doors.gateway.clients.table import environ_of, place_of
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


_MODELS = {"codex": "gpt-5.6-sol", "codex-tools": "gpt-5.4"}
FRAME_AGENTS = (*_MODELS, "gemini-cli")
_SECONDS = 200


def run_with_frames(name: str, clients: Path, scratch: Path) -> tuple[FrameProvider, list[GatewayRunStatus]]:
    """Run an agent with the memory server; return its provider and the status of its runs."""
    client = claims.JOBS[name].client
    place = place_of(client, clients)
    if place is None:
        raise FileNotFoundError(name)
    home, work, runs = scratch / "home", scratch / "work", scratch / "runs"
    for folder in (home / ".gemini", work):
        folder.mkdir(parents=True)
    server = ["-m", "stackmem", "mcp", "--runs-dir", str(scratch / "memory")]
    if name in _MODELS:
        settings = (f"mcp_servers.stackmem.command={json.dumps(sys.executable)}",
                    f"mcp_servers.stackmem.args={json.dumps(server)}")  # fmt: skip
        command = [str(place / "codex"), "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
                   *(word for one in settings for word in ("-c", one)), "-m", _MODELS[name], TASK]  # fmt: skip
    else:
        servers = {"stackmem": {"command": sys.executable, "args": server, "trust": True}}
        auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
        (home / ".gemini/settings.json").write_text(json.dumps({**auth, "mcpServers": servers}))
        command = [str(place / "gemini"), "--model", "gemini-3.8-flash", "--yolo", "-p", TASK]
    provider = FrameProvider()
    environ = environ_of(client, home) | {"PYTHONPATH": str(ROOT)}
    with RawUpstream(at=provider.answer) as upstream:
        gateway = [sys.executable, "-m", "stackmem", "gateway", "run", "--upstream", upstream.url, "--strategy",
                   "stackheap", "-o", str(runs), "--", *command]  # fmt: skip
        subprocess.run(gateway, cwd=work, env=environ, capture_output=True, check=True, input=b"", timeout=_SECONDS)
    return provider, gateway_status(runs)


class FrameProvider(ScriptedProvider):
    """Answers one agent's requests in order: a command, a frame with two commands, and another command."""

    def _reply(self, asked: ForeignRequest, body: bytes) -> Reply:
        if not asked.tools or asked.wants_json:
            return Reply('{"title": "Frames"}')
        self._calls += 1
        if self._calls > len(_SCRIPT):
            return self.last
        kind, given = _SCRIPT[self._calls - 1]
        shell = named(asked, SHELLS)
        tool = next((tool for tool in asked.tools if tool.name.endswith(kind)), shell if kind == "run" else None)
        if tool is not None:
            arguments = filled(tool, {**given, "command": given.get("cmd")})
            call = Call(tool.name, arguments, namespaces_of(body).get(tool.name, ""))
            return Reply(f"Step {self._calls}.", (call,))
        name = "exec_command" if kind == "run" else f"mcp__stackmem__{kind}"
        program = f"text(JSON.stringify(await tools.{name}({json.dumps(given)})));"
        return Reply(f"Step {self._calls}.", (Call("exec", program, "functions"),))

    def _fails_now(self, asked: ForeignRequest, body: bytes) -> bool:
        return False
