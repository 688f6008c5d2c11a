"""Model Context Protocol servers: a real one over stdio, from the user's settings or a trusted folder."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.program_facts import ToolAnswered
from stackmem.settings.mcp_servers import SERVERS_FILE, distrust, is_trusted, read_folder, trust
from stackmem.settings.settings_files import user_folder
from stackmem.settings.tools.mcp_servers import own_servers
from stackmem.settings.tools.own_tools import TOOLS

SERVER = """
import os
from mcp.server.mcpserver import MCPServer
server = MCPServer("numbers")

@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

@server.tool()
def fail() -> str:
    "Fail."
    raise ValueError("no such luck")

@server.tool()
def home(name: str) -> str:
    "A variable of the server."
    return os.environ.get(name, "none")

server.run("stdio")
"""


@pytest.fixture
def server(tmp_path: Path) -> Path:
    path = tmp_path / "server.py"
    path.write_text(SERVER, encoding="utf-8")
    return path


def settings(server: Path, more: str = "") -> str:
    return f'[numbers]\ncommand = {json.dumps([sys.executable, str(server)])}\nenv = {{ OWN = "yes" }}\n{more}'


def write_own(text: str) -> None:
    path = user_folder(os.environ, "XDG_CONFIG_HOME", ".config", "mcp.toml")
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_servers_tools_are_called_and_gone_afterwards(server: Path, tmp_path: Path) -> None:
    write_own(settings(server, 'parallel = ["add"]\nidempotent = ["add"]'))
    with own_servers(os.environ, tmp_path) as warnings:
        assert warnings == ()
        assert sorted(TOOLS) == ["numbers__add", "numbers__fail", "numbers__home"]
        add = TOOLS["numbers__add"]
        assert (add.parallel, add.idempotent, TOOLS["numbers__home"].idempotent) == (True, True, False)
        assert json.loads(add.spec.schema)["required"] == ["a", "b"]
        assert add.answer({"a": 2, "b": 3}) == ToolAnswered(5)
        failed = TOOLS["numbers__fail"].answer({})
        assert (failed.failed, "fail" in failed.detail) == ("error", True)
        assert add.answer({"a": "x"}).failed == "error"
        assert TOOLS["numbers__home"].text({"name": "OWN"}) == ("yes", False)
    assert not TOOLS


def test_only_the_tools_that_are_wanted_are_offered(server: Path, tmp_path: Path) -> None:
    write_own(settings(server, 'tools = ["add"]'))
    with own_servers(os.environ, tmp_path):
        assert list(TOOLS) == ["numbers__add"]


def test_a_folders_servers_start_only_once_it_is_trusted_and_as_it_was_then(server: Path, tmp_path: Path) -> None:
    (tmp_path / SERVERS_FILE).write_text(settings(server, 'tools = ["add"]'), encoding="utf-8")
    with own_servers(os.environ, tmp_path) as warnings:
        assert "is not trusted" in warnings[0]
        assert not TOOLS
    trust(read_folder(tmp_path), os.environ)
    with own_servers(os.environ, tmp_path) as warnings:
        assert (warnings, list(TOOLS)) == ((), ["numbers__add"])
    (tmp_path / SERVERS_FILE).write_text(settings(server), encoding="utf-8")
    assert not is_trusted(read_folder(tmp_path), os.environ)
    trust(read_folder(tmp_path), os.environ)
    assert is_trusted(read_folder(tmp_path), os.environ)
    distrust(tmp_path, os.environ)
    assert not is_trusted(read_folder(tmp_path), os.environ)


def test_a_server_that_does_not_start_is_one_sentence(tmp_path: Path) -> None:
    write_own('[gone]\ncommand = ["/does/not/exist"]')
    with pytest.raises(UsageError, match=r"the server gone .* does not answer"), own_servers(os.environ, tmp_path):
        pass
    assert not TOOLS


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[a]\n", "needs either a command or a url"),
        ('[a]\ncommand = ["x"]\nurl = "http://x"', "needs either"),
        ('[a]\nurl = "file:///x"', "must begin with https"),
        ('[a]\ncommand = "x"', "Expected `array`"),
        ('[a]\ncommand = ["x"]\nother = 1', "unknown field `other`"),
        ('["a b"]\ncommand = ["x"]', "not a valid server name"),
        ("a = ", "is not valid TOML"),
        ('[a]\ncommand = ["x"]\nseconds = 0', "above 0"),
    ],
)
def test_a_broken_file_of_servers_says_what_is_wrong(tmp_path: Path, text: str, told: str) -> None:
    write_own(text)
    with pytest.raises(UsageError, match=told), own_servers(os.environ, tmp_path):
        pass


def test_without_servers_nothing_is_started(tmp_path: Path) -> None:
    with own_servers(os.environ, tmp_path) as warnings:
        assert (warnings, TOOLS) == ((), {})


def test_without_the_extra_one_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)  # as in an interpreter without the package
    write_own('[files]\ncommand = ["true"]\n')
    with pytest.raises(UsageError, match=r"pip install -e '?\S+\[mcp\]"), own_servers(os.environ, tmp_path):
        pass
