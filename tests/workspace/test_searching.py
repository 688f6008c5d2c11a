"""Searching files: what is found, how it is shown, and what no pattern and no file can do."""

import json
from pathlib import Path

import pytest

from stackmem.workspace.isolation.bare import Bare
from stackmem.workspace.isolation.bubblewrap import Bubblewrap
from stackmem.workspace.profile import Profile
from stackmem.workspace.workspace import Workspace, open_workspace

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
        ({"pattern": "MAIN$"}, "[no match below .; 5 files searched, ignored ones left out]"),
        ({"pattern": "(?i:NAME)", "path": "src/app.py", "context": 1},
         "src/app.py-4-def main():\nsrc/app.py:5:    return os.name"),
        ({"pattern": "import|name", "path": "src", "context": 1},
         "src/app.py:1:import os\nsrc/app.py-2-\n--\nsrc/app.py-4-def main():\nsrc/app.py:5:    return os.name"),
        ({"pattern": "main", "path": "build"}, "[no match below build; 0 files searched, ignored ones left out]"),
    ],
)  # fmt: skip
def test_matches_are_shown_by_path_and_line_and_ignored_files_left_out(opened: Workspace, asked, shown):
    given = {"path": ".", "glob": "", "context": 0, **asked}
    outcome = opened.search_files(**given, shown_bytes=4_096)
    assert (outcome.text, outcome.failed) == (shown, False)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"pattern": "("}, "no regular expression"),
        ({"pattern": "(?=x)"}, "look-around"),
        ({"pattern": r"(a)\1"}, "back-references"),
        ({"pattern": "[[:alpha:]]"}, "not to be had"),
        ({"pattern": "a&&b"}, "not to be had"),
        ({"pattern": "x" * 1_001}, "shorten it"),
        ({"pattern": "x", "context": 11}, "context is 11"),
        ({"pattern": "x", "path": "missing"}, "does not exist"),
        ({"pattern": "x", "path": "../.."}, "outside the workspace"),
        ({"pattern": "x", "path": "out/passwd"}, "outside the workspace"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_a_way_out(opened: Workspace, asked, words):
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
