"""Files shown to a small model before the first step."""

import pytest

from stackmem.core.budgets import FileShown
from stackmem.run.companion.first_look import MAX_FILE_BYTES, MAX_FILES, MAX_LISTING_CHARS, MAX_TRIES, first_look
from stackmem.workspace.memory import MemoryProgram, MemoryWorkspace


def look(task: str, **files: str):
    program = MemoryProgram("work", lambda *_: ("", 0), ())
    workspace = MemoryWorkspace({name.replace("__", "."): text for name, text in files.items()}, "/work", program)
    return first_look(workspace, task, lambda text: text.replace("s3cret", "[secret]"))


def test_it_lists_the_files_and_shows_those_that_the_task_mentions():
    seen = look("Fix `calc.py`, then run ./main.py.", calc__py="x = 1\n", main__py="import calc\n", other__py="y\n")
    assert [name in seen.listing for name in ("calc.py", "main.py", "other.py")] == [True] * 3
    assert seen.files == (FileShown("calc.py", "x = 1\n"), FileShown("main.py", "import calc\n"))


@pytest.mark.parametrize("task", ["", "Fix it.", "Fix none.py", "../../etc/passwd", "/etc/passwd", "..", "a" * 100_000])
def test_a_task_that_mentions_no_file_of_the_folder_shows_the_listing_only(task: str):
    assert look(task, calc__py="x = 1\n").files == ()


def test_a_long_file_is_not_shown_in_part():
    short, long = "x" * (MAX_FILE_BYTES - 1) + "\n", "x" * MAX_FILE_BYTES + "\n"
    assert [file.path for file in look("a.py b.py", a__py=short, b__py=long).files] == ["a.py"]


def test_many_files_are_bounded():
    files = {f"module_{number:03}__py": "x\n" for number in range(400)}
    seen = look(" ".join(name.replace("__", ".") for name in files), **files)
    assert len(seen.files) == MAX_FILES
    assert len(seen.listing) <= MAX_LISTING_CHARS


def test_a_long_task_opens_few_files(monkeypatch):
    opened: list[str] = []
    read = MemoryWorkspace.read_file
    monkeypatch.setattr(
        MemoryWorkspace, "read_file", lambda self, path, *rest: opened.append(path) or read(self, path, *rest)
    )
    look(" ".join(f"missing_{number}.py" for number in range(5_000)))
    assert len(opened) == MAX_TRIES


def test_secrets_are_removed():
    seen = look("See key.txt", key__txt="s3cret\n")
    assert seen.files == (FileShown("key.txt", "[secret]\n"),)
