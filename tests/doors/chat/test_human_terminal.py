"""The user at a real terminal, and at other streams: any input becomes a call, a message, or an end."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.house.sources import ROOT

PLAY = """
import sys
from stackmem.core.facts import ModelFailed
from stackmem.core.messages import ToolSpec
from stackmem.doors.chat.human import HumanModel
from tests.providers.views import READ_FILE, asking, user
write = ToolSpec("write_file", "Write.", '{"type":"object","properties":{"path":{"type":"string"},'
                 '"content":{"type":"string"}},"required":["path","content"]}')
model = HumanModel()
while True:
    answer = model.reply(asking(user(sys.argv[1]), tools=(READ_FILE, write)))
    if isinstance(answer, ModelFailed):
        print("failed", answer.kind, answer.detail, flush=True)
        break
    part = answer.parts[0]
    told = ascii(part.arguments) if hasattr(part, "arguments") else ascii(part.text)
    print("made", told if len(told) < 500 else len(told), flush=True)
"""
SECONDS = 20.0
PASTE = b"\x1b[200~%s\x1b[201~\n"


class Terminal:
    """A program at the other end of a pseudo-terminal."""

    def __init__(self, child: int, end: int) -> None:
        self.child, self._end, self.said = child, end, b""

    def until(self, words: bytes) -> str:
        """Read until the program prints the words; return its output up to their end."""
        by = time.monotonic() + SECONDS
        while words not in self.said:
            ready, _, _ = select.select([self._end], [], [], max(0.0, by - time.monotonic()))
            assert ready, f"{words!r} did not appear in {SECONDS} s: {self.said[-500:]!r}"
            try:
                self.said += os.read(self._end, 65_536)
            except OSError:
                raise AssertionError(f"the program ended without {words!r}: {self.said[-500:]!r}") from None
        before, _, self.said = self.said.partition(words)
        return (before + words).decode("utf-8", "replace")

    def type(self, keys: bytes) -> None:
        """Type once the program reads keys; before that the terminal handles some keys and cuts long lines."""
        self.until(b"or a call\r\n")
        self.type_on(keys)

    def type_on(self, keys: bytes) -> None:
        by = time.monotonic() + SECONDS
        while termios.tcgetattr(self._end)[3] & termios.ICANON and time.monotonic() < by:
            time.sleep(0.01)
        os.write(self._end, keys)

    def status(self) -> int:
        """Return the program's exit status."""
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


@contextmanager
def terminal(task: str = "the task") -> Iterator[Terminal]:
    child, end = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        os.environ.update(TERM="xterm", LC_ALL="C.UTF-8", INPUTRC="/dev/null")
        os.execv(sys.executable, [sys.executable, "-c", PLAY, task])
    try:
        yield Terminal(child, end)
    finally:
        os.close(end)


def test_lines_pastes_and_bytes_at_one_terminal(home: object) -> None:
    with terminal() as at:
        at.type(b"read_file \xff\xfe.md\n")
        at.until(b"the call contains bytes that are not UTF-8; type it again")
        at.type("read_file übersicht.md\n".encode())
        at.until(b"made {'path': '\\xfcbersicht.md'}")
        at.type(b"read_file " + b"a" * 20_000 + b"\n")
        at.until(b"made 20012")
        at.type(PASTE % b'{"name": "read_file",\r "arguments": {\r  "path": "a }{ \\" b"\r }\r}')
        at.until(b"made {'path': 'a }{ \" b'}")
        at.type(PASTE % b"write_file path=a.py content=<<\rx = 1\r\rread_file y\r.")
        at.until(b"made {'path': 'a.py', 'content': 'x = 1\\n\\nread_file y\\n'}")
        at.type(PASTE % b"read_file one\rread_file two")
        at.until(b"made {'path': 'one'}")
        at.until(b"made {'path': 'two'}")
        at.type(b'read_file {"path":\n')
        at.until(b"the JSON continues until its brackets close; an empty line ends it\r\n")
        at.type_on(b'"late.md"}\n')
        at.until(b"made {'path': 'late.md'}")
        at.type(b"\x04")
        assert "failed script the input ended" in at.until(b"its trace whole")
        assert at.status() == 0


def test_ctrl_c_goes_through(home: object) -> None:
    with terminal() as at:
        at.type(b"read_file a\n")
        at.until(b"made")
        at.type(b"half a line\x03")
        at.until(b"KeyboardInterrupt")
        assert at.status() in (-signal.SIGINT, 1)


def test_a_terminal_that_is_hung_up_ends_the_program(home: object) -> None:
    with terminal() as at:
        at.until(b"or a call")
    assert at.status() != 0


def test_nothing_that_is_shown_can_steer_the_terminal(home: object) -> None:
    with terminal("\x1b[2J\x1b]52;c;aGk=\x07 \x9b31m \u202e\u2066 \r\b\x7f end") as at:
        shown = at.until(b"or a call").split("-- user")[-1].split("── user")[-1]
        assert "\\u{1b}[2J\\u{1b}]52;c;aGk=\\u{7} \\u{9b}31m \\u{202e}\\u{2066} \\u{d}\\u{8}\\u{7f} end" in shown
        assert "\x1b" not in shown.replace("\x1b[?2004h", "")
        at.type_on(b"\x04")
        assert at.status() == 0


def played(given: bytes, **streams: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", PLAY, "the task"]
    return subprocess.run(command, input=given, capture_output=True, cwd=ROOT, timeout=300, check=False)


def test_a_pipe_is_read_line_by_line_and_its_end_is_reported() -> None:
    done = played(
        b"read_file \xff\n\r\n"
        b"wirte_file path=a content=<<\nread_file not_this\n.\n"
        b"write_file path=b content=<<\nbad \xff\nread_file nor_this\n.\n"
        b"write_file path=b where=c content=<<\nread_file nor_that\n.\n"
        b'{"name": "read_file",\n"arguments": {"path": "\xff"}}\n'
        b"say \xc3\xa4h\r\n"
        b'{"name": "read_file", "arguments":\n\nread_file good\n'
        b"read_file last"
    )
    assert done.returncode == 0
    said = done.stdout.decode().splitlines()
    assert said == [
        "made '\\xe4h'",
        "made {'path': 'good'}",
        "made {'path': 'last'}",
        "failed script the input ended while a call was awaited; the run ends here, with its trace whole",
    ]
    told = done.stderr.decode()
    assert told.count("the call contains bytes that are not UTF-8; type it again") == 3
    assert "did you mean write_file?; the lines up to the dot are ignored" in told
    assert "'where=c' is not a parameter of write_file" in told
    assert "not a JSON object" in told


@pytest.mark.parametrize(
    ("before", "repeated", "times", "after", "told"),
    [
        (b"read_file ", b"x", 11_000_000, b"", "the line has over 10,000,000 characters"),
        (b"write_file path=a content=<<\n", b"y" * 99 + b"\n", 110_000, b".", "content has over 10,000,000"),
        (b'read_file {"path": [\n', b"1," * 50 + b"\n", 110_000, b"1]}", "the call of read_file has over"),
        (b"", b"{", 200_000, b"\n", "not a JSON object"),
        (b"", b"\x00", 2, b"", "no tool"),
    ],
)
def test_a_flood_is_reported_and_the_next_line_is_read(
    before: bytes, repeated: bytes, times: int, after: bytes, told: str
) -> None:
    done = played(before + repeated * times + after + b"\nread_file ok\n")
    assert done.stdout.splitlines()[0] == b"made {'path': 'ok'}"
    assert told in done.stderr.decode()


@pytest.mark.parametrize(
    ("closed", "said"),
    [
        ("<&-", "failed script standard input is closed, so you cannot type a call"),
        ("</dev/null", "failed script the input ended while a call was awaited"),
        ("</dev/null 2>&-", "failed script the input ended while a call was awaited"),
        ("</dev/null 2>/dev/full", "failed script the input ended while a call was awaited"),
    ],
)
def test_streams_that_are_closed_full_or_empty_end_the_run_in_a_sentence(closed: str, said: str) -> None:
    command = ["sh", "-c", f'exec "$0" -c "$1" task {closed}', sys.executable, PLAY]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300, check=False)
    assert done.stdout.startswith(said)
    assert "Traceback" not in done.stderr
    assert done.stdout.count("\n") == 1
