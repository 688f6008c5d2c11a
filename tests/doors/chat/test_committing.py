"""``/apply --commit`` commits the applied files for the user."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.doors.chat.committing import ApplyOrder, commit_applied, read_order
from stackmem.doors.chat.picking import content_with, hunks_of
from tests.history.folders import folder, repository, run_git


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("", ApplyOrder()),
        ("./a 'b c'", ApplyOrder(("a", "b c"))),
        ("-p a", ApplyOrder(("a",), picks=True)),
        ("--yes a", ApplyOrder(("a",), yes=True)),
        ("--commit d/", ApplyOrder(("d/",), commits=True)),
        ("--branch x --hooks -- --odd", ApplyOrder(("--odd",), commits=True, branch="x", hooks=True)),
    ],
)
def test_what_follows_apply_is_read(text: str, order: ApplyOrder):
    assert read_order(text) == order


@pytest.mark.parametrize(
    ("text", "says"), [("'a", "quotation mark"), ("--branch", "needs a name"), ("--comit", "no flag '--comit'")]
)
def test_a_mistake_is_named(text: str, says: str):
    with pytest.raises(UsageError, match=says):
        read_order(text)


def test_only_the_applied_files_are_committed_and_hooks_do_not_run(tmp_path: Path):
    mine = repository(tmp_path / "p", {"a": "1", "gone": "1", "staged": "1", "other": "1"})
    folder(mine / ".git" / "hooks", {"pre-commit": "#!/bin/sh\nexit 1\n"})
    (mine / ".git" / "hooks" / "pre-commit").chmod(0o755)
    folder(mine, {"a": "2", "staged": "2", "other": "2", "new*": "n", "newer": "n"})
    run_git(mine, "add", "staged")
    (mine / "gone").unlink()
    said = commit_applied(mine, ("a", "gone", "new*"), ApplyOrder(commits=True), "Change a\n")
    assert said.startswith("committed ")
    assert said.endswith(" Change a")
    assert run_git(mine, "show", "--format=%s", "--name-status", "HEAD").split() == [
        "Change", "a", "M", "a", "D", "gone", "A", "new*",
    ]  # fmt: skip
    assert run_git(mine, "status", "--porcelain") == " M other\nM  staged\n?? newer\n"
    folder(mine, {"a": "3"})
    refused = commit_applied(mine, ("a",), ApplyOrder(commits=True, hooks=True), "Again\n")
    assert refused.startswith("the files are applied, but not committed: ")


def test_a_new_branch_has_the_commit(tmp_path: Path):
    mine = repository(tmp_path / "p", {"a": "1"})
    folder(mine, {"a": "2"})
    said = commit_applied(mine, ("a",), ApplyOrder(commits=True, branch="side"), "Change a\n")
    assert said.endswith(" on the new branch side")
    assert run_git(mine, "branch", "--show-current") == "side\n"
    assert "already exists" in commit_applied(mine, ("a",), ApplyOrder(commits=True, branch="side"), "Again\n")


def test_a_folder_without_a_repository_says_so(tmp_path: Path):
    mine = folder(tmp_path / "p", {"a": "1"})
    assert "not a git repository" in commit_applied(mine, ("a",), ApplyOrder(commits=True), "Change a\n")
    assert commit_applied(mine, (), ApplyOrder(commits=True), "x") == "nothing was applied, so nothing is committed"


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\x0c\n"])
@pytest.mark.parametrize("end_after", [b"", b"\n", b"\r"])
def test_hunks_lead_to_the_agents_content_with_any_line_ends(tmp_path: Path, end: bytes, end_after: bytes):
    lines = [b"@@ -%d +1 @@\r\x0b" % number for number in range(60)]
    before = b"\n".join(lines) + end
    lines[3:5], lines[30:30], lines[59:] = [b"\\ No newline"], [b"+new", b""], [b"-last"]
    after = b"\n".join(lines) + end_after
    mine = repository(tmp_path / "p", {"a": before})
    folder(mine, {"a": after})
    run_git(mine, "config", "core.autocrlf", "false")
    section = subprocess.run(["git", "diff", "--text"], cwd=mine, check=True, capture_output=True).stdout
    hunks = hunks_of(section, before, after)
    assert len(hunks) == 3
    assert content_with(before, []) == before
    assert content_with(before, hunks[1:2]) == before.replace(b"@@ -31 +", b"+new\n\n@@ -31 +")
    assert hunks_of(section, after, after) == []
