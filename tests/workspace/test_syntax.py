"""If a written Python file no longer parses, the call's answer says so."""

from pathlib import Path

import pytest

from stackmem.workspace.answers import PARSED_BYTES, syntax_note
from stackmem.workspace.files import Files


def test_a_write_and_an_edit_that_break_a_python_file_say_so(tmp_path: Path):
    files = Files(tmp_path, "/workspace")
    assert "cannot parse the file now: line 1: " in files.write("a.py", "def f(:\n").text
    assert "note" not in files.write("a.py", "def fetch(url, retries):\n    return url, retries\n").text
    broken = files.edit("a.py", "return url, retries", "return (url, retries=3)", every=False)
    assert not broken.failed
    assert "cannot parse the file now: line 2: " in broken.text
    assert "note" not in files.edit("a.py", "retries=3)", "retries)", every=False).text


@pytest.mark.parametrize("name", ["a.txt", "a.json", "py", "a.pyc"])
def test_other_files_are_not_parsed(name: str):
    assert syntax_note(name, b"def f(:") == ""


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"x = 1\n", b"\xef\xbb\xbfx = 1\n", b"# coding: latin-1\nx = '\xe9'\n", b"s = '\\d'\n",
        b"(" * 20_000, b"-" * 50_000 + b"1", b"[" * 5_000 + b"]" * 5_000, b"x = 1\n" * PARSED_BYTES,
        b"a" + b".a" * 20_000, b"f(" * 3_000 + b")" * 3_000, b"not " * 10_000 + b"x", b"\0",
    ],
)  # fmt: skip
def test_odd_files_are_survived_and_get_at_most_one_short_line(raw: bytes):
    note = syntax_note("a.py", raw)
    assert note.count("\n") <= 1
    assert len(note) < 200


def test_bytes_that_are_not_utf8_are_reported():
    assert "cannot parse the file now" in syntax_note("a.py", b"x = '\xe9'\n")
