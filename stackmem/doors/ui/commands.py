"""Commands that a page may run: stackmem commands, previewed first, each in its own process.

A page sends names and values, and this module builds the command. Every value follows ``--flag=``, so it can never
be parsed as a flag, and the run must be a folder in the index.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO

from stackmem.core.errors import UsageError

_FLAGS: Mapping[str, tuple[str, ...]] = {
    "resume": ("say", "max-steps", "max-usd"),
    "fork": ("at", "strategy", "model", "max-steps", "max-usd"),
    "export": ("format", "out"),
    "rm": (),
    "prune": ("older-than", "keep-last"),
}
_NEEDED = {"fork": "at", "export": "format"}
_LONGEST_CHARS = 1_000
_KEPT_LINES = 400
_PATIENCE_SECONDS = 10.0


def command_of(action: str, folder: Path, values: Mapping[str, str], *, dry_run: bool = False) -> list[str]:
    """Return the words of the command after ``stackmem``."""
    if action not in _FLAGS:
        raise UsageError(f"unknown action {action[:40]!r}; known: {', '.join(_FLAGS)}")
    for name, value in values.items():
        if name not in _FLAGS[action] or "\0" in value or len(value) > _LONGEST_CHARS:
            raise UsageError(
                f"invalid value {name[:40]!r} for {action}; it takes {', '.join(_FLAGS[action]) or 'none'}"
            )
    if (needed := _NEEDED.get(action)) and not values.get(needed):
        raise UsageError(f"{action} needs a value for {needed}")
    options = [f"--{name}={values[name]}" for name in _FLAGS[action] if values.get(name)]
    if action == "prune":
        return ["runs", "prune", *options, f"--runs-dir={folder}", *(["--dry-run"] if dry_run else [])]
    return [*(["runs", "rm"] if action == "rm" else [action]), str(folder), *options]


def command_line(words: Sequence[str]) -> str:
    """Format the command as a user would type it."""
    return shlex.join(["stackmem", *words])


class StartedCommand:
    """A running or finished command, and its last lines of output."""

    def __init__(self, words: Sequence[str]) -> None:
        """Start the command. Its stdin is empty, so it cannot ask questions."""
        self.command = command_line(words)
        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "stackmem", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
            errors="backslashreplace",
        )
        self._reader = Thread(target=self._read, args=[self._process.stdout], daemon=True)
        self._reader.start()

    def _read(self, output: IO[str]) -> None:
        with output as stream:
            while line := stream.readline(4_000):
                self.lines.append(line.rstrip("\n"))
        self._process.wait()

    @property
    def exit_code(self) -> int | None:
        """Return the exit code; None until the command has ended and all its output was read."""
        return None if self._reader.is_alive() else self._process.returncode

    def interrupt(self) -> None:
        """Interrupt the command like Ctrl-C, so that its run can be resumed."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)

    def wait(self) -> None:
        """Wait for the command to end; kill it after a timeout."""
        self._reader.join(_PATIENCE_SECONDS)
        if self._reader.is_alive():
            self._process.kill()
            self._reader.join(_PATIENCE_SECONDS)
