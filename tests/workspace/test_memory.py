"""The in-memory workspace answers exactly like the same files on a disk."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.workspace.files import Files
from stackmem.workspace.isolation.bare import Bare
from stackmem.workspace.memory import MemoryProgram, MemoryWorkspace
from stackmem.workspace.profile import Profile
from stackmem.workspace.workspace import open_workspace

INSIDE = "/workspace"
FILES = {
    "work": '#!/bin/sh\necho "$@"\n',
    "empty": "",
    "docs/long.md": "".join(f"line {number} of a long text\n" for number in range(3_000)),
    "docs/crlf.txt": "one\r\ntwo\r\nthree\r\n",
    "docs/odd name.txt": "café\tand \x1b[31mred\x1b[0m and a bell \x07\nlast line without an end",
    "docs/ci/a.md": "deep\n",
    "docs/one_line": "x" * 9_000,
    "docs/tab\there": "a name with a tab\n",
    ".work/journal": "",
    "ünï/cöde": "ok\n",
    "binary": "\x00\x01\x02",
}
PATHS = (
    "work", "empty", "docs", "docs/", "docs/.", "./docs//ci/../long.md", "docs/long.md/", "docs/long.md/x", ".", "..",
    "../x", "docs/../..", "work/..", "missing", "missing/..", "missing/x", "", "\x00", "a\x00b", "/", "/etc/passwd",
    "/workspace", "/workspace/", "/workspace/work", "/workspace/../etc", "/workspaces/x", "//workspace//docs/./ci/",
    "docs/odd name.txt", "docs/tab\\there", "docs/tab\there", "docs/crlf.txt", "x" * 255, "x" * 256, "x/" * 2_050,
    "docs/" + "y" * 256, "\udc80", "\ud800", "ünï/cöde", "ünï", ".work", ".git", ".GIT", "stackmem.toml",
    "docs/stackmem.toml", ".git/config", "binary", "docs/one_line", "~", "*", "-", "\\x1b", "docs\\n", "empty/",
)  # fmt: skip


def on_disk(root: Path) -> Files:
    for path, text in FILES.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode())
    return Files(root, INSIDE)


def echo(files: dict[str, str], words: list[str]) -> tuple[str, int]:
    return " ".join(words) + "\n", 0


def in_memory() -> MemoryWorkspace:
    return MemoryWorkspace(FILES, INSIDE, MemoryProgram("work", echo, ("work",)))


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory):
    """Files that are only read."""
    files = on_disk(tmp_path_factory.mktemp("ws"))
    yield files
    files.close()


SHOWN = 4_096


@pytest.mark.parametrize("path", PATHS)
def test_reading_listing_and_digests_agree_on_every_odd_path(disk: Files, path: str):
    memory = in_memory()
    assert memory.read_file(path, None, None, SHOWN) == disk.read(path, None, None, SHOWN)
    assert memory.list_files(path, SHOWN) == disk.list(path, SHOWN)
    assert memory.digest(path) == disk.digest(path)


@pytest.mark.parametrize("path", PATHS)
def test_writing_agrees_on_every_odd_path_and_leaves_the_same_files(tmp_path: Path, path: str):
    disk, memory = on_disk(tmp_path), in_memory()
    for content in ("first\n", "second, longer\n", "\ud800"):
        assert memory.write_file(path, content) == disk.write(path, content)
        assert memory.digest(path) == disk.digest(path)
    for old, every in (("s", False), ("second", False), ("line", True), ("", False), ("e", True)):
        assert memory.edit_file(path, old, "new", every=every) == disk.edit(path, old, "new", every=every)
    assert memory.list_files(".", 32_768) == disk.list(".", 32_768)
    disk.close()


@given(
    st.lists(st.sampled_from([*FILES, "docs", "..", ".", "", "ci", "x"]), max_size=5).map("/".join)
    | st.text(max_size=30),
    st.integers(-2, 3_100) | st.none(),
    st.integers(-2, 3_100) | st.none(),
    st.integers(0, 5_000),
)
def test_reading_agrees_whatever_is_asked(disk: Files, path: str, start: int | None, end: int | None, shown: int):
    assert in_memory().read_file(path, start, end, shown) == disk.read(path, start, end, shown)
    assert in_memory().list_files(path, shown) == disk.list(path, shown)


COMMANDS = (
    "cat work", "cat docs/long.md", "cat docs/ci/a.md work", "cat missing", "cat docs", "cat docs/long.md/x empty",
    "cat", "ls", "ls docs", "ls docs/", "ls work", "ls missing", "  ls\tdocs  ", "cat 'docs/ci/a.md'", "", "   ",
    "cat docs/../work", "cat {inside}/work", "cat {inside}/work/x", "ls {inside}", "ls .", "cat docs/crlf.txt",
)  # fmt: skip


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory):
    """The same files, and real commands."""
    root = tmp_path_factory.mktemp("bare")
    on_disk(root).close()
    workspace = open_workspace(Bare(), root, INSIDE, Profile())
    yield workspace
    workspace.close()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_that_are_known_print_what_bash_prints(bare, command: str):
    memory = MemoryWorkspace(FILES, bare.path, MemoryProgram("work", echo))
    command = command.format(inside=bare.path)
    assert memory.run_command(command, 10, SHOWN) == bare.run_command(command, 10, SHOWN)


@pytest.mark.parametrize(
    "command",
    [
        "python -c 1", "./work; ls", "./work && ls", "cat work > x", "cat $HOME", "cat ~", "ls -la", "cat -n work",
        "ls docs work", "A=b ./work", "./work 'unclosed", "cat *", "./work `id`", "./work # x", "ls\nls", "cat ../x",
        "ls /etc", "./other", "work",
    ],
)  # fmt: skip
def test_any_other_command_ends_with_127_and_says_what_can_be_run(command: str):
    memory = in_memory()
    outcome = memory.run_command(command, 10, SHOWN)
    assert outcome.exit_code == 127
    assert outcome.failed
    assert "cannot be run in memory; what can: ./work ..., cat PATH..., ls" in outcome.text
    assert memory.files == FILES


def test_a_program_that_was_overwritten_is_not_run():
    memory = in_memory()
    assert memory.run_command("./work plan 'a b'", 10, SHOWN).text == "plan a b\n[exit 0]"
    memory.write_file("work", "something else")
    assert memory.run_command("./work plan", 10, SHOWN).exit_code == 127


@given(st.text(max_size=60) | st.text(max_size=60).map("./work {}".format))
def test_no_command_raises(command: str):
    outcome = in_memory().run_command(command, 10, 2_000)
    assert len(outcome.text.encode("utf-8", "replace")) <= 2_000


def test_secrets_are_taken_out_before_a_text_is_cut():
    memory = MemoryWorkspace(
        {"a": "the word hunter2 here\n"}, INSIDE, MemoryProgram("work", echo),
        lambda text: text.replace("hunter2", "[secret]"),
    )  # fmt: skip
    assert "hunter2" not in memory.run_command("cat a", 10, SHOWN).text


NAMES = ["work", "empty", "docs", "new", "docs/new", "docs/ci/new", "new/below", "./docs/../new", "docs\\new", "NEW"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["write", "read", "list", "digest"]), st.sampled_from(NAMES), st.text(max_size=20)),
        max_size=12,
    )
)
def test_any_sequence_of_calls_leaves_both_alike(calls: list[tuple[str, str, str]]):
    with tempfile.TemporaryDirectory() as root:
        disk, memory = on_disk(Path(root)), in_memory()
        for tool, path, text in calls:
            match tool:
                case "write":
                    assert memory.write_file(path, text) == disk.write(path, text)
                case "read":
                    assert memory.read_file(path, None, None, SHOWN) == disk.read(path, None, None, SHOWN)
                case "list":
                    assert memory.list_files(path, SHOWN) == disk.list(path, SHOWN)
                case _:
                    assert memory.digest(path) == disk.digest(path)
        assert memory.list_files(".", 32_768) == disk.list(".", 32_768)
        disk.close()
