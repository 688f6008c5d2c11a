"""Serves the programs of a folder as tools, over stdin and stdout. Each call is a separate run in its own process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from stackmem.core.text import tail
from stackmem.languages.running.catalog import CatalogEntry

from .server import load_library

MAX_CALLS = 4
"""Maximum number of programs that run at the same time."""
_STOP_SECONDS = 10.0
_RESULT_KEYS = ("outcome", "value", "said", "failed", "run", "changed", "cost_usd")
_INSTRUCTIONS = (
    "Each tool runs a program that follows a fixed procedure in a sandbox and returns its value as JSON. `changed` "
    "lists the files that it changed in its copy of the folder; `stackmem apply RUN` applies them."
)


class ProgramService(Struct, frozen=True):
    """The programs that are served, and how they are run."""

    entries: tuple[CatalogEntry, ...]
    workspace: Path
    flags: Sequence[str]  # further arguments of ``stackmem run``
    environ: Mapping[str, str]

    def command(self, entry: CatalogEntry, inputs: str) -> list[str]:
        return [
            sys.executable, "-m", "stackmem", "run", str(entry.path), "--inputs", inputs, "--workspace",
            str(self.workspace), "--json", "--quiet", "--non-interactive", *self.flags,
        ]  # fmt: skip


class RunningPrograms:
    """Runs programs in processes, and stops them when the server ends."""

    def __init__(self, service: ProgramService) -> None:
        self._service = service
        self._entries = {entry.name: entry for entry in service.entries}
        self._running: set[asyncio.subprocess.Process] = set()
        self._slots = asyncio.Semaphore(MAX_CALLS)

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """Run a program. Returns the answer for the client, and whether the call failed."""
        entry = self._entries.get(name)
        if entry is None:
            return f"no tool {name[:80]!r}; known: {', '.join(self._entries)}", True
        async with self._slots:
            with tempfile.TemporaryDirectory(prefix="stackmem-mcp-") as folder:
                inputs = Path(folder) / "inputs.yaml"
                inputs.write_text(json.dumps(arguments), encoding="utf-8")
                return await self._run(self._service.command(entry, str(inputs)))

    async def _run(self, command: list[str]) -> tuple[str, bool]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=dict(self._service.environ)
        )
        self._running.add(process)
        try:
            output, errors = await process.communicate()
        except asyncio.CancelledError:
            await self._stop(process)
            raise
        finally:
            self._running.discard(process)
        return answer_of(output, errors, process.returncode or 0)

    async def stop(self) -> None:
        """Stop every running program in order, as Ctrl-C does."""
        await asyncio.gather(*(self._stop(process) for process in tuple(self._running)))

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()


def answer_of(output: bytes, errors: bytes, code: int) -> tuple[str, bool]:
    """Return the answer to a call from what ``stackmem run --json`` printed, and whether it failed."""
    try:
        result = json.loads(output.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        result = None
    if not isinstance(result, dict):
        message = tail(errors.decode("utf-8", "replace"), 10, 2_000).strip()
        return message or f"the program ended with exit code {code} and without a result", True
    answer = {name: result[name] for name in _RESULT_KEYS if result.get(name) not in (None, [], "")}
    failed = result.get("outcome") != "finished"
    if failed:
        answer |= {name: result[name] for name in ("result", "error") if result.get(name)}
    return json.dumps(answer, ensure_ascii=False), failed


def serve_programs(service: ProgramService) -> None:
    """Serve until the client leaves or a signal arrives."""
    load_library()
    with suppress(asyncio.CancelledError, KeyboardInterrupt):
        asyncio.run(_serve(service))
    # the library reads stdin in a thread that cannot be interrupted
    sys.stdout.flush()
    os._exit(0)


async def _serve(service: ProgramService) -> None:
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    from stackmem.core.version import VERSION

    from .protocol import AnsweredLines

    programs = RunningPrograms(service)

    async def list_tools(context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(name=entry.name, description=entry.description, input_schema=entry.schema)
                for entry in service.entries
            ]
        )

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text, failed = await programs.call(params.name, params.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)

    server: Server[Any] = Server(
        "stackmem-programs", version=VERSION, instructions=_INSTRUCTIONS, on_list_tools=list_tools,
        on_call_tool=call_tool,
    )  # fmt: skip
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        async with stdio_server() as (read, write):
            await server.run(AnsweredLines(read, write), write, server.create_initialization_options())
    finally:
        await programs.stop()
