"""A redacted copy of a program's run: its sources, answers and consequences, without the redacted text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.facts import CallRejected, FramePushed
from stackmem.core.program_facts import ChunkKept, ProgramStarted, Said, SourceLoaded
from stackmem.review.kept.redact import redact_run
from stackmem.run.fork import ForkChanges, fork
from stackmem.run.replays.replay import replay_run
from stackmem.run.resume import resume
from stackmem.trace.open_run import Run
from tests.languages import tiny
from tests.languages.running.test_run import Desk, folder_of

SECRET = "hunter2-hunter2"
WHOLE = f"""\
say begin with {SECRET}
load lib.tiny
enter part with {SECRET}
shell echo {SECRET} | tee pw
keep notes the word is {SECRET}
chunk notes
ask what is {SECRET}?
both ask {SECRET} 1? & ask {SECRET} 2? & read pw
leave done {SECRET}
frame Use {SECRET}.
user who are you?
say $it and $who
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    tiny.install()
    yield Desk(tmp_path)
    tiny.remove()


def holding(desk: Desk) -> Path:
    """A run that mentions a password in every way a program can."""
    popped = {"call": "pop_frame", "args": {"result": '{"n": 1}'}}
    said = {"text": f"it is {SECRET}"}
    ran = {"call": "run_command", "args": {"command": f"echo {SECRET}"}}
    desk.script(said, said, said, ran, popped)
    desk.write(f"a library of {SECRET}", "lib.tiny")
    result = desk.run(WHOLE, (f"I am {SECRET}",), inputs={"who": f"{SECRET}!"})
    assert result.run.outcome == "finished"
    return folder_of(result)


def kinds(folder: Path) -> list[type]:
    return [type(record.event) for record in Run(folder).records()]


def test_the_copy_holds_nothing_of_it_and_verifies(desk: Desk) -> None:
    run = holding(desk)
    made = redact_run(run, [SECRET])
    copy = Path(made.run_dir)
    for path in copy.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()
    assert kinds(copy) == kinds(run)
    before, after = replay_run(run), replay_run(copy)
    assert (after.outcome, after.events, after.prompts, after.steps) == ("finished", before.events, before.prompts, 5)
    assert after.redacted_of == made.digest
    assert not (copy / "history.git").exists()
    texts = {type(record.event): record.event for record in Run(copy).records()}
    assert texts[Said].text == f"I am {'x' * 15} and {'x' * 15}!"
    assert texts[ChunkKept].content == f"the word is {'x' * 15}"


def test_a_source_that_holds_a_match_counts_as_changed(desk: Desk) -> None:
    desk.write(f"a library of {SECRET}", "lib.tiny")
    run = folder_of(desk.run("load lib.tiny\nshell true"))
    made = redact_run(run, [SECRET])
    loaded = next(r.seq for r in Run(run).records() if isinstance(r.event, SourceLoaded))
    assert loaded in made.records
    begun = next(r.event for r in Run(Path(made.run_dir)).records() if isinstance(r.event, ProgramStarted))
    assert (Path(made.run_dir) / "sources" / begun.digest).read_text("utf-8") == "load lib.tiny\nshell true"


@pytest.mark.parametrize(
    ("text", "pattern", "says"),
    [
        ("say x\nshell ls", "say", "the program is not valid any more|behaves differently"),
        ("say pass-$who", "pass-secret", "still contains a match"),
        ("keep aa 1\nkeep bb 2", "aa|bb", "a pattern that keeps names different"),
        ("shell echo '{}'\nsay x", "nowhere to be found", "contains no match"),
    ],
)
def test_a_pattern_that_would_make_another_run_is_refused_and_nothing_is_left(
    desk: Desk, text: str, pattern: str, says: str
) -> None:
    run = folder_of(desk.run(text, inputs={"who": "secret"}))
    with pytest.raises(UsageError, match=says):
        redact_run(run, [pattern])
    assert [path.name for path in (desk.root / "runs").iterdir()] == [run.name]


def test_halted_and_forked_runs_have_a_copy_and_it_goes_nowhere(desk: Desk) -> None:
    desk.script({"text": SECRET}, {"text": "b"}, {"text": f"{SECRET} c"})
    run = folder_of(desk.run(f"ask {SECRET}?\nask b?\nuser {SECRET}?\nhalt on {SECRET}"))
    copy = Path(redact_run(run, [SECRET]).run_dir)
    assert replay_run(copy).outcome == "input_needed"
    assert SECRET not in (copy / "trace.jsonl").read_text("utf-8")
    with pytest.raises(UsageError, match="redacted copy"):
        resume(copy, {}, dict(os.environ))
    forked = Path(fork(run, 1, ForkChanges(), dict(os.environ)).result.run_dir)
    made = Path(redact_run(forked, [SECRET]).run_dir)
    assert SECRET not in (made / "trace.jsonl").read_text("utf-8")
    assert replay_run(made).outcome == replay_run(forked).outcome
    halted = folder_of(desk.run(f"say x\nhalt on {SECRET}"))
    assert replay_run(Path(redact_run(halted, [SECRET]).run_dir)).outcome == "halted"


def test_a_question_cut_within_a_match_is_cut_again_in_the_copy(desk: Desk) -> None:
    run = folder_of(desk.run(f"user {'q' * 3_988} {SECRET}?"))
    *_, ended = Run(run).records()
    assert ended.event.result.endswith("hunter2 […]")
    copy = Path(redact_run(run, [SECRET]).run_dir)
    assert "hunter2" not in (copy / "trace.jsonl").read_text("utf-8")
    assert replay_run(copy).outcome == "input_needed"


def test_words_of_ours_in_an_agents_frame_stay_as_they_are(desk: Desk) -> None:
    desk.script(*({"call": "pop_frame", "args": {"result": result}} for result in ("none", '{"n": 1}')))
    run = folder_of(desk.run("frame Do it.\nsay done"))
    copy = Run(Path(redact_run(run, ["refused"]).run_dir))
    (rejected,) = [r.event for r in copy.records() if isinstance(r.event, CallRejected)]
    assert rejected.reason.startswith("pop_frame refused: ")


def test_a_pattern_that_is_also_in_the_words_of_every_task_masks_what_the_program_says(desk: Desk) -> None:
    desk.script({"call": "pop_frame", "args": {"result": '{"n": 1}'}})
    run = folder_of(desk.run("frame Do the work, call one.\nsay one"))
    copy = Run(Path(redact_run(run, ["one"]).run_dir))
    (pushed,) = [r.event for r in copy.records() if isinstance(r.event, FramePushed)]
    assert pushed.program.task.startswith("Do the work, call xxx.")
    assert "When the work is done, call pop_frame" in pushed.program.task
