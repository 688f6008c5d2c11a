"""Tests runs on the user's own folder: they work on a copy, patch it only on request, and never touch it otherwise."""

import json
import re
import signal
import sys
import venv
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.facts import Event, RunEnded, RunStarted, ToolReturned
from stackmem.core.messages import Text
from stackmem.core.state import State
from stackmem.trace.open_run import Run
from tests.history.folders import folder, holds, repository, run_git
from tests.stage import Stage, call, command, events, eventually, mounted, pop, push

START = {"app.py": "VALUE = 1\n", "README.md": "An app.\n", ".gitignore": "*.log\n.env\nbuild/\n"}
EDITS = [
    call("write_file", path="app.py", content="VALUE = 2\n"),
    command(
        "mkdir -p .github/workflows && echo 'on: push' > .github/workflows/ci.yml && printf 'made\\n' > 'a new.txt'"
    ),
    pop("Changed."),
]
CHANGED = [".github/workflows/ci.yml", "a new.txt", "app.py"]


@pytest.fixture
def hers(stage: Stage) -> Path:
    return repository(stage.root / "hers", dict(START))


def solve(stage: Stage, where: Path, *flags: object, replies=EDITS, named: str = ".", **more):
    return stage.call(
        "solve", named, "-t", "Set VALUE to 2.", "--model", stage.script(*replies), *flags, cwd=where, **more
    )


def untouched(hers: Path) -> None:
    assert {name: content for name, content in holds(hers).items() if name in START or name in CHANGED} == {
        name: text.encode() for name, text in START.items()
    }
    assert run_git(hers, "status", "--porcelain", "--untracked-files=no") == ""


def test_last_check_output_is_shown_only_if_the_check_fails(stage: Stage, hers: Path):
    complains = "seq -f 'line %g' 9; grep VALUE app.py; exit 1"
    ran = solve(stage, hers, "--check", complains)
    assert (ran.returncode, ran.stdout.split()[0]) == (1, "unsolved")
    assert "checks: reward 0\n      line 2\n" in ran.stderr
    assert ran.stderr.endswith("      line 9\n      VALUE = 2\n      [exit 1]\n")
    content = solve(stage, hers, "--check", "grep VALUE app.py")
    assert content.stderr.endswith("checks: reward 1\n")


@mounted
def test_the_changed_files_are_shown_and_nothing_applied_until_the_user_says_so(stage: Stage, hers: Path):
    ran = solve(stage, hers)
    assert ran.returncode == 0, ran.stderr
    assert "working on an overlay of " in ran.stderr
    assert "3 files" in ran.stderr
    assert ran.stdout.startswith("finished, not checked (popped)")
    assert re.search(r"^ *app\.py +\| +2 \+-$", ran.stdout, re.M), ran.stdout
    assert (
        "check these before you use the folder, because your machine may execute them:\n  .github/workflows/ci.yml\n"
        in ran.stdout
    )
    assert "apply it with: stackmem apply " in ran.stdout
    untouched(hers)
    applied = stage.call("apply", "last", cwd=hers)
    assert applied.returncode == 0, applied.stderr
    assert applied.stdout.startswith(f"applied to {hers}: 3 files")
    assert (hers / "app.py").read_text("utf-8") == "VALUE = 2\n"
    assert (hers / "a new.txt").read_text("utf-8") == "made\n"
    again = stage.call("apply", "last", cwd=hers)
    assert again.returncode == 0, again.stderr  # existing files are left unchanged
    assert again.stdout == f"already applied to {hers}\n"
    assert (hers / "app.py").read_text("utf-8") == "VALUE = 2\n"


def test_apply_tells_only_what_it_brings_in_and_that_all_is_there_already(stage: Stage, hers: Path):
    assert solve(stage, hers).returncode == 0
    (hers / "app.py").write_text("VALUE = 2\n", encoding="utf-8")
    patch = stage.only_run() / "changes.patch"
    assert stage.call("apply", "last").stdout == f"applied to {hers}: 2 files\n  {CHANGED[0]}\n  {CHANGED[1]}\n"
    run_git(hers, "apply", "--reverse", str(patch))
    (stage.only_run() / "applied.json").unlink()
    run_git(hers, "apply", str(patch))  # edited by hand, so only the files can show it
    assert stage.call("apply", "last").stdout == f"already applied to {hers}\n"


def test_apply_names_an_unsolved_run_and_one_that_changed_nothing(stage: Stage, hers: Path):
    assert solve(stage, hers, "--check", "false").returncode == 1
    assert stage.call("apply", "last").stdout.startswith(f"applied to {hers}: 3 files (the run is unsolved)\n")
    assert solve(stage, hers, replies=[pop()]).returncode == 0
    assert stage.call("apply", "last").stdout == f"nothing to apply to {hers}: the run changed no files\n"


def test_apply_names_a_file_that_both_changed_and_applies_the_others(stage: Stage, hers: Path):
    assert solve(stage, hers).returncode == 0
    (hers / "app.py").write_text("VALUE = 3  # hers\n", encoding="utf-8")
    before = holds(hers)
    ran = stage.call("apply", "last")
    assert ran.returncode == 2
    assert ran.stdout.startswith(f"applied to {hers}: 2 files\n")
    assert "app.py stays as you left it" in ran.stderr
    assert "README.md" not in ran.stderr
    assert before.items() <= holds(hers).items()


def test_apply_ignores_files_that_the_run_did_not_touch(stage: Stage, hers: Path):
    assert solve(stage, hers).returncode == 0
    (hers / "README.md").write_text("Hers.\n", encoding="utf-8")
    assert stage.call("apply", "last").returncode == 0
    assert (hers / "README.md").read_text("utf-8") == "Hers.\n"


@pytest.mark.parametrize(
    ("check", "code", "outcome", "applied"),
    [(None, 0, "finished", True), ("grep -q 2 app.py", 0, "solved", True), ("grep -q 9 app.py", 1, "unsolved", False)],
    ids=["not checked", "solved", "unsolved"],
)
def test_apply_at_once_only_what_is_solved_or_finished(stage: Stage, hers: Path, check, code, outcome, applied):
    ran = solve(stage, hers, "--apply", "--json", *(["--check", check] if check else []))
    result = json.loads(ran.stdout)
    assert (ran.returncode, result["outcome"], result["changed"]) == (code, outcome, CHANGED)
    assert result["executed_by_host"] == [".github/workflows/ci.yml"]
    assert (result["applied_to"] == str(hers)) is applied
    kept = json.loads((Path(result["run_dir"]) / "result.json").read_text("utf-8"))
    assert kept == result
    assert (hers / "app.py").read_text("utf-8") == ("VALUE = 2\n" if applied else "VALUE = 1\n")


def test_a_run_that_did_not_end_well_is_not_applied(stage: Stage, hers: Path):
    ran = solve(stage, hers, "--apply", "--json", replies=EDITS[:1])
    assert (ran.returncode, json.loads(ran.stdout)["applied_to"]) == (4, "")
    untouched(hers)


def test_the_check_runs_on_a_copy_out_of_the_agents_reach(stage: Stage, hers: Path):
    check = "echo spoiled > app.py; test -f 'a new.txt'"
    ran = solve(stage, hers, "--check", check, "--apply", "--json")
    assert json.loads(ran.stdout)["outcome"] == "solved"
    assert (hers / "app.py").read_text("utf-8") == "VALUE = 2\n"


def test_a_check_that_hangs_is_ended_by_ctrl_c_with_the_patch_kept(stage: Stage, hers: Path):
    script = stage.script(*EDITS)
    process = stage.start("solve", hers, "-t", "Go.", "--model", script, "--check", "sleep 1000", "--json", "--apply")
    eventually(lambda: stage.written() >= 7)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=100)
    result = json.loads(stdout)
    assert (process.returncode, result["outcome"], result["changed"]) == (130, "unsolved", CHANGED), stderr
    untouched(hers)


@mounted
def test_ignored_files_are_not_copied_unless_included_and_env_files_never(stage: Stage, hers: Path):
    folder(hers, {"debug.log": "x", ".env": "SECRET=1", ".env.local": "SECRET=2", "build/out": "x", "fresh.py": ""})
    look = [
        command("touch seen; ls -A | sort > /tmp/listed; mv /tmp/listed seen; ls build >> seen; cat seen"),
        pop(),
    ]
    solved = json.loads(solve(stage, hers, "--json", "--include", "build", replies=look).stdout)
    seen = (Path(solved["workspace"]) / "seen").read_text("utf-8")
    assert seen.split() == [".git", ".gitignore", "README.md", "app.py", "build", "fresh.py", "seen", "out"]


@mounted
def test_the_copy_appears_at_the_folders_own_path(stage: Stage, hers: Path):
    solved = json.loads(solve(stage, hers, "--json", replies=[command("pwd > where"), pop()]).stdout)
    assert (Path(solved["workspace"]) / "where").read_text("utf-8") == f"{hers}\n"
    assert solved["isolation"] == "bubblewrap" or (Path(solved["workspace"]) / "where").exists()


def test_without_history_a_subfolder_is_copied_and_patched_separately(stage: Stage):
    whole = repository(stage.root / "whole", {"part/app.py": "VALUE = 1\n", "other.py": "OTHER = 1\n"})
    replies = [EDITS[0], command("ls -A .. > seen"), pop()]
    ran = solve(stage, whole / "part", "--apply", "--git", "none", replies=replies)
    assert ran.returncode == 0, ran.stderr
    assert (whole / "part" / "app.py").read_text("utf-8") == "VALUE = 2\n"
    assert "other.py" not in (whole / "part" / "seen").read_text("utf-8")
    assert (whole / "other.py").read_text("utf-8") == "OTHER = 1\n"


def test_a_patch_that_the_folder_does_not_take_at_once_leaves_a_run_that_is_named_with_its_outcome(stage: Stage):
    place = folder(stage.root / "hers", {"app.py": "VALUE = 1\n"})

    def she_edits(event: Event, _: State) -> None:
        if isinstance(event, RunEnded):
            (place / "app.py").write_text("VALUE = 3\n", "utf-8")

    with pytest.raises(UsageError) as refused:
        stage.solve(place, "Go.", model=stage.script(*EDITS), apply=True, observe=she_edits)
    said = f"ended (finished) and is saved; applied to {place}: 2 files; app.py stays as you left it"
    assert str(refused.value).startswith(f"{stage.only_run().name} {said}")
    assert (place / "app.py").read_text("utf-8") == "VALUE = 3\n"


@pytest.mark.parametrize("name", ["plain", "-x", "two  words", "ünï¢ode", "quo'te\"s", "$HOME", "%n{}"])
def test_a_folder_outside_git_and_named_strangely_is_worked_on_like_any_other(stage: Stage, name):
    place = folder(stage.root / name, {"app.py": "VALUE = 1\n"})
    result = stage.solve(place, "Go.", model=stage.script(*EDITS), apply=True)
    assert (result.outcome, result.changed, result.applied_to) == ("finished", tuple(CHANGED), str(place))
    assert (place / "app.py").read_text("utf-8") == "VALUE = 2\n"


def test_a_folder_whose_name_begins_with_a_dash_is_named_behind_two(stage: Stage):
    place = folder(stage.root / "-x", {"app.py": "VALUE = 1\n"})
    ran = stage.call("solve", "-t", "Go.", "--model", stage.script(*EDITS), "--", place.name, cwd=stage.root)
    assert ran.returncode == 0, ran.stderr


def test_runs_and_sandboxes_below_the_folder_are_never_copied(stage: Stage, hers: Path):
    flags = ["--runs-dir", hers / "runs", "--sandbox-dir", hers / "boxes", "--json"]
    look = [command("ls -A > seen"), pop()]
    first = json.loads(solve(stage, hers, *flags, replies=look).stdout)
    second = json.loads(solve(stage, hers, *flags, replies=look).stdout)
    assert (Path(second["workspace"]) / "seen").read_text("utf-8") == (Path(first["workspace"]) / "seen").read_text(
        "utf-8"
    )
    assert second["changed"] == ["seen"]


def test_a_copy_of_more_than_a_gibibyte_is_asked_for_first(stage: Stage, hers: Path):
    with (hers / "large").open("wb") as large:
        large.truncate((1 << 30) + 4096)
    ran = solve(stage, hers, "--json", "--layer", "copy")
    assert ran.returncode == 2
    assert "4 files, 1,024.0 MiB" in ran.stderr
    assert "pass --yes to allow it" in json.loads(ran.stdout)["error"]
    assert stage.left_behind() == []


@mounted
def test_a_layer_run_can_be_resumed_and_forked_and_leaves_only_its_changes(stage: Stage, hers: Path):
    result = stage.solve(
        hers, "Go.", model=stage.script(*EDITS), max_steps=1, layer="overlay", check="grep -q 2 app.py"
    )
    assert (result.ending, result.changed, set(holds(Path(result.workspace)))) == (
        "limit:steps", ("app.py",), {"app.py"},
    )  # fmt: skip
    (hers / "README.md").write_text("Hers.\n", "utf-8")
    resumed = stage.call("resume", result.run, "--max-steps", "none")
    assert (resumed.returncode, resumed.stdout.split()[0]) == (0, "solved"), resumed.stderr
    assert "changed in your folder while the run worked: README.md\n" in resumed.stdout
    forked = stage.call("fork", result.run, "--at", "1", "--max-steps", "none")
    assert (forked.returncode, forked.stdout.split()[0]) == (0, "solved"), forked.stderr
    for done in ("last", result.run):
        assert stage.call("replay", done).returncode == 0
        assert stage.call("replay", done, "--tools", "live").returncode == 0
    assert stage.call("apply", result.run).returncode == 0
    assert {name: (hers / name).exists() for name in CHANGED} == dict.fromkeys(CHANGED, True)


def test_a_run_of_a_task_has_no_folder_to_apply_to(stage: Stage):
    result = stage.solve(stage.task(command("touch made"), pop()))
    ran = stage.call("apply", result.run)
    assert ran.returncode == 2
    assert "worked on a task, not on a folder of yours" in ran.stderr


def test_a_run_that_was_cut_short_has_no_patch_to_apply(stage: Stage, hers: Path):
    result = stage.solve(hers, "Go.", model=stage.script(*EDITS))
    (Path(result.run_dir) / "changes.json").write_bytes(b"{")
    ran = stage.call("apply", "last")
    assert ran.returncode == 2
    assert "has no patch to apply" in ran.stderr
    untouched(hers)


def test_hostile_names_and_contents_reach_the_terminal_as_text(stage: Stage, hers: Path):
    hostile = [
        command("printf '\\033]0;owned\\007' > \"$(printf 'x\\033[2Jy')\"; printf 'VALUE = \\033[31m\\r\\n' > app.py"),
        pop(),
    ]
    ran = solve(stage, hers, replies=hostile)
    assert ran.returncode == 0, ran.stderr
    assert not set(ran.stdout + ran.stderr) & set("\x1b\x07\r")
    assert " app.py " in ran.stdout
    applied = stage.call("apply", "last")
    assert applied.returncode == 0, applied.stderr
    assert not set(applied.stdout) & set("\x1b\x07")


def test_the_result_ends_with_a_stat_of_the_patch_and_the_path_of_the_whole(stage: Stage, hers: Path):
    ran = solve(stage, hers, replies=[command("seq 100000 > numbers"), pop()])
    patch = stage.only_run() / "changes.patch"
    assert " numbers | 100,000 ++++" in ran.stdout
    assert " 1 file changed, 100,000 lines added, 0 removed" in ran.stdout
    assert f"the whole patch: {patch}" in ran.stdout
    assert len(ran.stdout) < 2_000
    assert patch.stat().st_size > 500_000


@mounted
def test_the_environment_of_the_folder_is_the_one_of_commands_and_of_the_check(stage: Stage, tmp_path: Path):
    """The copy's interpreter has the packages installed there; the check was detected automatically."""
    mine = repository(tmp_path / "mine", {"app.py": "", "tests/test_app.py": SUITE, ".gitignore": ".venv/\n"})
    venv.create(mine / ".venv", symlinks=True)
    (site,) = (mine / ".venv").glob("lib/python3*/site-packages")
    (site / "theirs.py").write_text("VALUE = 3\n", encoding="utf-8")
    seen = command("python -c 'import theirs, sys; print(sys.prefix, theirs.VALUE)'; echo env $VIRTUAL_ENV")
    replies = [seen, call("write_file", path="app.py", content="VALUE = 3\n"), pop()]
    ran = solve(stage, mine, "--check", "auto", replies=replies)
    assert (ran.returncode, ran.stdout.split()[0]) == (0, "solved"), ran.stderr
    assert "the check is `python -m unittest discover tests`, as tests suggests" in ran.stderr
    (returned, *_) = events(stage.only_run(), ToolReturned)
    assert returned.text.splitlines()[:2] == [f"{mine}/.venv 3", f"env {mine}/.venv"]
    (started,) = events(stage.only_run(), RunStarted)
    version = ".".join(map(str, sys.version_info[:3]))
    assert (
        started.project == f"project: python is .venv/bin/python ({version})\ntests: python -m unittest discover tests"
    )
    shown = stage.call("doctor", mine)
    assert f"  python:     .venv/bin/python ({version})\n" in shown.stdout
    assert stage.call("replay", "last").returncode == 0


def test_a_check_that_nothing_suggests_is_refused(stage: Stage, hers: Path):
    ran = stage.call("solve", ".", "-t", "x", "--check", "auto", "--model", stage.script(pop()), cwd=hers)
    assert (ran.returncode, ran.stderr) == (
        2, f"stackmem: no test command found in {hers}; pass one with --check COMMAND\n",
    )  # fmt: skip
    named = stage.call("solve", stage.task(pop()), "--check", "auto")
    assert (named.returncode, named.stderr) == (
        2, "stackmem: a task has its own checks; omit --check auto\n",
    )  # fmt: skip


SUITE = """import unittest, theirs, app
class Test(unittest.TestCase):
    def test_value(self):
        self.assertEqual(app.VALUE, theirs.VALUE)
"""


def test_a_user_folder_is_edited_listed_without_ignored_files_and_searched_on_request(stage: Stage, hers: Path):
    (hers / "build").mkdir()
    (hers / "build" / "out").write_text("x", encoding="utf-8")
    edit = call("edit_file", path="app.py", old_string="VALUE = 1", new_string="VALUE = 2")
    look = command("mkdir -p build; echo x > build/out; echo y > a.log")
    found = call("search_files", pattern="VALUE = [0-9]", glob="*.py")
    ran = solve(
        stage, hers, "--check", "grep -q 2 app.py", replies=[look, call("list_files"), edit, found, pop()]
    )  # fmt: skip
    assert ran.stdout.split()[0] == "solved", ran.stderr
    (started,) = events(stage.only_run(), RunStarted)
    names = [tool.name for tool in started.tools if "job" not in tool.name]
    assert names[-1] == "edit_file"
    assert "search_files" not in names
    _, listed, edited = events(stage.only_run(), ToolReturned)
    assert listed.text.endswith("\n[left out, as .gitignore says: a.log, build/]")
    assert edited.text == "replaced 1 place in 'app.py' (line 1)"
    assert stage.call("replay", "last").returncode == 0
    both = stage.solve(hers, "x", model=stage.script(found, pop()), extra_tools=["search_files"])
    assert [one.text for one in events(both.run_dir, ToolReturned)] == ["app.py:1:VALUE = 1"]
    wrong = stage.call("solve", ".", "-t", "x", "--extra-tools", "edit", "--model", "human", cwd=hers)
    assert (wrong.returncode, wrong.stderr) == (
        2, "stackmem: no optional tool 'edit'; "
        "known: edit_file, search_files, ask_user, heap_load, remember, recall, web_fetch, web_search\n",
    )  # fmt: skip


def test_the_instructions_of_the_project_stand_in_every_frames_prompt_unless_she_says_none(stage: Stage, hers: Path):
    (hers / "AGENTS.md").write_text("Use tabs.\n", encoding="utf-8")
    pushed = [push(), pop(), pop()]
    run = stage.solve(hers, "x", model=stage.script(*pushed))
    told = "\nINSTRUCTIONS of the project (AGENTS.md)"
    assert [told in view_text(run.run_dir, step) for step in (1, 2, 3)] == [True, True, True]
    assert stage.call("replay", run.run_dir).returncode == 0
    (hers / "mine.md").write_text("Use spaces.\n", encoding="utf-8")
    assert "  agents:     INSTRUCTIONS of the project (AGENTS.md)." in stage.call("doctor", hers).stdout
    mine = stage.solve(hers, "x", model=stage.script(pop()), instructions=str(hers / "mine.md"))
    assert "Use spaces." in view_text(mine.run_dir, 1)
    none = stage.solve(hers, "x", model=stage.script(pop()), instructions="none")
    assert "INSTRUCTIONS" not in view_text(none.run_dir, 1)


def view_text(run: str, step: int) -> str:
    view = Run(Path(run)).prompt(step)
    return "\n".join(part.text for message in view.messages for part in message.parts if isinstance(part, Text))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--model", "nobody/x"], "nobody/x"),
        (["--model", "script:gone.yaml"], "gone.yaml"),
        (["--strategy", "stak"], "no strategy 'stak'"),
        (["--prompt", "gone.md"], "the prompt"),
        (["--profile", "gone.toml"], "name a readable profile"),
        (["--instructions", "gone.md"], "the instructions"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_wrong_name_is_refused_before_the_folder_is_looked_through(stage: Stage, hers: Path, flags, words):
    ran = stage.call("solve", ".", "-t", "x", "--model", stage.script(pop()), "--include", "gone", *flags, cwd=hers)
    assert ran.returncode == 2
    assert words in ran.stderr
    assert "working " not in ran.stderr
    assert stage.left_behind() == []
