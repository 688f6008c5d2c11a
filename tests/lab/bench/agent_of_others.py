"""An agent that does not know stackmem: openai-agents with a shell and a file reader, for benches of such agents.

Its arguments are the model, the task and optionally a memory server's program; it finds its provider through the
official SDK's environment variables.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from agents.mcp import MCPServerStdio
from openai import AsyncOpenAI


@function_tool
def run_command(command: str) -> str:
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=60)
    return f"{done.stdout}{done.stderr}\n[exit code {done.returncode}]" if done.returncode else done.stdout


@function_tool
def read_file(path: str) -> str:
    return Path(path).read_text("utf-8")


async def main(model: str, task: str, memory: str = "") -> None:
    set_tracing_disabled(True)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(AsyncOpenAI(max_retries=0))
        servers = []
        if memory:
            words = ["mcp", ".", "--heap", "none", "--runs-dir", f"{os.environ['HOME']}/runs"]
            server = MCPServerStdio({"command": memory, "args": words}, client_session_timeout_seconds=60)
            servers.append(await stack.enter_async_context(server))
        own = OpenAIChatCompletionsModel(model, client)
        tools = [run_command, read_file]
        worker = Agent("worker", instructions="Work.", model=own, tools=tools, mcp_servers=servers)
        await Runner.run(worker, task, max_turns=500)


asyncio.run(main(*sys.argv[1:]))
