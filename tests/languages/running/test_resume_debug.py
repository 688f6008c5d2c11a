"""A debugger on a resumed run sees the program from the point of resumption only."""

from pathlib import Path

import pytest

from stackmem.core.errors import Halted
from stackmem.languages.debugger import DebugMoment
from stackmem.languages.running.edited_run import continue_program
from stackmem.run.opened import Person
from stackmem.run.resume import resume
from tests.in_process import command_line
from tests.stage import Stage, written_in

PROGRAM = """\
main:
  - {name: set, tool: set_vars, vars: {x: 1}}
  - {name: read, tool: shell, command: cat made}
  - {name: again, tool: set_vars, vars: {x: 2}}
"""


@pytest.fixture
def halted(stage: Stage) -> Path:
    """Return the run of a program that lacked a file, which has been created since."""
    program = stage.root / "p" / "main.apl"
    program.parent.mkdir()
    program.write_text(PROGRAM, "utf-8")
    assert command_line(["run", str(program)], stage.environ(), stage.elsewhere).returncode == 1
    run = stage.only_run()
    (written_in(stage.work / run.name) / "made").touch()
    return run


def seen_by(seen: list[object], ends: bool = False):
    def watch(moment: DebugMoment, _: object) -> None:
        if moment.kind == "line":
            seen.append((moment.stack[0].line, moment.stack[0].variables.get("x")))
            if ends:
                raise Halted("Stopped", "enough")

    return watch


def test_it_stops_where_the_run_goes_on_and_not_in_its_past(halted: Path) -> None:
    seen: list[object] = []
    assert resume(halted, {}, {"PATH": "/usr/bin:/bin"}, person=Person(watch=seen_by(seen))).outcome == "finished"
    assert seen == [(3, 1), (4, 1)]


def test_a_run_that_its_person_leaves_there_is_as_it_was(halted: Path) -> None:
    before = (halted / "trace.jsonl").read_bytes()
    with pytest.raises(Halted, match="enough"):
        resume(halted, {}, {"PATH": "/usr/bin:/bin"}, person=Person(watch=seen_by([], ends=True)))
    assert (halted / "trace.jsonl").read_bytes() == before
    assert resume(halted, {}, {"PATH": "/usr/bin:/bin"}).outcome == "finished"


def test_an_edited_program_is_debugged_from_where_it_parts(halted: Path, stage: Stage) -> None:
    edited = stage.root / "edited.apl"
    edited.write_text(PROGRAM.replace("x: 2", "x: 3"), "utf-8")
    seen: list[object] = []
    environ, before = {"PATH": "/usr/bin:/bin"}, stage.left_behind()
    with pytest.raises(Halted, match="enough"):
        continue_program(halted, edited, {}, environ, Person(watch=seen_by([], ends=True)))
    assert stage.left_behind() == before
    again = continue_program(halted, edited, {}, environ, Person(watch=seen_by(seen)))
    assert (again.run.outcome, seen) == ("halted", [(3, 1)])  # its files are those at the point of divergence


def test_the_terminal_shows_what_changed_and_refuses_a_run_of_no_program(halted: Path, stage: Stage) -> None:
    done = command_line(["resume", "last", "--verbose"], stage.environ(), stage.elsewhere)
    assert "  x = 2 (was 1)\n" in done.stderr
    agents = stage.solve(stage.task({"call": "pop_frame", "args": {"result": "Done."}}))
    done = command_line(["resume", agents.run, "--debug"], stage.environ(), stage.elsewhere)
    assert (done.returncode, "leave out --debug and --verbose" in done.stderr) == (2, True)
