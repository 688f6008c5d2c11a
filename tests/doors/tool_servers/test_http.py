"""A real Model Context Protocol server over HTTP: its results, its floods, and its death before an answer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.program_facts import ToolAnswered
from stackmem.run.programs.tools import LITERAL_BYTES
from stackmem.settings.tools.mcp_servers import own_servers
from stackmem.settings.tools.own_tools import TOOLS
from tests.doors.tool_servers.test_servers import write_own

SERVER = """
import os, sys, time
from mcp.server.mcpserver import MCPServer
server = MCPServer("numbers")

@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

@server.tool()
def flood(chars: int) -> str:
    "Say much."
    return "x" * chars

@server.tool()
def crash() -> str:
    "End in mid call."
    os._exit(3)

@server.tool()
def slow(seconds: float) -> str:
    "Take long."
    time.sleep(seconds)
    return "done"

@server.tool()
def change() -> str:
    "Offer other tools from now on."
    server.remove_tool("add")
    server.add_tool(lambda a: a, name="other", description="Another one.")
    return "changed"

server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
"""


class Served:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "server.py"
        self.path.write_text(SERVER, encoding="utf-8")
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        words = [sys.executable, str(self.path), str(self.port)]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return process
            time.sleep(0.05)
        raise AssertionError("the server does not listen")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def settings(self, more: str = "") -> str:
        return f'[web]\nurl = "http://127.0.0.1:{self.port}/mcp"\n{more}'


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    found = Served(tmp_path)
    yield found
    found.stop()


def test_tools_over_http_are_called_and_changed_ones_fail_in_one_sentence(served: Served, tmp_path: Path) -> None:
    write_own(served.settings('parallel = ["add"]'))
    with own_servers(os.environ, tmp_path):
        assert TOOLS["web__add"].answer({"a": 2, "b": 3}) == ToolAnswered(5)
        assert TOOLS["web__change"].answer({}) == ToolAnswered("changed")
        gone = TOOLS["web__add"].answer({"a": 2, "b": 3})
        assert (gone.value, gone.failed) == (None, "error")
        assert "add" in gone.detail
        assert "web__other" not in TOOLS
    with own_servers(os.environ, tmp_path):
        assert TOOLS["web__other"].answer({"a": 7}).value in (7, "7")


def test_a_flood_is_refused_by_its_size_and_the_next_call_is_answered(served: Served, tmp_path: Path) -> None:
    write_own(served.settings())
    with own_servers(os.environ, tmp_path):
        fits = TOOLS["web__flood"].answer({"chars": 100_000})
        assert (len(fits.value), fits.failed) == (100_000, "")
        flooded = TOOLS["web__flood"].answer({"chars": LITERAL_BYTES + 1})
        assert (flooded.value, flooded.failed) == (None, "too_large")
        assert TOOLS["web__add"].answer({"a": 1, "b": 1}) == ToolAnswered(2)


def test_a_server_that_ends_in_mid_call_has_failed_and_later_calls_fail_too(served: Served, tmp_path: Path) -> None:
    write_own(served.settings("seconds = 3"))
    with own_servers(os.environ, tmp_path):
        assert TOOLS["web__crash"].answer({}).failed in ("error", "timeout")
        assert TOOLS["web__add"].answer({"a": 1, "b": 1}).failed in ("error", "timeout")
    with pytest.raises(UsageError, match=r"the server web .* does not answer"), own_servers(os.environ, tmp_path):
        pass
    assert not TOOLS


def test_a_call_that_takes_too_long_is_given_up_and_the_next_is_answered(served: Served, tmp_path: Path) -> None:
    write_own(served.settings("seconds = 1"))
    with own_servers(os.environ, tmp_path):
        assert TOOLS["web__slow"].answer({"seconds": 2}).failed in ("error", "timeout")
        assert TOOLS["web__add"].answer({"a": 1, "b": 1}) == ToolAnswered(2)
