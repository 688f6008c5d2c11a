"""A loop whose process is killed and that is resumed handles every item exactly once."""

import json
import signal
from pathlib import Path

import pytest

from stackmem.core.program_facts import ProgramReturned, StepEntered, ToolAnswered
from tests.stage import Stage, events

RUN = """
import os, signal, sys
from pathlib import Path
from stackmem.core.program_facts import StepEntered, ToolAnswered
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.run.opened import Person
from stackmem.languages.running.run import run_program
kind, item = sys.argv[2], sys.argv[3]
entered = ""
def observe(event, state):
    global entered
    if isinstance(event, StepEntered):
        entered = event.path
    if type(event).__name__ == kind and f"[{item}]" in entered:
        os.kill(os.getpid(), signal.SIGKILL)
asked = ProgramArguments(sys.argv[1], inputs={"n": int(sys.argv[4])})
ready = prepare_program(asked, {}, os.environ, Path.cwd())
run_program(ready, os.environ, Person(lambda question: None, observe=observe))
"""
IN_MEMORY = """
inputs: [{name: n, description: How many.}]
setup:
  - {name: Begin, tool: set_vars, vars: {items: "{{ range(n) | list }}", done: []}}
main:
  foreach: {in: items, loop_var: item, directives: [FORCE_FULL_LOOP_EXECUTION]}
  run: [{name: Keep, tool: append_to_list, list: done, items: item}]
"""
OUTSIDE = """
inputs: [{name: n, description: How many.}]
setup:
  - {name: Begin, tool: set_vars, vars: {items: "{{ range(n) | list }}", done: []}}
main:
  foreach: {in: items, loop_var: item, directives: [FORCE_FULL_LOOP_EXECUTION]}
  run:
    - {name: Write, tool: shell, command: "echo {{item}} >> done.txt; wc -l < done.txt", register: count, as_type: int}
    - {name: Keep, tool: append_to_list, list: done, items: count}
"""


def killed(stage: Stage, text: str, kind: str, item: int, many: int) -> Path:
    """Return the run of a program that was killed right after the first event of a kind in the item."""
    folder = stage.root / "program"
    folder.mkdir()
    (folder / "main.apl").write_text(text, encoding="utf-8")
    ran = stage.python(RUN, folder, kind, item, many)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    return stage.only_run()


def taken_up(stage: Stage, run: Path) -> tuple[dict, str]:
    """Resume the run. Returns its result and what was printed."""
    ran = stage.call("resume", run, "--json")
    assert ran.returncode == 0, ran.stderr
    assert stage.call("replay", run).returncode == 0
    return json.loads(ran.stdout), ran.stderr


def items(run: Path) -> list[str]:
    entered = [event.path for event in events(run, StepEntered)]
    return [path for path in entered if path.endswith("]")]


@pytest.mark.parametrize("kind", ["StepEntered", "StepLeft"])
def test_a_loop_in_memory_goes_on_at_the_item_where_it_was_killed(stage, kind):
    run = killed(stage, IN_MEMORY, kind, 22, 30)
    value, _ = taken_up(stage, run)
    assert value["value"]["done"] == list(range(30))
    assert items(run) == [f"main/main loop[{number}]" for number in range(1, 31)]
    assert len(events(run, ProgramReturned)) == 1


@pytest.mark.parametrize("kind", ["StepEntered", "ToolAnswered"])
def test_a_loop_of_commands_runs_each_once_from_the_programs_view(stage, kind):
    run = killed(stage, OUTSIDE, kind, 3, 5)
    value, _ = taken_up(stage, run)
    assert value["value"]["done"] == [1, 2, 3, 4, 5]
    assert len(events(run, ToolAnswered)) == 5


def test_what_was_under_way_is_reported(stage):
    run = killed(stage, OUTSIDE, "StepEntered", 3, 5)
    ran = stage.call("resume", run)
    assert ran.returncode == 0
    assert "[3]" in ran.stderr.split("Step:")[0], ran.stderr


@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_ten_thousand_items_killed_at_number_7321(stage):
    run = killed(stage, IN_MEMORY, "VariableSet", 7_321, 10_000)
    value, _ = taken_up(stage, run)
    assert value["value"]["done"] == list(range(10_000))
    assert items(run) == [f"main/main loop[{number}]" for number in range(1, 10_001)]
