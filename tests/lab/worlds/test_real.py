"""A world is an ordinary task folder: real commands answer like the in-memory function, and the checks agree."""

import sys
from pathlib import Path

import pytest

from stackmem import UsageError
from stackmem.formats.tasks.check import check_task
from stackmem.lab.worlds import make, make_task, manifest
from stackmem.lab.worlds.oracle import OracleCall
from stackmem.run.in_memory import PROGRAM, program_text
from stackmem.run.tasks import work
from stackmem.run.tasks.reader import read_task
from stackmem.workspace.isolation.bare import Bare
from stackmem.workspace.memory import MemoryWorkspace
from stackmem.workspace.profile import Profile
from stackmem.workspace.workspace import open_workspace
from tests.lab.worlds.worlds import FAMILIES, made
from tests.stage import Stage

SHOWN = 32_768
HOSTILE = (
    OracleCall("run_command", {"command": "./work"}),
    OracleCall("run_command", {"command": "./work do 1 ledger.total=1 'a b' x=\"y z\""}),
    OracleCall("run_command", {"command": "./work do 999999999"}),
    OracleCall("run_command", {"command": "./work plan 1-10000000000"}),
    OracleCall("run_command", {"command": "./work probe é ü"}),
    OracleCall("run_command", {"command": "./work log 1 1"}),
    OracleCall("run_command", {"command": "./work log 2 99"}),
    OracleCall("run_command", {"command": "./work audit"}),
    OracleCall("run_command", {"command": "ls"}),
    OracleCall("run_command", {"command": "cat .work/journal"}),
    OracleCall("read_file", {"path": "../../etc/passwd"}),
    OracleCall("read_file", {"path": ".work/plan"}),
    OracleCall("list_files", {"path": "."}),
    OracleCall("write_file", {"path": "notes.md", "content": "mine\n"}),
    OracleCall("list_files", {"path": "."}),
)


def answer(workspace, call: OracleCall):
    args = call.args
    match call.tool:
        case "read_file":
            return workspace.read_file(args["path"], args.get("start_line"), None, SHOWN)
        case "list_files":
            return workspace.list_files(args["path"], SHOWN)
        case "write_file":
            return workspace.write_file(args["path"], args["content"])
        case _:
            return workspace.run_command(args["command"], 30, SHOWN)


def compared(world_folder: Path, world, level, root: Path, more: tuple[OracleCall, ...] = ()) -> None:
    """Make every call of the oracle, and further calls in between, in both; then compare the files."""
    root.mkdir()
    for path, text in world.files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        place.chmod((world_folder / "environment" / "workspace" / path).stat().st_mode)
    real = open_workspace(level, root, "/workspace", Profile())
    memory = MemoryWorkspace(world.files, real.path, PROGRAM)
    middle = len(world.calls) // 2
    try:
        for call in (*world.calls[:middle], *more, *world.calls[middle:-1]):
            assert answer(memory, call) == answer(real, call), call
        for path, text in memory.files.items():
            assert (root / path).read_text(encoding="utf-8") == text
    finally:
        real.close()


def test_real_commands_and_files_answer_as_memory_does_call_by_call(tmp_path: Path):
    folder = make("log_haystack", 7, 10, 0.5, tmp_path / "task")
    compared(folder, made("log_haystack", 10, 7, 0.5), Bare(), tmp_path / "ws", HOSTILE)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_real_program_prints_and_leaves_what_the_function_does_over_a_whole_run(family: str, tmp_path: Path):
    world = made(family, 12, 7, 0.3)
    place = make(family, 7, 12, 0.3, tmp_path / "task") / "environment" / "workspace"
    real = open_workspace(Bare(), place, "/workspace", Profile())
    memory = MemoryWorkspace(world.files, real.path, PROGRAM)
    commands = [str(call.args["command"]) for call in world.calls if call.tool == "run_command"]
    told = "".join(f"{memory.run_command(each, 30, SHOWN).text}\n" for each in commands)
    script = "; ".join(f'{each}; echo "[exit $?]"' for each in commands)
    try:
        assert real.run_command(script, 60, 200_000).text == f"{told}[exit 0]"
    finally:
        real.close()
    for path, text in memory.files.items():
        assert (place / path).read_text(encoding="utf-8") == text


@pytest.mark.campaign
@pytest.mark.parametrize("family", FAMILIES)
def test_in_the_sandbox_too_over_a_long_run(family: str, tmp_path: Path):
    folder = make(family, 3, 60, 1.0, tmp_path / "task")
    compared(folder, made(family, 60, 3, 1.0), "auto", tmp_path / "ws", HOSTILE)


def test_a_world_is_a_sound_task(tmp_path: Path):
    folder = make("moving_target", 7, 10, 0.0, tmp_path / "task")
    assert [(found.says, found.right) for found in check_task(str(folder), "none", tmp_path)] == [
        ("doing nothing fails, twice", True), ("the solution passes, twice", True), ("the demo passes, twice", True),
    ]  # fmt: skip


@pytest.mark.campaign
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_a_sound_task_in_the_sandbox(family: str, tmp_path: Path):
    folder = make(family, 1, 60, 1.0, tmp_path / "task")
    assert all(found.right for found in check_task(str(folder), None, tmp_path))


def test_the_check_in_the_sandbox_fails_what_memory_fails(stage: Stage):
    folder = make("moving_target", 7, 12, 0.0, stage.root / "task")
    demo = folder / "demo.yaml"
    demo.write_text(demo.read_text().replace("./work do 4 ", "./work status #"), encoding="utf-8")
    result = stage.solve(folder, isolation="none")
    assert result.outcome == "unsolved"


def test_the_folder_holds_what_the_format_wants_and_no_unknown_keys(tmp_path: Path):
    folder = make("spec_map", 7, 12, 0.0, tmp_path / "new" / "task")
    task = read_task(folder)
    assert task.warnings == ()
    assert task.limits["max_steps"] == 3 * 12 + 20
    assert task.short_name == "spec_map-s7-h12-n0"
    assert sorted(path.name for path in folder.iterdir()) == [
        "demo.yaml", "environment", "instruction.md", "solution", "task.toml", "tests",
    ]  # fmt: skip
    assert (folder / "environment" / "workspace" / "work").stat().st_mode & 0o777 == 0o755
    assert (folder / "environment" / "workspace" / "work").read_text() == program_text()
    assert manifest(folder)["necessary_steps"] == 12
    assert not list(folder.parent.glob(".*"))


def test_a_folder_that_holds_something_is_refused_and_left_as_it_is(tmp_path: Path):
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "mine").write_text("mine")
    with pytest.raises(UsageError, match="is not empty; name another folder"):
        make("ledger", 0, 10, 1.0, tmp_path / "task")
    assert [path.name for path in tmp_path.rglob("*")] == ["task", "mine"]


def test_an_empty_folder_is_taken(tmp_path: Path):
    assert (make("ledger", 0, 10, 1.0, tmp_path) / "task.toml").is_file()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"family": "ledgers"}, "no world 'ledgers'; known: env_trap,"),
        ({"horizon": 9}, "invalid horizon 9; use 10 to 2,000 calls"),
        ({"horizon": 2_001}, "invalid horizon 2001"),
        ({"noise": -0.1}, "invalid noise -0.1; use 0 to 8"),
        ({"noise": float("nan")}, "invalid noise nan"),
        ({"seed": -1}, "the seed -1 is out of range"),
    ],
)
def test_a_knob_out_of_its_range_is_refused(changed: dict, words: str, tmp_path: Path):
    knobs = {"family": "ledger", "seed": 0, "horizon": 10, "noise": 1.0, "folder": tmp_path / "task"} | changed
    with pytest.raises(UsageError, match=words):
        make(**knobs)
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_is_there_already_is_not_made_again(tmp_path: Path):
    folder = make_task("ledger", 1, 10, 1.0, tmp_path / "task")
    before = (folder / "demo.yaml").stat().st_mtime_ns
    assert make_task("ledger", 1, 10, 1.0, folder) == folder
    assert (folder / "demo.yaml").stat().st_mtime_ns == before
    with pytest.raises(UsageError, match="is not empty; name another folder"):
        make_task("ledger", 2, 10, 1.0, folder)


def test_a_folder_whose_world_another_version_made_otherwise_is_not_taken_for_it(tmp_path: Path):
    folder = make_task("ledger", 1, 10, 1.0, tmp_path / "task")
    document = next((folder / "environment" / "workspace").rglob("*.md"))
    document.write_text(document.read_text(encoding="utf-8") + "An older text.\n", encoding="utf-8")
    with pytest.raises(UsageError, match="is not empty; name another folder"):
        make_task("ledger", 1, 10, 1.0, folder)


def test_the_program_needs_nothing_but_the_standard_library():
    imported = [
        line.split()[1].partition(".")[0]
        for line in program_text().splitlines()
        if line.startswith(("import ", "from "))
    ]
    assert set(imported) - {"__future__"} <= sys.stdlib_module_names
    assert program_text().startswith("#!/usr/bin/env python3\n")
    assert len(program_text().splitlines()) <= 400
    assert work.PLAN_UNITS == 10
