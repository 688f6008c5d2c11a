"""The stat of a patch counts lines as git does, and fits its width."""

import subprocess
from pathlib import Path

import pytest

from stackmem.cli.screen.patch_stat import FileStat, patch_stat, stat_lines

FILES = {
    "app.py": (b"one\ntwo\n", b"one\n2\nthree\n"),
    "-- x.sql": (b"-- old\n", b"++ new\n-- kept\n"),
    "no newline": (b"a", b"b"),
    "gone": (b"x\n" * 9, None),
    "made": (None, b"y\n" * 4),
    "picture": (b"\0\1", b"\0\2"),
    "empty": (None, b""),
}


def diff(folder: Path, *flags: str) -> bytes:
    command = ("git", "-C", str(folder), "-c", "core.quotePath=false", "diff", "--no-index", "--no-renames", *flags)
    return subprocess.run((*command, "a", "b"), capture_output=True, check=False).stdout


def test_it_counts_what_git_counts(tmp_path):
    for name, contents in FILES.items():
        for side, content in zip("ab", contents, strict=True):
            (tmp_path / side).mkdir(exist_ok=True)
            if content is not None:
                (tmp_path / side / name).write_bytes(content)
    found = patch_stat(diff(tmp_path, "--binary").splitlines(keepends=True))
    counted = sorted(line.split(b"\t")[:2] for line in diff(tmp_path, "--numstat").splitlines())
    marked = {"binary": (b"-", b"-")}
    assert sorted([*marked.get(one.mark, (b"%d" % one.added, b"%d" % one.removed))] for one in found) == counted
    assert [one.mark for one in found].count("new") == 2
    assert [one.mark for one in found].count("deleted") == 1


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_it_fits_its_width(width):
    stats = [FileStat("a/very/long/path/" * 9 + "name.py", 100_000, 3, ""), FileStat("b", 1, 0, "new")]
    lines = stat_lines(stats, width)
    assert all(len(line) <= width for line in lines)
    assert "name.py | 100,003 +" in lines[0]
    assert lines[-1] == " 2 files changed, 100,001 lines added, 3 removed"


def test_many_files_are_counted_and_not_listed():
    lines = stat_lines([FileStat(f"f{number}", 1, 0, "") for number in range(100)], 80)
    assert len(lines) == 42
    assert lines[-2] == " and 60 more files"


def test_one_line_is_not_many():
    assert stat_lines([FileStat("a", 1, 0, "")], 80)[-1] == " 1 file changed, 1 line added, 0 removed"


def test_an_empty_patch_has_no_files():
    assert stat_lines(patch_stat([]), 80) == [" 0 files changed, 0 lines added, 0 removed"]
