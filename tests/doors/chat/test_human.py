"""Tests for the user at the terminal as a model."""

from __future__ import annotations

import io
import os
import pty
import sys
import termios
import time

import pytest

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Text, ToolCall, ToolSpec
from stackmem.doors.chat.human import HumanModel, visible
from tests.house.sources import ROOT
from tests.providers.views import READ_FILE, asking, called, result, user

WRITE_FILE = ToolSpec(
    "write_file",
    "Write.",
    '{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"},'
    '"store":{"type":"array"}},"required":["path","content"]}',
)
TOOLS = (READ_FILE, WRITE_FILE)
AT_A_TERMINAL = """
from stackmem.doors.chat.human import HumanModel
from tests.providers.views import READ_FILE, asking
for _ in range(2):
    call, = HumanModel().reply(asking(tools=(READ_FILE,))).parts
    print("read", len(call.arguments["path"]), call.arguments["path"][-1:], flush=True)
"""


def typing(text: str) -> tuple[HumanModel, io.StringIO]:
    screen = io.StringIO()
    return HumanModel(io.StringIO(text), screen), screen


def made(text: str) -> ToolCall:
    model, screen = typing(text)
    answer = model.reply(asking(tools=TOOLS))
    assert isinstance(answer, ModelReplied), screen.getvalue()
    (call,) = answer.parts
    assert isinstance(call, ToolCall)
    return call


@pytest.mark.parametrize(
    ("typed", "name", "arguments"),
    [
        ("read_file spec.md\n", "read_file", {"path": "spec.md"}),
        ("read_file my notes.md\n", "read_file", {"path": "my notes.md"}),
        ("read_file path=spec.md line=3\n", "read_file", {"path": "spec.md", "line": 3}),
        ("  read_file path='a b' line=x\n", "read_file", {"path": "a b", "line": "x"}),
        ('read_file {"path": "spec.md"}\n', "read_file", {"path": "spec.md"}),
        ('{"name": "read_file", "arguments": {"path": "a"}}\n', "read_file", {"path": "a"}),
        ('{"call": "read_file", "args": {"path": "a"}}\n', "read_file", {"path": "a"}),
        ("read_file a=b\n", "read_file", {"path": "a=b"}),
        ("read_file\n", "read_file", {}),
        (
            "write_file path=a.py content=<<\nx = 1\n..\n\ny\n.\n",
            "write_file",
            {"path": "a.py", "content": "x = 1\n.\n\ny\n"},
        ),
        (
            'write_file path=a content="" store=\'[{"name":1}]\'\n',
            "write_file",
            {"path": "a", "content": "", "store": [{"name": 1}]},
        ),
    ],
)
def test_a_call_is_understood_in_every_form_it_is_typed(typed: str, name: str, arguments: object) -> None:
    call = made(typed)
    assert (call.name, call.arguments) == (name, arguments)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("raed_file x", "did you mean read_file?"),
        ("dance", "available: read_file, write_file"),
        ("{not json", "not a JSON object"),
        ('{"name": 3}', "a call in JSON looks like"),
        ("read_file path='a", "No closing quotation"),
        ("read_file path=a b", "'b' is not a parameter of read_file"),
        ("read_file {broken", "not a JSON object"),
    ],
)
def test_an_invalid_call_is_explained_and_asked_for_again(typed: str, told: str) -> None:
    model, screen = typing(f"{typed}\n\nread_file ok\n")
    answer = model.reply(asking(tools=TOOLS))
    assert isinstance(answer, ModelReplied)
    assert told in screen.getvalue()


@pytest.mark.parametrize("typed", ["", "\n\n", "write_file path=a content=<<\nhalf\n"])
def test_the_end_of_input_is_a_failure_that_is_not_asked_again(typed: str) -> None:
    model, _ = typing(typed)
    answer = model.reply(asking(tools=TOOLS))
    assert isinstance(answer, ModelFailed)
    assert (answer.kind, "trace whole" in answer.detail) == ("script", True)


def test_only_what_is_new_is_shown_and_the_whole_on_demand() -> None:
    model, screen = typing("read_file a\nshow\nread_file b\n")
    model.reply(asking(user("the task")))
    assert "You are an agent." in screen.getvalue()
    screen.truncate(0)
    model.reply(asking(user("the task"), called(1), result(1, "the result")))
    first, whole = screen.getvalue().split("help, show, or a call", 1)
    assert "the result" in first
    assert "the task" not in first
    assert "the task" in whole
    assert "You are an agent." in whole


def test_another_frame_is_shown_from_its_beginning() -> None:
    model, screen = typing("read_file a\nread_file b\n")
    model.reply(asking(user("root"), called(1), result(1)))
    screen.truncate(0)
    model.reply(asking(user("child task")))
    assert "child task" in screen.getvalue()


def test_help_names_every_tool_with_its_parameters() -> None:
    model, screen = typing("help\nread_file a\n")
    model.reply(asking(tools=TOOLS))
    assert "read_file path [line]" in screen.getvalue()
    assert "write_file path content [store]" in screen.getvalue()


def test_a_reply_without_a_call_can_be_said() -> None:
    model, _ = typing("say I am done\n")
    answer = model.reply(asking())
    assert isinstance(answer, ModelReplied)
    assert (answer.parts, answer.stop, answer.usage.estimated) == ((Text("I am done"),), "end", True)


def test_text_of_tools_cannot_steer_the_terminal() -> None:
    hostile = "\x1b[2J\x1b]0;title\x07\r\x9b31m\u202eevil\u2066\x00\x08"
    model, screen = typing("read_file a\n")
    model.reply(asking(user("t"), called(1), result(1, hostile)))
    assert all(char.isprintable() or char == "\n" for char in screen.getvalue())
    assert r"\u{1b}[2J" in screen.getvalue()
    assert visible("a\tb\nc") == "a    b\nc"


def test_at_a_terminal_a_long_line_is_taken_whole_and_can_be_recalled(home: object) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-c", AT_A_TERMINAL])
    said = b""

    def until(words: bytes) -> None:
        nonlocal said
        while words not in said:
            said += os.read(terminal, 65_536)

    def until_edited() -> None:
        """Wait until the program reads keys itself: before that, the terminal accepts 4,096 characters per line."""
        while termios.tcgetattr(terminal)[3] & termios.ICANON:
            time.sleep(0.01)

    until(b"or a call")
    until_edited()
    os.write(terminal, b"read_file " + b"a" * 6_000 + b"\x7fb\n")
    until(b"read 6000 b")
    said = said.partition(b"read 6000 b")[2]
    until(b"or a call")
    until_edited()
    os.write(terminal, b"\x1b[Ac\n")  # the previous line, and one more letter
    until(b"read 6001 c")
    assert os.waitpid(child, 0)[1] == 0
    os.close(terminal)
