"""Programs that the agent calls: offered by name, run in a frame, recorded, replayed and resumed."""

import json
import os
from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET

from stackmem import open_run, replay
from stackmem.core.facts import CallRejected, FramePopped, RunStarted
from stackmem.core.guidance.skills import Skill
from stackmem.core.heap import Heap, line
from stackmem.core.person_facts import PersonDecided, SessionRules
from stackmem.core.program_facts import ProgramCalled, ProgramHalted, ProgramReturned
from stackmem.core.requests import AskPermission
from stackmem.run.fork import ForkChanges, fork
from stackmem.run.resume import resume
from stackmem.run.run_folder import TRACE
from stackmem.settings.mcp_servers import is_trusted, trust
from stackmem.settings.program_trust import read_programs
from stackmem.trace.moments import prompt_of
from tests.run.people import Scripted, replayed, talk
from tests.stage import Stage, call, command, events, pop, push, rechain, records

DOUBLE = """# Doubles a number, and writes it to a file.
inputs: [{name: n, description: A number.}]
main:
- {name: Double, tool: set_vars, vars: {twice: "{{ n * 2 }}"}}
- {name: Keep, tool: write_file, path: out.txt, content: "{{ twice }}"}
"""
RUN = call("run_program", path="double", inputs={"n": 21})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "mine"
    (place / ".stackmem/programs").mkdir(parents=True)
    (place / "a.txt").write_text("one\n", encoding="utf-8")
    (place / ".stackmem/programs/double.apl").write_text(DOUBLE, encoding="utf-8")
    return place


@pytest.fixture
def trusted(folder: Path) -> Path:
    found = read_programs(folder)
    assert found is not None
    trust(found, os.environ)
    return folder


def solve(stage: Stage, folder: Path, *replies, **more):
    script = stage.script(*replies, name=f"{len(list(stage.root.iterdir()))}.yaml")
    return stage.solve(folder, "Double it.", model=script, **more)


def prompt(result, step: int) -> str:
    view = prompt_of(open_run(result.run_dir).moment(step))
    return "\n".join(getattr(part, "text", "") for message in view.messages for part in message.parts)


def test_a_program_runs_in_a_frame_and_its_value_answers_the_call(stage: Stage, trusted: Path):
    result = solve(stage, trusted, call("heap_read", name="program/double"), RUN, pop())
    assert "- program/double | " in prompt(result, 1)
    assert '"n"' in prompt(result, 2)
    (called,) = events(result.run_dir, ProgramCalled)
    assert called.start.inputs == {"n": 21}
    assert len(events(result.run_dir, ProgramReturned)) == 1
    assert "program 'double.apl' returned" in prompt(result, 3)
    assert "42" in prompt(result, 3)
    assert result.outcome == "finished"
    replay(result.run_dir)


def test_the_index_calls_it_a_program_and_in_older_runs_a_skill(stage: Stage, trusted: Path):
    result = solve(stage, trusted, call("heap_free", name="program/double"), pop())
    assert "| program | last read never" in prompt(result, 1)
    assert "'program/double' is a program and stays" in reason(result)
    replay(result.run_dir)
    (begun, *_) = events(result.run_dir, RunStarted)
    older = json.loads(msgspec.json.encode(begun.skills[0]))
    assert older.pop("listed") == "program"
    skill = msgspec.json.decode(json.dumps(older), type=Skill)
    assert " | skill | last read never" in line(
        Heap().with_skills((skill,)), Heap().with_skills((skill,)).chunks[skill.chunk]
    )


def reason(result) -> str:
    (refused,) = events(result.run_dir, CallRejected)
    return refused.reason


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"path": "double", "inputs": {"m": 1}}, "m"),
        ({"path": "double", "inputs": [1]}, "not an object"),
        ({"path": "../secret.apl"}, "the program '../secret.apl' is unknown"),
        ({"path": ["double"]}, "path must be a string"),
        ({"path": "double", "depth": 1}, "'depth' is not a parameter"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_before_the_program_starts(stage: Stage, trusted: Path, given, says):
    result = solve(stage, trusted, {"call": "run_program", "args": given}, pop())
    assert says in reason(result)
    assert events(result.run_dir, ProgramCalled) == []
    replay(result.run_dir)


def test_a_program_that_halts_answers_with_its_report_and_the_run_continues(stage: Stage, trusted: Path):
    place = trusted / ".stackmem/programs/double.apl"
    place.write_text("main:\n- {name: Read, tool: read_file, path: missing.txt}\n", encoding="utf-8")
    trust(read_programs(trusted), os.environ)
    result = solve(stage, trusted, call("run_program", path="double"), pop("I saw it."))
    (halted,) = events(result.run_dir, ProgramHalted)
    assert next(event.forced for event in events(result.run_dir, FramePopped)) == "halted"
    assert halted.report[:40] in prompt(result, 2)
    assert result.result == "I saw it."
    replay(result.run_dir)


def test_programs_are_ignored_until_the_folder_is_trusted_and_after_each_change(stage: Stage, folder: Path):
    def offered() -> bool:
        return events(solve(stage, folder, pop()).run_dir, RunStarted)[0].programs is not UNSET

    assert not offered()
    trust(read_programs(folder), os.environ)
    assert offered()
    (folder / ".stackmem/programs/note.txt").write_text("new", encoding="utf-8")
    assert not offered()
    trust(read_programs(folder), os.environ)
    (folder / ".stackmem/programs/link.apl").symlink_to("/etc/passwd")
    assert not offered()


def test_a_linked_program_is_not_offered_even_if_trusted(stage: Stage, folder: Path):
    (folder / ".stackmem/programs/link.apl").symlink_to(folder / "a.txt")
    trust(read_programs(folder), os.environ)
    (started,) = events(solve(stage, folder, pop()).run_dir, RunStarted)
    assert [each.name for each in started.programs] == ["double"]


def test_the_recorded_text_runs_whatever_the_agent_writes_to_the_file(stage: Stage, trusted: Path):
    change = command("echo 'main: []' > .stackmem/programs/double.apl")
    result = solve(stage, trusted, change, RUN, pop())
    assert "42" in prompt(result, 3)
    replay(result.run_dir)


def test_a_named_folder_needs_no_trust_and_none_leaves_all_out(stage: Stage, trusted: Path, tmp_path: Path):
    other = tmp_path / "tools"
    other.mkdir()
    (other / "triple.sexp").write_text("; Triples a number.\n(* n 3)", encoding="utf-8")
    both = solve(stage, trusted, call("run_program", path="triple", inputs={"n": 3}), pop(), programs=(str(other),))
    assert "9" in prompt(both, 2)
    assert {each.name for each in events(both.run_dir, RunStarted)[0].programs} == {"double", "triple"}
    replay(both.run_dir)
    off = solve(stage, trusted, RUN, pop(), programs="none")
    assert "unknown tool 'run_program'" in reason(off)


def test_a_strategy_without_a_heap_lists_programs_with_their_inputs(stage: Stage, trusted: Path):
    result = solve(stage, trusted, RUN, pop(), strategy="full")
    assert "- double: Doubles a number, and writes it to a file. Inputs: {" in prompt(result, 1)
    assert "42" in prompt(result, 2)
    replay(result.run_dir)


def test_a_run_that_is_cut_off_at_any_record_resumes_to_the_same_end(stage: Stage, trusted: Path):
    whole = solve(stage, trusted, RUN, push("child"), RUN, pop("Inner."), pop())
    kinds = [type(each.event).__name__ for each in records(whole.run_dir)]
    calls = [number for number, kind in enumerate(kinds, 1) if kind == "ProgramCalled"]
    for cut in range(calls[0] - 1, len(kinds)):
        cut_off = solve(stage, trusted, RUN, push("child"), RUN, pop("Inner."), pop())
        path = Path(cut_off.run_dir, TRACE)
        rechain(path, records(cut_off.run_dir)[:cut])
        for name in ("result.json", "changes.patch", "changes.json", "signatures.jsonl"):
            Path(cut_off.run_dir, name).unlink(missing_ok=True)
        done = resume(Path(cut_off.run_dir), {}, os.environ).result
        assert done is not None
        assert done.result == whole.result, kinds[cut - 1]
        same = [type(each.event).__name__ for each in records(done.run_dir)]
        assert [each for each in same if each not in ("RunResumed", "ClockRead")] == [
            each for each in kinds if each != "ClockRead"
        ]
        replay(done.run_dir)


def test_a_fork_after_a_call_keeps_its_result_and_can_call_again(stage: Stage, trusted: Path):
    result = solve(stage, trusted, RUN, command("true"), pop())
    again = stage.script(pop(), pop(), RUN, pop("Forked."), name="fork.yaml")
    forked = fork(Path(result.run_dir), 2, ForkChanges(model=again, strategy="stackheap"), os.environ).result
    assert forked.result == "Forked."
    (called,) = events(forked.run_dir, ProgramCalled)  # the first one is in the run that was forked
    assert called.frame == "frame-2"
    replay(forked.run_dir)


def test_programs_and_agents_call_one_another_at_most_four_deep(stage: Stage, trusted: Path):
    place = trusted / ".stackmem/programs/double.apl"
    place.write_text(
        'main:\n- {name: Work, tool: agent_native, prompt: "Call the program double."}\n', encoding="utf-8"
    )
    trust(read_programs(trusted), os.environ)
    calls = [call("run_program", path="double")] * 5
    result = solve(stage, trusted, *calls, *[pop("Enough.")] * 5)
    assert "at most 4 deep" in reason(result)
    assert len(events(result.run_dir, ProgramCalled)) == 4
    assert result.outcome == "finished"
    replay(result.run_dir)


@pytest.mark.parametrize(("allow", "ran"), [(True, 1), (False, 0)])
def test_a_conversation_asks_before_a_program_may_write(stage: Stage, trusted: Path, allow: bool, ran: int):
    script = stage.script(RUN, pop("Done."))
    person = Scripted("Double 21.", decisions=[PersonDecided(allow)])
    rules = SessionRules(approve="writes")
    result = talk(stage, person, script, rules, strategy="stackheap")
    (asked,) = person.asked
    assert isinstance(asked, AskPermission)
    assert (asked.tool, asked.outside) == ("run_program", False)
    assert len(events(result.run_dir, ProgramCalled)) == ran
    replayed(result)


def test_a_redacted_copy_of_a_call_replays(stage: Stage, trusted: Path):
    result = solve(stage, trusted, RUN, pop())
    done = stage.call("trace", "redact", result.run_dir, "--pattern", "Doubles")
    assert done.returncode == 0, done.stderr
    (copy,) = set(stage.runs.iterdir()) - {Path(result.run_dir)}
    assert b"Doubles" not in (copy / TRACE).read_bytes()
    replay(copy)


def test_the_command_line_trusts_and_distrusts_programs(stage: Stage, folder: Path):
    done = stage.call("trust", folder, "--yes")
    assert done.returncode == 0, done.stderr
    assert ".stackmem/programs/double.apl" in done.stdout
    assert is_trusted(read_programs(folder), os.environ)
    assert stage.call("trust", folder, "--remove").returncode == 0
    assert not is_trusted(read_programs(folder), os.environ)
    told = stage.call("solve", folder, "-t", "Go.", "--model", stage.script(pop()))
    assert ".stackmem/programs is ignored because it is not trusted" in told.stderr
