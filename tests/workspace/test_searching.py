"""Searching files: the matches, their display, and limits on patterns and files."""

import json
import os
import re
import shutil
from contextlib import chdir
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.workspace.isolation.bare import Bare
from stackmem.workspace.isolation.bubblewrap import Bubblewrap
from stackmem.workspace.profile import Profile
from stackmem.workspace.search import search_program
from stackmem.workspace.search.searching import prefilter
from stackmem.workspace.workspace import Workspace, open_workspace
from tests.stage import with_bubblewrap

FILES = {
    "src/app.py": "import os\n\n\ndef main():\n    return os.name\n",
    "src/deep/util.py": "def helper():\n    pass\n",
    "docs/a b.md": "main is the start\n",
    "build/out.py": "def main(): pass\n",
    "node_modules/x/index.js": "main()\n",
    ".gitignore": "build/\n",
    "crlf.txt": "one\r\nmain\r\n",
    "data.bin": "\0main\n",
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory):
    root = tmp_path_factory.mktemp("ws")
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())
    (root / "out").symlink_to("/etc")
    workspace = open_workspace(Bare(), root, "/workspace", Profile())
    yield workspace
    workspace.close()


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ({"pattern": "main"}, "crlf.txt:2:main\ndocs/a b.md:1:main is the start\nsrc/app.py:4:def main():"),
        ({"pattern": r"^def \w+\(", "glob": "*.py"}, "src/app.py:4:def main():\nsrc/deep/util.py:1:def helper():"),
        ({"pattern": "def", "glob": "src/**/*.py", "path": "src/deep"}, "src/deep/util.py:1:def helper():"),
        ({"pattern": "MAIN$"}, "[no match below .; 5 files searched, ignored files skipped]"),
        ({"pattern": "(?i:NAME)", "path": "src/app.py", "context": 1},
         "src/app.py-4-def main():\nsrc/app.py:5:    return os.name"),
        ({"pattern": "import|name", "path": "src", "context": 1},
         "src/app.py:1:import os\nsrc/app.py-2-\n--\nsrc/app.py-4-def main():\nsrc/app.py:5:    return os.name"),
        ({"pattern": "main", "path": "build"}, "[no match below build; 0 files searched, ignored files skipped]"),
    ],
)  # fmt: skip
def test_matches_are_shown_by_path_and_line_and_ignored_files_left_out(opened: Workspace, asked, shown):
    given = {"path": ".", "glob": "", "context": 0, **asked}
    outcome = opened.search_files(**given, shown_bytes=4_096)
    assert (outcome.text, outcome.failed) == (shown, False)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"pattern": "("}, "not a regular expression"),
        ({"pattern": "(?=x)"}, "look-around"),
        ({"pattern": r"(a)\1"}, "back-references"),
        ({"pattern": "[[:alpha:]]"}, "not supported"),
        ({"pattern": "a&&b"}, "not supported"),
        ({"pattern": "x" * 1_001}, "shorten it"),
        ({"pattern": "x", "context": 11}, "context is 11"),
        ({"pattern": "x", "path": "missing"}, "does not exist"),
        ({"pattern": "x", "path": "../.."}, "outside the workspace"),
        ({"pattern": "x", "path": "out/passwd"}, "outside the workspace"),
    ],
)
def test_invalid_searches_are_refused_with_a_fix(opened: Workspace, asked, words):
    outcome = opened.search_files(**{"path": ".", "glob": "", "context": 0, **asked}, shown_bytes=4_096)
    assert outcome.failed
    assert words in outcome.text


def test_an_answer_is_bounded_and_says_so(tmp_path: Path):
    (tmp_path / "long.txt").write_text("match " + "x" * 1_000 + "\n" + "match\n" * 300, encoding="utf-8")
    workspace = open_workspace(Bare(), tmp_path, "/workspace", Profile())
    text = workspace.search_files("match", ".", "", 0, 100_000).text
    assert text.startswith("[100 lines shown, there are more; narrow the pattern, the path or the glob]\nlong.txt:1:")
    assert len(text.splitlines()[1]) < 330
    assert len(workspace.search_files("match", ".", "", 0, 1_000).text.encode()) <= 1_000
    workspace.close()


def test_a_secret_is_taken_out_before_a_line_is_cut(tmp_path: Path):
    (tmp_path / "a").write_text("k" * 280 + "SECRETSECRET" * 3 + "\n", encoding="utf-8")
    workspace = open_workspace(
        Bare(), tmp_path, "/w", Profile(), scrub=lambda text: text.replace("SECRETSECRET", "[secret]")
    )  # fmt: skip
    assert "SECRETSECR" not in workspace.search_files("k", ".", "", 0, 4_096).text
    workspace.close()


@with_bubblewrap
def test_the_search_runs_in_the_sandbox_and_a_pattern_that_never_ends_is_ended(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("stackmem.workspace.workspace.SECONDS", 1.0)
    (tmp_path / "a").write_text("a" * 40 + "!\n", encoding="utf-8")
    workspace = open_workspace(Bubblewrap(), tmp_path, "/workspace", Profile())
    assert workspace.search_files("a+!", ".", "", 0, 4_096).text == f"a:1:{'a' * 40}!"
    endless = workspace.search_files("(a+)+$", ".", "", 0, 4_096)
    assert endless.failed
    assert endless.text.startswith("the search took over")
    workspace.close()


def test_an_order_of_the_search_is_plain_json_whatever_the_pattern_holds(opened: Workspace):
    for odd in ("'", '"; rm -rf /', "\\$(id)", "é\n", json.dumps({"a": 1})):
        assert not opened.search_files(odd, ".", "", 0, 4_096).failed


LINES = st.text(alphabet="ab iIkKsS\u212a\u017f\u0131\xe9\u4e2d_9.(+\r\t\x1c", max_size=8)
PIECES = st.sampled_from([
    "a", "ab", "k", "S", "i", "9", " ", "é", "\\.", r"\(", r"\+", r"\w", r"\W",
    r"\d", r"\s", r"\S", r"\b", ".", "^", "$", "[^a]",
    "[ab]", "[]b]", r"[\]a]", "a*", "b+?", "a{2}", "b{,2}", "{", "x{0}", r"\w+", r"\x61", "\t", "é?", "\u4e2d+", "_",
])  # fmt: skip
PATTERNS = st.recursive(
    PIECES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        inner.map("(?:{})".format), inner.map("({})*".format), inner.map("(?i:{})".format),
        inner.map("(?P<n>{})".format),
    ),
    max_leaves=5,
)  # fmt: skip


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("many")


@given(PATTERNS, st.lists(LINES, min_size=1, max_size=8), st.booleans())
def test_ripgrep_leaves_out_no_file_that_matches(many: Path, pattern: str, lines: list[str], fold: bool):
    """Python rechecks every file that ripgrep reports, so the result is the same as without it."""
    pattern = f"(?i){pattern}" if fold else pattern
    try:
        meant = re.compile(pattern)
    except re.error:
        return
    names = [f"{number:02d}" for number in range(search_program.FEW_FILES + 1)]
    with chdir(many):
        for name, line in zip(names, lines, strict=False):
            Path(name).write_bytes(f"first\n{line}\r\nlast".encode())
        kept = search_program.candidates(prefilter(pattern), names)
        matching = [name for name in names if any(meant.search(line) for line in search_program.lines_of(name))]
    assert set(matching) <= set(kept)
    expression = prefilter(pattern)  # only pattern features that ripgrep shares with Python
    for line in lines if expression is not None else ():
        assert not meant.search(line.removesuffix("\r")) or re.search(expression.encode(), line.encode())


@pytest.mark.parametrize(
    ("pattern", "expression"),
    [
        (r"def \w+\(self", r"def .*\(self"),
        ("(?i)todo|FIXME{2}", "[tT][oO][dD][oO]|[fF].*[xX][mM][eE]*"),
        (r"^(?P<a>x[^]y]+)?é$", ".*(?:x.*)?.*.*"),
        (r"\x41", None), (r"a(?#b)", None), ("", ""),
    ],
)  # fmt: skip
def test_what_both_dialects_share_is_kept_and_all_else_is_let_through(pattern, expression):
    assert prefilter(pattern) == expression


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
def test_ripgrep_is_asked_and_reads_nobodys_settings(many: Path, monkeypatch):
    names = [f"f{number}" for number in range(search_program.FEW_FILES + 5)]
    for name in names:
        (many / name).write_text("x\n", encoding="utf-8")
    (many / "f1").write_bytes(b"\xff\xfeneedle\n")
    (many / "f2").write_bytes(b"needle\0")
    (many / "f3").unlink()
    os.mkfifo(many / "f3")
    (many / "settings").write_text("--invert-match\n--pre=/bin/false\n", encoding="utf-8")
    (many / ".ignore").write_text("*\n", encoding="utf-8")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(many / "settings"))
    monkeypatch.chdir(many)
    assert search_program.candidates(prefilter("needle"), names) == ["f1", "f2"]
    assert search_program.candidates("(", names) == names


@with_bubblewrap
def test_a_pattern_that_takes_long_to_read_is_read_in_the_sandbox(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("stackmem.workspace.workspace.SECONDS", 0.2)
    workspace = open_workspace(Bubblewrap(), tmp_path, "/workspace", Profile())
    slow = workspace.search_files(r"(?i)" + "[\x00-\U0010ffff]" * 100, ".", "", 0, 4_096)
    workspace.close()
    assert slow.text.startswith("the search took over")
