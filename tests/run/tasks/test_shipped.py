"""The shipped tasks: their form, and checks that reliably distinguish solved from unsolved."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from msgspec import json

from stackmem.run.tasks.find import list_tasks, shipped_tasks
from stackmem.run.tasks.judge import Judgment, judge
from stackmem.run.tasks.reader import Task, read_task

SCHEMA = Path(__file__).parents[2] / "schemas" / "harbor_task.schema.json"
TASKS = [read_task(path) for path in list_tasks(Path(os.devnull))]
BY_NAME = pytest.mark.parametrize("task", TASKS, ids=[task.short_name for task in TASKS])


def workspace_of(task: Task, folder: Path) -> Path:
    assert task.workspace is not None
    return Path(shutil.copytree(task.workspace, folder / "workspace"))


def environ(**more: str) -> dict[str, str]:
    """Return a check command's environment; ``python`` is the interpreter that runs the tests."""
    return {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": os.environ["HOME"], **more}


def checked(task: Task, workspace: Path, **more: str) -> tuple[Judgment, str]:
    """Return the verdict on a copy of the workspace, and the output of the checks."""
    with_verdict = workspace.parent / "verdict"
    shutil.rmtree(with_verdict, ignore_errors=True)
    copy = Path(shutil.copytree(workspace, workspace.parent / "copy", symlinks=True))
    done = subprocess.run(
        ["sh", str(task.tests / "test.sh")],
        cwd=copy,
        env=environ(TESTS_DIR=str(task.tests), VERIFIER_DIR=str(with_verdict), **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=550,  # seconds; a busy machine needs more than the task allows
        check=False,
    )
    shutil.rmtree(copy)
    return judge(with_verdict), done.stdout


def solve(task: Task, workspace: Path) -> None:
    assert task.solution is not None
    subprocess.run(["sh", str(task.solution / "solve.sh")], cwd=workspace, env=environ(), check=True)


def strict(schema: object) -> object:
    """Return the schema with unknown keys refused wherever it lists an object's keys."""
    match schema:
        case dict():
            made = {key: strict(value) for key, value in schema.items()}
            return {**made, "additionalProperties": False} if "properties" in made and "title" in made else made
        case list():
            return [strict(item) for item in schema]
    return schema


def test_four_tasks_ship():
    assert [task.name for task in TASKS] == [
        "stackmem/calculator", "stackmem/ledger_rounding", "stackmem/provider_map", "stackmem/split_config"
    ]  # fmt: skip


@BY_NAME
def test_a_task_toml_is_harbors(task):
    schema = strict(json.decode(SCHEMA.read_bytes()))
    assert isinstance(schema, dict)
    validator = Draft202012Validator(schema)
    config = tomllib.loads((task.folder / "task.toml").read_text(encoding="utf-8"))
    assert [error.message for error in validator.iter_errors(config)] == []
    assert list(validator.iter_errors({**config, "agents": {}})) != []
    assert config["environment"]["network_mode"] == "no-network"
    assert (task.folder / "environment" / "Dockerfile").is_file()
    assert task.warnings == ()


@BY_NAME
def test_the_solution_passes(task, tmp_path):
    workspace = workspace_of(task, tmp_path)
    solve(task, workspace)
    verdict, printed = checked(task, workspace)
    assert verdict.solved, printed


@BY_NAME
def test_doing_nothing_fails(task, tmp_path):
    verdict, printed = checked(task, workspace_of(task, tmp_path))
    assert verdict == Judgment({"reward": 0.0}), printed


@BY_NAME
def test_an_emptied_workspace_fails(task, tmp_path):
    (tmp_path / "workspace").mkdir()
    verdict, printed = checked(task, tmp_path / "workspace")
    assert verdict == Judgment({"reward": 0.0}), printed


def test_the_calculator_has_forty_hidden_cases_and_more():
    cases = shipped_tasks() / "calculator" / "tests" / "hidden_test_evaluate.py"
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "--noconftest"]
    where = ["-c", str(cases.with_name("pytest.ini")), "--rootdir", str(cases.parent), str(cases)]
    done = subprocess.run([*command, *where], env=environ(WORKSPACE="/"), capture_output=True, text=True, check=True)
    assert done.stdout.count("::test_") >= 40


def test_an_instruction_names_no_place_of_the_sandbox():
    for task in TASKS:
        assert "/workspace" not in task.instruction
        assert task.demo is not None
        assert "/workspace" not in task.demo.read_text(encoding="utf-8")


ORIGINALS = {
    "calculator/tests/reference_calculator.txt": "calculator/solution/calculator.py",
    "ledger_rounding/tests/old/money.py.txt": "ledger_rounding/environment/workspace/src/ledger/money.py",
    "ledger_rounding/tests/old/allocation.py.txt": "ledger_rounding/environment/workspace/src/ledger/allocation.py",
    "ledger_rounding/tests/old/statement.py.txt": "ledger_rounding/environment/workspace/src/ledger/statement.py",
    "ledger_rounding/environment/workspace/build/lib": "ledger_rounding/environment/workspace/src",
    "ledger_rounding/tests/project/tests": "ledger_rounding/environment/workspace/tests",
    "ledger_rounding/tests/project/tools": "ledger_rounding/environment/workspace/tools",
    "ledger_rounding/tests/project/data": "ledger_rounding/environment/workspace/data",
    "split_config/tests/project/relay": "split_config/environment/workspace/relay",
    "split_config/tests/project/tests": "split_config/environment/workspace/tests",
}


@pytest.mark.parametrize("copy", ORIGINALS)
def test_what_a_check_brings_along_is_what_the_agent_finds(copy):
    assert contents(shipped_tasks() / copy) == contents(shipped_tasks() / ORIGINALS[copy])


def contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    kept = [file for file in files if "__pycache__" not in file.parts]
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(kept)}


# Files with which an agent might make the checks pass without doing the work, and their content.
GREEN = "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"
LEAVE = "import os\nos._exit(0)\n"
FAKES = {
    "a conftest": {"conftest.py": GREEN, "src/conftest.py": GREEN, "tests/conftest.py": GREEN},
    "settings of pytest": {
        name: f"[{section}]\naddopts = --collect-only\n"
        for name, section in [("pytest.ini", "pytest"), ("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")]
    },
    "a pyproject": {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--collect-only"\n'},
    "a sitecustomize": dict.fromkeys(("sitecustomize.py", "usercustomize.py", "src/sitecustomize.py"), LEAVE),
    "modules that shadow": {
        f"{folder}{name}.py": LEAVE
        for folder in ("", "src/", "tests/")
        for name in ("pytest", "json", "subprocess", "pathlib")
    },
    "a module that ends its process": {"src/calculator.py": "import os\nprint('137 passed')\nos._exit(0)\n"},
    "a module that prints answers": {
        "src/calculator.py": "import os\nos.write(1, b'{\"value\": 1.0}\\n' * 500)\nos._exit(0)\n"
    },
    "its own reward": {"reward.txt": "1\n", "reward.json": '{"reward": 1}\n'},
    "its own programs": {"python": "#!/bin/sh\nexit 0\n", "pytest": "#!/bin/sh\nexit 0\n"},
}


@pytest.mark.parametrize("fake", FAKES)
def test_an_agent_that_only_pretends_does_not_pass(fake, tmp_path):
    task = next(task for task in TASKS if task.short_name == "calculator")
    workspace = workspace_of(task, tmp_path)
    for name, text in FAKES[fake].items():
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text(text, encoding="utf-8")
        (workspace / name).chmod(0o755)
    verdict, printed = checked(task, workspace)
    assert verdict == Judgment({"reward": 0.0}), printed


@pytest.mark.parametrize("name", ["PYTEST_ADDOPTS", "PYTEST_PLUGINS"])
def test_the_callers_environment_does_not_configure_the_checks(name, tmp_path):
    task = next(task for task in TASKS if task.short_name == "calculator")
    verdict, _ = checked(task, workspace_of(task, tmp_path), **{name: "--collect-only"})
    assert verdict == Judgment({"reward": 0.0})


@pytest.mark.parametrize(("right", "wrong"), [("result -= other", "result += other"), (" \\t\\r\\n", " \\t")])
def test_a_calculator_with_one_wrong_rule_does_not_pass(right, wrong, tmp_path):
    task = next(task for task in TASKS if task.short_name == "calculator")
    workspace = workspace_of(task, tmp_path)
    solve(task, workspace)
    module = workspace / "src" / "calculator.py"
    before = module.read_text(encoding="utf-8")
    assert right in before
    module.write_text(before.replace(right, wrong), encoding="utf-8")
    assert checked(task, workspace)[0] == Judgment({"reward": 0.0})
