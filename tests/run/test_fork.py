"""A fork continues from another run's state: unchanged parts are identical to the byte, and no files are copied."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from stackmem import RulesDiffer, TraceError, UsageError, open_run, replay
from stackmem.core.facts import CallRejected, FramePopped, ModelReplied, Redaction, RunEnded, RunForked, ToolReturned
from stackmem.review.replays.live import replay_live
from stackmem.run.fork import ForkChanges, Forked, fork, read_changes
from tests.stage import SOLVED, TASKS, Stage, call, command, events, fails, mounted, pop, push, rechain, records

CHECK = '[ "$(cat made)" = two ] && ' + SOLVED


def step(number: int) -> dict:
    return command(f"echo {number} >> log; echo {'two' if number > 1 else 'one'} > made")


def forked(run: str | Path, at: int, **changes) -> Forked:
    return fork(Path(run), at, ForkChanges(**changes), os.environ)


def digests(run: str | Path) -> list[str]:
    return [record.event.prompt_digest for record in open_run(run).records() if isinstance(record.event, ModelReplied)]


def files(run: str | Path, at: int) -> dict[str, bytes]:
    there = open_run(run).files_at(at)
    return {path: there[path] for path in there}


@pytest.fixture
def story(stage: Stage):
    """Alloc, push, two commands, pop, one command, pop: with frames open in the middle."""
    return stage.task(
        call("heap_alloc", name="spec", content="as it was", description="what is wanted"),
        push(), step(1), step(2), pop("Inner."), step(3), pop("Outer."),
        test=CHECK, files={"kept.txt": "from the start\n"},
    )  # fmt: skip


@mounted
@pytest.mark.parametrize("at", range(7))
def test_without_a_change_every_prompt_and_every_file_is_as_in_the_other_run(stage: Stage, story, at):
    result = stage.solve(story)
    before = (Path(result.run_dir) / "trace.jsonl").read_bytes()
    child = forked(result.run_dir, at).result
    assert (child.outcome, child.steps, child.frames) == ("solved", 7, 1)
    assert digests(child.run_dir) == digests(result.run_dir)
    assert files(child.run_dir, 7) == files(result.run_dir, 7)
    assert replay(child.run_dir).prompts == 7
    assert (Path(result.run_dir) / "trace.jsonl").read_bytes() == before
    assert child.workspace != result.workspace


def test_the_child_names_its_parent_the_cut_and_its_digest(stage: Stage, story):
    result = stage.solve(story)
    child = forked(result.run_dir, 3).result
    first = events(child.run_dir)[0]
    assert isinstance(first, RunForked)
    moment = open_run(result.run_dir).moment(3)
    assert (first.parent, first.at, first.digest) == (result.run, moment.at, moment.digest)
    assert sum(isinstance(event, ModelReplied) for event in events(child.run_dir)) == 4


def test_no_object_that_the_parent_holds_is_copied(stage: Stage, story):
    def objects(run: str) -> set[str]:
        return {path.name for path in (Path(run) / "history.git" / "objects").glob("??/*")}

    result = stage.solve(story)
    child = forked(result.run_dir, 2).result
    assert objects(result.run_dir)
    assert objects(result.run_dir) & objects(child.run_dir) == set()


def test_a_chunk_is_set_and_dropped_and_the_next_prompt_tells_of_it(stage: Stage, story):
    result = stage.solve(story)
    child = open_run(forked(result.run_dir, 5, chunks={"more": "new", "spec": "other"}).result.run_dir)
    assert {name: chunk.content for name, chunk in child.heap_at(5).chunks.items()} == {"spec": "other", "more": "new"}
    assert child.heap_at(5).chunks["spec"].description == "what is wanted"
    assert "- more | 3 chars" in str(list(child.prompt(6).messages)[-1])
    dropped = open_run(forked(result.run_dir, 5, dropped=("spec",)).result.run_dir)
    assert dropped.heap_at(5).chunks == {}
    assert replay(child.folder).outcome == replay(dropped.folder).outcome == "solved"


def test_another_strategy_goes_on_where_only_the_root_is_open(stage: Stage, story):
    result = stage.solve(story)
    child = forked(result.run_dir, 5, strategy="full").result
    assert (child.outcome, child.strategy) == ("solved", "full")
    assert [tool.name for tool in open_run(child.run_dir).prompt(6).tools] == [
        "read_file", "write_file", "list_files", "run_command", "pop_frame",
    ]  # fmt: skip
    assert replay(child.run_dir).prompts == 7
    with pytest.raises(UsageError, match=r"at step 3 the frames 'child' are open, but the strategy full has no frames"):
        forked(result.run_dir, 3, strategy="full")


@pytest.mark.parametrize("place", ["delta", "tail", "system"])
def test_another_place_of_the_index_goes_on_within_a_frame(stage: Stage, story, place):
    result = stage.solve(story)
    child = forked(result.run_dir, 3, strategy=f"stackheap:index={place}").result
    assert (child.outcome, replay(child.run_dir).prompts) == ("solved", 7)


def test_another_model_answers_from_there_on(stage: Stage, story):
    result = stage.solve(story)
    script = stage.script(*[pop("never asked")] * 5, command("echo two > made; echo mine > mine"), pop("Mine."))
    child = forked(result.run_dir, 5, model=script).result
    assert (child.model, child.result) == (script, "Mine.")
    assert files(child.run_dir, 7)["mine"] == b"mine\n"
    assert replay(child.run_dir).outcome == "solved"


def test_another_prompt_holds_from_there_on_without_what_is_secret(stage: Stage, story):
    prompt = stage.root / "prompt.md"
    prompt.write_text("Use {{heap_chars}} characters. sk-ant-abcdefghijklmnopqrstuvwx", encoding="utf-8")
    result = stage.solve(story)
    child = open_run(forked(result.run_dir, 2, prompt=prompt).result.run_dir)
    assert child.prompt(3).system == "Use 10,000 characters. [secret ANTHROPIC_KEY]"
    assert child.prompt(2).system == open_run(result.run_dir).prompt(2).system


def test_a_limit_is_raised_and_one_that_is_used_up_is_named(stage: Stage, story):
    result = stage.solve(story, max_steps=3)
    assert result.ending == "limit:steps"
    with pytest.raises(UsageError, match=r"at step 3 the run had used up its limit of steps; raise it"):
        forked(result.run_dir, 3)
    child = forked(result.run_dir, 3, limits={"max_steps": "+10"}).result
    assert (child.outcome, child.steps) == ("solved", 7)
    assert not [event for event in open_run(child.run_dir).records() if event.event == RunEnded("limit:steps", "")]
    assert open_run(child.run_dir).state.limits.steps == 13
    assert replay(child.run_dir).outcome == "solved"


def test_a_fork_of_a_fork_may_be_cut_in_either_part(stage: Stage, story):
    result = stage.solve(story)
    middle = forked(result.run_dir, 4, chunks={"more": "new"}).result
    for at in (2, 4, 6):
        last = forked(middle.run_dir, at).result
        assert (last.outcome, replay(last.run_dir).prompts) == ("solved", 7)
        assert ("more" in open_run(last.run_dir).heap_at(6).chunks) == (at >= 4)
        assert files(last.run_dir, 7) == files(result.run_dir, 7)


def test_a_call_that_a_killed_run_left_unanswered_is_made_again(stage: Stage, story):
    result = stage.solve(story)
    trace = Path(result.run_dir) / "trace.jsonl"
    lines = trace.read_bytes().splitlines(keepends=True)
    place = next(index for index, event in enumerate(events(result.run_dir)) if isinstance(event, ToolReturned))
    trace.write_bytes(b"".join(lines[:place]))
    child = forked(result.run_dir, 3).result
    assert child.outcome == "solved"
    assert files(child.run_dir, 7)["log"] == b"1\n2\n3\n"
    assert replay(child.run_dir).prompts == 7


def test_a_failed_request_is_repeated(stage: Stage):
    result = stage.solve(stage.task(command("echo two > made"), fails("disconnect"), test=CHECK))
    assert result.ending == "model_error"
    child = forked(result.run_dir, 1, model=stage.script(pop("no"), pop("Done."))).result
    assert child.outcome == "solved"


def test_a_missing_or_changed_parent_is_named(stage: Stage, story):
    result = stage.solve(story)
    child = forked(result.run_dir, 3).result
    parent = Path(result.run_dir)
    parent.rename(stage.root / "moved")
    with pytest.raises(TraceError, match=f"forked from {result.run}, which is not in"):
        replay(child.run_dir)
    (stage.root / "moved").rename(parent)
    lines = (parent / "trace.jsonl").read_bytes().splitlines(keepends=True)
    (parent / "trace.jsonl").write_bytes(b"".join(lines[:2]))
    with pytest.raises(TraceError, match=f"forked from {result.run} at record"):
        replay(child.run_dir)


def test_a_run_that_kept_no_files_or_has_lost_them_is_not_gone_on_from(stage: Stage, story):
    result = stage.solve(story)
    (Path(result.run_dir) / "history.git").rename(stage.root / "history")
    with pytest.raises(TraceError, match="lacks"):
        forked(result.run_dir, 3)
    assert len(list(stage.runs.iterdir())) == len(list(stage.work.iterdir())) == 1


@pytest.mark.parametrize(
    ("at", "changes", "says"),
    [
        (7, {}, "the run had already ended"),
        (8, {}, "has no step 8"),
        (-1, {}, "has no step -1"),
        (2, {"model": "nonsense"}, "no model 'nonsense'"),
        (2, {"strategy": "stak"}, "no strategy 'stak'"),
        (2, {"dropped": ("spek",)}, "unknown chunk 'spek'; nearest: spec"),
        (2, {"chunks": {"a b": "x"}}, "is not a valid name"),
        (2, {"chunks": {"big": "x" * 10_001}}, "the heap has 9 of 10,000 characters"),
        (2, {"chunks": {"empty": ""}}, "is empty"),
        (5, {"chunks": {"more": "x"}, "strategy": "full"}, "the strategy full has no heap"),
        (2, {"limits": {"max_steps": "few"}}, "--max-steps"),
        (2, {"limits": {"max_steps": "2"}}, "used up its limit of steps"),
        (2, {"limits": {"max_tokens": "+5"}}, "the run has no limit of tokens"),
        (2, {"prompt": Path("nowhere.md")}, "cannot be read"),
        (2, {"isolation": "nonsense"}, "nonsense"),
    ],
)
def test_impossible_forks_are_refused_and_leave_no_files(stage: Stage, story, at, changes, says):
    result = stage.solve(story)
    with pytest.raises((UsageError, RulesDiffer), match=says.replace("(", r"\(")):
        forked(result.run_dir, at, **changes)
    assert len(list(stage.runs.iterdir())) == len(list(stage.work.iterdir())) == 1


def test_a_task_that_is_gone_is_named(stage: Stage, story):
    result = stage.solve(story)
    story.rename(stage.root / "away")
    with pytest.raises(UsageError, match="the run's task is missing"):
        forked(result.run_dir, 2)


def test_a_folder_of_ones_own_gets_the_whole_change_from_the_forks_patch(stage: Stage):
    from stackmem.run.ending import apply_run

    folder = stage.root / "project"
    (folder / ".venv").mkdir(parents=True)
    (folder / ".venv" / "pyvenv.cfg").write_text("home = nowhere\n")
    (folder / "a.txt").write_text("a\n")
    script = stage.script(command("echo b >> a.txt"), command("echo c >> a.txt; test -f .venv/pyvenv.cfg"), pop())
    result = stage.solve(folder, "Do it.", model=script)
    again = forked(result.run_dir, 1)
    assert (again.folder, again.missing, again.result.outcome) == (str(folder), (), "finished")
    assert events(again.result.run_dir, ToolReturned)[0].exit_code == 0
    apply_run(Path(again.result.run_dir))
    assert (folder / "a.txt").read_text() == "a\nb\nc\n"


@mounted
def test_todays_settings_change_nothing(stage: Stage, story):
    result = stage.solve(story, depth=2, heap_chars=500)
    os.environ["STACKMEM_HEAP_CHARS"] = "600"
    try:
        child = forked(result.run_dir, 4).result
    finally:
        del os.environ["STACKMEM_HEAP_CHARS"]
    assert open_run(child.run_dir).state.begun.budgets == open_run(result.run_dir).start.budgets
    assert digests(child.run_dir) == digests(result.run_dir)


def test_changes_are_read_as_flags_spell_them(tmp_path):
    (tmp_path / "file.txt").write_text("from a file", encoding="utf-8")
    flags = {"strategy": "full", "window_tokens": "5_000", "prompt": "p.md", "max_steps": "+5", "model": None}
    read = read_changes(flags, ["heap.a=text=with=signs", "heap.b=@file.txt"], ["heap.c", "heap.c"], tmp_path)
    assert read == ForkChanges(
        strategy="full", window_tokens=5_000, prompt=tmp_path / "p.md",
        chunks={"a": "text=with=signs", "b": "from a file"}, dropped=("c",),
        limits={"max_steps": "+5", "max_usd": None, "max_tokens": None, "max_seconds": None},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sets", "drops", "says"),
    [
        (["heap.a"], [], "is not a chunk"),
        (["a=b"], [], "is not a chunk"),
        (["heap.a=1", "heap.a=2"], [], "given twice"),
        (["heap.a=@nowhere"], [], "cannot be read as text"),
        (["heap.a=@"], [], "cannot be read as text"),
        (["heap.a=@bin"], [], "cannot be read as text"),
        ([], ["a"], "is not a chunk"),
    ],
)
def test_a_change_that_is_none_is_named(tmp_path, sets, drops, says):
    (tmp_path / "bin").write_bytes(b"\xff")
    with pytest.raises(UsageError, match=says):
        read_changes({}, sets, drops, tmp_path)


@pytest.mark.parametrize("doing", ["forked", "executed again"])
def test_a_copy_with_other_words_than_were_said_is_not_gone_on_from(stage: Stage, story, doing):
    result = stage.solve(story)
    kept = records(result.run_dir)
    for change, why in (
        ({"version": "imported from somewhere"}, "imported from somewhere"),
        ({"redacted": Redaction("0" * 64, ())}, "redacted copy"),
    ):
        first = replace(kept[0], event=replace(kept[0].event, **change))
        rechain(Path(result.run_dir) / "trace.jsonl", [first, *kept[1:]])
        with pytest.raises(UsageError, match=why) as raised:
            forked(result.run_dir, 2) if doing == "forked" else replay_live(open_run(result.run_dir), os.environ)
        assert doing in str(raised.value)
    assert len(list(stage.runs.iterdir())) == len(list(stage.work.iterdir())) == 1


@pytest.mark.campaign
@pytest.mark.parametrize("place", ["on_change", "delta", "tail", "system"])
def test_the_calculator_is_solved_from_each_of_its_steps(stage: Stage, place):
    result = stage.solve(TASKS / "calculator", strategy=f"stackheap:index={place}")
    for at in range(result.steps):
        child = forked(result.run_dir, at).result
        sent = digests(result.run_dir)[: at + 1]  # later ones contain pytest's output, including its time
        assert (child.outcome, digests(child.run_dir)[: at + 1]) == ("solved", sent)
        changed = forked(child.run_dir, at, chunks={"more": "x"}).result
        assert (changed.outcome, replay(changed.run_dir).prompts) == ("solved", result.steps)


def test_a_run_without_isolation_is_forked_into_another_place_and_verified(stage: Stage, story):
    result = stage.solve(story, isolation="none")
    child = forked(result.run_dir, 3).result
    assert (child.outcome, child.isolation, replay(child.run_dir).prompts) == ("solved", "none", 7)
    assert open_run(child.run_dir).state.begun.workspace == child.workspace
    assert open_run(child.run_dir).state.begun.thinking == "dropped"


@mounted
def test_checkpoints_are_recorded_replayed_and_switched_off_by_a_fork(stage: Stage):
    found = command("echo 42")
    task = stage.task(push(), found, pop("Inner."), pop("Inner."), pop("Outer."), test="true")
    result = stage.solve(task, strategy="stackheap", checkpoints="on")
    codes = [event.code for event in events(result.run_dir, CallRejected)]
    assert codes == ["checkpoint"]
    assert replay(result.run_dir).prompts == 5
    assert next(event.checkpoint for event in events(result.run_dir, FramePopped)) == "unchanged"
    same = forked(result.run_dir, 1)
    assert open_run(same.result.run_dir).start.checkpoints == "on"
    off = forked(result.run_dir, 1, checkpoints="off")
    assert replay(off.result.run_dir).prompts == 4
