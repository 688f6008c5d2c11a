"""A program's run that is stopped while it waits for the outside world."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.facts import ChecksReturned, RunEnded
from stackmem.languages.running.edited_run import continue_program
from stackmem.run.opened import Person
from stackmem.run.replays.replay import replay_run
from stackmem.run.resume import resume
from stackmem.trace.open_run import Run
from tests.languages import tiny
from tests.languages.running.test_run import Desk
from tests.stage import rechain, records, written_in


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    tiny.install()
    yield Desk(tmp_path)
    tiny.remove()


STOPPED = """
import os, signal, sys, threading, time
sys.path.insert(0, {root!r})
from pathlib import Path
from stackmem.settings.tools.own_tools import tool
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.run.opened import Person
from stackmem.languages.running.run import run_program
from tests.languages import tiny
tiny.install()

@tool(parallel=True)
def never() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        time.sleep(0.05)

flags = {{"runs_dir": {runs!r}, "sandbox_dir": {work!r}}}
ready = prepare_program(ProgramArguments({program!r}), flags, dict(os.environ), Path({cwd!r}))
print(run_program(ready, dict(os.environ), Person(lambda question: None)).run.outcome)
"""


@pytest.mark.parametrize("text", ["use never {}", "both use never {} & list ."])
def test_one_ctrl_c_ends_a_program_whose_tool_never_returns(desk: Desk, text: str) -> None:
    code = STOPPED.format(
        root=str(Path(__file__).parents[3]), runs=desk.flags["runs_dir"], work=desk.flags["sandbox_dir"],
        program=str(desk.write(text)), cwd=str(desk.folder),
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "interrupted\n", done.stderr
    run = next((desk.root / "runs").iterdir())
    assert replay_run(run).outcome == "interrupted"
    assert sum(isinstance(record.event, RunEnded) for record in Run(run).records()) == 1


CHECKED = """
import os, signal, sys, threading
sys.path.insert(0, {root!r})
from pathlib import Path
from stackmem.core.facts import RunEnded
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.languages.running.run import Person, run_program
from tests.languages import tiny
tiny.install()

def observe(event, state):
    if isinstance(event, RunEnded):
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

flags = {{"runs_dir": {runs!r}, "sandbox_dir": {work!r}, "check": "test -e again || {{ sleep 600; }}"}}
ready = prepare_program(ProgramArguments({program!r}), flags, dict(os.environ), Path({cwd!r}))
result = run_program(ready, dict(os.environ), Person(lambda question: None, observe=observe))
print(result.run.outcome, result.value, result.run.check_error)
"""


def test_ctrl_c_during_the_checks_of_a_programs_run_leaves_their_verdict_open(desk: Desk) -> None:
    code = CHECKED.format(
        root=str(Path(__file__).parents[3]), runs=desk.flags["runs_dir"], work=desk.flags["sandbox_dir"],
        program=str(desk.write("repeat 3")), cwd=str(desk.folder),
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "unsolved 3 the checks were interrupted\n", done.stderr
    run = next((desk.root / "runs").iterdir())
    *_, ended, judged = [record.event for record in Run(run).records()]
    assert (ended, judged) == (RunEnded("popped", "3"), ChecksReturned({}, "the checks were interrupted"))
    assert replay_run(run).outcome == "unsolved"

    work = next((desk.root / "work").iterdir())
    (written_in(work) / "again").touch()
    again = resume(run, {}, os.environ)
    assert (again.outcome, again.played, again.checked) == ("solved", True, True)
    assert replay_run(run).outcome == "solved"


def test_a_run_that_was_killed_before_its_program_began_does_not_go_on_as_an_agents(desk: Desk) -> None:
    run = Path(desk.run("shell touch made").run.run_dir)
    (run / "result.json").unlink()
    rechain(run / "trace.jsonl", records(run)[:1])
    file = desk.write("say x")
    with pytest.raises(UsageError, match="before its program started"):
        resume(run, {}, os.environ)
    with pytest.raises(UsageError, match="before its program started"):
        continue_program(run, file, {}, os.environ, Person({}.get))
    assert len(records(run)) == 1
    assert len(list(run.parent.iterdir())) == 1
