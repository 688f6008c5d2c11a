"""Crashing runs: a process that solves or resumes and kills itself, as kill -9 does, right after a chosen fact."""

import re
import signal
from pathlib import Path
from typing import Any

import stackmem
from stackmem.core.facts import ClockRead, RunEnded, RunResumed
from stackmem.run.resume import Resumed, resume
from tests.stage import Reply, Stage, call, command, events, pop, push

SOLVE = """
import os, signal, sys, stackmem
left = int(sys.argv[1])
def observe(event, state):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
stackmem.solve(sys.argv[2], model="demo", observe=observe, **dict(word.split("=") for word in sys.argv[3:]))
"""
RESUME = """
import os, signal, sys
from pathlib import Path
from stackmem.run.resume import resume
left = int(sys.argv[1])
def observe(event, state):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
resume(Path(sys.argv[2]), {}, os.environ, observe)
"""


def dies(stage: Stage, code: str, after: int, subject: Path, *more: str) -> bool:
    """Return whether the process was killed after that many facts; False if it ended before."""
    ran = stage.python(code, after, subject, *more)
    assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
    return ran.returncode == -signal.SIGKILL


def killed(stage: Stage, after: int, task: Path, *more: str) -> Path:
    """Return the folder of the task's run that was killed right after fact number ``after``."""
    before = set(stage.runs.iterdir()) if stage.runs.is_dir() else set()
    assert dies(stage, SOLVE, after, task, *more)
    (run,) = set(stage.runs.iterdir()) - before
    assert len(events(run)) == after
    return run


def resumed(run: Path, **wanted: str) -> Resumed:
    return resume(run, wanted, stackmem_environ())


def stackmem_environ() -> dict[str, str]:
    """Return the environment without stackmem variables and keys."""
    return {"PATH": "/usr/bin:/bin"}


def story(run: Path | str) -> list[str]:
    """Return the events of a run without interruptions, times, and host-dependent values."""
    return [
        without_place(run, repr(event))
        for event in events(run)
        if not isinstance(event, RunResumed | ClockRead)
        and not (isinstance(event, RunEnded) and event.ending == "interrupted")
    ]


def without_place(run: Path | str, text: str) -> str:
    """Return the text without the path of a run's workspace, which some levels show, and without prompt digests."""
    place = events(run)[0].workspace
    return text if place == "/workspace" else re.sub("prompt_digest='[0-9a-f]+'", "", text).replace(place, "W")


def told(result: stackmem.RunResult) -> dict[str, Any]:
    """Return a result without values that depend on the run's name, on time, or on a home that contains a key."""
    mine = ("run", "run_dir", "workspace", "wall_seconds", "digest", "records", "unsigned")
    return {name: getattr(result, name) for name in result.__struct_fields__ if name not in mine}


DEEP: list[Reply] = [
    command("echo one >> log; cat log"),
    call("heap_alloc", name="notes", content="log has one line", source="log"),
    push("first", verify="wc -l < log; echo checked >> verified"),
    call("write_file", path="a.txt", content="a\n"),
    push("second", constraint="seconds=500"),
    command("echo two >> log; mkdir -p made/deep; echo x > made/deep/x; chmod +x a.txt; ln -s a.txt link"),
    push("third", store=[{"name": "more", "content": "third"}]),
    call("heap_read", name="notes"),
    {**call("no_such_tool")},
    {"fault": "529"},
    command("rm a.txt; echo three >> log; false"),
    pop("Third done."),
    call("heap_write", name="notes", content="log has three lines"),
    pop("Second done."),
    pop("First done."),
    call("heap_free", name="more"),
    command("cat log verified; ls -R"),
    pop("All done."),
]
"""A run with depth 3 that uses every tool, a verify command, a failing provider and a refused call."""
