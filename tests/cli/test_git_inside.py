"""Tests git in a run on the user's own folder: what the agent sees, and what happens to commits and the repository."""

import json
import os
from pathlib import Path

import pytest

from stackmem.core.facts import RunStarted, ToolReturned
from tests.history.folders import folder, repository, run_git
from tests.stage import Stage, call, command, events, mounted, pop

WORK = [
    command("git status --porcelain; git log --format=%s; git blame -s app.py; git show HEAD:.env"),
    command("echo 2 > app.py; git diff | tail -2; git commit -qam 'the second'; git status --porcelain; ls .git/hooks"),
    pop("Committed."),
]


@pytest.fixture
def hers(stage: Stage) -> Path:
    return repository(stage.root / "hers", {"app.py": "1\n", ".env": "PASSWORD=1\n"})


def solve(stage: Stage, hers: Path, *flags: object) -> dict[str, object]:
    flags = ("--model", stage.script(*WORK), "--fsync", "none", "--json", *flags)
    ran = stage.call("solve", ".", "-t", "Set it to 2.", *flags, cwd=hers)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def answers(stage: Stage, run: str) -> list[str]:
    return [fact.text for fact in events(stage.runs / run, ToolReturned)]


def test_history_is_read_and_commits_are_named_and_stay_in_the_copy(stage: Stage, hers: Path):
    head = run_git(hers, "rev-parse", "HEAD")
    result = solve(stage, hers)
    read, changed = answers(stage, str(result["run"]))
    assert read.splitlines()[0] == "start"
    assert read.splitlines()[1].endswith(" 1) 1")
    assert read.splitlines()[2:] == ["(withheld)", "[exit 0]"]
    assert changed == "-1\n+2\n[exit 0]"
    (commit,) = result["commits"]
    assert commit.endswith(" the second")
    assert (result["changed"], result["history"]) == (["app.py"], "")
    assert run_git(hers, "rev-parse", "HEAD") == head
    assert run_git(hers, "status", "--porcelain") == ""
    other = stage.script(*WORK[:2], command("git diff"), pop(), name="other.yaml")
    forked = stage.call("fork", "last", "--at", "2", "--model", other, cwd=hers)
    assert forked.returncode == 0, forked.stderr
    last = max(stage.runs.iterdir(), key=lambda run: run.stat().st_mtime_ns).name
    assert answers(stage, last)[-1].endswith("-1\n+2\n[exit 0]")  # the agent's commit appears there as plain changes
    replayed = stage.call("replay", str(result["run"]), "--tools", "live", cwd=hers)
    assert replayed.returncode == 0, replayed.stdout


@mounted
def test_a_folder_in_a_work_tree_is_the_place_from_which_all_of_it_is_worked_on(stage: Stage, hers: Path):
    folder(hers, {"AGENTS.md": "Of all.", "parts/one/AGENTS.md": "Of one.", "parts/one/one.py": "VALUE = 1\n"})
    run_git(hers, "add", "-A")
    run_git(hers, "commit", "-qm", "parts")
    replies = [
        call("list_files"), call("list_files", path="../.."), call("search_files", pattern="^(VALUE|1)", path="../.."),
        call("edit_file", path="one.py", old_string="1", new_string="2"),
        call("write_file", path="../two/two.py", content="VALUE = 2\n"), command("pwd; git status --short"), pop(),
    ]  # fmt: skip
    more = ("--extra-tools", "search_files", "--extra-tools", "edit_file", "--check", "grep 2 one.py ../two/two.py")
    place = hers / "parts" / "one"
    ran = stage.call("solve", ".", "-t", "Set it.", "--model", stage.script(*replies), "--json", *more, cwd=place)
    assert (ran.returncode, json.loads(ran.stdout)["outcome"]) == (0, "solved"), ran.stderr
    assert f"parts/one is in the work tree {hers}: the run works on all of it, from parts/one" in ran.stderr
    run = stage.only_run()
    (start,) = events(run, RunStarted)
    assert (start.workspace, start.place) == (str(hers), "parts/one")
    assert "(AGENTS.md, parts/one/AGENTS.md)" in start.instructions
    listed, above, matches, _, _, status = answers(stage, run.name)
    assert listed.splitlines() == ["AGENTS.md  (7 bytes)", "one.py  (10 bytes)"]
    assert above.splitlines()[:3] == ["../../.git/", "../../AGENTS.md  (7 bytes)", "../../app.py  (2 bytes)"]
    assert matches.splitlines() == ["../../app.py:1:1", "one.py:1:VALUE = 1"]
    assert status.splitlines() == [str(place), " M one.py", "?? ../two/", "[exit 0]"]
    live = stage.call("replay", "last", "--tools", "live", cwd=hers)
    assert live.returncode == 0, live.stdout
    assert stage.call("apply", "last", cwd=hers).returncode == 0
    assert ((place / "one.py").read_text(), (hers / "parts/two/two.py").read_text()) == ("VALUE = 2\n", "VALUE = 2\n")


def test_git_none_hides_the_repository_and_an_unreadable_one_is_reported(stage: Stage, hers: Path):
    result = solve(stage, hers, "--git", "none")
    assert "not a git repository" in answers(stage, str(result["run"]))[0]
    assert result["commits"] == []
    told = stage.call("doctor", str(hers)).stdout
    assert "git:        a run can read 1 commit from HEAD, including old versions of files" in told
    (hers / ".git").rename(stage.root / "elsewhere.git")
    (hers / ".git").symlink_to(stage.root / "elsewhere.git")
    ran = stage.call("solve", ".", "-t", "Nothing.", "--model", stage.script(pop()), cwd=hers)
    assert ran.returncode == 0
    assert f"the .git of {hers} is not a repository, so the run does not get its history" in ran.stderr


@mounted
def test_the_history_that_runs_share_is_counted_to_none_of_them_and_goes_with_the_last(stage: Stage, hers: Path):
    (hers / "large.txt").write_bytes(os.urandom(3 << 20).hex().encode())
    run_git(hers, "add", "-A")
    run_git(hers, "commit", "-qm", "large")
    # Git updates the time of an existing object that it should write, and of its pack. The layer must not copy the
    # pack.
    again = command(
        "echo 3 > app.py; git stash -q; git commit -qm same --allow-empty; git gc -q; "
        "! chmod -R u+w /opt/stackmem/history"
    )
    run = solve(stage, hers, "--model", stage.script(WORK[0], again, pop(), name="again.yaml"))["run"]
    assert answers(stage, str(run))[1].endswith("[exit 0]")
    (row,) = json.loads(stage.call("runs", "--json").stdout)
    assert row["disk_bytes"] < 1 << 20
    told = "repository histories without runs"
    for _ in range(2):  # packs left by other tests are removed first
        pruned = stage.call("runs", "prune", "--older-than", "0h", "--keep-last", "1")
    assert told not in pruned.stdout
    assert stage.call("runs", "rm", str(run)).returncode == 0
    for does in ("would be removed", "removed"):
        flags = ["--dry-run"] * (does == "would be removed")
        assert f"{told} {does}, " in stage.call("runs", "prune", "--older-than", "0h", *flags).stdout
