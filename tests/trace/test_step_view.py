"""One whole step: its exact prompt by part, its reply, and the results."""

import pytest
from msgspec import json
from msgspec.structs import replace

from stackmem import RulesDiffer, UsageError
from stackmem.core.facts import ToolReturned
from stackmem.review.step_view import last_step_of, prompt_parts, view_step
from stackmem.trace.open_run import Run
from stackmem.trace.snapshot import Snapshot, changes
from tests.build import PRICE, alloc, do, play, pop, push, started
from tests.trace.kept import keep, tree


@pytest.fixture
def run(tmp_path) -> Run:
    folder = tmp_path / "a-run"
    before, after = tree(folder, {"a.txt": "one\ntwo\n"}), tree(folder, {"a.txt": "one\n2\n", "b.bin": b"\0"})
    replies = (
        alloc("spec", "the content", description="what is wanted"),
        push(name="first", objective="Do it.", return_spec="All.", constraint="steps=9"),
        do("run_command", command="edit"),
        pop("Done here."),
        push(name="first"),
        pop("Again."),
        pop("All done."),
    )
    events = play(*replies, start=started(tree=before, price=PRICE)).events
    place = next(index for index, event in enumerate(events) if isinstance(event, ToolReturned))
    events[place] = replace(events[place], tree=after)
    return Run(keep(folder, events))


def test_the_prompt_by_part_is_the_whole_prompt_in_its_order(run):
    view = view_step(run, 4)
    sent = run.prompt(4)
    assert [part.label for part in view.prompt][-5:] == [
        "system",
        "message 1, user: text",
        "message 1, user: text",
        "message 2, assistant: call run_command",
        "message 3, user: result",
    ]
    assert [part.label for part in view.prompt[: len(sent.tools)]] == [f"tool {tool.name}" for tool in sent.tools]
    assert view.prompt == prompt_parts(sent)
    assert view.prompt_digest == sent.digest
    assert next(part.text for part in view.prompt if part.label == "system") == sent.system


def test_registers_heap_and_stack_are_as_the_steps_call_left_them(run):
    pushed = view_step(run, 2)
    assert (pushed.frame.id, [frame.id for frame in pushed.stack]) == ("frame-0", ["frame-0", "frame-1"])
    assert (pushed.stack[1].intent, pushed.stack[1].return_spec, pushed.stack[1].constraint) == (
        "Do it.", "All.", "steps=9",
    )  # fmt: skip
    (chunk,) = pushed.heap
    assert (chunk.name, chunk.content, chunk.description, chunk.stale) == (
        "spec", "the content", "what is wanted", False,
    )  # fmt: skip
    assert view_step(run, 1).usd == pytest.approx(view_step(run, 2).usd / 2)


def test_files_changed_are_those_of_the_step_with_their_lines(run):
    assert view_step(run, 2).files == ()
    text, binary = view_step(run, 3).files
    assert (text.path, text.kind) == ("a.txt", "modified")
    assert text.diff.splitlines()[:2] == ["--- a/a.txt", "+++ b/a.txt"]
    assert {"-two", "+2"} <= set(text.diff.splitlines())
    assert (binary.kind, binary.diff) == ("added", "(not text: 0 bytes before, 1 after)")


def test_a_history_that_is_gone_costs_the_files_and_nothing_else(run):
    (run.folder / "history.git").rename(run.folder / "elsewhere")
    view = view_step(run, 3)
    assert view.files == ()
    assert "lacks" in view.files_missing
    assert view.prompt


def test_a_frame_is_named_by_its_id_or_by_a_name_of_its_own(run):
    assert last_step_of(run.frames, "frame-1") == 4
    assert last_step_of(run.frames, "root") == 7
    with pytest.raises(UsageError, match=r"2 frames are called 'first'; choose one by its id: frame-1, frame-2"):
        last_step_of(run.frames, "first")
    for frames, told in ((run.frames, r"the run has 3: .*'first'$"), (run.frames * 4, r"the run has 12: .*'root' …$")):
        with pytest.raises(UsageError, match=f"no frame 'second'; {told}"):
            last_step_of(frames, "second")


def test_a_frame_without_a_step_has_nothing_to_show(tmp_path):
    run = Run(keep(tmp_path / "cut", play(push(), start=started()).events))
    with pytest.raises(UsageError, match="has no steps"):
        last_step_of(run.frames, "child")


def test_the_view_is_plain_json(run):
    decoded = json.decode(json.encode(view_step(run, 3)))
    assert decoded["followed"][0]["type"] == "ToolReturned"
    assert decoded["files"][0]["path"] == "a.txt"


@pytest.mark.parametrize("step", [0, 8, -1])
def test_a_step_without_a_prompt_is_refused(run, step):
    with pytest.raises(UsageError):
        view_step(run, step)


def test_a_prompt_that_is_not_proven_to_be_the_one_sent_is_told_as_such(run, tmp_path):
    assert view_step(run, 1).prompt_sent
    first, *others = [record.event for record in run.records()]
    imported = Run(keep(tmp_path / "imported", [replace(first, version="imported from elsewhere"), *others]))
    with pytest.raises(UsageError, match="imported from elsewhere"):
        imported.prompt(1)
    assert view_step(imported, 1).prompt
    other = Run(keep(tmp_path / "other", [replace(first, system="Other words."), *others]))
    assert not view_step(other, 1).prompt_sent
    with pytest.raises(RulesDiffer, match="prompt of step 1"):
        other.prompt(1)


def test_a_mode_is_told_where_a_file_has_another_one_and_not_where_it_is_new(tmp_path):
    trees = [tree(tmp_path, files) for files in ({"a": "1"}, {"a!": "1", "b!": "2"})]
    old, new = (Snapshot(tmp_path / "history.git", one) for one in trees)
    assert [change.diff.splitlines()[0] for change in changes(old, new)] == ["mode 100644 -> 100755", "--- /dev/null"]
