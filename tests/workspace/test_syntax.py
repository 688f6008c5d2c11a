"""The answer to a write or an edit says if a file no longer parses, or if it lost definitions or keys."""

from pathlib import Path

import pytest

from stackmem.workspace.answers import PARSED_BYTES, lost_note, syntax_note
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


def test_a_write_names_the_definitions_and_keys_that_it_removed(tmp_path: Path):
    files = Files(tmp_path, "/workspace")
    files.write("a.py", "def add(a, b):\n    return a + b\n\nclass Sum:\n    pass\n")
    told = files.write("a.py", "def multiply(a, b):\n    return a * b\n").text
    assert "\nnote: the file no longer defines add, Sum; if they must stay, write the file once more" in told
    assert told.endswith(":\ndef add(a, b):\n    return a + b\nclass Sum:\n    pass")
    assert "note" not in files.write("a.py", "async def multiply(a, b):\n    return a * b * 1\n").text
    files.write("c.json", '{"host": "a", "port": 1, "timeout": 30}')
    assert files.write("c.json", '{"timeout": 45}').text.endswith('this:\n"host": "a"\n"port": 1')
    assert "note" not in files.write("c.json", "[1]").text


@pytest.mark.parametrize("name", ["a.py", "a.json", "a.txt"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b""), (b"def f(): pass", b"def g(:"), (b"def f(:", b"x = 1"), (b'{"a": 1}', b"\xff"),
        (b"[" * 9_999, b"{}"),
        (b"def f(): pass\n" + b"#" * PARSED_BYTES, b""), (b'{"a": 1}' + b" " * PARSED_BYTES, b"{}"), (b"\0", b"{}"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_gets_no_note(name: str, before: bytes, after: bytes):
    assert lost_note(name, before, after) == ""


def test_a_note_about_many_lost_names_is_short():
    before = b"".join(b"def %b%d(): pass\n" % (b"f" * 500, number) for number in range(50))
    note = lost_note("a.py", before, b"")
    assert note.endswith(" and 42 more")
    assert len(note) < 500
