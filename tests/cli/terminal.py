"""A program at a real terminal: input that is typed, and output without colors and cursor moves."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.forked import START, become, can_fork, preload

_CONTROL = re.compile(rb"\x1b\[[0-9;?<>=]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>78]")
_ASKS_CURSOR = b"\x1b[6n"
WAIT_SECONDS = 60.0


class Terminal:
    """A child process at a pseudo-terminal. ``python -m stackmem`` is a fork of the test process unless ``fresh``.

    Attributes:
        raw: Everything that was written to the terminal.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        cwd: Path,
        columns: int = 100,
        *,
        fresh: bool = False,
    ) -> None:
        self.raw = b""
        self._answered = 0
        forks = not fresh and tuple(arguments[:3]) == START and can_fork(environ, {})
        if forks:
            preload()
        self._pid, self._fd = pty.fork()
        if not self._pid:
            os.chdir(cwd)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))  # before the program reads it
            # Some test runners export the size of another terminal.
            own = {name: value for name, value in environ.items() if name not in {"COLUMNS", "LINES"}}
            if forks:
                become(arguments, own, cwd)
            os.execve(arguments[0], list(arguments), own)
        self.resize(columns)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            os.kill(self._pid, 9)
            os.waitpid(self._pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        self.hang_up()

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def hang_up(self) -> None:
        """Close the terminal, like closing a window."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def signal(self, number: int) -> None:
        os.kill(self._pid, number)

    def shown(self) -> str:
        return _CONTROL.sub(b"", self.raw).decode("utf-8", "replace")

    def wait_for(self, mark: str, after: int = 0) -> int:
        """Wait until ``mark`` appears after the given position, and return the position after it."""
        end = time.monotonic() + WAIT_SECONDS
        while (place := self.shown().find(mark, after)) < 0:
            assert time.monotonic() < end, f"{mark!r} did not appear:\n{self.shown()[after:][-2_000:]}"
            assert self.read(), f"the program ended before {mark!r} appeared:\n{self.shown()[after:][-2_000:]}"
        return place + len(mark)

    def wait_until(self, holds: Callable[[], object]) -> None:
        """Read output until the condition is true."""
        end = time.monotonic() + WAIT_SECONDS
        while not holds():
            assert time.monotonic() < end, f"the condition never became true:\n{self.shown()[-2_000:]}"
            self.read()

    def end(self) -> int:
        """Wait for the program to end and return its exit code."""
        end = time.monotonic() + WAIT_SECONDS
        while self.read():
            assert time.monotonic() < end, f"the program is still running:\n{self.shown()[-2_000:]}"
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def read(self) -> bool:
        """Read available output, or wait a moment; return False once the program has ended."""
        if not select.select([self._fd], [], [], 0.1)[0]:
            return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        try:
            self.raw += os.read(self._fd, 65_536)
        except OSError:  # the other side is closed
            return False
        asked = self.raw.count(_ASKS_CURSOR)
        for _ in range(self._answered, asked):
            os.write(self._fd, b"\x1b[24;1R")
        self._answered = asked
        return True
