"""The heap: its budget, names, index, and refusal messages."""

import pytest
from msgspec import json
from msgspec.structs import replace

from stackmem.core.budgets import Budgets
from stackmem.core.facts import CallRejected, ChunkAllocated, ChunkFreed, ChunkRead, ChunkWritten
from stackmem.core.heap import Chunk, Heap, index
from stackmem.core.requests import DigestSources, UseTool
from stackmem.core.tool_schemas import spec
from stackmem.core.tools import HeapLoad
from tests.build import World, alloc, do, play, pop, push, shown_text, started, stored

SMALL = started(budgets=Budgets(heap_chars=100, heap_chunks=3))


def rejected(played):
    """Return the only refusal of a script."""
    (event,) = played.of(CallRejected)
    return event


def test_content_exactly_on_budget_is_stored():
    played = play(alloc("a", "x" * 60), alloc("b", "y" * 40), start=SMALL)
    assert played.state.heap.chars == 100
    assert not played.of(CallRejected)


def test_one_character_over_budget_is_refused_with_used_needed_and_never_read_chunks():
    played = play(alloc("a", "x" * 60), do("heap_read", name="a"), alloc("b", "y"), alloc("c", "z" * 40), start=SMALL)
    reason = rejected(played).reason
    assert "61 of 100 characters" in reason
    assert "40 more" in reason
    assert "never read so far: b" in reason
    assert list(played.state.heap.chunks) == ["a", "b"]


def test_a_write_over_budget_is_refused_and_changes_nothing():
    played = play(alloc("a", "x" * 60), alloc("b", "y" * 40), do("heap_write", name="a", content="z" * 61), start=SMALL)
    assert "1 more" in rejected(played).reason
    assert played.state.heap.chunks["a"].content == "x" * 60


def test_a_write_needs_only_what_it_adds():
    played = play(alloc("a", "x" * 60), alloc("b", "y" * 40), do("heap_write", name="a", content="z" * 60), start=SMALL)
    assert played.state.heap.chunks["a"].content == "z" * 60


def test_the_budget_counts_unicode_code_points():
    assert play(alloc("a", "🙂" * 100), start=SMALL).state.heap.chars == 100
    assert play(alloc("a", "🙂" * 101), start=SMALL).of(CallRejected)


def test_freed_characters_can_be_used_again():
    played = play(alloc("a", "x" * 100), do("heap_free", name="a"), alloc("b", "y" * 100), start=SMALL)
    assert list(played.state.heap.chunks) == ["b"]


def test_a_heap_of_no_characters_refuses_everything():
    played = play(alloc("a", "x"), start=started(budgets=Budgets(heap_chars=0)))
    assert "the heap is empty; store less" in rejected(played).reason


def test_one_chunk_too_many_is_refused_with_the_maximum():
    played = play(alloc("a"), alloc("b"), alloc("c"), alloc("d"), start=started(budgets=Budgets(heap_chunks=3)))
    assert "4 chunks, maximum is 3" in rejected(played).reason


@pytest.mark.parametrize("tool", ["heap_alloc", "heap_write"])
def test_empty_content_is_refused(tool):
    played = play(alloc("a"), do(tool, name="a" if tool == "heap_write" else "b", content=""))
    assert "is empty" in rejected(played).reason


@pytest.mark.parametrize("name", ["a", "Z9_.-/", "dir/file.py", "x" * 64])
def test_a_good_name_is_accepted(name):
    assert play(alloc(name)).of(ChunkAllocated)


@pytest.mark.parametrize("name", ["", " ", "a b", "ä", "x" * 65, "a\n", "a\nb", "x" * 100_000, "a'b"])
def test_any_other_name_is_refused_with_the_accepted_form(name):
    played = play(alloc(name))
    assert "1 to 64 of letters, digits, _ . - /" in rejected(played).reason
    assert len(rejected(played).reason) < 500
    assert not played.state.heap.chunks


def test_alloc_of_an_existing_name_points_to_heap_write():
    played = play(alloc("a"), alloc("a", "other"))
    assert "use heap_write" in rejected(played).reason
    assert played.state.heap.chunks["a"].content == "some content"


@pytest.mark.parametrize("tool", ["heap_read", "heap_write", "heap_free"])
def test_a_missing_name_lists_the_nearest_names(tool):
    more = {"content": "x"} if tool == "heap_write" else {}
    played = play(alloc("spec"), alloc("environment"), do(tool, name="spce", **more))
    assert "nearest: spec" in rejected(played).reason


def test_a_double_free_is_an_error_and_not_silence():
    played = play(alloc("a"), do("heap_free", name="a"), do("heap_free", name="a"))
    assert played.of(ChunkFreed)
    assert "unknown chunk 'a'" in rejected(played).reason


def test_a_freed_chunk_stays_in_the_trace():
    played = play(alloc("a", "precious"), do("heap_free", name="a"))
    assert "precious" in str(played.events)
    assert "a" not in played.state.heap.chunks


@pytest.mark.parametrize("description", ["two\nlines", "tab\there", "bell\a", "\u2028", "\u0085", "a\r"])
def test_a_description_with_control_characters_is_refused(description):
    assert "one plain line" in rejected(play(alloc("a", description=description))).reason


def test_a_description_over_budget_is_refused_with_its_length():
    assert play(alloc("a", description="d" * 200)).of(ChunkAllocated)
    assert "201 chars, maximum is 200" in rejected(play(alloc("a", description="d" * 201))).reason


def test_the_index_tells_name_size_description_and_steps():
    long = "d" * 200
    played = play(alloc("a", "x" * 1_234, description=long), do("heap_read", name="a"), push())
    assert index(played.state.heap, Budgets()).splitlines() == [
        "HEAP INDEX: 1 chunk, 1,234 of 10,000 characters used",
        f"- a | 1,234 chars | {long} | created step 1 | last read step 2",
    ]
    assert "last read never" in shown_text(play(alloc("a")).view)


def test_a_rewritten_chunk_keeps_its_creation_step_and_unnamed_fields():
    world = World({"f.py": "1"})
    played = play(alloc("a", description="what", source="f.py"), do("heap_write", name="a", content="new"), world=world)
    chunk = played.state.heap.chunks["a"]
    assert (chunk.created, chunk.written, chunk.description, chunk.source) == (1, 2, "what", "f.py")


def test_the_largest_index_is_bounded():
    heap = Heap()
    for number in range(64):
        entry = Chunk(f"{number:064}", "x", "d" * 200, 999, 1_000, "s" * 200, "0", 2_000)
        heap = Heap({**heap.chunks, entry.name: entry}, heap.chars + 1, {"s" * 200: "1"})
    assert len(index(heap, Budgets())) < 40_000


def test_a_read_returns_the_content_and_marks_it():
    played = play(alloc("a", "the content"), do("heap_read", name="a"))
    assert played.of(ChunkRead)
    assert played.state.heap.chunks["a"].read == 2
    assert played.answer == "heap 'a', 11 characters, last read step 2\nthe content"


def loading(*replies, **changes):
    start = started(**changes)
    return play(*replies, start=replace(start, tools=(*start.tools, spec(HeapLoad, {}))))


def test_a_load_brings_several_chunks_at_once_each_as_a_read_does():
    files = {"f.py": "1"}
    start = started()
    played = play(
        alloc("a", "one"), alloc("b", "two\n", source="f.py"), alloc("c", "three"),
        do("write_file", path="f.py", content="2"), do("heap_load", names=["b", "a", "b"]),
        start=replace(start, tools=(*start.tools, spec(HeapLoad, {}))), world=World(files),
    )  # fmt: skip
    assert played.answer == (
        "heap 'b', 4 characters, last read step 5; STALE: f.py has changed since this was stored, check it before you "
        "rely on it\ntwo\n\n\nheap 'a', 3 characters, last read step 5\none"
    )
    (event,) = played.of(ChunkRead)
    assert (event.names, event.chars) == (("b", "a"), 7)
    assert [chunk.read for chunk in played.state.heap.chunks.values()] == [5, 5, None]
    assert "HEAP INDEX" not in shown_text(played.view).rpartition("heap 'a', 3")[2], "the answer lists its reads"


def test_a_load_of_one_chunk_is_the_fact_of_a_read():
    (event,) = loading(alloc("a", "one"), do("heap_load", names=["a"])).of(ChunkRead)
    assert json.encode(event) == b'{"type":"ChunkRead","name":"a","chars":3}'


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], "names is empty; name the chunks to load"),
        (["a", "ab"], "heap_load refused, nothing was loaded: unknown chunk 'ab'; nearest: b, a"),
        (["b"] * 3 + [f"n{number}" for number in range(5_000)], "unknown chunk 'n0'"),
    ],
)
def test_a_load_that_cannot_be_whole_loads_nothing(names, told):
    played = loading(alloc("a", "one"), alloc("b", "two"), do("heap_load", names=names))
    assert told in rejected(played).reason
    assert len(rejected(played).reason) < 500
    assert not played.of(ChunkRead)
    assert played.state.heap.chunks["a"].read is None


def test_a_load_that_one_result_cannot_show_is_refused():
    played = loading(
        alloc("a", "ü" * 1_000), alloc("b", "y" * 1_000), do("heap_load", names=["a", "b"]),
        do("heap_load", names=["a"]), window_tokens=8_000,
    )  # fmt: skip
    assert "together they have 3,0" in rejected(played).reason
    assert rejected(played).reason.endswith("maximum is 2,500; load fewer in one call")
    assert played.of(ChunkRead)[0].names == ("a",)


def test_a_run_that_was_not_offered_the_load_refuses_it_as_before():
    played = play(alloc("a", "one"), do("heap_load", names=["a"]))
    assert rejected(played).reason.startswith("unknown tool 'heap_load'; the tools are read_file, ")


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [(2, 3, "b\nc\n"), (None, 1, "a\n"), (4, None, "d\x0ce"), (3, 99, "c\nd\x0ce"), (1, 1, "a\n")],
)
def test_a_read_of_lines_counts_from_one_and_includes_both_ends(start, end, text):
    played = play(alloc("a", "a\nb\nc\nd\x0ce"), do("heap_read", name="a", start_line=start, end_line=end))
    assert played.answer.partition("\n")[2] == text


@pytest.mark.parametrize(("start", "end"), [(0, 1), (-1, None), (3, 2), (5, None), (10**30, None)])
def test_lines_that_do_not_exist_are_refused_with_those_that_do(start, end):
    played = play(alloc("a", "a\nb\nc\nd\n"), do("heap_read", name="a", start_line=start, end_line=end))
    assert "ask for lines from 1 to 4" in rejected(played).reason
    assert played.state.heap.chunks["a"].read is None


def test_a_read_is_clipped_to_an_eighth_of_the_window_in_bytes():
    start = started(window_tokens=8_000, budgets=Budgets(heap_chars=100_000))
    played = play(alloc("a", "ü" * 4_000), do("heap_read", name="a"), start=start)
    assert played.state.shown_bytes == 2_500
    shown = played.answer.partition("\n")[2]
    assert len(shown.encode()) <= 2_500
    assert f"{4_000 - shown.count('ü'):,} of 4,000 characters left out" in shown


def test_a_pointer_outlives_the_frame_that_read_it():
    played = play(alloc("a", "deep knowledge"), push(), do("heap_read", name="a"), pop())
    assert "deep knowledge" not in shown_text(played.view).split("-> heap_alloc")[1].split("<-", 1)[1]
    assert "a" in played.state.heap.chunks


def test_store_overwrites_existing_names():
    played = play(alloc("a", "old"), push(store=[stored("a", "new"), stored("b")]))
    assert played.state.heap.chunks["a"].content == "new"
    assert list(played.state.heap.chunks) == ["a", "b"]


@pytest.mark.parametrize(
    "bad",
    [
        [stored("b"), stored("", "x")],
        [stored("b"), stored("c", "")],
        [stored("b"), stored("b")],
        [stored("b"), stored("c", "x" * 20_000)],
        [stored("b"), stored("c", description="\n")],
        [stored("b"), {"name": "c"}],
        [stored("b"), stored("c", source="gone.txt")],
        [stored("b"), "c"],
        [stored("b"), stored("c", extra=1)],
        "b",
        {"name": "b", "content": "x"},
    ],
)
@pytest.mark.parametrize("make", [push, pop])
def test_one_bad_store_entry_refuses_the_whole_call_and_changes_nothing(make, bad):
    played = play(alloc("a"), make(store=bad))
    assert rejected(played)
    assert list(played.state.heap.chunks) == ["a"]
    assert len(played.state.stack) == 1
    assert played.state.end is None


def test_a_store_of_ten_thousand_entries_is_refused_at_once_and_briefly():
    played = play(push(store=[stored(f"n{number}") for number in range(10_000)] + [stored("n1")] * 10_000))
    assert len(rejected(played).reason) <= 8_000


def test_a_source_missing_or_outside_is_refused_at_alloc():
    for source, why in (("gone.txt", "does not exist"), ("../x", "outside the workspace"), ("/etc/passwd", "outside")):
        played = play(alloc("a", source=source))
        assert why in rejected(played).reason
        assert source in rejected(played).reason
        assert not played.state.heap.chunks


def test_a_source_that_could_break_the_index_is_refused_before_it_is_looked_up():
    for source in ("a\nb", "s" * 201):
        played = play(alloc("a", source=source))
        assert rejected(played).code == "heap_refused"
        assert not [effect for effect in played.effects if isinstance(effect, DigestSources)]


def test_a_chunk_is_stale_once_its_source_changed_and_reading_it_says_so():
    world = World({"f.py": "1"})
    played = play(
        alloc("a", source="f.py"), do("run_command", command="2 > f.py"), do("heap_read", name="a"), world=world
    )
    assert "STALE" in index(played.state.heap, Budgets())
    assert "STALE: f.py has changed" in played.answer


def test_every_command_and_write_carries_the_heaps_sources():
    world = World({"f.py": "1"})
    played = play(
        alloc("a", source="f.py"), do("write_file", path="g", content=""), do("run_command", command="ls"), world=world
    )
    assert [effect.sources for effect in played.effects if isinstance(effect, UseTool)] == [("f.py",), ("f.py",)]


def test_heap_write_renews_the_digest_and_clears_the_mark():
    world = World({"f.py": "1"})
    played = play(
        alloc("a", source="f.py"),
        do("write_file", path="f.py", content="2"),
        do("heap_write", name="a", content="about 2"),
        world=world,
    )
    assert "STALE" not in index(played.state.heap, Budgets())
    assert played.of(ChunkWritten)


def test_a_chunk_whose_source_is_gone_can_still_be_rewritten():
    world = World({"f.py": "1"})
    played = play(
        alloc("a", source="f.py"),
        do("run_command", command="rm f.py"),
        do("heap_write", name="a", content="new"),
        world=world,
    )
    assert played.state.heap.chunks["a"].content == "new"
    assert not played.of(CallRejected)


def test_heap_write_that_names_a_missing_source_is_refused():
    played = play(alloc("a"), do("heap_write", name="a", content="x", source="gone.txt"))
    assert "does not exist" in rejected(played).reason


def test_a_source_whose_digest_is_not_known_is_never_stale():
    for digest in ("unknown", "missing", "outside", ""):
        chunk = Chunk("a", "x", "", 1, 1, "f", digest)
        assert not Heap({"a": chunk}, 1, {"f": "abc"}).stale(chunk)
        known = Chunk("a", "x", "", 1, 1, "f", "abc")
        assert not Heap({"a": known}, 1, {"f": digest} if digest else {}).stale(known)


def test_chunks_are_stale_if_verify_changes_their_source():
    world = World({"f.py": "1"}, verify_writes={"f.py": "2"})
    played = play(push(verify="make"), pop(store=[stored("a", source="f.py")]), world=world)
    assert played.state.heap.stale(played.state.heap.chunks["a"])
    assert "STALE" in shown_text(played.view)


def test_a_freed_and_stored_again_source_is_judged_by_its_new_digest():
    world = World({"f.py": "1"})
    played = play(
        alloc("a", source="f.py"),
        do("heap_free", name="a"),
        do("write_file", path="f.py", content="2"),
        alloc("a", source="f.py"),
        world=world,
    )
    assert not played.state.heap.stale(played.state.heap.chunks["a"])
