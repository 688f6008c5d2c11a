"""Measure how fast the conversation responds at the terminal: a key during heavy output, and a streamed word.

    python benchmarks/terminal.py [--keys 100] [--words 60] [--seconds 10]

The program runs in a real pseudo-terminal. A key's time is from its press until the terminal receives the change. It is
measured at rest (the floor) and while a command prints endlessly. A word's time is from the moment a loopback server
has sent it until the terminal receives it. All clocks are those of this process.

A key is also measured after 10,000 lines were printed. The processor time of rendering Markdown is measured in this
process, while 200 tokens per second stream in.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import string
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from benchmarks._folder import own_folder
from stackmem.doors.chat.chat import ChatScreen
from stackmem.doors.chat.line_editor import LineEditor
from tests.cli.terminal import Terminal

LETTERS = string.ascii_lowercase + string.ascii_uppercase + string.digits
PAUSE_SECONDS = 0.15


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def told(name: str, seconds: list[float]) -> float:
    median = percentile(seconds, 0.5)
    print(
        f"{name:<38} median {median * 1000:6.1f} ms   95th {percentile(seconds, 0.95) * 1000:6.1f} ms   "
        f"most {max(seconds) * 1000:6.1f} ms   n {len(seconds)}"
    )
    return median


def presses(terminal: Terminal, count: int) -> list[float]:
    """Return the seconds from each key to its effect."""
    found = []
    line = ""
    for number in range(count):
        if len(line) == 20:  # start over with an empty line
            terminal.type("\x15")
            line = ""
            settle(terminal)
        key = LETTERS[number % 26]
        line += key
        place = len(terminal.raw)
        begun = time.perf_counter()
        terminal.type(key)
        while key.encode() not in terminal.raw[place:]:
            terminal.read()
        found.append(time.perf_counter() - begun)
        settle(terminal)
    return found


def word_of(number: int) -> str:
    """Return a word that shares no character with its neighbors, so that a redraw writes it completely."""
    return LETTERS[number] * 7


def settle(terminal: Terminal) -> None:
    end = time.perf_counter() + PAUSE_SECONDS
    while time.perf_counter() < end:
        terminal.read()


def environ(root: Path) -> dict[str, str]:
    places = {"HOME": str(root), "STACKMEM_RUNS_DIR": str(root / "runs"), "STACKMEM_SANDBOX_DIR": str(root / "work")}
    return {**os.environ, **places, "TERM": "xterm-256color", "OPENAI_API_KEY": "none"}


def keys(root: Path, count: int) -> None:
    script = root / "script.yaml"
    # Prints 2 MB per second while the keys are pressed. A command with more output would reach its limit.
    command = "while :; do head -c 40000 /dev/urandom | base64; sleep 0.025; done"
    flood = {"call": "run_command", "args": {"command": command}}
    script.write_text(json.dumps({"replies": [flood, {"text": "Done."}]}), encoding="utf-8")
    line = [
        sys.executable,
        "-m",
        "stackmem",
        "chat",
        "--model",
        f"script:{script}",
        "--network",
        "none",
        "--command-seconds",
        "600",
    ]
    folder = root / "mine"
    folder.mkdir()
    with Terminal(line, environ(root), folder, fresh=True) as terminal:
        terminal.wait_for("Type a request")
        settle(terminal)
        floor = told("a key, at rest (floor)", presses(terminal, count))
        terminal.type("\x15go\r")
        terminal.wait_for("run_command")
        busy = told("a key, while a command prints", presses(terminal, count))
        terminal.type("\x15\x1b")
        terminal.wait_for("pausing")  # shows that it was still running
        print(f"ratio of the medians {busy / floor:.2f}")


def scrollback(root: Path, count: int) -> None:
    """Measure keys after a reply of 10,000 lines."""
    script = root / "long.yaml"
    text = "\n".join(f"line {number}" for number in range(10_000))
    script.write_text(json.dumps({"replies": [{"text": text}]}), encoding="utf-8")
    line = [sys.executable, "-m", "stackmem", "chat", "--model", f"script:{script}", "--network", "none"]
    folder = root / "long"
    folder.mkdir()
    with Terminal(line, environ(root), folder, fresh=True) as terminal:
        terminal.wait_for("Type a request")
        terminal.type("go\r")
        terminal.wait_for("line 9999")
        settle(terminal)
        settle(terminal)
        told("a key, after 10,000 lines", presses(terminal, count))


MARKDOWN = """Some *prose* with `code`, a [link](https://example.org) and **more** of it.

- an item of a list
- and another one

| name | value |
|---|---|
| total | 12 |

```python
def total(values: list[int]) -> int:
    return sum(values)  # a comment
```

"""


def markdown(seconds: float) -> None:
    """Measure the processor time of showing a reply that streams in at 200 tokens per second."""
    size = Size(rows=24, columns=80)
    with create_pipe_input() as keys, create_app_session(keys, Vt100_Output(io.StringIO(), lambda: size)):
        screen = ChatScreen(color=True, styled=True)
        with LineEditor(DummyCompleter(), None, screen.status) as editor:
            screen.live, editor.format_live = editor.show_live, screen.format_tail
            time.sleep(1)
            idle = time.process_time()
            time.sleep(seconds)
            begun, began = time.process_time(), time.perf_counter()
            for number in range(int(seconds * 200)):
                place = number * 4 % len(MARKDOWN)
                screen.hear(MARKDOWN[place : place + 4])
                time.sleep(max(0.0, began + (number + 1) / 200 - time.perf_counter()))
            spent, wall = time.process_time() - begun, time.perf_counter() - began
    rate = int(seconds * 200) / wall
    print(
        f"streaming Markdown at {rate:.0f} tokens/s {spent / wall:.1%} of a core, idle {(begun - idle) / seconds:.1%}"
    )


class Streaming(BaseHTTPRequestHandler):
    """Answers a chat request word by word, and records when each was sent."""

    sent: ClassVar[dict[str, float]] = {}
    words = 0
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for number in range(self.words):
            word = f"{word_of(number)} "
            self._event(
                {"choices": [{"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": None}]}
            )
            self.sent[word.strip()] = time.perf_counter()
            time.sleep(PAUSE_SECONDS)
        with suppress(BrokenPipeError):  # after the last word, the terminal may have closed already
            self._end()

    def _end(self) -> None:
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def do_GET(self) -> None:
        body = b'{"data": [{"id": "m", "context_length": 100000}]}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _event(self, value: dict[str, object]) -> None:
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", **value}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Suppress the log, because the terminal shows figures."""


def words(root: Path, count: int) -> None:
    Streaming.words = count
    server = ThreadingHTTPServer(("127.0.0.1", 0), Streaming)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_address[1]}/v1"
    line = [sys.executable, "-m", "stackmem", "chat", "--model", "openai/m", "--base-url", base, "--network", "none"]
    folder = root / "theirs"
    folder.mkdir()
    found = []
    with Terminal(line, environ(root), folder, fresh=True) as terminal:
        terminal.wait_for("Type a request")
        settle(terminal)
        terminal.type("go\r")
        for number in range(count):
            word = word_of(number)
            while word.encode() not in terminal.raw:
                terminal.read()
            shown = time.perf_counter()
            while word not in Streaming.sent:
                time.sleep(0.0005)
            found.append(max(0.0, shown - Streaming.sent[word]))
    told("the first word", found[:1])
    told("every word", found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--words", type=int, default=60, choices=range(1, len(LETTERS) + 1), metavar="N")
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args()
    with own_folder() as root:
        keys(root, given.keys)
        words(root, given.words)
        scrollback(root, given.keys)
    markdown(given.seconds)


if __name__ == "__main__":
    main()
