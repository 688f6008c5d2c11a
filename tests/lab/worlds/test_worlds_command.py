"""``stackmem worlds`` lists the families and creates a task folder that other commands accept."""

import json
from pathlib import Path

from stackmem.lab.worlds import WORLDS
from tests.stage import Stage


def test_the_families_are_listed_with_a_sentence_each(stage: Stage):
    lines = stage.call("worlds", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(WORLDS)
    assert all(len(line.split()) > 5 for line in lines)
    assert [row["name"] for row in json.loads(stage.call("worlds", "list", "--json").stdout)] == list(WORLDS)


def test_a_world_is_created_described_and_solved_in_memory(stage: Stage):
    folder = stage.root / "task"
    made = stage.call("worlds", "make", "ledger", "--seed", 7, "--horizon", 12, "--noise", 0.5, "-o", folder, "--json")
    told = json.loads(made.stdout)
    assert (told["folder"], told["necessary_steps"], told["noise"]) == (str(folder), 12, 0.5)
    solved = stage.call("solve", folder, "--model", "demo", "--strategy", "full", "--isolation", "memory", "--json")
    assert solved.returncode == 0
    result = json.loads(solved.stdout)
    assert (result["outcome"], result["steps"], result["isolation"]) == ("solved", 12, "memory")
    applied = stage.call("apply", result["run"])
    assert applied.returncode == 2
    assert "has no patch to apply; its files were in memory" in applied.stderr
    again = stage.call("worlds", "make", "ledger", "-o", folder)
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr == f"stackmem: {folder} is not empty; name another folder with -o, or empty it\n"


def test_invalid_worlds_print_one_sentence_and_leave_no_files(stage: Stage):
    wrong = stage.call("worlds", "make", "ledgers", "-o", stage.root / "task")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("stackmem: no world 'ledgers'; known: env_trap, spec_map,")
    closed = stage.call("worlds", "make", "ledger", "-o", Path("/proc/nowhere/task"))
    assert closed.returncode == 2
    assert "cannot be written" in closed.stderr
    assert not (stage.root / "task").exists()
