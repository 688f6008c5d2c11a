"""A stopped run resumes: at the same prompt, with complete results, and with the files as they were."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from stackmem import RulesDiffer, TraceError, UsageError, WorkspaceError, replay
from stackmem.core.budgets import Limits
from stackmem.core.facts import ChecksReturned, ClockRead, RunResumed, ToolReturned, VerifyReturned
from stackmem.run.result import RunResult
from tests.run.killed import killed, resumed, story, told
from tests.run.test_solve_disk import limited
from tests.stage import SOLVED, Stage, call, command, events, eventually, fails, mounted, pop, push, rechain, records


def works(*replies: dict, count: int = 6) -> list[dict]:
    return [*replies, *(command(f"echo {number} >> log") for number in range(count)), pop("All done.")]


def last_text(run: Path | str) -> str:
    return events(run, ToolReturned)[-1].text


@pytest.fixture
def killed_in_a_command(stage: Stage):
    """Return a builder of a run that is killed while its first command sleeps, after the command created files."""

    def build(text: str, *after: dict, isolation: str = "auto", before: tuple[dict, ...] = (), **more) -> Path:
        task = stage.task(*before, command(f"{text}; touch begun; sleep 3$(cat rest)"), *after, pop("Done."), **more)
        process = stage.start("solve", task, "--model", "demo", "--quiet", "--isolation", isolation)
        eventually(lambda: list(stage.work.glob("*/workspace/begun")))
        process.kill()
        process.communicate(timeout=100)
        return stage.only_run()

    return build


def test_a_run_ended_by_a_limit_resumes_with_a_higher_one(stage: Stage):
    task = stage.task(*works())
    first = stage.solve(task, max_steps=3)
    assert first.ending == "limit:steps"
    again = resumed(Path(first.run_dir), max_steps="+50").result
    assert again.outcome == "solved"
    assert again.steps == 7
    assert events(first.run_dir, RunResumed)[0].limits == Limits(steps=53, usd=5.0)
    assert replay(first.run_dir).outcome == "solved"


def test_a_run_goes_on_from_a_folder_that_is_named_as_seen_from_here(stage: Stage):
    first = stage.solve(stage.task(*works()), max_steps=3)
    again = resumed(Path(os.path.relpath(first.run_dir)), max_steps="+50").result
    assert again.outcome == "solved"


def test_the_result_of_a_resumed_run_counts_the_whole_run(stage: Stage):
    task = stage.task(*works())
    whole = stage.solve(task)
    run = killed(stage, 8, task)
    result = resumed(run).result
    assert told(result) == told(whole)
    assert (
        json.loads((run / "result.json").read_text("utf-8"))["usage"]
        == json.loads((Path(whole.run_dir) / "result.json").read_text("utf-8"))["usage"]
    )
    assert "log" in (run / "changes.patch").read_text("utf-8")


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({}, "used up its limit of steps; raise it, for example --max-steps +50"),
        ({"max_steps": "3"}, "used up its limit of steps"),
        ({"max_steps": "+none"}, "--max-steps '+none' is not a number"),
        ({"max_steps": "+"}, "--max-steps"),
        ({"max_steps": "many"}, "--max-steps"),
        ({"max_tokens": "+5"}, "the run has no limit of tokens"),
        ({"max_usd": "-1"}, "--max-usd"),
    ],
)
def test_limits_that_do_not_help_are_refused_and_change_nothing(stage: Stage, wanted, says):
    run = Path(stage.solve(stage.task(*works()), max_steps=3).run_dir)
    before = (run / "trace.jsonl").read_bytes()
    with pytest.raises(UsageError) as raised:
        resumed(run, **wanted)
    assert says in str(raised.value)
    assert (run / "trace.jsonl").read_bytes() == before
    assert not (run / "trace.lock").exists()


def test_a_limit_may_be_lifted(stage: Stage):
    first = stage.solve(stage.task(*works()), max_steps=3)
    assert resumed(Path(first.run_dir), max_steps="none").result.outcome == "solved"


def test_a_run_left_by_its_provider_goes_on_at_the_next_entry_of_the_script(stage: Stage, monkeypatch):
    monkeypatch.setattr("stackmem.core.retries.ATTEMPTS", 2)  # six would wait for half a minute
    task = stage.task(command("echo a > a"), *[fails("529", retry_after_seconds=0)] * 2, pop("Done."), test=SOLVED)
    first = stage.solve(task, observe=None, max_steps=20)
    assert (first.ending, first.outcome) == ("model_error", "model_error")
    again = resumed(Path(first.run_dir)).result
    assert (again.outcome, again.steps, again.failure) == ("solved", 2, "")


def test_a_run_that_ctrl_c_stopped_in_a_command_runs_it_again_from_the_start(stage: Stage):
    task = stage.task(command("echo line >> log; sleep 3; cat log"), pop("Done."))
    process = stage.start("solve", task, "--model", "demo", "--json")
    eventually(lambda: list(stage.work.glob("*/workspace/log")))
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=100)
    run = stage.only_run()
    assert events(run, ToolReturned) == []
    assert resumed(run).result.outcome == "solved"
    assert events(run, ToolReturned)[0].text == "line\n[exit 0]"


def test_a_killed_command_is_repeated_on_the_files_as_they_were_before_it(killed_in_a_command):
    spoil = (
        "echo 2 >> kept; rm gone; chmod +x mode; ln -sf nowhere link; mkdir -p new/deep empty; echo n > new/deep/file; "
        "rm -r folder; echo file > folder"
    )
    files = {"kept": "1\n", "gone": "g", "mode": "m", "folder/in": "i", "rest": "0"}
    # The second time it does not sleep, and `begun` shows nothing, because it is removed with everything else.
    run = killed_in_a_command(f"test ! -e begun && {spoil}; cat kept; rm rest; touch rest", files=files)
    work = Path(json.loads((run / "request.json").read_text("utf-8"))["workspace"])
    assert (work / "new" / "deep" / "file").exists()
    (work / "rest").write_text("0")
    result = resumed(run).result
    assert result.outcome == "solved"
    assert (work / "kept").read_text() == "1\n2\n"
    returned = events(run, ToolReturned)[0]
    assert returned.text.startswith("1\n2\n")
    assert returned.failed is False


def test_without_confinement_a_killed_command_is_not_repeated(killed_in_a_command):
    run = killed_in_a_command("echo once >> log", isolation="none", files={"rest": "0"})
    result = resumed(run).result
    assert result.outcome == "solved"
    returned = events(run, ToolReturned)[0]
    assert returned.failed
    assert returned.text.startswith("interrupted, effects may be partial (at isolation none")
    assert returned.exit_code is None
    assert (Path(result.workspace) / "log").read_text() == "once\n"
    assert replay(run).outcome == "solved"


def test_a_killed_command_that_changed_an_ignored_file_is_not_repeated(killed_in_a_command):
    run = killed_in_a_command(
        "echo more >> cache/state", files={"rest": "0", ".gitignore": "cache/\n"},
        before=(command("mkdir cache; echo first > cache/state"),),
    )  # fmt: skip
    result = resumed(run).result
    returned = events(run, ToolReturned)[1]
    assert returned.failed
    assert "interrupted, effects may be partial (not kept, so not put back: cache/state)" in returned.text
    assert (Path(result.workspace) / "cache" / "state").read_text() == "first\nmore\n"
    assert not (Path(result.workspace) / "begun").exists()


def test_an_ignored_file_of_an_earlier_step_does_not_keep_a_command_from_being_repeated(killed_in_a_command):
    run = killed_in_a_command(
        "echo again >> log; test $(wc -l < log) = 1; rm rest; touch rest", files={"rest": "0", ".gitignore": "cache\n"},
        before=(command("echo first > cache; mkdir -p __pycache__; echo c > __pycache__/c"),),
    )  # fmt: skip
    result = resumed(run).result
    assert (Path(result.workspace) / "log").read_text() == "again\n"
    assert "interrupted" not in events(run, ToolReturned)[1].text


def test_a_verify_command_that_was_killed_without_confinement_says_so(stage: Stage):
    verify = "echo v >> verified; touch begun; sleep 30"
    task = stage.task(push("child", verify=verify), pop("Child."), pop("All."))
    process = stage.start("solve", task, "--model", "demo", "--quiet", "--isolation", "none")
    eventually(lambda: list(stage.work.glob("*/workspace/begun")))
    process.kill()
    process.communicate(timeout=100)
    run = stage.only_run()
    assert resumed(run).result.outcome == "solved"
    assert events(run, VerifyReturned)[0].outcome == "interrupted"
    assert replay(run).outcome == "solved"


def test_a_run_killed_in_its_checks_is_judged_and_nothing_else(stage: Stage):
    task = stage.task(pop("Done."), test='touch "$VERIFIER_DIR/begun"; test -e ../again || sleep 30\n' + SOLVED)
    process = stage.start("solve", task, "--model", "demo", "--quiet")
    eventually(lambda: list(stage.runs.glob("*/verifier/begun")))
    process.kill()
    process.communicate(timeout=100)
    run = stage.only_run()
    (task / "tests" / "test.sh").write_text(SOLVED)
    result = resumed(run).result
    assert result.outcome == "solved"
    assert events(run, RunResumed) == []
    assert not list(Path(result.workspace).parent.glob("check-*"))


def test_checks_that_were_interrupted_are_run_again(stage: Stage):
    first = stage.solve(stage.task(pop("Done."), test=SOLVED))
    run = Path(first.run_dir)
    *kept, judged = records(run)
    assert isinstance(judged.event, ChecksReturned)
    (run / "result.json").unlink()
    rechain(run / "trace.jsonl", [*kept, replace(judged, event=ChecksReturned({}, "the checks were interrupted"))])
    assert resumed(run).result.outcome == "solved"


def test_a_run_that_is_over_has_nothing_to_resume(stage: Stage):
    first = stage.solve(stage.task(pop("Done.")))
    run = Path(first.run_dir)
    before = (run / "trace.jsonl").read_bytes()
    again = resumed(run)
    assert (again.result, again.outcome, again.played) == (None, "solved", False)
    assert (run / "trace.jsonl").read_bytes() == before


def test_a_run_that_is_over_but_has_no_result_is_given_one(stage: Stage):
    first = stage.solve(stage.task(command("echo x > made"), pop("Done.")))
    run = Path(first.run_dir)
    before = (run / "trace.jsonl").read_bytes()
    for name in ("result.json", "changes.patch", "changes.json"):
        (run / name).unlink()
    again = resumed(run)
    assert again.played is False
    assert told(again.result) == told(first)
    assert "+x" in (run / "changes.patch").read_text("utf-8")
    assert (run / "trace.jsonl").read_bytes() == before


def test_a_torn_record_is_removed_and_reported(stage: Stage):
    task = stage.task(*works())
    run = killed(stage, 8, task)
    with (run / "trace.jsonl").open("ab") as trace:
        trace.write(b'{"seq":9,"at":17')
    again = resumed(run)
    assert (again.torn_bytes, again.outcome) == (16, "solved")
    assert story(run) == story(stage.solve(task).run_dir)


def test_a_last_record_without_its_line_end_is_a_record(stage: Stage):
    run = killed(stage, 8, stage.task(*works()))
    whole = (run / "trace.jsonl").read_bytes()
    (run / "trace.jsonl").write_bytes(whole[:-1])
    assert resumed(run).torn_bytes == 0
    assert (run / "trace.jsonl").read_bytes().startswith(whole)


def test_a_trace_that_is_broken_is_not_gone_on_with(stage: Stage):
    run = killed(stage, 8, stage.task(*works()))
    lines = (run / "trace.jsonl").read_bytes().splitlines(keepends=True)
    (run / "trace.jsonl").write_bytes(b"".join([*lines[:3], lines[3].replace(b"seq", b"sEq"), *lines[4:]]))
    with pytest.raises(TraceError, match="line 4 is broken"):
        resumed(run)


def test_a_run_that_another_process_writes_is_refused_with_its_process_id(stage: Stage):
    slow = [command("true") | {"latency_seconds": 60}, pop("Done.")]
    process = stage.start("solve", stage.task(*slow), "--model", "demo", "--quiet")
    eventually(lambda: stage.written() >= 1)
    ran = stage.call("resume", "last")
    assert ran.returncode == 7
    assert f"process {process.pid} is writing the run" in ran.stderr
    process.kill()
    process.communicate(timeout=100)


def test_a_run_that_a_full_disk_ended_goes_on_when_there_is_room(stage: Stage):
    stage.solve(stage.task(pop(), name="first"))  # the sandbox's Python is built without the file size limit
    before = {path.name for path in stage.runs.iterdir()}
    task = stage.task(*(call("write_file", path="made", content=str(n) * 30_000) for n in range(8)), pop("Done."))
    ran = limited(stage, 120_000, "solve", task, "--model", "demo", "--quiet")
    assert ran.returncode == 7, ran.stderr
    (run,) = (path for path in stage.runs.iterdir() if path.name not in before)
    assert resumed(run).result.outcome == "solved"
    assert story(run) == story(stage.solve(task).run_dir)


@pytest.mark.parametrize("gone", ["workspace", "history"])
def test_missing_parts_are_named(stage: Stage, gone: str):
    run = killed(stage, 8, stage.task(*works()))
    request = json.loads((run / "request.json").read_text("utf-8"))
    shutil.rmtree(request["workspace"] if gone == "workspace" else run / "history.git")
    with pytest.raises(WorkspaceError, match=f"the {gone}.* of the run is missing"):
        resumed(run)


def test_a_copy_of_a_run_does_not_work_in_the_runs_own_workspace(stage: Stage):
    run = killed(stage, 8, stage.task(*works()))
    shutil.copytree(run, stage.runs / "copy")
    with pytest.raises(WorkspaceError, match=f"belongs to the run {run.name}"):
        resumed(stage.runs / "copy")
    assert resumed(run).result.outcome == "solved"


def test_a_run_without_its_request_cannot_be_taken_up(stage: Stage):
    run = killed(stage, 8, stage.task(*works()))
    (run / "request.json").unlink()
    with pytest.raises(TraceError, match="cannot be resumed"):
        resumed(run)


def test_a_run_made_under_other_rules_is_not_gone_on_with(stage: Stage):
    run = killed(stage, 1, stage.task(*works()))
    (start,) = records(run)
    rechain(run / "trace.jsonl", [replace(start, event=replace(start.event, rules=99))])
    with pytest.raises(RulesDiffer, match="recorded under rules 99"):
        resumed(run)


def test_the_level_that_was_in_force_stays_and_another_one_must_be_named(stage: Stage):
    run = killed(stage, 8, stage.task(*works()), "isolation=none")
    result = resumed(run).result
    assert result.isolation == "none"
    assert events(run, RunResumed)[0].isolation == "none"


@mounted
def test_a_level_at_which_the_workspace_is_elsewhere_is_refused(stage: Stage):
    run = killed(stage, 8, stage.task(*works()))
    before = (run / "trace.jsonl").read_bytes()
    with pytest.raises(WorkspaceError, match="but the run recorded it as /workspace"):
        resumed(run, isolation="none")
    assert (run / "trace.jsonl").read_bytes() == before


def test_settings_of_today_say_nothing(stage: Stage):
    run = killed(stage, 8, stage.task(*works()))
    ran = stage.call(
        "resume", run, "--json", env={"STACKMEM_STRATEGY": "full", "STACKMEM_MODEL": "human", "STACKMEM_MAX_STEPS": "2"}
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["strategy"] == "adaptive"


def test_a_script_named_by_a_relative_path_is_found_from_anywhere(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    stage.script(*works(), name="mine.yaml")
    monkeypatch.chdir(stage.root)
    first = stage.solve(stage.task(pop()), model="script:mine.yaml", max_steps=3)
    monkeypatch.chdir(stage.elsewhere)
    assert resumed(Path(first.run_dir), max_steps="+9").result.outcome == "solved"


def test_a_run_over_a_folder_goes_on_and_is_applied_where_that_was_asked_for(stage: Stage):
    mine = stage.root / "mine"
    mine.mkdir()
    (mine / "a.txt").write_text("1\n")
    model = stage.script(command("echo 2 >> a.txt"), command("echo 3 >> a.txt"), pop("Done."))
    first = stage.solve(mine, "count", model=model, max_steps=1, apply=True)
    assert (mine / "a.txt").read_text() == "1\n"
    again = resumed(Path(first.run_dir), max_steps="+5").result
    assert isinstance(again, RunResult)
    assert (again.outcome, again.applied_to) == ("finished", str(mine))
    assert (mine / "a.txt").read_text() == "1\n2\n3\n"


def test_seconds_go_on_from_the_last_clock_reading(stage: Stage):
    run = killed(stage, 12, stage.task(*works()), "max_seconds=500")
    before = events(run, ClockRead)[-1].elapsed_seconds
    time.sleep(0.5)
    resumed(run)
    seconds = [event.elapsed_seconds for event in events(run, ClockRead)]
    assert seconds == sorted(seconds)
    assert seconds[-1] < before + 10


def test_the_command_line_says_what_it_cut_and_where_it_goes_on(stage: Stage):
    run = killed(stage, 8, stage.task(*works()))
    with (run / "trace.jsonl").open("ab") as trace:
        trace.write(b"{torn")
    ran = stage.call("resume", "last")
    assert ran.returncode == 0, ran.stderr
    assert "removed the last 5 bytes of the trace, which a crash cut short" in ran.stderr
    assert f"resuming {run.name} after record 8, step 4" in ran.stderr
    assert "solved (popped)" in ran.stdout
    over = stage.call("resume", "last")
    assert (over.returncode, over.stdout) == (0, f"nothing to resume: {run.name} has ended (solved)\n")
    assert json.loads(stage.call("resume", "last", "--json").stdout) == {
        "run": run.name, "outcome": "solved", "resumed": False,
    }  # fmt: skip


def test_a_run_that_stopped_says_how_to_go_on_and_one_that_is_over_does_not(stage: Stage):
    task = stage.task(*works())
    ran = stage.call("solve", task, "--model", "demo", "--quiet", "--max-steps", "3")
    run = stage.only_run().name
    assert f"continue with: stackmem resume {run} --max-steps +50" in ran.stdout
    words = next(line for line in ran.stdout.splitlines() if line.startswith("continue with: ")).split()[4:]
    again = stage.call("resume", *words, "--quiet")
    assert again.returncode == 0, again.stderr
    assert "continue with" not in again.stdout


def test_whole_lines_that_a_finished_run_lost_are_missed(stage: Stage):
    run = Path(stage.solve(stage.task(*works())).run_dir)
    lines = (run / "trace.jsonl").read_bytes().splitlines(keepends=True)
    (run / "trace.jsonl").write_bytes(b"".join(lines[:-3]))
    for look in (replay, resumed):
        with pytest.raises(TraceError, match=f"ends at record {len(lines) - 3} and .* after record {len(lines)}"):
            look(run)
    (run / "result.json").unlink()
    assert resumed(run).result.outcome == "solved"
