"""Files named in a line with ``@``, and the menus of ``/`` and ``@``."""

from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from stackmem.doors.chat.commands import HELP
from stackmem.doors.chat.mentions import ChatCompleter, mentions


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    mine = tmp_path / "mine"
    (mine / "src").mkdir(parents=True)
    (mine / "src" / "total.py").write_text("a\n")
    (mine / "my notes.md").write_text("b\n")
    (mine / ".hidden").write_text("c\n")
    (mine / "evil\x1b[2J.txt").write_text("d\n")
    (tmp_path / "secret.txt").write_text("e\n")
    (mine / "out.txt").symlink_to(tmp_path / "secret.txt")
    return mine


def named(words: str, folder: Path, own: str = "") -> tuple[list, list[str]]:
    found, messages = mentions(words, folder, lambda path: path == own)
    return [(each.path, each.start_line, each.end_line) for each in found], messages


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("see @src/total.py, please", [("src/total.py", None, None)]),
        ("see @src/total.py:10-40.", [("src/total.py", 10, 40)]),
        ("(@src/total.py:7)", []),  # a mention begins a word
        ("@src/total.py:7 and @src", [("src/total.py", 7, 7), ("src/", None, None)]),
        ('@"my notes.md":2-3?', [("my notes.md", 2, 3)]),
        ("@property me@src/total.py @nothing.py", []),
        ("@made.py", [("made.py", None, None)]),
        ("@src/total.py:0 @\x00", []),
    ],
)
def test_a_word_with_an_at_sign_names_a_file_of_the_folder_or_stays_a_word(folder: Path, words, expected):
    assert named(words, folder, "made.py") == (expected, [])


@pytest.mark.parametrize("path", ["../secret.txt", "out.txt", "/etc/hostname", "src/../../secret.txt"])
def test_a_path_that_leads_out_of_the_folder_is_not_attached(folder: Path, path):
    found, messages = named(f"@{path}", folder)
    assert found == []
    assert messages in ([f"not attached: {path} is outside of the folder"], [])  # /etc/hostname may be missing


def test_lines_in_the_wrong_order_and_too_many_files_are_refused_with_a_message(folder: Path):
    assert named("@src/total.py:9-3", folder) == ([], ["not attached: @src/total.py:9-3 ends before it begins"])
    found, messages = named(" ".join(["@src/total.py"] * 30), folder)
    assert len(found) == 20
    assert "20 of 30" in messages[0]


def completions(folder: Path, text: str) -> list[str]:
    found = ChatCompleter(folder).get_completions(Document(text), CompleteEvent())
    return sorted(each.text for each in found)


def test_the_menu_of_paths_quotes_spaces_and_leaves_out_hidden_and_unprintable_names(folder: Path):
    assert completions(folder, "look at @") == ['@"my notes.md"', "@out.txt", "@src/"]
    assert completions(folder, "@src/t") == ["@src/total.py"]
    assert completions(folder, "@.h") == ["@.hidden"]
    assert completions(folder, '@"my n') == ['@"my notes.md"']
    assert completions(folder, "@/etc/") == []


def test_the_menu_of_commands_has_a_line_of_help_for_each(folder: Path):
    found = list(ChatCompleter(folder).get_completions(Document("/"), CompleteEvent()))
    assert {each.text: each.display_meta_text for each in found} == HELP
    assert all(each.display_meta_text for each in found if each.text != "/help")
