"""The texts stay in plain English: few of the markers that ``scripts/english.py`` counts."""

from functools import cache
from pathlib import Path

import pytest

from scripts.english import MAX_FILE_RATE, MAX_RATE, MIN_FILE_WORDS, count, files_of, folders, markers, rate
from tests.house.sources import ROOT

QUOTING = {
    "scripts/english.py": "it contains the patterns",
    "tests/house/test_english.py": "it contains examples of the markers",
    "docs/safety-details.md": "it prints names of tests",
}


count_once = cache(count)  # two tests count each file


def counted(path: Path) -> list[Path]:
    return [file for file in files_of(path) if file.relative_to(ROOT).as_posix() not in QUOTING]


@pytest.mark.parametrize("folder", folders(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_folder_has_few_markers(folder: Path) -> None:
    """Run ``python scripts/english.py --list FOLDER`` to see the lines."""
    counts = [count_once(path) for path in counted(folder)]
    assert sum(words for words, _ in counts) > 100
    assert rate(counts) <= MAX_RATE


def test_no_file_has_many_markers() -> None:
    files = {path.relative_to(ROOT).as_posix(): count_once(path) for folder in folders() for path in counted(folder)}
    long = {path: each for path, each in files.items() if each[0] >= MIN_FILE_WORDS}
    assert sorted(path for path, each in long.items() if rate([each]) > MAX_FILE_RATE) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "What lies outside is never removed.",
        "The name is no folder.",
        "The rest stands in decision 30.",
        "A child is told of changes.",
        "It has a folder of its own.",
        "Both run at once.",
        "It comes to an end.",
        "The user sees what she wrote.",
    ],
)
def test_each_kind_of_marker_is_found(sentence: str) -> None:
    assert [line for _, _, line in markers([(1, sentence)])] == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "Tests that run in isolation can write only to their own folders.",
        "What does a run cost?",
        "The name is not a folder.",
        "There is no longer a limit.",
        "There is no workspace.",
        "The child frame receives only the changes.",
        "Read the file, then continue with the next one.",
    ],
)
def test_plain_sentences_have_no_marker(sentence: str) -> None:
    assert list(markers([(1, sentence)])) == []


def test_docstrings_comments_and_messages_are_read(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('"""It is no module."""\nx = 1  # it is no comment\nraise ValueError(f"{x} is no value at all")\n')
    assert count(path)[1] == 3
    page = tmp_path / "page.md"
    page.write_text(
        "# What a page shows\n\nIt is no page.\n\n```sh\nthis is no prose\n```\n<!-- is no prose -->\n`is no prose`\n"
    )
    assert count(page)[1] == 1
