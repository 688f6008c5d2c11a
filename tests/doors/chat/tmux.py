"""Drives tmux, a terminal by others: types, resizes, pastes, closes, and returns the content of its screen."""

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

WAIT_SECONDS = 60.0


class Tmux:
    """A window of a private tmux server."""

    def __init__(
        self, place: Path, line: list[str], folder: Path, environ: Mapping[str, str], columns: int = 100
    ) -> None:
        self.socket = place / "tmux"
        self._environ = {**environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        options = place / "tmux.conf"
        options.write_text("set -g escape-time 0\nset -g history-limit 50000\nset -g allow-rename off\n")
        self("-f", options, "new-session", "-d", "-s", "t", "-x", str(columns), "-y", "30", "-c", folder, *line)

    def __call__(self, *arguments: object, given: str | None = None) -> str:
        return subprocess.run(
            ["tmux", "-u", "-S", self.socket, *map(str, arguments)], env=self._environ, input=given, text=True,
            capture_output=True, check=True, timeout=60,
        ).stdout  # fmt: skip

    def type(self, *keys: str) -> None:
        """Press keys by their names in tmux; other text is typed as it is."""
        self("send-keys", "-t", "t", *keys)

    def paste(self, text: str) -> None:
        self("load-buffer", "-", given=text)
        self("paste-buffer", "-p", "-t", "t")

    def screen(self, *more: str) -> list[str]:
        """Return the rows of the screen; with ``-e`` they include colors."""
        return self("capture-pane", "-p", "-t", "t", *more).splitlines()

    def history(self) -> str:
        return self("capture-pane", "-p", "-J", "-t", "t", "-S", "-50000")

    def wait_for(self, mark: str) -> None:
        until(lambda: mark in self.history(), lambda: f"{mark!r} is not shown:\n{self.history()[-2_000:]}")

    def wait_for_line(self, begins: str) -> None:
        """Wait until a line of the screen starts with the text."""
        until(
            lambda: any(line.startswith(begins) for line in self.screen()),
            lambda: "\n".join(self.screen()),
        )

    def lives(self) -> bool:
        """Return whether the program still runs; when it ends, the window and the server end too."""
        try:
            return bool(self("list-panes", "-t", "t"))
        except subprocess.CalledProcessError:
            return False

    def close(self) -> None:
        """Close the window, as a user does."""
        self("kill-session", "-t", "t")


def until(holds: Callable[[], object], why: Callable[[], str]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < end, why()
        time.sleep(0.05)
