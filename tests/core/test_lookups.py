"""Calls answered from the state: their results and refusals."""

import pytest
from msgspec.structs import replace

from stackmem.core.budgets import Budgets
from stackmem.core.conversation.ranking import excerpts_of_popped
from stackmem.core.facts import CallAnswered, CallRejected
from stackmem.core.heap import index
from stackmem.core.machine import evolve, fold
from stackmem.core.memory_directory import FILES, TOTAL_CHARS
from stackmem.core.state import Compaction
from tests.build import World, alloc, call, do, play, pop, push, reply, started


def notes(*replies, **changes):
    return play(*replies, start=started("notes", **changes))


def memory(*commands):
    return play(*(do("memory", **command) for command in commands), start=started("memory_dir"))


def lossless(*replies, **files):
    return play(*replies, start=started("stackheap_lossless"), world=World(files))


def test_the_fact_has_no_content_and_is_reconstructed_from_the_state():
    played = notes(do("add_note", text="tests run by make"))
    assert played.of(CallAnswered) == [CallAnswered("add_note", len(played.answer))]
    assert "make" not in repr(played.of(CallAnswered))
    assert fold(played.events) == played.state
    assert list(played.state.notes) == ["tests run by make"]


def test_a_list_of_the_heap_is_its_index():
    played = play(alloc("a", description="first"), do("heap_list"), start=started("stackheap:index=listed"))
    assert played.answer == index(played.state.heap, Budgets())


def test_notes_have_the_same_budget_as_the_heap():
    played = notes(do("add_note", text="x" * 6), do("add_note", text="x" * 5), budgets=Budgets(heap_chars=10))
    assert "6 of 10" in played.answer
    assert [event.code for event in played.of(CallRejected)] == ["lookup_refused"]
    assert list(played.state.notes) == ["xxxxxx"]
    assert "empty" in notes(do("add_note", text=" \n")).answer


def test_a_result_is_expanded_whole_by_its_number():
    files = World({"a": "the old text"})
    played = play(
        do("read_file", path="a"), do("list_files"), do("expand", index=1), start=started("expandable"), world=files
    )
    assert played.answer.endswith("the old text")


@pytest.mark.parametrize("number", [-1, 0, 2, 10**30])
def test_a_number_that_no_result_has_is_refused_with_those_there_are(number):
    played = play(do("list_files"), do("expand", index=number), start=started("expandable"))
    assert f"no result has the number {number}; numbers go from 1 to 1" in played.answer


def test_before_any_result_there_is_nothing_to_expand():
    played = play(do("expand", index=1), start=started("expandable"))
    assert "this frame has none yet" in played.answer


def test_a_popped_frame_is_asked_by_its_name_or_its_id():
    played = lossless(
        push(name="looks"),
        do("read_file", path="port.txt"),
        do("read_file", path="other.txt"),
        pop("Looked."),
        do("heap_read", name="frame:looks", query="which port does the server use"),
        do("heap_read", name="frame:frame-1", query="which port does the server use"),
        do("heap_read", name="frame:looks"),
        do("heap_read", name="frame:looks", query="zebra"),
        **{"port.txt": "the server listens on port 8443", "other.txt": "nothing of interest here"},
    )
    by_name, by_id, last, none = (event.chars for event in played.of(CallAnswered))
    assert by_name == by_id
    assert "no passage matches" in played.answer
    texts = [turn.text for turn in played.state.running.turns if hasattr(turn, "call_id")]
    assert "port 8443" in texts[1]
    assert "nothing of interest" not in texts[1]
    assert "nothing of interest" in texts[3]
    assert last > none


def test_excerpts_are_bounded_whatever_a_frame_held():
    played = lossless(
        push(name="big"),
        do("read_file", path="big.txt"),
        pop("Done."),
        do("heap_read", name="frame:big", query="needle"),
        **{"big.txt": "\n".join(f"needle {number} {'x' * 700}" for number in range(200))},
    )
    assert len(played.answer) <= 4_000
    assert "needle" in played.answer


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": "frame:gone"}, "no frame 'gone' has popped; popped: child"),
        ({"name": "frame:child", "start_line": 1}, "start_line and end_line are for chunks"),
        ({"name": "gone"}, "unknown chunk 'gone'"),
    ],
)
def test_a_frame_that_cannot_be_read_is_refused_with_the_way_out(given, told):
    assert told in lossless(push(), pop(), do("heap_read", **given)).answer


def test_a_chunk_is_read_as_ever_where_frames_can_be_read():
    played = lossless(alloc("a", "one\ntwo"), do("heap_read", name="a", start_line=2))
    assert played.answer.endswith("\ntwo")
    assert played.state.heap.chunks["a"].read == 2


def test_a_directory_is_written_changed_viewed_and_emptied():
    played = memory(
        {"command": "view", "path": "/memories"},
        {"command": "create", "path": "/memories/env.md", "file_text": "tests: make\nport: 1\n"},
        {"command": "str_replace", "path": "/memories/env.md", "old_str": "port: 1", "new_str": "port: 8443"},
        {"command": "insert", "path": "/memories/env.md", "insert_line": 0, "insert_text": "# env"},
        {"command": "rename", "old_path": "/memories/env.md", "new_path": "/memories/notes/env.md"},
        {"command": "view", "path": "/memories/notes/env.md"},
    )
    assert played.of(CallRejected) == []
    assert played.state.directory.files == {"/memories/notes/env.md": "# env\ntests: make\nport: 8443\n"}
    assert "     3\tport: 8443" in played.answer
    gone = memory(
        {"command": "create", "path": "/memories/a/b", "file_text": ""},
        {"command": "delete", "path": "/memories/a"},
        {"command": "view", "path": "/memories/"},
    )
    assert gone.state.directory.files == {}
    assert "0 files" in gone.answer


AT = {"command": "create", "path": "/memories/a", "file_text": "one one\ntwo"}


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ({"command": "create", "path": "/memories/a"}, "needs path and file_text; file_text is missing"),
        ({"command": "rename", "path": "/memories/a"}, "needs old_path and new_path"),
        ({"command": "create", "path": "/memories/a", "file_text": ""}, "exists; change it with str_replace"),
        ({"command": "create", "path": "/memories/a/b", "file_text": ""}, "is a file, so nothing can be in it"),
        ({"command": "create", "path": "/memories", "file_text": ""}, "is a folder"),
        ({"command": "create", "path": "/etc/passwd", "file_text": ""}, "is not a path under /memories"),
        ({"command": "create", "path": "/memories/../x", "file_text": ""}, "is not a path under /memories"),
        ({"command": "create", "path": "/memories//x", "file_text": ""}, "is not a path under /memories"),
        ({"command": "create", "path": "/memories/x\n", "file_text": ""}, "plain ones"),
        ({"command": "create", "path": "/memories/" + "x" * 300, "file_text": ""}, "plain ones"),
        ({"command": "create", "path": "/memories/x", "file_text": "x" * (TOTAL_CHARS + 1)}, "maximum is 100,000"),
        ({"command": "str_replace", "path": "/memories/a", "old_str": "one", "new_str": ""}, "occurs 2 times"),
        ({"command": "str_replace", "path": "/memories/a", "old_str": "", "new_str": ""}, "old_str is empty"),
        ({"command": "str_replace", "path": "/memories/b", "old_str": "x", "new_str": ""}, "b does not exist; files: "),
        ({"command": "insert", "path": "/memories/a", "insert_line": 3, "insert_text": ""}, "from 0 to 2"),
        ({"command": "insert", "path": "/memories/b", "insert_line": 0, "insert_text": ""}, "does not exist"),
        ({"command": "delete", "path": "/memories"}, "itself cannot be deleted"),
        ({"command": "delete", "path": "/memories/b"}, "files: /memories/a"),
        ({"command": "rename", "old_path": "/memories", "new_path": "/memories/b"}, "itself cannot be renamed"),
        ({"command": "rename", "old_path": "/memories/b", "new_path": "/memories/c"}, "b does not exist; files: "),
        ({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/a/b"}, "choose a path outside"),
        ({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/a"}, "exists"),
        ({"command": "view", "path": "/memories/b"}, "b does not exist; files: "),
        ({"command": "look", "path": "/memories/a"}, "command must be one of view, create"),
    ],
)
def test_a_command_that_cannot_be_done_changes_nothing_and_says_what_can(command, told):
    played = memory(AT, command)
    assert told in played.answer
    assert len(played.of(CallRejected)) == 1
    assert played.state.directory.files == {"/memories/a": "one one\ntwo"}


def test_a_directory_may_be_filled_to_its_last_character():
    played = memory({"command": "create", "path": "/memories/x", "file_text": "x" * TOTAL_CHARS})
    assert "created /memories/x" in played.answer


def test_a_folder_is_moved_with_all_that_is_in_it_but_not_past_the_longest_path():
    long = "/memories/" + "f" * 60
    deep = {"command": "create", "path": f"{long}/{'g' * 100}", "file_text": "x"}
    moved = memory(deep, {"command": "rename", "old_path": long, "new_path": "/memories/short"})
    assert list(moved.state.directory.files) == ["/memories/short/" + "g" * 100]
    refused = memory(deep, {"command": "rename", "old_path": long, "new_path": "/memories/" + "h" * 150})
    assert "shorten it" in refused.answer


def test_a_file_after_the_last_one_allowed_is_refused():
    made = [{"command": "create", "path": f"/memories/{number}", "file_text": ""} for number in range(FILES + 1)]
    played = memory(*made)
    assert "maximum is 64" in played.answer
    assert len(played.state.directory.files) == FILES


def test_a_line_is_inserted_after_one_that_has_no_end():
    played = memory(AT, {"command": "insert", "path": "/memories/a", "insert_line": 2, "insert_text": "three"})
    assert played.state.directory.files["/memories/a"] == "one one\ntwo\nthree"


def test_a_fact_without_a_call_has_no_effect():
    played = notes(reply(call("list_files")))
    before = played.state
    pending = evolve(before, played.events[1])
    after = evolve(pending, CallAnswered("add_note", 3))
    assert after.pending is None
    assert list(after.notes) == []


def test_search_covers_a_popped_frames_texts_calls_results_and_summaries():
    odd = call("read_file")
    odd = type(odd)(odd.id, odd.name, None, "no json: quagga")
    played = lossless(
        push(name="odd"),
        reply("I think of an okapi.", call("list_files")),
        reply(odd),
        reply("only words about a dugong", stop="end"),
        pop("Done."),
    )
    frame = played.state.popped[0].frame
    summed = frame.turns.append(Compaction("the gist: a narwhal", 2, 3, frame.opened))
    done = replace(played.state.popped[0], frame=replace(frame, turns=summed))
    for word, source in (
        ("okapi", "step 2, said"),
        ("quagga", "step 3, called read_file"),
        ("narwhal", "step 3, summary"),
        ("one JSON object", "step 3, result"),
        ("exactly one", "told"),
    ):
        assert f"--- {source}" in excerpts_of_popped(done, word)


def test_a_folder_is_refused_differently_from_a_missing_path():
    made = {"command": "create", "path": "/memories/a/b", "file_text": "x"}
    for command in (
        {"command": "str_replace", "path": "/memories/a", "old_str": "x", "new_str": "y"},
        {"command": "insert", "path": "/memories", "insert_line": 0, "insert_text": "y"},
    ):
        assert "is a folder; name a file" in memory(made, command).answer
