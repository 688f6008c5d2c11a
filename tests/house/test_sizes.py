"""Limits on the longest files and functions and the fullest folders, which make a codebase hard to read."""

from collections import Counter
from collections.abc import Iterator

from scripts import structure
from tests.house.sources import modules, name

FILE_CAP, FUNCTION_CAP, FOLDER_CAP = 400, 60, 25
# A union that a reader opens as a whole may be longer.
MAY_BE_LONG = {
    "stackmem/core/facts.py": 600,
    "stackmem/languages/python/inside/runner.py": 500,  # the sandbox runs it as one file
}
# Folder to its permitted number of files.
MAY_BE_FULL = {
    "stackmem/core": 30,
}


def length(path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def long_functions(outline: structure.Outline) -> Iterator[str]:
    return (f"{name}: {lines} lines" for name, lines in outline.functions if lines > FUNCTION_CAP)


def test_every_file_stays_under_its_cap():
    lengths = {name(path): length(path) for path in modules()}
    assert {path: lines for path, lines in lengths.items() if lines > MAY_BE_LONG.get(path, FILE_CAP)} == {}


def test_every_function_stays_under_its_cap():
    long = {name(path): list(long_functions(structure.outline(path))) for path in modules()}
    assert {path: functions for path, functions in long.items() if functions} == {}


def test_no_folder_shows_more_files_than_a_reader_takes_in():
    at_one_level = Counter(name(path.parent) for path in modules() if path.name != "__init__.py")
    assert {
        folder: count for folder, count in at_one_level.items() if count > MAY_BE_FULL.get(folder, FOLDER_CAP)
    } == {}
    assert [folder for folder in MAY_BE_FULL if at_one_level[folder] <= FOLDER_CAP] == []


def test_a_long_function_is_seen():
    assert list(long_functions(structure.outline_of("def f():\n" + "    x = 1\n" * FUNCTION_CAP))) == ["f: 61 lines"]
    assert list(long_functions(structure.outline_of("def f():\n" + "    x = 1\n" * (FUNCTION_CAP - 1)))) == []
