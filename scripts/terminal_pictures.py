"""Draw pictures of commands and their output for the docs, from real runs.

``python scripts/terminal_pictures.py [NAME…]`` runs the commands in an empty home folder, offline and without a key,
and writes ``docs/images/terminal/NAME.svg``. Without a name it draws all pictures, which takes some minutes.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.picture import still  # noqa: E402 - from the checkout
from scripts.terminal_recordings import RECORDINGS, Recording  # noqa: E402 - from the checkout
from tests.doors.chat.tmux import Tmux  # noqa: E402 - from the checkout

TARGET = ROOT / "docs" / "images" / "terminal"
COLUMNS, MAX_ROWS = 100, 32
# Sequences that move the cursor or set a title; a picture needs only those of color.
_NOT_COLOR = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]|\x1b\][^\x07]*\x07|\x1b[()][0-9A-B]|\x07")


def record(recording: Recording, home: Path) -> tuple[str, ...]:
    """Run the commands in an empty home folder; return the rows of the picture."""
    for name in ("tasks", "examples", "docs"):
        shutil.copytree(ROOT / name, home / name)
    environ = {
        "HOME": str(home), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS), "LANG": "C.UTF-8", "STACKMEM_RUNS_DIR": str(home / "runs"),
        "STACKMEM_SANDBOX_DIR": str(home / "work"), "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    for command in recording.before:
        subprocess.run(["/bin/sh", "-c", command], cwd=home, env=environ, check=False, capture_output=True)
    rows: list[str] = []
    for number, command in enumerate(recording.shown, 1):
        first, *more = _wrapped(command)
        rows += [
            f"\x1b[32m{mark}\x1b[0m \x1b[1m{line}\x1b[0m"
            for mark, line in [("$", first), *((">", each) for each in more)]
        ]
        if recording.typed and number == len(recording.shown):
            lines = _typed(command, recording.typed, home, environ)
        else:
            lines = _lines(_output(command, home, environ))
        rows += [_cut(line.replace(str(home), "~")) for line in lines]
        rows.append("")
    rows.pop()
    if len(rows) > MAX_ROWS:
        rows = [*rows[: MAX_ROWS - 1], f"\x1b[2m… {len(rows) - MAX_ROWS + 1} more lines\x1b[0m"]
    return tuple(rows)


def _output(command: str, home: Path, environ: dict[str, str]) -> str:
    """Run a command with a terminal as its output, because programs use colors only there."""
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        ["/bin/sh", "-c", command], cwd=home, env=environ, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    chunks = []
    while True:
        try:
            chunk = os.read(main, 65_536)
        except OSError:  # Linux reports the end of a terminal as an input error
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(main)
    process.wait()
    return b"".join(chunks).decode("utf-8", "replace")


def _typed(command: str, typed: tuple[tuple[str, str], ...], home: Path, environ: dict[str, str]) -> list[str]:
    """Type into a command in tmux; return the rows of its screen after the last answer."""
    window = Tmux(home, ["/bin/sh", "-c", command], home, environ, COLUMNS)
    try:
        window("resize-window", "-t", "t", "-x", COLUMNS, "-y", MAX_ROWS - 1)
        _settle(window)
        for words, answer in typed:
            window("send-keys", "-l", "-t", "t", words)
            window.type("Enter")
            window.wait_for(answer)
            _settle(window)
        lines = window.screen("-e")
    finally:
        window.close()
    while lines and not _NOT_COLOR.sub("", lines[-1]).strip():
        lines.pop()
    return lines


def _settle(window: Tmux) -> None:
    """Wait until the screen has some text and does not change for two seconds."""
    before: list[str] = []
    while not any(before) or window.screen() != before:
        before = window.screen()
        time.sleep(2)


def _lines(output: str) -> list[str]:
    """Return the lines that a terminal shows in the end: a table that is drawn again moves the cursor up first."""
    lines: list[str] = []
    for line in output.replace("\r\n", "\n").rstrip().split("\n"):
        up = sum(int(count or 1) for count in re.findall(r"\x1b\[(\d*)A", line))
        del lines[max(len(lines) - up, 0) :]
        lines.append(_NOT_COLOR.sub("", line).rstrip().rpartition("\r")[2])
    return lines


def _wrapped(command: str) -> list[str]:
    lines, width = [""], COLUMNS - 6
    for word in command.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) > width:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {word}" if lines[-1].strip() else word
    return lines


def _cut(line: str) -> str:
    """Cut a line at the width of the picture, without counting its sequences of color."""
    width, kept = 0, []
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        if piece.startswith("\x1b"):
            kept.append(piece)
        elif width + len(piece) > COLUMNS:
            return "".join([*kept, piece[: max(COLUMNS - 1 - width, 0)], "…\x1b[0m"])
        else:
            kept.append(piece)
            width += len(piece)
    return "".join(kept)


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or RECORDINGS:
        recording = RECORDINGS[name]
        with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as home:
            rows = record(recording, Path(home))
        target = TARGET / f"{name}.svg"
        target.write_text(still(rows, recording.title, COLUMNS), encoding="utf-8")
        print(f"wrote {target.relative_to(ROOT)}, {target.stat().st_size:,} bytes, {len(rows)} rows", flush=True)


if __name__ == "__main__":
    main()
