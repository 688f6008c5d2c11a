"""``stackmem mcp``, called by the protocol's own client over stdio and HTTP, and killed."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from stackmem.core.facts import ChunkAllocated, RunEnded
from stackmem.trace.lineage import RunReader
from stackmem.trace.verify import verify
from tests.stage import Stage, events

if TYPE_CHECKING:
    from mcp import Client

NONSENSE = (b"no json", b"[]", b"{}", b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":7}', b"\xff")
TOKEN = "a-token-of-the-tests-only"


async def text(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    (part,) = answer.content
    assert part.type == "text"
    return ("refused: " if answer.is_error else "") + part.text


def test_an_agent_has_a_heap_and_frames_over_stdio_and_kill_9_takes_nothing(stage: Stage, tmp_path: Path) -> None:
    from mcp import Client, StdioServerParameters
    from mcp.shared.exceptions import MCPError

    (tmp_path / "spec.md").write_text("x", encoding="utf-8")
    command = shlex.join(stage.arguments("mcp", str(tmp_path), "--heap", "none"))
    keeps_id = f"echo $$ > {shlex.quote(str(tmp_path / 'id'))}; exec {command}"
    server = StdioServerParameters(command="/bin/sh", args=["-c", keeps_id], env=stage.environ())

    async def work() -> None:
        async with Client(server) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert sorted(tools) == [
                "heap_alloc", "heap_free", "heap_list", "heap_read", "heap_write", "pop_frame", "push_frame"
            ]  # fmt: skip
            assert sorted(tools["push_frame"].input_schema["required"]) == [
                "context", "name", "objective", "return_spec"
            ]  # fmt: skip
            assert "stored" in await text(client, "heap_alloc", name="spec", content="All of it.", source="spec.md")
            assert "refused" in await text(client, "heap_alloc", name="spec", content="Again.")
            told = await text(client, "push_frame", name="p", objective="Do.", context="No.", return_spec="All.")
            assert "FRAME 'p'" in told
            (tmp_path / "spec.md").write_text("y", encoding="utf-8")
            resource = await client.read_resource("stackmem://heap")
            assert "STALE" in resource.contents[0].text  # type: ignore[union-attr]
            assert "stored" in await text(client, "heap_alloc", name="last", content="x")
            os.kill(int((tmp_path / "id").read_text("utf-8")), signal.SIGKILL)

    with suppress(BaseExceptionGroup, MCPError):
        asyncio.run(work())
    run = stage.only_run()
    assert [event.name for event in events(run, ChunkAllocated)] == ["spec", "last"]
    state = verify(RunReader(run)).state
    assert (state.end, list(state.heap.chunks)) == (None, ["spec", "last"])


def lines_of(*calls: tuple[str, dict[str, object]]) -> list[str]:
    """Return the lines of a client that makes calls without waiting for answers."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a\ud800", "version": "1"}}
    asked = [("initialize", hello), *(("tools/call", {"name": name, "arguments": given}) for name, given in calls)]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(asked, 1)
    ]
    lines.insert(1, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    return lines


def test_a_key_for_frame_marks_that_cannot_be_used_is_reported(stage: Stage, tmp_path: Path) -> None:
    key = tmp_path / "state/stackmem/keys/frames.key"
    key.parent.mkdir(parents=True)
    key.write_text("0" * 64)
    key.chmod(0o644)
    (tmp_path / "work").mkdir()
    command = stage.arguments("mcp", str(tmp_path / "work"), "--heap", "none")
    server = subprocess.Popen(
        command, env=stage.environ() | {"XDG_STATE_HOME": str(tmp_path / "state")}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write("\n".join([*lines_of(("heap_list", {})), ""]))
    server.stdin.flush()
    for _ in range(2):
        server.stdout.readline()
    _, complained = server.communicate()
    assert "frames that programs push will have no effect on prompts behind a gateway: the key " in complained
    assert f"{key} is open to other users, who may have read it; remove it to get a new one" in complained


def test_lines_with_lone_surrogates_and_invalid_requests_are_answered(stage: Stage, tmp_path: Path):
    lines = lines_of(
        ("heap_alloc", {"name": "a", "content": "x\ud800y"}), ("\udc00", {}), ("heap_read", {"name": "a"})
    )  # fmt: skip
    server = stage.start("mcp", tmp_path, "--heap", "none", stdin=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write("\n".join([*lines, "no JSON", "[]", ""]))
    server.stdin.flush()
    answers = [json.loads(server.stdout.readline()) for _ in range(6)]
    _, complained = server.communicate()
    by_id = {answer["id"]: answer for answer in answers if answer["id"] is not None}
    assert sorted(by_id) == [1, 2, 3, 4]
    assert "stored" in by_id[2]["result"]["content"][0]["text"]
    assert "x\ufffdy" in by_id[4]["result"]["content"][0]["text"]
    assert [answer["error"]["code"] for answer in answers if answer["id"] is None] == [-32700, -32600]
    assert server.returncode == 0
    assert "Traceback" not in complained


def test_over_http_only_the_token_gets_in_and_sigterm_ends_the_run(stage: Stage, tmp_path: Path) -> None:
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    server = stage.start("mcp", str(tmp_path), "--http", 0, "--heap", "none", env={"STACKMEM_MCP_TOKEN": TOKEN})
    assert server.stdout is not None
    address = server.stdout.readline().strip()

    async def work() -> None:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http:
            async with Client(streamable_http_client(address, http_client=http)) as client:
                assert "stored" in await text(client, "heap_alloc", name="a", content="x")
            elsewhere = await http.post(address, headers={"Host": "evil.example"}, json={})
            assert elsewhere.status_code == 421
            for nonsense in (
                b"no json",
                b"[]",
                b"{}",
                b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":7}',
                b"\xff",
            ):
                headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
                assert (await http.post(address, headers=headers, content=nonsense)).status_code < 500
            async with Client(streamable_http_client(address, http_client=http)) as client:
                assert "1 chunk" in await text(client, "heap_list")
        async with httpx2.AsyncClient() as http:
            assert (await http.post(address, json={})).status_code == 401
            assert (await http.post(address, json={}, headers={"Authorization": "Bearer no"})).status_code == 401

    asyncio.run(work())
    server.terminate()
    _, told = server.communicate(timeout=60)
    assert server.returncode == 0
    assert "2 calls, 1 chunk" in told
    assert TOKEN not in told
    assert events(stage.only_run(), RunEnded) == [RunEnded("left", "")]


def test_a_short_token_is_refused(stage: Stage) -> None:
    done = stage.call("mcp", "--http", "0", env={"STACKMEM_MCP_TOKEN": "short"})
    assert done.returncode == 2
    assert "at least 16 characters" in done.stderr
