"""Standing words that outlive a conversation, in a file next to the kept heap of the folder."""

import threading
from pathlib import Path

import pytest

from stackmem.core.budgets import Budgets
from stackmem.core.conversation.standing import TOTAL_CHARS, StandingChange, active, add, remove
from stackmem.core.errors import UsageError
from stackmem.core.heap import Heap, KeptChunk, KeptWords
from stackmem.core.memory_directory import Directory
from stackmem.run.companion.kept_heap import HeapChange, HeapKeeper, HeapStore, all_heaps
from stackmem.trace.open_run import Run
from tests.run.people import Scripted, replayed, talk
from tests.stage import Stage, call


def keeper(place: Path, scrub=str) -> HeapKeeper:
    return HeapKeeper(HeapStore(place / "a.jsonl", ""), scrub)


def entry(changes, text: str, **more):
    return add(changes, StandingChange(0, 0, 0, text, **more)).changes


def texts(place: Path) -> list[str]:
    return [kept.text for kept in keeper(place).kept_words()]


def test_entries_are_kept_in_their_order_with_their_kind_and_without_secrets(tmp_path: Path):
    one = keeper(tmp_path, lambda text: text.replace("hunter2", "***"))
    one.begin(Heap(), Directory(), (), "run")
    words = entry(entry((), "use tabs"), "log in with hunter2", kind="preference")
    one.follow_words(words)
    assert keeper(tmp_path).kept_words() == (KeptWords("use tabs"), KeptWords("log in with ***", "preference"))
    assert keeper(tmp_path).taken_over(Budgets(), str).chunks == ()


def test_a_removed_or_replaced_entry_is_gone_in_the_next_conversation(tmp_path: Path):
    one = keeper(tmp_path)
    words = entry(entry((), "use tabs"), "write in German")
    one.follow_words(words)
    words = remove(words, 1, 0).changes
    one.follow_words(words)
    assert texts(tmp_path) == ["write in German"]
    one.follow_words(entry(words, "write in English", replaces=2))
    assert texts(tmp_path) == ["write in English"]


def test_two_conversations_at_once_lose_nothing(tmp_path: Path):
    def converse(name: str) -> None:
        own, words = keeper(tmp_path), ()
        for number in range(30):
            words = entry(words, f"rule {number} of {name}")
            own.follow_words(words)
        own.follow_words(remove(words, 1, 0).changes)

    threads = [threading.Thread(target=converse, args=(name,)) for name in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(texts(tmp_path)) == sorted(
        f"rule {n} of {name}" for n in range(1, 30) for name in ("one", "two", "three")
    )


def test_the_newest_that_fit_are_taken_over(tmp_path: Path):
    store = HeapStore(tmp_path / "a.jsonl.words", "")
    chunks = [KeptChunk(f"{number}", f"{number} " * 60, "odd") for number in range(100)]
    store.write([HeapChange(chunk.name, 1.0, chunk) for chunk in chunks])
    kept = keeper(tmp_path).kept_words()
    assert kept[-1] == KeptWords("99 " * 60)
    assert 20 < len(kept) < 100
    assert sum(len(each.text) for each in kept) < TOTAL_CHARS


def test_a_damaged_file_is_reported(tmp_path: Path):
    (tmp_path / "a.jsonl.words").write_text("nonsense\n\n")
    with pytest.raises(UsageError, match=r"line 1 of .*a\.jsonl\.words is not valid"):
        texts(tmp_path)


def test_the_file_is_no_heap_and_is_removed_with_it(tmp_path: Path):
    place = tmp_path / "stackmem" / "heaps"
    place.mkdir(parents=True)
    keeper(place).follow_words(entry((), "use tabs"))
    assert all_heaps({"XDG_STATE_HOME": str(tmp_path)}) == []
    HeapStore(place / "a.jsonl", "").remove()
    assert texts(place) == []


def test_the_next_conversation_about_the_folder_begins_with_them(stage: Stage):
    heap = str(stage.root / "kept.jsonl")
    talk(stage, Scripted("# use tabs", "Go."), stage.script({"text": "Done."}), heap=heap)
    result = talk(stage, Scripted("Go on.", "/forget 1"), stage.script({"text": "Done."}), heap=heap)
    state = Run(Path(result.run_dir)).state
    assert "STANDING R1, rule from an earlier conversation: use tabs" in state.popped[0].frame.context
    assert active(state.session.standing) == {}
    assert replayed(result) == 1
    third = talk(stage, Scripted("Go on."), stage.script({"text": "Done."}), heap=heap)
    assert Run(Path(third.run_dir)).state.session.standing == ()


def test_a_chunk_that_the_agent_stores_under_any_name_is_no_entry(stage: Stage):
    heap = str(stage.root / "kept.jsonl")
    stores = [call("heap_alloc", name=name, content="push with force") for name in ("kept.jsonl.words", "standing/R1")]
    talk(stage, Scripted("Go."), stage.script(*stores, {"text": "Done."}), heap=heap)
    result = talk(stage, Scripted("Go on."), stage.script({"text": "Done."}), heap=heap)
    assert Run(Path(result.run_dir)).state.session.standing == ()
