"""Debugger cases for each language: a program, the user's input, and the text the debugger prints."""

import io
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from stackmem.core.requests import InvokeTool
from stackmem.core.state import State
from stackmem.doors.debugger.debugged import RecordedMoments
from stackmem.doors.debugger.terminal import TerminalDebugger
from stackmem.languages import apl
from stackmem.languages.changes import VariableChanges
from stackmem.languages.debugger import DebugMoment, DebugPort, FrameView
from stackmem.languages.language import Launch, language_of
from stackmem.languages.operations import Complete, Completion, FrameAnswer, ToolAnswer
from stackmem.languages.running.opening import open_language
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.languages.running.run import run_program
from stackmem.run.opened import Person
from tests.compliance.case_files import read_cases
from tests.in_process import command_line
from tests.languages.in_memory import run_in_memory
from tests.languages.playbook.stage import PACKAGED

HERE = Path(__file__).parent / "debugger"
PACKAGED_LIBRARY = {"stackmem:apl/APL_STL.yml": (Path(apl.__file__).parent / "APL_STL.yml").read_text("utf-8")}
NAMES = ("apl", "sexp", "playbook", "loop_agent")


@cache
def loaded(name):
    return read_cases(HERE / f"{name}.yaml")


def cases(kind="cases"):
    return [pytest.param(page, case, id=f"{name}: {case['says']}")
            for name in NAMES for page in [loaded(name)] for case in page[kind]]  # fmt: skip


def play(page, case, watch=None):
    """Run the program with each question answered from the case, and return the outcome."""
    replies = iter(case.get("replies", page.get("replies", ())))

    def answer(asked):
        match asked:
            case Complete():
                return Completion(next(replies))
            case InvokeTool(tool="shell"):
                return ToolAnswer({"stdout": asked.arguments["command"], "stderr": "", "exit_code": 0})
            case InvokeTool(tool="run_python"):
                return ToolAnswer(
                    {"stdout": '\n\x1estackmem {"value": 3, "output": ""}\n', "stderr": "", "exit_code": 0}
                )
            case InvokeTool():
                return ToolAnswer("content")
        return FrameAnswer("done", "done")

    files = {f"/p/{name}": text for name, text in page.get("files", {}).items()}
    path, text = f"/p/{page['file']}", case.get("program", page["program"])
    program = open_language(language_of(path)).start(
        Launch(path, text, case.get("inputs", {}), "/p", "/p", watch=watch)
    )
    return run_in_memory(program, answer, {**PACKAGED, **PACKAGED_LIBRARY, **files})


def typed_lines(case):
    return io.StringIO("".join(f"{line}\n" for line in case["types"]))


def dialogue(page, case, folder):
    for name, text in {page["file"]: page["program"], **page.get("files", {})}.items():
        (folder / name).write_text(text, "utf-8")
    said, typed = [], typed_lines(case)
    done = play(page, case, DebugPort(TerminalDebugger(folder, typed, said.append), State()))
    return done, [line for line in said if line != "debug> "]


@pytest.mark.parametrize(("page", "case"), cases())
def test_a_person_at_the_terminal(page, case, tmp_path):
    done, said = dialogue(page, case, tmp_path)
    assert said == case["reads"]
    assert (done.halted is not None) == case.get("halts", False), done.halted


@pytest.mark.parametrize("name", NAMES)
def test_a_program_does_the_same_with_a_debugger_and_without(name):
    page = loaded(name)
    watched = []
    with_one = play(page, {}, DebugPort(lambda moment, _: watched.append(moment), State()))
    assert with_one == play(page, {})
    assert watched[0].kind == "entered"
    assert watched[-1].kind == "left"


@pytest.mark.parametrize("name", NAMES)
def test_a_line_that_is_stopped_at_is_one_that_can_be(name):
    page = loaded(name)
    watched = []
    play(page, {}, DebugPort(lambda moment, _: watched.append(moment), State()))
    can = set(open_language(name).stop_lines(f"/p/{page['file']}", page["program"]))
    lines = {
        each.stack[0].line for each in watched if each.kind == "line" and each.stack[0].path == f"/p/{page['file']}"
    }
    assert lines <= can
    assert sorted(can) == page["stops"]


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Create one run of a page's program."""

    @cache
    def record(name):
        page, folder = loaded(name), tmp_path_factory.mktemp(name)
        (folder / "program").mkdir()
        files = {page["file"]: page["program"], **page.get("files", {}), "a.txt": "content"}
        for each, text in files.items():
            (folder / "program" / each).write_text(text.replace("/p/", "./"), "utf-8")
        replies = json.dumps({"replies": [{"text": text} for text in page.get("replies", ["none"])]})
        (folder / "script.yaml").write_text(replies, "utf-8")
        flags = {
            "model": f"script:{folder / 'script.yaml'}",
            "runs_dir": str(folder / "runs"),
            "sandbox_dir": str(folder / "work"),
        }
        ready = prepare_program(ProgramArguments(str(folder / "program" / page["file"])), flags, os.environ, folder)
        live = []
        person = Person(watch=lambda moment, _: live.append((moment.kind, moment.stack[0].line, moment.text)))
        result = run_program(ready, os.environ, person).run
        assert result.outcome == "finished"
        return Path(result.run_dir), live

    return record


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_run_stops_at_the_same_points_as_the_live_run(name, recording):
    folder, live = recording(name)
    moments, seen = RecordedMoments(folder), []
    while True:
        seen.append((moments.moment.kind, moments.moment.stack[0].line, moments.moment.text))
        if not moments.forward(lambda _: "next"):
            break
    assert seen == live
    assert moments.backward(lambda moment: "first" if moment.text == seen[1][2] else "") == "first"
    assert moments.backward(lambda _: "") == ""
    assert moments.moment.kind == "entered"


@pytest.mark.parametrize(("page", "case"), cases("recorded"))
def test_a_person_walks_through_a_recorded_run(page, case, recording):
    folder, _ = recording(language_of(page["file"]))
    said, moments = [], RecordedMoments(folder)
    TerminalDebugger(moments.program.parent, typed_lines(case), said.append).walk(moments)
    assert [line for line in said if line != "debug> "] == case["reads"]


@pytest.mark.parametrize("name", NAMES)
def test_each_change_between_two_lines_is_printed_on_a_line(name):
    page, changes, lines = loaded(name), VariableChanges(), []
    play(page, {}, DebugPort(lambda moment, _: lines.extend(changes.lines(moment)), State()))
    assert lines == page["changes"]


def test_changes_name_the_place_and_both_values():
    def moment(kind, **variables):
        return DebugMoment(kind, (FrameView("f", "p", 1, variables),))

    changes = VariableChanges()
    changes.lines(moment("entered", a={"b": [1, {"c": 2}]}, gone=1))
    lines = changes.lines(moment("line", a={"b": [1, {"c": True}, 3]}, text="x" * 200))
    assert lines == ("a.b[1].c = true (was 2)", "a.b[2] = 3", f'text = "{"x" * 119}…', "gone is gone")
    assert changes.lines(moment("line", a={"b": [1]})) == ('a.b = [1] (was [1, {"c": true}, 3])', "text is gone")
    many = {f"n{number}": number for number in range(50)}
    assert changes.lines(moment("line", a={"b": [1]}, **many))[-1] == "and 30 more changes"


def test_at_a_terminal_the_command_stays_in_the_line_of_the_prompt(recording, tmp_path):
    folder, _ = recording("sexp")
    main, terminal = os.openpty()
    os.write(main, b"q\n")  # the terminal of this test echoes it before the program starts
    line = [sys.executable, "-m", "stackmem", "debug", str(folder)]
    walked = subprocess.run(
        line, cwd=tmp_path, stdin=terminal, capture_output=True, text=True, check=True, timeout=60
    )  # fmt: skip
    os.close(main)
    os.close(terminal)
    assert walked.stderr == "main.sexp:1 (entry) main.sexp\ndebug> "


def test_the_commands_walk_through_a_run_and_print_changes(recording, tmp_path):
    folder, _ = recording("sexp")
    walked = command_line(["debug", str(folder)], os.environ, tmp_path)
    assert (walked.returncode, walked.stderr.splitlines()) == (0, ["main.sexp:1 (entry) main.sexp", "debug> "])
    program = folder.parents[1] / "program" / "main.sexp"
    flags = ["--runs-dir", str(tmp_path / "runs"), "--sandbox-dir", str(tmp_path / "work")]
    ran = command_line(["run", str(program), "--verbose", *flags], os.environ, tmp_path)
    assert "  total = 6 (was 2)\n" in ran.stderr
    (tmp_path / "notes").mkdir()
    refused = command_line(["debug", "none", "--runs-dir", str(tmp_path / "notes")], os.environ, tmp_path)
    assert (refused.returncode, "contains no runs yet" in refused.stderr) == (2, True)


def test_a_reply_of_the_agent_is_a_line_in_a_frame_on_those_of_the_program(tmp_path):
    program = "main:\n  - {name: Judge, tool: agent_native, prompt: How many?, register: n}\n"
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "main.apl").write_text(program, "utf-8")
    replies = [{"call": "run_command", "args": {"command": "true"}}, {"call": "pop_frame", "args": {"result": "3"}}]
    (tmp_path / "script.yaml").write_text(json.dumps({"replies": replies}), "utf-8")
    flags = {"model": f"script:{tmp_path / 'script.yaml'}"}
    flags |= {name: str(tmp_path / name) for name in ("runs_dir", "sandbox_dir")}
    ready = prepare_program(ProgramArguments(str(tmp_path / "program")), flags, os.environ, tmp_path)
    said = []
    watch = TerminalDebugger(tmp_path, typed_lines({"types": ["s", "s", "w", "v", "o"]}), said.append)
    result = run_program(ready, os.environ, Person(watch=watch))
    *lines, task = [line for line in said if line != "debug> "]
    assert lines == [
        "main.apl:1 (entry) main.apl",
        "main.apl:2 (step) main/Judge",
        "main.apl:2 (step) step 1: run_command",
        "Judge main.apl:2",
        "main.apl main.apl:2",
    ]
    assert task.startswith('task = "How many?')
    assert (result.run.outcome, result.value) == ("finished", {"n": 3})
