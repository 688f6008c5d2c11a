"""A strict provider whose model is the simulated reader: it lets real agents solve worlds with their own shells.

The reader decides the next call. The provider spells it as a command of the shell that the agent offers, and removes
what the agent adds to the output before the reader sees it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress

from stackmem.core.facts import ModelReplied
from stackmem.core.log import Log
from stackmem.core.messages import Message, Part, Text, ToolCall, ToolResult, ToolSpec, View
from stackmem.core.requests import AskModel
from stackmem.doors.gateway.wires.wire import ForeignRequest
from stackmem.lab.simulated.reader import BoundedReader
from tests.doors.gateway.clients.job import namespaces_of
from tests.doors.gateway.clients.provider import SHELLS, ScriptedProvider, filled, named
from tests.doors.gateway.clients.spelling import Call, Reply

END = "All units are done."
_TOOLS = tuple(ToolSpec(name, "", "{}") for name in ("run_command", "read_file"))
_PAGE_LINES = 60
"""Few enough lines that no agent shortens them."""
_READ = re.compile(r"sed -n '\$=' (\S+); sed -n '(\d+),(\d+)p'")
_PAGE = re.compile(r"(\d+)\n(.*)", re.DOTALL)
_EXEC = re.compile(r"tools\.exec_command\((\{.*?\})\)", re.DOTALL)
_WRAPPED = (
    re.compile(r"\nOutput:[ \n](.*)\Z", re.DOTALL),  # Codex, Gemini CLI
    re.compile(r"\AOutput: (.*)\Z", re.DOTALL),
)


class ReadingProvider(ScriptedProvider):
    """Answers agents with a shell by the simulated reader's decisions, and others with a text."""

    def _fails_now(self, asked: ForeignRequest, body: bytes) -> bool:
        return False

    def _reply(self, asked: ForeignRequest, body: bytes) -> Reply:
        if asked.wants_json or not asked.tools:
            return Reply(f'{{"title": "{END}"}}')
        self._calls += 1
        reads: dict[str, re.Match[str]] = {}
        messages = [Message("assistant" if one.role == "assistant" else "user", tuple(_parts(one.parts, reads)))
                    for one in asked.messages if one.role != "system"]  # fmt: skip
        view = View("", _TOOLS, Log(messages), ())
        reply = BoundedReader(window_tokens=10_000_000).reply(AskModel(view, self._calls, self._calls))
        assert isinstance(reply, ModelReplied)
        text = "".join(part.text for part in reply.parts if isinstance(part, Text))
        (call,) = (part for part in reply.parts if isinstance(part, ToolCall))
        command = _command(call)
        if not command:
            return Reply(END, self.last.calls)
        shell, spaces = named(asked, SHELLS), namespaces_of(body)
        if shell is None:
            program = f"text((await tools.exec_command({json.dumps({'cmd': command})})).output);"
            return Reply(text, (Call("exec", program, spaces.get("exec", "")),))
        given = {"command": command, "cmd": command, "description": "Works."}
        return Reply(text, (Call(shell.name, filled(shell, given), spaces.get(shell.name, "")),))


def _command(call: ToolCall) -> str:
    """Return the reader's call as a command of a shell; empty if the reader has finished."""
    if call.name == "run_command":
        return str(call.arguments["command"])
    if call.name != "read_file":
        return ""
    first, path = int(call.arguments.get("start_line") or 1), call.arguments["path"]
    return f"sed -n '$=' {path}; sed -n '{first},{first + _PAGE_LINES - 1}p' {path}"  # Gemini CLI refuses $(...)


def _parts(parts: tuple[Part, ...], reads: dict[str, re.Match[str]]) -> Iterator[Part]:
    """Yield the parts of an agent's message as the reader knows them; ``reads`` are the calls that show a file."""
    for part in parts:
        if isinstance(part, ToolCall):
            command = _command_of(part)
            read = _READ.match(command)
            reads.pop(part.id, None)  # Gemini's ids are used again
            reads |= {part.id: read} if read else {}
            given = {"path": read[1], "start_line": int(read[2])} if read else {"command": command}
            yield ToolCall(part.id, "read_file" if read else "run_command", given)
        elif isinstance(part, ToolResult):
            output, read = _output(part.text), reads.get(part.call_id)
            page = _PAGE.match(output) if read else None
            if read and page:
                last = min(int(read[3]), int(page[1]))
                output = f"[lines {read[2]}-{last} of {page[1]}]\n{page[2]}"
            yield ToolResult(part.call_id, output if read else f"{output}\n[exit 0]")
        elif isinstance(part, Text):
            yield part


def _output(text: str) -> str:
    """Return the output in an agent's result."""
    with suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict) and isinstance(found.get("output"), str):  # mini-swe-agent
            return str(found["output"]).strip()
    return next((match[1] for form in _WRAPPED if (match := form.search(text))), text).strip()


def _command_of(call: ToolCall) -> str:
    """Return the command that an agent's call runs."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    found = arguments.get("command", arguments.get("cmd", ""))
    if isinstance(found, list):
        return str(found[-1])
    texts = [call.malformed, call.arguments, *arguments.values()]
    program = _EXEC.search(" ".join(text for text in texts if isinstance(text, str)))
    if found or program is None:
        return str(found)
    return str(json.loads(program[1])["cmd"])
