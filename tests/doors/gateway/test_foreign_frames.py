"""A third-party agent with ``stackmem mcp`` and the gateway: openai-agents in a ``spec_map`` world.

The simulated reader is its model, over HTTP, and can use only what the gateway shows it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from stackmem.core.facts import FramePopped, FramePushed
from stackmem.doors.gateway.serving import GatewayTerms, serving
from stackmem.doors.gateway.upstream import upstreams
from stackmem.doors.gateway.verifying import verify_gateway_run
from stackmem.lab.worlds.make import make
from stackmem.run.in_memory import PROGRAM
from stackmem.run.tasks import work
from stackmem.trace.lineage import RunReader
from stackmem.trace.verify import verify
from stackmem.workspace.memory import MemoryWorkspace
from tests.doors.gateway.simulated_upstream import SimulatedUpstream
from tests.doors.gateway.upstream import RawUpstream
from tests.stage import ROOT, events


class Solved(Struct):
    """The outcome of a world: the tokens of each prompt, and the check's verdict."""

    prompts: list[int]
    reward: float
    runs: Path


async def agent(url: str, task: str, workspace: MemoryWorkspace, memory: dict[str, Any] | None) -> None:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
    from agents.mcp import MCPServerStdio
    from openai import AsyncOpenAI

    set_tracing_disabled(True)

    @function_tool
    def run_command(command: str) -> str:
        return workspace.run_command(command, 30, 32_768).text

    @function_tool
    def read_file(path: str, start_line: int | None = None, end_line: int | None = None) -> str:
        return workspace.read_file(path, start_line, end_line, 32_768).text

    tools: list[Any] = [run_command, read_file]
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        model = OpenAIChatCompletionsModel("sim", client)
        if memory is None:
            await Runner.run(Agent("worker", instructions="Work.", model=model, tools=tools), task, max_turns=500)
            return
        async with MCPServerStdio(memory, client_session_timeout_seconds=60) as server:
            worker = Agent("worker", instructions="Work.", model=model, tools=tools, mcp_servers=[server])
            await Runner.run(worker, task, max_turns=500)


def solve(place: Path, horizon: int, strategy: str, *, memory: bool) -> Solved:
    """Let the agent solve the world behind a gateway with this strategy."""
    world = make("spec_map", 0, horizon, 1.0, place / "world")
    folder = world / "environment" / "workspace"
    paths = [path for path in folder.rglob("*") if path.is_file()]
    workspace = MemoryWorkspace(
        {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in paths}, "/workspace", PROGRAM
    )
    words = ["-m", "stackmem", "mcp", str(folder), "--heap", "none", "--runs-dir", str(place / "memory")]
    served = {"command": sys.executable, "args": words, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    reader = SimulatedUpstream()
    with RawUpstream(answer=reader.answer) as upstream:
        terms = GatewayTerms(upstreams(upstream.url, {}), place / "runs", strategy=strategy)
        with serving(terms, {}) as gateway:
            task = (world / "instruction.md").read_text("utf-8")
            asyncio.run(agent(gateway.url, task, workspace, served if memory else None))
            assert gateway.gateway.notes == []
    reward, _ = work.verdict(workspace.files, json.loads((world / "tests" / "answers.json").read_text("utf-8")))
    return Solved(reader.prompts, reward, place)


def test_a_third_party_agent_works_in_frames_and_both_records_verify(tmp_path: Path) -> None:
    done = solve(tmp_path, 20, "stackheap", memory=True)
    assert done.reward == 1.0
    (memory,) = (tmp_path / "memory").iterdir()
    assert len(events(memory, FramePushed)) == len(events(memory, FramePopped)) >= 2
    assert verify(RunReader(memory)).same_rules
    (run,) = (tmp_path / "runs").iterdir()
    verified = verify_gateway_run(run)
    assert (verified.cuts, verified.not_followed) == (len(done.prompts), 0)
    pushed = next(number for number, tokens in enumerate(done.prompts) if tokens > 1.5 * done.prompts[0])
    assert done.prompts[-1] < max(done.prompts[pushed:]) / 2  # the root continues without what the frames read


@pytest.mark.campaign
def test_the_peak_is_a_third_of_that_without_frames(tmp_path: Path) -> None:
    without = solve(tmp_path / "without", 120, "full", memory=False)
    framed = solve(tmp_path / "with", 120, "stackheap", memory=True)
    assert (without.reward, framed.reward) == (1.0, 1.0)
    assert max(framed.prompts) <= max(without.prompts) / 3
