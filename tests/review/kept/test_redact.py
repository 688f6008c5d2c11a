"""A redacted copy is as long as the original, verifies, and contains no trace of the redacted text."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET

from stackmem import Record, RulesDiffer, UsageError, replay
from stackmem.core.facts import ChunkAllocated, FramePopped, ModelReplied, Redaction, RunStarted, ToolReturned
from stackmem.review.kept.redact import redact_run
from stackmem.review.kept.redaction import mask_of, mask_value, redact
from stackmem.run.fork import ForkChanges, fork
from stackmem.trace.verify import verify
from tests.conftest import CAMPAIGN
from tests.golden.stories import STORIES
from tests.run.killed import DEEP, killed, resumed, stackmem_environ
from tests.stage import Stage, call, command, events, pop, push, records

SECRET = "hunter2-hunter2"


def holding(stage: Stage) -> Path:
    """A run that mentions a password in every possible way."""
    task = stage.task(
        command(f"echo {SECRET} | tee pw"),
        call("heap_alloc", name="notes", content=f"the password is {SECRET}\nand {SECRET}", description=f"pw {SECRET}"),
        push("child", objective=f"Use {SECRET}.", context=SECRET),
        call("heap_read", name="notes"),
        call("read_file", path=f"{SECRET}/missing"),
        {"text": f"I will not say {SECRET}", "fault": "no_call"},
        call("no_such_tool", secret=SECRET),
        pop(f"Used {SECRET}."),
        pop(f"All with {SECRET}."),
        text=f"Log in with {SECRET}.\n",
    )  # fmt: skip
    return Path(stage.solve(task).run_dir)


def test_the_copy_holds_nothing_of_it_and_verifies(stage: Stage):
    run = holding(stage)
    made = redact_run(run, [SECRET])
    copy = Path(made.run_dir)
    for path in copy.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()
    assert replay(copy).events == len(records(run))
    assert replay(copy).prompts == replay(run).prompts
    assert [type(event) for event in events(copy)] == [type(event) for event in events(run)]
    assert [record.at for record in records(copy)] == [record.at for record in records(run)]


def test_lengths_hold(stage: Stage):
    run = holding(stage)
    copy = redact_run(run, [SECRET]).run_dir
    for kind in (ToolReturned, FramePopped):
        field = "text" if kind is ToolReturned else "result"
        assert [len(getattr(event, field)) for event in events(copy, kind)] == [
            len(getattr(event, field)) for event in events(run, kind)
        ]
    assert [event.chars for event in events(copy, ChunkAllocated)] == [
        event.chars for event in events(run, ChunkAllocated)
    ]
    assert "x" * len(SECRET) in events(copy, RunStarted)[0].task


def test_the_first_record_names_the_original_and_what_was_replaced(stage: Stage):
    run = holding(stage)
    made = redact_run(run, [SECRET])
    (start,) = events(made.run_dir, RunStarted)
    assert start.redacted.digest == json.loads((run / "result.json").read_text("utf-8"))["digest"]
    assert start.redacted.records == made.records
    assert 1 in made.records
    assert all(SECRET.encode() in line for line in _lines(run, made.records))
    assert events(run, RunStarted)[0].redacted is UNSET
    assert b"redacted" not in (run / "trace.jsonl").read_bytes().splitlines()[0]


def _lines(run: Path, numbers: tuple[int, ...]) -> list[bytes]:
    lines = (run / "trace.jsonl").read_bytes().splitlines()
    return [lines[number - 1] for number in numbers]


def test_prompts_are_those_of_the_copy(stage: Stage):
    run = holding(stage)
    copy = redact_run(run, [SECRET]).run_dir
    before = [event.prompt_digest for event in events(run, ModelReplied)]
    after = [event.prompt_digest for event in events(copy, ModelReplied)]
    assert len(before) == len(after)
    assert not set(before) & set(after)


def test_two_names_that_become_one_are_refused_by_name_and_nothing_is_left(stage: Stage):
    names = [call("heap_alloc", name=name, content="c") for name in ("alpha", "gamma")]
    run = Path(stage.solve(stage.task(*names, pop())).run_dir)
    with pytest.raises(UsageError, match="record 5: ChunkAllocated would become CallRejected"):
        redact_run(run, ["alpha|gamma"])
    assert [path.name for path in stage.runs.iterdir()] == [run.name]
    assert replay(redact_run(run, ["gamma"]).run_dir).outcome == "solved"


@pytest.mark.parametrize("pattern", ["run_command", "pop_frame", "name"])
def test_a_pattern_that_hits_the_calls_themselves_is_refused(stage: Stage, pattern: str):
    run = Path(stage.solve(stage.task(*DEEP)).run_dir)
    with pytest.raises(UsageError):
        redact_run(run, [pattern])
    assert [path.name for path in stage.runs.iterdir()] == [run.name]


@pytest.mark.parametrize(
    ("patterns", "says"),
    [
        ([], "missing pattern"),
        (["("], "is not a valid regular expression"),
        (["(?P<"], "is not a valid regular"),
        (["nowhere to be found"], "contains no match"),
    ],
)
def test_a_pattern_that_cannot_work_is_refused(stage: Stage, patterns, says):
    run = holding(stage)
    with pytest.raises(UsageError, match=says):
        redact_run(run, patterns)
    assert [path.name for path in stage.runs.iterdir()] == [run.name]


def test_a_copy_is_neither_resumed_nor_forked(stage: Stage):
    run = killed(stage, 8, stage.task(*(command(f"echo {SECRET}") for _ in range(4)), pop()))
    copy = Path(redact_run(run, [SECRET]).run_dir)
    with pytest.raises(UsageError, match="redacted copy"):
        resumed(copy)
    with pytest.raises(Exception, match=r"cannot be resumed|redacted copy"):
        fork(copy, 1, ForkChanges(), stackmem_environ())


def test_a_fork_is_redacted_with_what_it_shares(stage: Stage):
    run = holding(stage)
    script = stage.script(*([pop(f"Forked {SECRET}.")] * 20))
    forked = fork(run, 2, ForkChanges(model=script), stackmem_environ())
    made = redact_run(Path(forked.result.run_dir), [SECRET])
    assert SECRET.encode() not in (Path(made.run_dir) / "trace.jsonl").read_bytes()
    stage.runs.joinpath(run.name).rename(stage.root / "elsewhere" / run.name)
    assert replay(made.run_dir).outcome == replay(made.run_dir).outcome


def test_the_command_says_what_it_made(stage: Stage):
    run = holding(stage)
    ran = stage.call("trace", "redact", run, "--pattern", "hunter[0-9]", "--pattern", "Log in")
    assert ran.returncode == 0, ran.stderr
    assert f"is a redacted copy of {run.name}" in ran.stdout
    again = json.loads(stage.call("trace", "redact", run, "--pattern", SECRET, "--json").stdout)
    assert again["of"] == run.name
    verified = stage.call("replay", again["run_dir"])
    assert f"redacted copy of {again['digest']}" in verified.stdout


def test_masks_keep_every_length_and_reach_every_text():
    mask = mask_of(["é+", "b"])
    assert mask("aééb\n") == "axxx\n"
    assert mask_value({"b": ["b", {"b": ("b", 1, None, True)}]}, mask) == {"x": ["x", {"x": ("x", 1, None, True)}]}


@pytest.mark.parametrize("story", STORIES)
def test_whatever_word_is_replaced_the_copy_follows_from_the_rules_or_there_is_none(story: str):
    events = STORIES[story]().events
    originals = [Record(number, 1.0, event) for number, event in enumerate(events, 1)]
    said = "".join(msgspec.json.encode(event).decode() for event in events[1:])
    copies = 0
    for word in sorted(set(re.findall(r"[a-z_]{2,}", said)))[:: 1 if CAMPAIGN else 5]:
        mask = mask_of([word])
        try:
            copy = list(redact(originals, mask, Redaction("d", (1,)), lambda: "d"))
        except UsageError:
            continue
        try:
            found = verify(copy)
        except RulesDiffer:  # an answer no longer fits its question; the command refuses with a message
            continue
        copies += 1
        assert found.events == len(originals)
        assert [type(record.event) for record in copy] == [type(event) for event in events]
        for record in copy:
            if isinstance(record.event, ToolReturned | ModelReplied):
                assert mask_value(record.event, mask) == record.event
    assert copies > (20 if CAMPAIGN else 0)
