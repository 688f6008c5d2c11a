"""A debugger stops at the lines of a Python program, with Python's own frames and variables."""

from pathlib import Path

from stackmem.doors.debugger.debugged import RecordedMoments
from stackmem.languages.debugger import DebugMoment
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.languages.running.run import run_program
from stackmem.run.opened import Person
from tests.languages.python.programs import program
from tests.stage import Stage

TEXT = """import stackmem


def add(a, b):
    total = a + b
    return total


@stackmem.step
def main(n: int = 2) -> int:
    total = 0
    for i in range(n):
        total = add(total, i)
        stackmem.shell(f"echo {total}")
    return total
"""


def stops(moment: DebugMoment) -> tuple[str, list[tuple[str, int]], dict]:
    return moment.kind, [(frame.name, frame.line) for frame in moment.stack], moment.stack[0].variables


def watched(stage: Stage, watch) -> Path:
    ready = prepare_program(ProgramArguments(str(program(stage, TEXT))), {}, stage.environ(), stage.elsewhere)
    run_program(ready, stage.environ(), Person(lambda _: None, watch=watch))
    return stage.only_run()


def recorded(folder: Path) -> list:
    position = RecordedMoments(folder)
    found = [stops(position.moment)]
    while position.forward(lambda _: "step"):
        found.append(stops(position.moment))
    return found


def test_lines_frames_and_variables(stage: Stage) -> None:
    seen: list = []
    folder = watched(stage, lambda moment, _: seen.append(stops(moment)))
    assert seen[0] == ("entered", [("program", 1)], {})
    assert ("line", [("add", 5), ("main", 13), ("program", 10)], {"a": 0, "b": 1}) in seen
    assert ("line", [("add", 6), ("main", 13), ("program", 10)], {"a": 0, "b": 1, "total": 1}) in seen
    assert ("left", [("add", 6), ("main", 13), ("program", 10)], {"a": 0, "b": 1, "total": 1}) in seen
    assert ("line", [("main", 15), ("program", 10)], {"n": 2, "i": 1, "total": 1}) in seen
    assert stage.call("replay", folder).returncode == 0
    assert recorded(folder) == seen


def test_a_run_without_a_debugger_is_debugged_at_its_effects(stage: Stage) -> None:
    program(stage, TEXT)
    assert stage.call("run", stage.root / "program" / "main.step.py").returncode == 0
    frames = [frames for kind, frames, _ in recorded(stage.only_run()) if kind == "line"]
    assert frames == [[("main", 14), ("program", 10)]] * 2
