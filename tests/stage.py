"""A stage for whole runs: small tasks, scripts, and the program started as a user starts it.

Scripts are passed as Python lists and written as JSON, which is also valid YAML.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stackmem
from stackmem import Record, RunResult, TraceReader
from stackmem.history.layer import UPPER
from stackmem.trace.store import write_line
from tests.forked import ForkedCommand, can_fork, run_forked
from tests.in_process import command_line

ROOT = Path(__file__).parents[1]
TASKS = ROOT / "tasks"
SOLVED = 'echo 1 > "$VERIFIER_DIR/reward.txt"\n'
UNSOLVED = 'echo 0 > "$VERIFIER_DIR/reward.txt"\n'
TOML = 'schema_version = "1.4"\n[task]\nname = "somebody/{name}"\n[environment]\nnetwork_mode = "no-network"\n{more}'

Reply = dict[str, Any]

mounted = pytest.mark.skipif(
    not shutil.which("bwrap"),
    reason="without bubblewrap a workspace has its real path, which differs by run",
)
"""For tests that need a mounted workspace: byte-identical prompts, layers, the folder's real path."""

with_bubblewrap = pytest.mark.skipif(
    not shutil.which("bwrap"), reason="images and this isolation level need bubblewrap"
)


def call(tool: str, /, **args: Any) -> Reply:
    return {"call": tool, "args": args}


def pop(result: str = "Done.", **more: Any) -> Reply:
    return call("pop_frame", result=result, **more)


def command(text: str) -> Reply:
    return call("run_command", command=text)


def push(name: str = "child", **more: Any) -> Reply:
    return call(
        "push_frame", **{"name": name, "objective": "Do the part.", "context": "None.", "return_spec": "All."} | more
    )


def fails(kind: str, **more: Any) -> Reply:
    return {"fault": kind, **more}


def written_in(scratch: Path) -> Path:
    """Return the host path of files that a run writes to a folder's layer or copy."""
    return scratch / (UPPER if (scratch / UPPER).is_dir() else "workspace")


class Stage:
    """A private folder with runs and workspaces in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs = root / "runs"
        self.work = root / "work"
        self.elsewhere = root / "elsewhere"
        self.elsewhere.mkdir()

    def task(
        self, *replies: Reply, name: str = "small", test: str = SOLVED, more: str = "", text: str = "Do it.\n",
        files: Mapping[str, str] | None = None,
    ) -> Path:  # fmt: skip
        """Create a task whose demo gives these replies and whose check is ``test``."""
        folder = self.root / name
        (folder / "tests").mkdir(parents=True)
        (folder / "task.toml").write_text(TOML.format(name=name, more=more), encoding="utf-8")
        (folder / "instruction.md").write_text(text, encoding="utf-8")
        (folder / "tests" / "test.sh").write_text(test, encoding="utf-8")
        if replies:
            (folder / "demo.yaml").write_text(json.dumps({"replies": replies}), encoding="utf-8")
        for path, content in (files or {}).items():
            place = folder / "environment" / "workspace" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content, encoding="utf-8")
        return folder

    def script(self, *replies: Reply, name: str = "script.yaml") -> str:
        path = self.root / name
        path.write_text(json.dumps({"replies": replies}), encoding="utf-8")
        return f"script:{path}"

    def solve(self, subject: Path | str, text: str | None = None, **settings: Any) -> RunResult:
        """Run a task in this process."""
        given = {"model": "demo", "runs_dir": str(self.runs), "sandbox_dir": str(self.work), "fsync": "none"}
        return stackmem.solve(str(subject), text, **{**given, **settings})

    def arguments(self, *arguments: object) -> list[str]:
        return [sys.executable, "-m", "stackmem", *map(str, arguments)]

    def environ(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        places = {"STACKMEM_RUNS_DIR": str(self.runs), "STACKMEM_SANDBOX_DIR": str(self.work)}
        return {**os.environ, "PYTHONPATH": str(ROOT), **places, **(more or {})}

    def run(
        self, *arguments: object, env: Mapping[str, str] | None = None, cwd: Path | None = None,
        fresh: bool = False, **more: Any,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Run the program to its end, in a fork of the test process, or in a ``fresh`` interpreter if that differs."""
        place, environ = cwd or self.elsewhere, self.environ(env)
        if not fresh and can_fork(environ, more):
            return run_forked(self.arguments(*arguments), environ, place, timeout=100, **more)
        return subprocess.run(
            self.arguments(*arguments), cwd=place, env=environ, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, check=False, timeout=100, **more,
        )  # fmt: skip

    def python(self, code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run Python code to its end, in a fork of the test process; for code that kills itself."""
        words = [sys.executable, "-c", code, *map(str, arguments)]
        return run_forked(words, self.environ(), self.elsewhere, timeout=200)

    def call(
        self, *arguments: object, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line in this process, for tests that check only its text and exit code."""
        return command_line([*map(str, arguments)], self.environ(env), cwd or self.elsewhere)

    def start(
        self, *arguments: object, env: Mapping[str, str] | None = None, fresh: bool = False, **more: Any
    ) -> subprocess.Popen[str]:
        """Start the program in its own process group, as a terminal does; in a fork or ``fresh``, like ``run``."""
        given: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        environ = self.environ(env)
        kind = ForkedCommand if not fresh and can_fork(environ, more) else subprocess.Popen[str]
        return kind(
            self.arguments(*arguments), cwd=self.elsewhere, env=environ, text=True, process_group=0,
            **{**given, **more},
        )  # fmt: skip

    def only_run(self) -> Path:
        (run,) = self.runs.iterdir()
        return run

    def written(self) -> int:
        """Return how many records the runs here have written."""
        return sum(trace.read_bytes().count(b"\n") for trace in self.runs.glob("*/trace.jsonl"))

    def left_behind(self) -> list[str]:
        """Return the names left in the runs and sandbox folders."""
        return sorted(path.name for place in (self.runs, self.work) if place.is_dir() for path in place.iterdir())


def records(run: Path | str) -> list[Record]:
    return list(TraceReader(Path(run) / "trace.jsonl"))


def events(run: Path | str, *kinds: type) -> list[Any]:
    return [record.event for record in records(run) if not kinds or isinstance(record.event, kinds)]


def rechain(path: Path, kept: list[Record]) -> None:
    """Write the records as a trace with a valid hash chain, whatever they contain."""
    previous, lines = "", []
    for record in kept:
        line, previous = write_line(record, previous)
        lines.append(line)
    path.write_bytes(b"".join(lines))


def kept_texts(run: Path) -> bytes:
    """Return every text in a run folder except its patch and the workspace files."""
    return b"".join((run / name).read_bytes() for name in ("trace.jsonl", "run.json", "result.json"))


def shown(result: RunResult) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(result))
    return decoded


def eventually(holds: Callable[[], Any], seconds: float = 100.0, what: str = "") -> Any:
    """Poll ``holds`` and return its value once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what or holds}"
        time.sleep(0.02)
    return found
