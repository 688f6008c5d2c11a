"""Reading a task folder returns a Task or reports its fault in one sentence."""

import re
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.run.tasks.reader import read_task
from stackmem.run.tasks.table import MAX_TEXT_BYTES

from .folders import TOML, make_task


def refusal(folder) -> str:
    with pytest.raises(UsageError) as caught:
        read_task(folder)
    return str(caught.value)


def test_a_small_task_is_read(tmp_path):
    task = read_task(make_task(tmp_path / "small"))
    assert (task.name, task.short_name, task.instruction) == ("somebody/small", "small", "Do it.")
    assert task.tests == tmp_path / "small" / "tests"
    assert (task.workspace, task.solution, task.demo) == (None, None, None)
    assert (task.check_seconds, set(task.limits.values())) == (600.0, {None})
    assert task.warnings == ()


def test_a_task_folders_parts_are_read(tmp_path):
    folder = make_task(tmp_path / "small")
    (folder / "environment" / "workspace").mkdir(parents=True)
    (folder / "solution").mkdir()
    (folder / "solution" / "solve.sh").write_text("true\n")
    (folder / "demo.yaml").write_text("replies: [{text: a}]\n")
    task = read_task(folder)
    assert task.workspace == folder / "environment" / "workspace"
    assert (task.solution, task.demo) == (folder / "solution", folder / "demo.yaml")


def test_limits_are_read_from_their_tables(tmp_path):
    toml = TOML + (
        "[agent]\ntimeout_sec = 90\n[verifier]\ntimeout_sec = 5.5\nenv = {A = '${B:-c}'}\n"
        "[metadata.stackmem]\nmax_steps = 7\nmax_tokens = 1000\nmax_usd = 0.5\ncommand_seconds = 60\n"
        "toolchains = ['/opt/node']\n"
    )
    task = read_task(make_task(tmp_path / "t", toml))
    assert (task.check_seconds, task.check_env) == (5.5, {"A": "${B:-c}"})
    assert task.limits == {"max_steps": 7, "max_tokens": 1000, "max_usd": 0.5, "max_seconds": 90.0}
    assert task.command_seconds == 60.0
    assert task.toolchains == ("/opt/node",)


def test_a_task_without_a_name_has_its_folders(tmp_path):
    assert read_task(make_task(tmp_path / "plain", "schema_version = '1.4'\n")).name == "plain"


def test_unknown_keys_are_warnings(tmp_path):
    toml = TOML + "workdirs = 1\n[agents]\nx = 1\n[metadata]\nanything = 1\n[metadata.stackmem]\nmax_step = 3\n"
    warnings = read_task(make_task(tmp_path / "t", toml)).warnings
    assert [re.search(r"'(.*)'", warning)[1] for warning in warnings] == [
        "environment.workdirs", "agents", "metadata.stackmem.max_step"
    ]  # fmt: skip


def test_unknown_keys_in_lists_of_tables_are_found(tmp_path):
    toml = TOML + "[[verifier.collect]]\ncommand = 'x'\nafter = 1\n"
    assert "'verifier.collect.after'" in read_task(make_task(tmp_path / "t", toml)).warnings[0]


@pytest.mark.parametrize("line", ["gpus = 1", "mcp_servers = [{name = 'x'}]", "env = {A = 'b'}"])
def test_what_the_sandbox_does_not_give_is_a_warning(tmp_path, line):
    assert "is ignored" in read_task(make_task(tmp_path / "t", TOML + line + "\n")).warnings[0]


def test_a_task_that_wants_a_network_is_warned_of(tmp_path):
    assert "--network" in read_task(make_task(tmp_path / "t", "")).warnings[0]


def test_a_missing_folder_is_named(tmp_path):
    assert refusal(tmp_path / "nowhere").startswith(f"no task folder {tmp_path / 'nowhere'};")


@pytest.mark.parametrize("missing", ["task.toml", "instruction.md", "tests/test.sh"])
def test_a_missing_file_is_named(tmp_path, missing):
    folder = make_task(tmp_path / "t")
    (folder / missing).unlink()
    assert missing in refusal(folder)


def test_broken_toml_is_shown_with_its_place(tmp_path):
    folder = make_task(tmp_path / "t", '[task]\nname = "a\n')
    assert refusal(folder).startswith(f"{folder / 'task.toml'}:2:")


def test_toml_that_is_no_text_is_shown_with_its_line(tmp_path):
    folder = make_task(tmp_path / "t")
    (folder / "task.toml").write_bytes(b"[task]\nname = '\xff'\n")
    assert f"{folder / 'task.toml'}:2: byte 0xff is not UTF-8" in refusal(folder)


def test_nesting_without_end_is_refused(tmp_path):
    assert "nested too deeply" in refusal(make_task(tmp_path / "t", "x = " + "[" * 20_000))


def test_a_huge_instruction_is_refused(tmp_path):
    assert "larger than" in refusal(make_task(tmp_path / "t", instruction="x" * (MAX_TEXT_BYTES + 1)))


def test_an_empty_instruction_is_refused(tmp_path):
    assert "is empty" in refusal(make_task(tmp_path / "t", instruction=" \n"))


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ("task = 1\n", "task must be a table"),
        ("[task]\nname = 1\n", "[task] name must be a text"),
        ("[agent]\ntimeout_sec = '5'\n", "[agent] timeout_sec must be a number above 0"),
        ("[agent]\ntimeout_sec = 0\n", "[agent] timeout_sec must be a number above 0"),
        ("[agent]\ntimeout_sec = true\n", "[agent] timeout_sec must be a number above 0"),
        ("[verifier]\ntimeout_sec = inf\n", "[verifier] timeout_sec must be a number above 0"),
        ("[verifier]\ntimeout_sec = nan\n", "[verifier] timeout_sec must be a number above 0"),
        ("[verifier]\nenv = {A = 1}\n", "[verifier] env must be a table of texts"),
        ("[metadata.stackmem]\nmax_steps = 0\n", "[metadata.stackmem] max_steps must be a whole number from 1"),
        ("[metadata.stackmem]\nmax_steps = 1.5\n", "[metadata.stackmem] max_steps must be a whole number from 1"),
        ("[metadata.stackmem]\ntoolchains = 'x'\n", "[metadata.stackmem] toolchains must be a list of texts"),
        ("[environment]\nos = 'windows'\n", "runs tasks for Linux"),
        ("[[steps]]\nname = 'a'\n", "no instruction.md in"),
        ("[[steps]]\nname = '../a'\n", "the name of a folder in steps/"),
    ],
)
def test_a_wrong_value_is_named_with_its_table(tmp_path, toml, told):
    assert told in refusal(make_task(tmp_path / "t", toml))


FOREIGN = ("instruction.md", "demo.yaml", "environment", "environment/workspace", "tests", "tests/test.sh", "solution")


@pytest.mark.parametrize("name", FOREIGN)
def test_a_link_that_leads_out_of_the_task_is_refused(tmp_path, name):
    hers = make_task(tmp_path / "hers")
    (hers / "workspace").mkdir()
    (hers / "test.sh").write_text("true\n")
    task = make_task(tmp_path / "task")
    _link(task / name, hers / "tests" / "test.sh" if "." in name else hers)
    assert f"{task / name} is a link out of the task" in refusal(task)


def test_a_link_inside_the_task_is_followed(tmp_path):
    task = make_task(tmp_path / "task")
    (task / "docs").mkdir()
    (task / "docs" / "text.md").write_text("Do that.")
    _link(task / "instruction.md", Path("docs/text.md"))
    assert read_task(task).instruction == "Do that."


def test_a_workspace_that_is_a_link_is_refused_since_its_copy_would_be_one(tmp_path):
    task = make_task(tmp_path / "task")
    (task / "files").mkdir()
    _link(task / "environment" / "workspace", Path("../files"))
    assert "is a link; replace it with the folder itself" in refusal(task)


def test_a_link_to_itself_is_refused(tmp_path):
    task = make_task(tmp_path / "task")
    _link(task / "environment", Path("environment"))
    assert "environment" in refusal(task)


def _link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        path.rename(path.parent / "aside")
    path.unlink(missing_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize("line", ["'A=B' = 'x'", "'' = 'x'", "'A B' = 'x'", 'A = "x\\u0000--bind"'])
def test_a_variable_of_the_checks_that_is_none_is_refused(tmp_path, line):
    assert "must be a variable" in refusal(make_task(tmp_path / "t", f"[verifier.env]\n{line}\n"))
