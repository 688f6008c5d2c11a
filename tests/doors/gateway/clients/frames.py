"""A scripted provider that lets a real agent push and pop a frame of ``stackmem mcp``, directly or from a program."""

from __future__ import annotations

import json
from typing import Any

from stackmem.doors.gateway.wires.wire import ForeignRequest
from tests.doors.gateway.clients.job import namespaces_of
from tests.doors.gateway.clients.provider import SHELLS, ScriptedProvider, filled, named
from tests.doors.gateway.clients.spelling import Call, Reply

TASK = "Work with frames."
_PUSH = {"name": "count", "objective": "Count.", "context": "None.", "return_spec": "A number."}
_POP = {"result": "It is 7."}
_SCRIPT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("run", {"cmd": "sleep 8; echo before; seq 1 300"}), ("push_frame", _PUSH),
    ("run", {"cmd": "echo inside; seq 1 300"}),
    ("run", {"cmd": "echo again; seq 1 300"}), ("pop_frame", _POP), ("run", {"cmd": "echo after"}),
)  # fmt: skip


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
