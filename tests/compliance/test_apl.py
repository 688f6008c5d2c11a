"""APL compliance cases: a program, its world's answers, and the expected outcome."""

import posixpath

import pytest

from stackmem.core.program_facts import StepEntered
from stackmem.languages.apl.language import LANGUAGE
from stackmem.languages.apl.lint import lint_report
from stackmem.languages.language import read_with

from .apl_stage import PROGRAM, Case, Played, World, launch_of, load_cases, text_of

CASES = list(load_cases())
FIELDS = {
    "phase": "Phase", "step": "Step", "type": "Error Type", "reason": "Reason", "details": "Details", "file": "File",
}  # fmt: skip
EXPECTS = set(Case.__struct_fields__[Case.__struct_fields__.index("value") :])


def play(case: Case) -> Played:
    return World(case).play(LANGUAGE.start(launch_of(case)))


def field(report: str, name: str) -> str:
    start = f"*   **{name}**: `"
    return next(line for line in report.splitlines() if line.startswith(start)).removeprefix(start).removesuffix("`")


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{file}: {case.says}") for file, case in CASES])
def test_the_case_holds(case):
    played = play(case) if given(case) - {"lint"} else Played()
    check_end(case, played)
    check_way(case, played)
    if case.lint is not None:
        assert linted(case) == case.lint
    if case.outline is not None:
        world = World(case)
        assert list(read_with(LANGUAGE.outline(launch_of(case)), world.load)) == case.outline


def check_end(case: Case, played: Played) -> None:
    report = played.halted.report if played.halted else ""
    if not {"halt", "report", "fault", "lint", "usage"} & given(case):
        assert report == "", report
        assert played.usage == ""
    if "value" in given(case):
        assert played.value == case.value
    for name, value in (case.has or {}).items():
        assert (played.value or {}).get(name) == value, played.value
        assert type((played.value or {}).get(name)) is type(value)
    if "gives" in given(case):
        found = (played.value or {}).get("it", False if case.condition is not None else None)
        assert (found, type(found)) == (case.gives, type(case.gives))
    if case.fault is not None:
        assert field(report, "Details").endswith(case.fault), report
    if case.report is not None:
        assert f"{report}\n" == case.report
    for name, value in (case.halt or {}).items():
        assert field(report, FIELDS[name]) == value
    if case.usage is not None:
        assert played.usage == case.usage


def check_way(case: Case, played: Played) -> None:
    if case.said is not None:
        assert played.said == case.said
    if case.commands is not None:
        assert [call.arguments["command"] for call in played.calls if call.tool == "shell"] == case.commands
    if case.calls is not None:
        assert [{"tool": call.tool, **call.arguments} for call in played.calls] == case.calls
    for name, text in (case.writes or {}).items():
        assert played.files.get(name) == text
    if case.tasks is not None:
        whole = "\n".join(f"{frame.task} {frame.inputs} {frame.using} {frame.returns}" for frame in played.frames)
        assert [text for text in case.tasks if text not in whole] == [], whole
        assert len(played.frames) == len(case.frames)
    if case.announced is not None:
        assert played.lines == case.announced
    if case.heard is not None:
        assert [line for line in case.heard if line not in played.lines] == [], played.lines


def given(case: Case) -> set[str]:
    fresh = Case(case.says)
    return {name for name in EXPECTS if getattr(case, name) != getattr(fresh, name)}


def linted(case: Case) -> list[str]:
    name = case.options.get("name", PROGRAM)
    config = ".aplconfig" if ".aplconfig" in (case.sources or {}) else ""
    found = read_with(LANGUAGE.lint(posixpath.join("/w", name), text_of(case), config=config), World(case).load)
    report = lint_report(name, found)
    lines = [line[5:].replace("Line ", "") for line in report.splitlines() if line.startswith("*   [")]
    return [line.replace("] ", " ", 1).replace(":", "", 1) for line in lines]


def test_every_case_expects_something():
    assert [case.says for _, case in CASES if not given(case)] == []


def test_there_are_two_hundred_cases_and_no_two_say_the_same():
    says = [(file, case.says) for file, case in CASES]
    assert len(set(says)) == len(says) >= 200


def test_the_same_program_gives_the_same_notes_twice():
    case = next(case for _, case in CASES if case.says == "runs every item in order and announces each")
    one, two = play(case), play(case)
    assert one.notes == two.notes
    assert [note.path for note in one.notes if isinstance(note, StepEntered)][:2] == ["setup", "setup/Split"]
