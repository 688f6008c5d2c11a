"""Standing words in the file of a folder: two conversations in parallel, a killed writer, and very many entries."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from stackmem.core.conversation.standing import TOTAL_CHARS, StandingChange, add, block
from stackmem.core.heap import Heap
from stackmem.core.memory_directory import Directory
from stackmem.run.companion.kept_heap import HeapKeeper, HeapStore
from tests.stage import ROOT

_WRITER = """
import sys
from pathlib import Path
from stackmem.core.conversation.standing import StandingChange, add, remove
from stackmem.core.heap import Heap
from stackmem.core.memory_directory import Directory
from stackmem.run.companion.kept_heap import HeapKeeper, HeapStore

place, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
keeper = HeapKeeper(HeapStore(place, ""), str)
keeper.begin(Heap(), Directory(), (), name)
words = ()
for number in range(count):
    words = add(words, StandingChange(0, 1, 1, f"{name} rule {number}")).changes
    keeper.follow_words(words)
    print(number, flush=True)
"""


def keeper_at(place: Path) -> HeapKeeper:
    keeper = HeapKeeper(HeapStore(place, ""), str)
    keeper.begin(Heap(), Directory(), (), "run")
    return keeper


def writer(place: Path, name: str, count: int) -> subprocess.Popen:
    arguments = [sys.executable, "-c", _WRITER, str(place), name, str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


def texts(place: Path) -> set[str]:
    return {words.text for words in keeper_at(place).kept_words()}


def test_two_conversations_that_write_at_once_lose_nothing(tmp_path: Path):
    place = tmp_path / "heap.jsonl"
    both = [writer(place, name, 30) for name in ("one", "two")]
    assert [process.wait(120) for process in both] == [0, 0]
    assert texts(place) == {f"{name} rule {number}" for name in ("one", "two") for number in range(30)}


def test_what_one_conversation_removes_the_other_does_not_bring_back(tmp_path: Path):
    place = tmp_path / "heap.jsonl"
    first, second = keeper_at(place), keeper_at(place)
    words = add((), StandingChange(0, 1, 1, "use tabs")).changes
    first.follow_words(words)
    second.begin(Heap(), Directory(), words, "second")
    second.follow_words((*words, StandingChange(1, 2)))
    first.follow_words(add(words, StandingChange(0, 2, 2, "no emoji")).changes)
    assert texts(place) == {"no emoji"}


def test_a_killed_writer_leaves_whole_entries(tmp_path: Path):
    place = tmp_path / "heap.jsonl"
    process = writer(place, "one", 100_000)
    assert process.stdout is not None
    written = 0
    for line in process.stdout:
        written = int(line)
        if written >= 10:
            break
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    process.stdout.close()
    assert {f"one rule {number}" for number in range(written + 1)} <= texts(place)


def test_ten_thousand_kept_entries_start_a_conversation_within_the_limit(tmp_path: Path):
    place = tmp_path / "heap.jsonl"
    keeper = keeper_at(place)
    changes = tuple(
        StandingChange(number + 1, 1, 1, f"rule {number}: always use name_{number}") for number in range(10_000)
    )
    keeper.follow_words(changes)
    kept = keeper_at(place).kept_words()
    assert kept[-1].text == "rule 9999: always use name_9999"
    assert 0 < sum(len(words.text) for words in kept) < TOTAL_CHARS
    standing = ()
    for words in kept:
        standing = add(standing, StandingChange(0, 0, 0, words.text, words.kind, earlier=True)).changes
    assert len(block(standing)) <= TOTAL_CHARS
