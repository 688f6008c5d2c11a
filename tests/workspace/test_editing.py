"""Replacing text in a file, once or everywhere, and the message if it is not found."""

import os
import subprocess
from pathlib import Path

import pytest

from stackmem.history.ignored import IgnoreRules
from stackmem.history.objects import ObjectStore
from stackmem.workspace.editing import edited
from stackmem.workspace.files import Files
from stackmem.workspace.memory import MemoryProgram, MemoryWorkspace
from stackmem.workspace.outcome import ToolOutcome
from stackmem.workspace.refusals import ToolRefused

SHORT = "def area(width, height):\n    return width + height\n\n\ndef edge(width):\n    return width\n"
TEXT = SHORT + "# what follows makes this a long file\n" * 50
CASES = {
    "once": ("width + height", "width * height", False, "replaced 1 place in 'a.py' (line 2)"),
    "several lines": ("def edge(width):\n    return width\n", "", False, "replaced 1 place in 'a.py' (line 5)"),
    "everywhere": ("width", "w", True, "replaced 4 places in 'a.py' (lines 1, 2, 5, 6)"),
    "twice and not told so": (
        "return width", "x", False,
        "old_string occurs 2 times in 'a.py' (lines 2, 6); "
        'give more of the lines around one of them, or set "replace_all": true to replace all 2',
    ),
    "other white space": (
        "\treturn width + height", "x", False,
        "old_string was not found in 'a.py'; the nearest lines are (copy them exactly, including white space):\n"
        "2\t    return width + height\n3\t",
    ),
    "goes on otherwise": (
        "def edge(width):\n    return width + 1\n", "x", False,
        "old_string was not found in 'a.py'; the nearest lines are (copy them exactly, including white space):\n"
        "5\tdef edge(width):\n6\t    return width\n7\t# what follows makes this a long file",
    ),
    "near": (
        "return width - height", "x", False,
        "old_string was not found in 'a.py'; the nearest lines are (copy them exactly, including white space):\n"
        "2\t    return width + height\n3\t",
    ),
    "nothing near": (
        "import numpy", "x", False,
        "old_string was not found in 'a.py'; no line is similar; read_file shows it",
    ),
    "empty": ("", "x", False, "old_string is empty; copy the text to be replaced, or use write_file for a new file"),
    "the same": ("width", "width", True, "old_string and new_string are the same; nothing would change"),
    "half a character": ("width + height", "\ud800", False, "new_string contains half a character; write it whole"),
}  # fmt: skip


def files(root: Path, content: bytes) -> Files:
    (root / "a.py").write_bytes(content)
    return Files(root, "/workspace")


@pytest.mark.parametrize("case", CASES)
def test_an_edit_replaces_what_it_names_or_says_why_not(tmp_path: Path, case: str):
    old, new, every, said = CASES[case]
    outcome = files(tmp_path, TEXT.encode()).edit("a.py", old, new, every=every)
    done = said.startswith("replaced")
    assert outcome == ToolOutcome(said, failed=not done)
    assert (tmp_path / "a.py").read_text("utf-8") == (TEXT.replace(old, new) if done else TEXT)


def test_an_edit_that_does_not_match_in_a_short_file_is_answered_with_the_file(tmp_path: Path):
    missing = files(tmp_path, SHORT.encode()).edit("a.py", "return width - height", "x", every=False)
    assert missing.failed
    assert missing.text == f"old_string was not found in 'a.py'; copy it from the file, which is now:\n{SHORT.rstrip()}"
    several = files(tmp_path, SHORT.encode()).edit("a.py", "return width", "x", every=False)
    assert several.failed
    assert several.text.endswith(f"to replace all 2. The file is now:\n{SHORT.rstrip()}")


def test_what_is_shown_of_a_short_file_holds_no_secret_and_no_control_character(tmp_path: Path):
    (tmp_path / "a.py").write_bytes(b"key = 'hunter2'\r\n\x1b[31mred\r\n")
    edits = Files(tmp_path, "/workspace", scrub=lambda text: text.replace("hunter2", "[secret]"))
    said = edits.edit("a.py", "blue", "x", every=False).text
    assert "[secret]" in said
    assert "hunter2" not in said
    assert "\x1b[31m" not in said
    assert "\r" not in said


def test_an_empty_file_is_not_shown(tmp_path: Path):
    said = files(tmp_path, b"\n").edit("a.py", "x", "y", every=False).text
    assert said == "old_string was not found in 'a.py'; read_file shows it"


def test_line_ends_mode_and_bytes_that_are_no_text_stay(tmp_path: Path):
    edits = files(tmp_path, b"one\r\ntwo\r\nthr\xe9e\r\n")
    (tmp_path / "a.py").chmod(0o755)
    assert not edits.edit("a.py", "one\ntwo", "1\n2\n2b", every=False).failed
    assert (tmp_path / "a.py").read_bytes() == b"1\r\n2\r\n2b\r\nthr\xe9e\r\n"
    assert (tmp_path / "a.py").stat().st_mode & 0o777 == 0o755


def test_binary_and_read_only_files_are_refused(tmp_path: Path):
    edits = files(tmp_path, b"a\0b")
    (tmp_path / "stackmem.toml").write_text("model = 1\n", encoding="utf-8")
    (tmp_path / "link").symlink_to("a.py")
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        ("a.py", "binary, 3 bytes"), ("stackmem.toml", "is protected"), ("missing", "does not exist"),
        ("../x", "outside the workspace"), ("pipe", "FIFO"), (".", "directory"),
    ):  # fmt: skip
        outcome = edits.edit(path, "model", "x", every=False)
        assert outcome.failed
        assert words in outcome.text
    assert (tmp_path / "stackmem.toml").read_text("utf-8") == "model = 1\n"


def test_a_secret_in_a_line_that_comes_near_is_not_shown_by_half(tmp_path: Path):
    (tmp_path / "a.py").write_text(f"key = '{'k' * 190}SECRETSECRET'\n", encoding="utf-8")
    edits = Files(tmp_path, "/workspace", scrub=lambda text: text.replace("SECRETSECRET", "[secret]"))
    assert "SECRET" not in edits.edit("a.py", f"key = '{'k' * 180}'", "x", every=False).text


def test_the_folders_above_a_new_file_are_made(tmp_path: Path):
    writes = files(tmp_path, b"")
    assert writes.write("src/deep/new.py", "x\n").text == "wrote 2 bytes to 'src/deep/new.py'; it is new"
    assert (tmp_path / "src/deep/new.py").read_text("utf-8") == "x\n"
    assert writes.write(".git/hooks/post-commit", "x").failed
    assert not (tmp_path / ".git").exists()
    assert "not a directory" in writes.write("a.py/b", "x").text


def test_an_edit_that_would_fill_the_memory_is_refused(tmp_path: Path):
    done = files(tmp_path, b"a" * 1_000_000).edit("a.py", "a", "b" * 100_000, every=True)
    assert done.failed
    assert "would be over" in done.text
    assert (tmp_path / "a.py").stat().st_size == 1_000_000


def test_a_link_to_a_folder_is_listed_though_git_asks_nothing_beyond_it(tmp_path: Path):
    (tmp_path / "work" / "real").mkdir(parents=True)
    (tmp_path / "work" / "link").symlink_to("real")
    (tmp_path / "work" / "real" / "file").write_text("x")
    ObjectStore(tmp_path / "git")
    folder = Files(tmp_path / "work", "/w")
    folder.rules = lambda: IgnoreRules(tmp_path / "git", tmp_path / "work")
    assert "file" in folder.list("link", 4096).text


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"echo '\x1b[31mred'\n", "'\\x1b[31m", "'\\x1b[32m", b"echo '\x1b[32mred'\n"),
        ("\ufeffusing A;\n".encode(), "\\ufeffusing A;", "\\ufeffusing B;", "\ufeffusing B;\n".encode()),
        (b'print("\\x1b")\n', "\\x1b", "\\x1c", b'print("\\x1c")\n'),
    ],
)
def test_what_read_file_shows_as_an_escape_matches_the_character(before, old, new, after):
    assert edited("a.sh", before, old, new, every=False, scrub=str)[0] == after


@pytest.mark.parametrize("old", ["\\x41", "\\u0041", "\\x1b"])
def test_other_escapes_are_only_themselves(old):
    with pytest.raises(ToolRefused, match="not found"):
        edited("a.sh", b"A\n", old, "B", every=False, scrub=str)


@pytest.mark.parametrize(
    ("before", "content", "notes"),
    [
        (b"a\r\nb\r\n", "a\nc\n", ["its lines ended in CRLF"]),
        (b"\xef\xbb\xbfa\n", "b\n", ["it began with a byte order mark"]),
        (b"\xef\xbb\xbfa\r\n", "b\n", ["its lines ended in CRLF", "it began with a byte order mark"]),
        (b"\xef\xbb\xbfa\r\n", "\ufeffb\r\n", []),
        (b"a\r\nb\n", "a\nc\n", []),
        (b"a\nb\n", "a\nc\n", []),
        (b"a\r\n" * 100_000, "a\n" * 10, ["its lines ended in CRLF"]),
        (b"a\r\n", "", []),
    ],
)
def test_a_write_mentions_lost_line_ends_and_byte_order_marks(tmp_path: Path, before: bytes, content: str, notes):
    """In memory and on disk alike, with a command that restores them."""
    (tmp_path / "a.cs").write_bytes(before)
    on_disk = Files(tmp_path, "/workspace").write("a.cs", content)
    said = on_disk.text.splitlines()[1:]
    assert [line.split(" and ")[0] for line in said] == [f"note: {note}" for note in notes]
    in_memory = MemoryWorkspace({"a.cs": before.decode()}, "/workspace", MemoryProgram("x", lambda *_: ("", 0)))
    assert in_memory.write_file("a.cs", content) == on_disk
    for line in said:
        command = line.rpartition(" with ")[2]
        subprocess.run(f"{command} a.cs", shell=True, cwd=tmp_path, check=True)
    restored = (tmp_path / "a.cs").read_bytes()
    assert restored.startswith(b"\xef\xbb\xbf") == (before.startswith(b"\xef\xbb\xbf"))
    assert not notes or (b"\r\n" in restored) == (b"\r\n" in before)


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("x = '\x1b[31m'\n", "'\\x1b[31m'", "'\\x1b[32m'", "x = '\x1b[32m'\n"),
        ("a\r\nb\n", "a\\r\nb", "a\\r\nc", "a\r\nc\n"),
        ("t\U000e0041g\n", "t\\U000e0041g", "tag", "tag\n"),
        # one real character and one spelled escape on the same line: each stays what it is
        ("s = '\x1b' + '\\x1b'\n", "s = '\\x1b' + '\\x1b'", "t = '\\x1b' + '\\x1b'", "t = '\x1b' + '\\x1b'\n"),
        ("s = '\\x1b' + '\u202e'\n", "'\\x1b' + '\\u202e'", "'\\x1b' - '\\u202e'", "s = '\\x1b' - '\u202e'\n"),
        ("\x1b\n", "\\x1b", "\\x1b\\x1b\\x07", "\x1b\x1b\x07\n"),
        ("r'\\x1b'\n", "r'\\x1b'", "r'\\x07'", "r'\\x07'\n"),  # no escape is needed
    ],
)
def test_text_can_be_edited_as_read_file_shows_it(tmp_path: Path, text: str, old: str, new: str, expected: str):
    at = files(tmp_path, text.encode())
    assert old in at.read("a.py", None, None, 10_000).text
    outcome = at.edit("a.py", old, new, every=False)
    assert not outcome.failed, outcome.text
    assert (tmp_path / "a.py").read_bytes() == expected.encode()


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("'\x1b' '\\x1b' | '\\x1b' '\x1b'\n", "'\\x1b' '\\x1b'"),  # two different texts look like this
        ("A\n", "\\x41"),  # read_file shows this character as it is
        ("a\n", "\\Uffffffff"),
        ("a\n", "\\ud800"),
        ("\x1b" * 5_000 + "\n", "\\x1b" * 4_000 + "!"),
    ],
)
def test_an_escape_that_shows_no_single_text_of_the_file_is_refused(tmp_path: Path, text: str, old: str):
    outcome = files(tmp_path, text.encode()).edit("a.py", old, "x", every=False)
    assert outcome.failed
    assert "old_string was not found" in outcome.text
    assert (tmp_path / "a.py").read_bytes() == text.encode()
