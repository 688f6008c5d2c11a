"""A run continued with an edited program uses the recorded answers while the program asks the same questions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.program_facts import Continued, ProgramStarted, ToolAnswered
from stackmem.languages.running.edited_run import Divergence, continue_program
from stackmem.run.opened import Person
from stackmem.run.programs.result import ProgramResult
from stackmem.run.replays.replay import replay_run
from stackmem.run.resume import resume
from stackmem.settings.tools.own_tools import TOOLS, tool
from stackmem.trace.open_run import Run
from tests.languages import tiny
from tests.languages.running.test_run import Desk, folder_of
from tests.stage import mounted

NOBODY: Callable[[str], str | None] = {}.get


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    tiny.install()
    kept = dict(TOOLS)
    yield Desk(tmp_path)
    tiny.remove()
    TOOLS.clear()
    TOOLS.update(kept)


def go_on(desk: Desk, result: ProgramResult, text: str, **wanted: str) -> tuple[ProgramResult, Divergence]:
    parted: list[Divergence] = []
    file = desk.root / "edited.tiny"
    file.write_text(text, encoding="utf-8")
    again = continue_program(folder_of(result), file, wanted, dict(os.environ), Person(NOBODY), parted.append)
    assert replay_run(folder_of(again)).outcome == again.run.outcome
    return again, parted[0]


def answers(result: ProgramResult) -> list[Any]:
    return [r.event.value for r in Run(folder_of(result)).records() if isinstance(r.event, ToolAnswered)]


def test_what_was_answered_is_not_asked_again_and_files_are_as_they_were_then(desk: Desk) -> None:
    before = desk.run("shell date +%s%N | tee made.txt\nshell echo more >> made.txt\nhalt here")
    again, parted = go_on(desk, before, "say new\nshell date +%s%N | tee made.txt\nshell cat made.txt\nsay done")
    stamp = answers(before)[0]["stdout"]
    assert again.run.outcome == "finished"
    assert answers(again)[0]["stdout"] == stamp
    assert answers(again)[1]["stdout"] == stamp
    assert again.said == ("new", "done")
    assert parted == Divergence(1, 1, "line 3")
    assert again.run.changed == ("made.txt",)


def test_what_a_halt_came_of_is_asked_again(desk: Desk) -> None:
    before = desk.run("shell echo 1 >> log\nshell echo 2 >> log; test -e log2")
    assert before.run.outcome == "halted"
    again, parted = go_on(desk, before, "shell echo 1 >> log\nshell echo 2 >> log; test -e log\nshell cat log")
    assert answers(again)[-1]["stdout"] == "1\n2\n"
    assert parted.answers == 1


def test_what_failed_of_the_provider_is_no_answer_and_is_not_given_again(desk: Desk) -> None:
    desk.script({"fault": "529", "retry_after_seconds": 0}, {"text": "one"})
    before = desk.run("ask what?\nsay $it")
    assert "ModelFailed" in (folder_of(before) / "trace.jsonl").read_text("utf-8")
    again, parted = go_on(desk, before, "ask what?\nask more?\nsay $it")
    assert (again.said, parted.answers, parted.recorded) == (("one",), 1, 1)  # the script's second reply is used twice
    assert "ModelFailed" not in (folder_of(again) / "trace.jsonl").read_text("utf-8")


@mounted
def test_replies_and_frames_of_the_agent_hold_too(desk: Desk) -> None:
    popped = {"call": "pop_frame", "args": {"result": '{"n": 1}'}}
    desk.script({"text": "first"}, {"call": "run_command", "args": {"command": "echo a > a"}}, popped, {"text": "last"})
    before = desk.run("ask what?\nframe Do it.\nhalt x")
    again, parted = go_on(desk, before, "ask what?\nframe Do it.\nask more?\nsay $it")
    assert (again.said, again.run.steps) == (("last",), 4)
    assert parted.recorded >= parted.answers >= 3
    assert again.run.changed == ("a",)


def continued(result: ProgramResult) -> Continued:
    begun = next(r.event for r in Run(folder_of(result)).records() if isinstance(r.event, ProgramStarted))
    assert isinstance(begun.continued, Continued)
    return begun.continued


@pytest.mark.parametrize("place", ["", "$here/"])
def test_sources_are_read_as_they_are_now_and_the_trace_tells_which_changed(desk: Desk, place: str) -> None:
    desk.write("before", "lib.tiny")
    desk.write("same", "other.tiny")
    lines = f"load {place}other.tiny\nload {place}lib.tiny\nsay $it"
    before = desk.run(lines)
    desk.write("after", "lib.tiny")
    again, parted = go_on(desk, before, f"{lines}\nshell ls\nload {place}lib.tiny\nsay $it")
    assert again.said == ("after", "after")
    assert [Path(path).name for path in parted.changed] == ["lib.tiny"]
    told = continued(again)
    assert (told.parent, told.at, told.digest) == (before.run.run, before.run.records, before.run.digest)
    assert (told.answers, told.recorded, told.changed) == (2, 2, parted.changed)
    assert again.run.changed == ()


@pytest.mark.parametrize("place", ["", "$here/"])
def test_a_source_beside_the_edited_file_comes_first_and_a_new_one_is_found(desk: Desk, place: str) -> None:
    desk.write("before", "lib.tiny")
    before = desk.run(f"load {place}lib.tiny\nload {place}new.tiny\nsay x")
    for name in ("lib", "new", "sub"):
        (desk.root / f"{name}.tiny").write_text(f"{name} beside", encoding="utf-8")
    steps = "".join(f"load {place}{name}.tiny\nsay $it\n" for name in ("lib", "new", "sub"))
    again, _ = go_on(desk, before, steps)
    assert again.said == ("lib beside", "new beside", "sub beside")


@mounted
def test_a_source_that_the_run_wrote_stays_as_it_wrote_it(desk: Desk) -> None:
    desk.write("from the folder", "lib.tiny")
    wrote = "write lib.tiny from the run\nload $here/lib.tiny\nsay $it\nwrite made.tiny made\nload $here/made.tiny"
    before = desk.run(wrote)
    desk.write("edited", "lib.tiny")
    desk.write("edited", "made.tiny")
    again, parted = go_on(desk, before, f"{wrote}\nsay $it\nshell true\nload $here/lib.tiny\nsay $it")
    assert again.said == ("from the run", "made", "from the run")
    assert parted.changed == ()


@mounted
def test_what_is_gone_stays_as_it_was_and_a_later_resume_reads_as_the_new_run_did(desk: Desk) -> None:
    desk.flags["layer"] = "copy"  # with an overlay layer, files deleted from the folder would be missing
    lib, other = desk.write("before", "lib.tiny"), desk.write("before", "other.tiny")
    before = desk.run("load lib.tiny\nsay $it\nhalt x")
    lib.unlink()
    other.write_text("after", encoding="utf-8")
    again, parted = go_on(desk, before, "load lib.tiny\nsay $it\nuser who?\nload other.tiny\nsay $it")
    assert (again.run.outcome, again.said, parted.changed) == ("input_needed", ("before",), ())
    resumed = resume(folder_of(again), {}, dict(os.environ), person=Person(lambda _: "me"))
    assert resumed.program is not None
    assert resumed.program.said == ("after",)
    assert replay_run(folder_of(again)).outcome == "finished"


def test_a_run_that_went_on_can_be_gone_on_with_again(desk: Desk) -> None:
    desk.write("1", "lib.tiny")
    first = desk.run("load lib.tiny\nsay $it\nhalt x")
    second, _ = go_on(desk, first, "load lib.tiny\nsay $it\nshell echo x >> log\nhalt y")
    desk.write("3", "lib.tiny")
    third, _ = go_on(desk, second, "load lib.tiny\nsay $it\nshell echo x >> log\nshell cat log\nload lib.tiny")
    assert (third.said, third.value, answers(third)[-1]["stdout"]) == (("3",), "3", "x\n")
    assert continued(third).parent == second.run.run


def test_a_call_under_way_that_may_not_be_made_twice_needs_a_word(desk: Desk) -> None:
    calls: list[int] = []

    @tool
    def send() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return "sent"

    before = desk.run("use send {}")
    with pytest.raises(UsageError, match="--yes"):
        go_on(desk, before, "use send {}")
    again, _ = go_on(desk, before, "use send {}\nsay $it", yes="true")
    assert again.said == ("sent",)


def test_a_tool_that_may_not_be_called_twice_keeps_its_answer_over_a_halt(desk: Desk) -> None:
    calls: list[int] = []

    @tool
    def send() -> str:
        calls.append(1)
        return "sent"

    before = desk.run("use send {}\nhalt x")
    again, _ = go_on(desk, before, "use send {}\nsay $it")
    assert (again.said, calls) == (("sent",), [1])


def test_a_limit_that_is_spent_is_raised_first(desk: Desk) -> None:
    desk.flags["max_steps"] = "1"
    desk.script({"text": "1"}, {"text": "2"})
    before = desk.run("ask a?\nask b?")
    assert before.run.outcome == "limit:steps"
    with pytest.raises(UsageError, match="--max-steps"):
        go_on(desk, before, "ask a?\nask b?\nsay $it")
    again, _ = go_on(desk, before, "ask a?\nask b?\nsay $it", max_steps="+1")
    assert again.said == ("2",)


def test_a_program_that_is_none_leaves_nothing_behind(desk: Desk) -> None:
    before = desk.run("say x")
    with pytest.raises(UsageError, match="cannot be read"):
        continue_program(folder_of(before), desk.root / "none", {}, dict(os.environ), Person(NOBODY))
    assert len(list((desk.root / "runs").iterdir())) == 1


def test_the_run_that_one_went_on_from_is_named_wherever_runs_are_shown(desk: Desk) -> None:
    from stackmem.review.kept.run_list import list_runs
    from stackmem.review.report.view import read_runs
    from tests.languages.commands.test_programs import stackmem

    steps = "main:\n  - {name: one, tool: log, message: hi}\n"
    (desk.folder / "main.apl").write_text(steps, encoding="utf-8")
    dirs = ("--runs-dir", desk.flags["runs_dir"], "--sandbox-dir", desk.flags["sandbox_dir"])
    assert stackmem(desk.root, "run", "here", *dirs).returncode == 0
    (before,) = list_runs(desk.root / "runs")
    (desk.root / "edited.apl").write_text(steps + "  - {name: two, tool: log, message: ho}\n", encoding="utf-8")
    done = stackmem(desk.root, "resume", "last", "--program", "edited.apl", "--runs-dir", desk.flags["runs_dir"])
    assert done.stdout.startswith("hi\nho\n"), done.stderr
    after = next(row for row in list_runs(desk.root / "runs") if row.run != before.run)
    assert (before.parent, after.parent) == ("", before.run)
    shown = stackmem(desk.root, "trace", "show", after.run, "--runs-dir", desk.flags["runs_dir"]).stdout
    assert f"continued from {before.run} with an edited program: " in shown
    assert "answers reused\n" in shown
    (page,) = read_runs([desk.root / "runs" / after.run]).runs
    assert page.forked.startswith(f"{before.run} at record ")
