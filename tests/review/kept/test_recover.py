"""Recovery of a damaged run: its valid beginning becomes a run that can be resumed on its own files."""

import json
import shutil
from pathlib import Path

import pytest

from stackmem import TraceError, UsageError, replay
from stackmem.review.kept.recover import recover_run
from tests.fuzz.seeds import chained, stories
from tests.run.killed import DEEP, killed, resumed, story
from tests.stage import Stage, command, events, mounted, pop


def broken(stage: Stage, run: Path, number: int) -> None:
    lines = (run / "trace.jsonl").read_bytes().splitlines(keepends=True)
    lines[number - 1] = lines[number - 1].replace(b'"seq"', b'"sEq"')
    (run / "trace.jsonl").write_bytes(b"".join(lines))


@mounted
@pytest.mark.parametrize("number", [2, 14, 30, 50])
def test_a_recovered_run_resumes_like_the_original(stage: Stage, number: int):
    task = stage.task(*DEEP)
    whole = stage.solve(task)
    run = Path(whole.run_dir)
    expected = story(run)
    work = sorted(path.name for path in Path(whole.workspace).iterdir())
    broken(stage, run, number)
    before = (run / "trace.jsonl").read_bytes()
    found = recover_run(run)
    assert (found.records, found.not_resumable) == (number - 1, "")
    assert f"line {number} is broken" in found.reason
    assert "trace recover" not in found.reason
    assert replay(found.run_dir).events == number - 1
    result = resumed(Path(found.run_dir)).result
    assert result.outcome == "solved"
    assert result.workspace != whole.workspace
    assert story(found.run_dir) == expected
    assert (run / "trace.jsonl").read_bytes() == before
    assert sorted(path.name for path in Path(whole.workspace).iterdir()) == work


def test_a_run_without_its_history_is_saved_without_its_files(stage: Stage):
    run = killed(stage, 8, stage.task(command("echo x > x"), command("true"), command("true"), pop()))
    broken(stage, run, 6)
    shutil.rmtree(run / "history.git")
    found = recover_run(run)
    assert "its files are not available" in found.not_resumable
    assert replay(found.run_dir).events == 5
    with pytest.raises(TraceError, match="cannot be resumed"):
        resumed(Path(found.run_dir))


def test_a_whole_run_is_left_alone(stage: Stage):
    run = Path(stage.solve(stage.task(pop())).run_dir)
    with pytest.raises(UsageError, match="is intact"):
        recover_run(run)
    assert [path.name for path in stage.runs.iterdir()] == [run.name]


def test_a_run_whose_first_record_is_broken_leaves_nothing_behind(stage: Stage):
    run = Path(stage.solve(stage.task(pop())).run_dir)
    broken(stage, run, 1)
    with pytest.raises(TraceError, match="line 1 is broken"):
        recover_run(run)
    assert [path.name for path in stage.runs.iterdir()] == [run.name]


def test_the_command_names_the_new_run_and_what_is_lost(stage: Stage):
    run = Path(stage.solve(stage.task(command("true"), pop())).run_dir)
    broken(stage, run, 3)
    ran = stage.call("trace", "recover", run)
    assert ran.returncode == 0, ran.stderr
    (fresh,) = {path.name for path in stage.runs.iterdir()} - {run.name}
    assert f"saved 2 records, up to step 1, as {fresh}" in ran.stdout
    assert "line 3 is broken" in ran.stdout
    assert "it can be resumed" in ran.stdout
    again = json.loads(stage.call("trace", "recover", run, "--json").stdout)
    assert again["records"] == 2
    assert len(events(again["run_dir"])) == 2


def test_records_that_cannot_follow_one_another_are_refused_in_a_sentence(stage: Stage):
    """The digests are valid: somebody forged a trace that pops a frame which was never pushed."""
    run = stage.runs / "20260101T000000Z-forged-forged-0a0a0a"
    run.mkdir(parents=True)
    start, *_ = stories()[0].splitlines()
    forged = [start, b'{"seq":2,"at":0,"event":{"type":"FramePopped","frame":"f9","result":"x"}}'] * 2
    forged = [line.replace(b'"seq":1,', b'"seq":3,') if at == 2 else line for at, line in enumerate(forged)]
    (run / "trace.jsonl").write_bytes(chained(b"\n".join(forged[:3])) + b"broken\n")
    with pytest.raises(TraceError, match=r"record \d "):
        recover_run(run)
    assert list(stage.runs.iterdir()) == [run]
