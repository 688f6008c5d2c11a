"""Linting files, and folders with all their files, with the configuration that a run would use."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.languages.running.lint import lint_all
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.settings.tools import own_tools
from tests.in_process import command_line

GOOD = "main: [{name: a, tool: log, message: hi}]\n"
BAD = "main: [{name: a, tool: no_such}]\n"
TOOL = "tool_definition:\n  name: g\n  description: d\n  run: [{name: s, tool: log, message: from-g}]\n"
USES = "main: [{name: a, tool: g}]\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in {
        "p/main.apl": GOOD, "p/bad.apl": BAD, "p/tools/g.tool.apl": TOOL, "p/more/flow.sexp": "(foo 1)",
        "p/notes.txt": "x",
        "p/.git/main.apl": BAD, "p/node_modules/main.apl": BAD, "empty/notes.txt": "x",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def codes(*named: str, cwd: Path, **more: str) -> list[str]:
    return [f"{each.path} {each.code}" for linted in lint_all([*named], cwd, **more) for each in linted.findings]


def test_of_a_folder_every_program_in_it_is_linted_by_its_name_as_typed(place: Path) -> None:
    assert [linted.path for linted in lint_all(["p"], place)] == [
        "p/bad.apl", "p/main.apl", "p/more/flow.sexp", "p/tools/g.tool.apl",
    ]  # fmt: skip
    assert codes("p", cwd=place) == ["p/bad.apl apl/unknown-tool", "p/more/flow.sexp sexp/unknown-operator"]
    assert [linted.path for linted in lint_all(["."], place / "p" / "more")] == ["./flow.sexp"]
    assert [linted.path for linted in lint_all([str(place / "p" / "more")], place)] == [f"{place}/p/more/flow.sexp"]


def test_a_file_that_is_named_twice_is_linted_once(place: Path) -> None:
    first, *others = lint_all(["p/main.apl", "p", "p/main.apl"], place)
    assert (first.path, len(others)) == ("p/main.apl", 3)


def test_of_a_folder_a_language_can_be_chosen(place: Path) -> None:
    assert [linted.path for linted in lint_all(["p"], place, language="sexp")] == ["p/more/flow.sexp"]


@pytest.mark.parametrize(
    ("named", "more", "told"),
    [
        ("empty", {}, "contains no file whose name ends with .agent.yaml"),
        ("p", {"language": "loop_agent"}, "contains no file"),
        ("p", {"language": "cobol"}, "no language"),
        ("p/notes.txt", {}, "does not end with"),
        ("gone.apl", {}, "cannot find gone.apl"),
        ("gone.txt", {}, "cannot find gone.txt"),
        ("pipe.apl", {}, "is not a regular file"),
    ],
)
def test_what_cannot_be_linted_is_refused(place: Path, named: str, more: dict[str, str], told: str) -> None:
    os.mkfifo(place / "pipe.apl")
    with pytest.raises(UsageError, match=told):
        lint_all([named], place, **more)


def test_a_file_of_a_folder_that_cannot_be_read_is_a_finding_and_the_others_are_linted(place: Path) -> None:
    (place / "p" / "a.apl").write_bytes(b"\xff\xfe")
    (place / "p" / os.fsdecode(b"b\xff.apl")).write_text(BAD, "utf-8")
    os.mkfifo(place / "p" / "pipe.apl")
    (place / "p" / "round").symlink_to(place / "p")
    found = codes("p", cwd=place)
    assert found[0] == "p/a.apl apl/unreadable-file"
    assert found[2] == "p/b\ufffd.apl apl/unknown-tool"
    assert len(found) == 4


def runs(place: Path, program: str, cwd: Path) -> bool:
    """Return whether a program's tools are found when it is run from a folder."""
    flags = {"runs_dir": str(place / "runs"), "sandbox_dir": str(place / "work")}
    return prepare_program(ProgramArguments(str(place / program)), flags, os.environ, cwd).halts is None


@pytest.mark.parametrize("at", ["p/x", "p", "elsewhere/below", "elsewhere", "."])
@pytest.mark.parametrize("cwd", [".", "elsewhere/below", "p/x"])
def test_lint_finds_the_configuration_that_a_run_finds(tmp_path: Path, at: str, cwd: str) -> None:
    for folder in ("p/x", "elsewhere/below", f"{at}/tools"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / "p" / "x" / "main.apl").write_text(USES, "utf-8")
    (tmp_path / at / ".aplconfig").write_text("tool_paths: [tools]\n", "utf-8")
    (tmp_path / at / "tools" / "g.tool.apl").write_text(TOOL, "utf-8")
    finished = runs(tmp_path, "p/x/main.apl", tmp_path / cwd)
    clean = codes(str(tmp_path / "p" / "x" / "main.apl"), cwd=tmp_path / cwd) == []
    assert finished is clean
    above = [tmp_path / cwd, *(tmp_path / cwd).parents, tmp_path / "p" / "x", tmp_path / "p"]
    assert finished is (tmp_path / at in above)


def test_the_nearest_configuration_of_the_current_folder_comes_before_the_programs(tmp_path: Path) -> None:
    for name, text in {"p/main.apl": USES, "p/.aplconfig": "tool_paths: [gone]", "c/.aplconfig": "tool_paths: [t]",
                       "c/t/g.tool.apl": TOOL}.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert codes("../p/main.apl", cwd=tmp_path / "c") == []
    assert runs(tmp_path, "p/main.apl", tmp_path / "c")
    assert codes("p/main.apl", cwd=tmp_path)[0] == "p/main.apl apl/unreadable-configuration"
    assert codes("p/main.apl", cwd=tmp_path, config="c/.aplconfig") == []


@pytest.fixture
def own() -> Iterator[None]:
    @own_tools.tool
    def g(word: str = "") -> str:
        """Say it."""
        return word

    yield
    del own_tools.TOOLS["g"]


@pytest.mark.usefixtures("own")
def test_a_tool_of_the_persons_own_is_known(tmp_path: Path) -> None:
    (tmp_path / "main.apl").write_text(USES, "utf-8")
    assert codes("main.apl", cwd=tmp_path) == []


def lint(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return command_line(["lint", *words], os.environ, place)


def test_the_command_lints_folders_and_says_it_for_machines(place: Path) -> None:
    done = lint(place, "p")
    assert (done.returncode, done.stderr) == (1, "")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["p/bad.apl", "p/more/flow.sexp"]
    told = json.loads(lint(place, "p", "--json").stdout)
    assert [(each["path"], each["line"], each["severity"]) for each in told] == [
        ("p/bad.apl", 1, "error"), ("p/more/flow.sexp", 1, "error"),
    ]  # fmt: skip
    assert lint(place, "p/more", "--strict").returncode == 1
    both = lint(place, "p", "--json", "--format", "github")
    assert (both.returncode, "pass one" in both.stderr) == (2, True)
