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
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.picture import still  # noqa: E402 - from the checkout

TARGET = ROOT / "docs" / "images" / "terminal"
COLUMNS, MAX_ROWS = 100, 32
_SOLVE = "stackmem solve tasks/calculator --model demo"
_READER = "--model sim/bounded-reader --isolation memory"
_BENCH = (
    "stackmem bench spec_map --strategies full,stackheap --models sim/bounded-reader --trials 1 --horizon 60"
    " --window-tokens 1_000_000 --isolation memory --fsync none -o growth"
)
# Sequences that move the cursor or set a title; a picture needs only those of color.
_NOT_COLOR = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]|\x1b\][^\x07]*\x07|\x1b[()][0-9A-B]|\x07")


class Recording(NamedTuple):
    """The commands of a picture.

    Attributes:
        page: The page of the docs that shows the picture.
        title: The text for readers who do not see the picture.
        shown: The commands of which the picture shows the output.
        before: Commands that prepare the home folder.
    """

    page: str
    title: str
    shown: tuple[str, ...]
    before: tuple[str, ...] = ()


RECORDINGS = {
    "solve": Recording("tutorials/work.md", "A run solves a task", (_SOLVE,)),
    "runs": Recording("cli.md", "The list of runs", ("stackmem runs",), (_SOLVE, f"{_SOLVE} --max-steps 5")),
    "trace-show": Recording("trace.md", "The events of a run", ("stackmem trace show last",), (_SOLVE,)),
    "replay": Recording("replay.md", "A replay verifies a run", ("stackmem replay last",), (_SOLVE,)),
    "replay-step": Recording("questions.md", "One step of a run", ("stackmem replay last --step 4",), (_SOLVE,)),
    "fork": Recording("fork.md", "A fork continues a run from step 8 under another strategy",
                      ("stackmem fork last --at 8 --strategy stackheap:index=delta",), (_SOLVE,)),
    "diff": Recording("tutorials/traces.md", "The first step in which two runs differ",
                      ('stackmem diff "$(ls -d runs/* | head -1)" "$(ls -d runs/* | tail -1)"',),
                      (_SOLVE, "stackmem fork last --at 8 --strategy stackheap:index=delta")),
    "stats": Recording("metrics.md", "The figures of a run", ("stackmem trace stats last",), (_SOLVE,)),
    "cache": Recording("cache.md", "The bill of a run under one provider's cache",
                       ("stackmem trace stats last --simulate claude-sonnet-5-5",), (_SOLVE,)),
    "whatif": Recording("whatif.md", "The cost of a run under other strategies",
                        ("stackmem whatif last --strategies full,stackheap,summary",),
                        ("stackmem worlds make spec_map --seed 1 --horizon 60 -o spec_map",
                         f"stackmem solve spec_map {_READER}")),
    "worlds": Recording("worlds.md", "The families of generated worlds", ("stackmem worlds list",)),
    "tasks": Recording("tasks.md", "The tasks of a checkout",
                       ("stackmem tasks list", "stackmem tasks check calculator")),
    "bench": Recording("bench.md", "A bench of two strategies", (_BENCH,)),
    "report": Recording("tutorials/compare.md", "The report of a bench",
                        ("stackmem report growth -o growth.md", "head -26 growth.md"), (_BENCH,)),
    "resume": Recording("resume.md", "A run stops at a limit and is resumed",
                        (f"{_SOLVE} --max-steps 5", "stackmem resume last --max-steps +50")),
    "apl": Recording("programs/apl.md", "An APL program plays tic-tac-toe",
                     ("stackmem run examples/apl/tic-tac-toe --model script:examples/apl/tic-tac-toe/script.yaml",)),
    "sexp": Recording("programs/sexp.md", "An S-expression counts words",
                      ("stackmem run examples/sexp/count-words --input most:=10"
                       " --model script:examples/sexp/count-words/script.yaml",)),
    "loop": Recording("programs/loop.md", "A loop agent enriches records",
                      ("stackmem run examples/loop/enrich --model script:examples/loop/enrich/script.yaml",)),
    "playbook": Recording("programs/playbooks.md", "A playbook asks for a name",
                          ('stackmem run examples/playbooks/greeting --say hm --say "I am Ada"'
                           " --model script:examples/playbooks/greeting/script.yaml",)),
    "python": Recording("programs/python.md", "A Python program writes a changelog",
                        ("stackmem run examples/python/changelog --input version=2.0 --say yes"
                         " --model script:examples/python/changelog/script.yaml",)),
    "examples": Recording("programs/index.md", "The example programs", ("stackmem examples",)),
    "strategies": Recording("strategies.md", "The memory strategies", ("stackmem strategies",)),
    "models": Recording("models.md", "The known models and their prices", ("stackmem models",)),
    "config": Recording("configuration.md", "Every setting and its source", ("stackmem config",)),
    "simulated": Recording("simulated-model.md", "The simulated model solves a generated world",
                           (f"stackmem solve trap {_READER} --strategy stackheap",),
                           ("stackmem worlds make env_trap --seed 7 --horizon 60 -o trap",)),
    "signed": Recording("trust.md", "A replay checks the signature of a run",
                        ("stackmem replay last --signed",), (_SOLVE,)),
    "api": Recording("extending.md", "A run started from Python", ("cat solve.py", "python solve.py"),
                     ("cp docs/examples/01_solve.py solve.py",)),
    "docs": Recording("faq.md", "A search in the docs, offline", ("stackmem docs cost",)),
    "export": Recording("formats.md", "A run written in another format",
                        ("stackmem export last --format atif -o run.json", "python -m json.tool run.json | head -24"),
                        (_SOLVE,)),
    "headless": Recording("headless.md", "The stream of events of a run",
                          (f"{_SOLVE} --stream-json | head -6 | cut -c1-95",)),
}  # fmt: skip


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
    for command in recording.shown:
        first, *more = _wrapped(command)
        rows += [
            f"\x1b[32m{mark}\x1b[0m \x1b[1m{line}\x1b[0m"
            for mark, line in [("$", first), *((">", each) for each in more)]
        ]
        rows += map(_cut, _lines(_output(command, home, environ).replace(str(home), "~")))
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
