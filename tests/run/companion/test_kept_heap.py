"""The file of chunks that outlive their runs: its content, even if its writers crash."""

import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from stackmem.core.budgets import Budgets
from stackmem.core.errors import TraceError, UsageError, WorkspaceError
from stackmem.core.heap import Heap, KeptChunk, taken_over
from stackmem.core.memory_directory import Directory
from stackmem.core.tools import StoreEntry
from stackmem.history.origin import Origin
from stackmem.run.companion import kept_heap
from stackmem.run.companion.kept_heap import HeapChange, HeapKeeper, HeapStore, all_heaps, heap_store


def change(name: str, content: str | None = "x", written: float = 1.0) -> HeapChange:
    return HeapChange(name, written, None if content is None else KeptChunk(name, content))


def contents(store: HeapStore) -> dict[str, str]:
    return {name: one.chunk.content for name, one in store.read().items() if one.chunk}


def test_the_last_word_on_a_chunk_holds_and_a_freed_one_is_gone(tmp_path: Path) -> None:
    store = HeapStore(tmp_path / "heaps" / "a.jsonl", "/somewhere")
    assert store.read() == {}
    store.write([change("a", "1"), change("b", "1")])
    store.write([change("a", "2"), change("b", None)])
    assert contents(store) == {"a": "2"}
    assert HeapStore(store.path, "").read() == store.read()
    assert store.folder == "/somewhere"
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert store.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_torn_line_is_none_and_the_next_write_is_whole(tmp_path: Path) -> None:
    store = HeapStore(tmp_path / "a.jsonl", "")
    store.write([change("a")])
    with store.path.open("ab") as file:
        file.write(b'{"name":"b","written":1,"chu')
    assert contents(store) == {"a": "x"}
    store.write([change("c")])
    assert contents(store) == {"a": "x", "c": "x"}


@pytest.mark.parametrize("text", ["no json\n", "{}\n", '{"folder":""}\n[]\n', '{"folder":""}\n{"name":1}\n'])
def test_a_file_that_is_none_of_ours_is_refused_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="is not valid"):
        HeapStore(path, "").read()
    assert path.read_text("utf-8") == text


def test_writers_side_by_side_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"

    def write(name: str) -> None:
        for number in range(50):
            HeapStore(path, "").write([change(f"{name}{number}")])

    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]  # each write takes its own lock
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(100)
    assert set(contents(HeapStore(path, ""))) == {f"{name}{number}" for name in "abc" for number in range(50)}


def test_the_oldest_go_beyond_the_bounds_and_the_file_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_heap, "MAX_CHARS", 1_000)
    monkeypatch.setattr(kept_heap, "_COMPACTED_BYTES", 5_000)
    store = HeapStore(tmp_path / "a.jsonl", "/somewhere")
    for number in range(100):
        store.write([change(f"c{number}", "x" * 100)])
        assert store.path.stat().st_size <= 6_000
    assert list(contents(store)) == [f"c{number}" for number in range(90, 100)]
    assert HeapStore(store.path, "").read() == store.read()


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    store = HeapStore(tmp_path / "file" / "a.jsonl", "")
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(TraceError, match="cannot be written"):
        store.write([change("a")])


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TraceError, match="cannot be written"):
        HeapStore(tmp_path / "a.jsonl", "").write([change("a")])
    assert not (tmp_path / "elsewhere").exists()


def test_the_newest_that_fit_the_budgets_are_taken_over_with_what_became_of_their_sources(tmp_path: Path) -> None:
    store = HeapStore(tmp_path / "a.jsonl", "")
    store.write([change("old", "x" * 60), HeapChange("new", 2.0, KeptChunk("new", "y" * 50, "", "spec.md", "then"))])
    store.write([change("a bad name"), change("big", "z" * 101)])
    kept = HeapKeeper(store, str).taken_over(Budgets(heap_chars=100), lambda _: "now")
    assert [chunk.name for chunk in kept.chunks] == ["new"]
    assert (kept.left_out, kept.digests) == (3, (("spec.md", "now"),))
    heap = taken_over(kept)
    assert heap.stale(heap.chunks["new"])


def test_only_what_a_run_changes_is_written(tmp_path: Path) -> None:
    store = HeapStore(tmp_path / "a.jsonl", "")
    keeper = HeapKeeper(store, lambda text: text.replace("secret", "***"))
    before = Heap().put(StoreEntry("a", "1"), 1, "")
    files = Directory()
    keeper.begin(before, files, (), "run")
    keeper.follow(before.mark_read("a", 2), files)
    assert not store.path.exists()
    after = before.put(StoreEntry("b", "a secret"), 2, "").put(StoreEntry("a", "2"), 3, "").without("b")
    keeper.follow(before.put(StoreEntry("b", "a secret"), 2, ""), files)
    assert contents(store) == {"b": "a ***"}
    keeper.follow(after, files)
    assert contents(store) == {"a": "2"}
    keeper.follow(after, Directory({"/memories/a": "a secret"}))
    assert contents(store) == {"a": "2", "file:/memories/a": "a ***"}
    assert keeper.kept_files() == (("/memories/a", "a ***"),)
    keeper.follow(after, files)
    assert contents(store) == {"a": "2"}
    assert [one.by for one in store.read().values()] == ["run"]


def git(place: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, *words], cwd=place, check=True, capture_output=True)


def committed(place: Path, text: str) -> Path:
    place.mkdir(parents=True)
    git(place, "init", "-q")
    git(place, "commit", "-q", "--allow-empty", "-m", text)
    return place


def test_another_repository_at_the_same_path_does_not_get_the_heap(tmp_path: Path) -> None:
    environ, place = {"XDG_STATE_HOME": str(tmp_path / "state")}, tmp_path / "place"

    def store() -> HeapStore:
        return heap_store("keep", place, tmp_path, environ)

    committed(place, "first")
    store().write([change("a", "mine")])
    git(place, "commit", "-q", "--allow-empty", "-m", "second")
    assert contents(store()) == {"a": "mine"}
    place.rename(tmp_path / "away")
    committed(place, "another")
    assert contents(store()) == {}
    store().write([change("a", "theirs")])
    shutil.rmtree(place)
    place.mkdir()  # without git
    assert contents(store()) == {}
    place.rmdir()
    (tmp_path / "away").rename(place)
    assert contents(store()) == {"a": "mine"}
    assert contents(heap_store("keep", committed(tmp_path / "new", "first"), tmp_path, environ)) == {}


def test_a_heap_that_was_kept_for_the_path_goes_to_the_repository_there_and_nothing_is_lost(tmp_path: Path) -> None:
    environ, place = {"XDG_STATE_HOME": str(tmp_path / "state")}, tmp_path / "place"
    place.mkdir()
    older = heap_store("keep", place, tmp_path, environ)
    older.write([change("a", "old"), change("b", "old")])
    kept = older.path.read_bytes()
    git(place, "init", "-q")
    assert heap_store("keep", place, tmp_path, environ).path == older.path  # no commit yet
    git(place, "commit", "-q", "--allow-empty", "-m", "first")
    found = heap_store("keep", place, tmp_path, environ)
    assert (found.path.read_bytes(), older.path.exists()) == (kept, False)
    assert len(all_heaps(environ)) == 1
    shutil.rmtree(place)
    committed(place, "another")
    assert contents(heap_store("keep", place, tmp_path, environ)) == {}


def test_each_folder_has_a_heap_of_its_own(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    for name in ("one/same", "two/same"):
        (tmp_path / name).mkdir(parents=True)
        heap_store("keep", tmp_path / name, tmp_path, environ).write([change("a", name)])
    assert [contents(store) for store in all_heaps(environ)] == [{"a": "one/same"}, {"a": "two/same"}]
    assert heap_store("my.jsonl", None, tmp_path, environ).path == tmp_path / "my.jsonl"
    with pytest.raises(UsageError, match="this is a task"):
        heap_store("keep", None, tmp_path, environ)
    with pytest.raises(UsageError, match="neither XDG_STATE_HOME nor HOME"):
        heap_store("keep", tmp_path, tmp_path, {})


def test_the_history_is_walked_once_and_later_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ, place = {"XDG_STATE_HOME": str(tmp_path / "state")}, committed(tmp_path / "place", "first")
    asked: list[tuple[str, ...]] = []
    ask = Origin.ask
    monkeypatch.setattr(Origin, "ask", lambda self, *words, **more: asked.append(words) or ask(self, *words, **more))

    def walks() -> list[tuple[str, ...]]:
        asked.clear()
        paths.append(heap_store("keep", place, tmp_path, environ).path)
        return [words for words in asked if words[0] == "rev-list"]

    paths: list[Path] = []
    assert len(walks()) == 1
    assert walks() == []
    git(place, "commit", "-q", "--allow-empty", "-m", "second")
    (walk,) = walks()
    assert walk[-1].startswith("^")
    assert walks() == []
    git(place, "checkout", "-q", "--orphan", "other")
    git(place, "commit", "-q", "--allow-empty", "-m", "unrelated")
    walks()
    assert paths[0] == paths[1] == paths[2] == paths[3] != paths[4]
    for known in (tmp_path / "state" / "stackmem" / "heaps").glob("*.first"):
        known.write_text("{")
    assert len(walks()) == 1
    assert paths[5] == paths[4]


def test_a_first_commit_that_git_does_not_find_is_a_sentence_and_gives_the_heap_to_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environ, place = {"XDG_STATE_HOME": str(tmp_path / "state")}, tmp_path / "place"
    place.mkdir()
    of_path = heap_store("keep", place, tmp_path, environ)
    of_path.write([change("p", "of the path")])
    place.rmdir()
    committed(place, "first")
    ask = Origin.ask

    def slow(self: Origin, *words: str, **more: float) -> bytes:
        if words[0] == "rev-list":
            raise WorkspaceError("git took more than 120 s")
        return ask(self, *words, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Origin, "ask", slow)
        store = heap_store("keep", place, tmp_path, environ)
        assert (contents(store), of_path.path.exists()) == ({}, True)
        store.write([change("a", "mine")])
        assert contents(heap_store("keep", place, tmp_path, environ)) == {"a": "mine"}
        told = capsys.readouterr().err
        assert "git cannot find the first commit" in told
        assert "--heap FILE" in told
        shutil.rmtree(place)
        committed(place, "another")
        assert contents(heap_store("keep", place, tmp_path, environ)) == {}
    assert "a" not in contents(heap_store("keep", place, tmp_path, environ))
