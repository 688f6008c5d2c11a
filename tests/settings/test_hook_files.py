"""Files with hooks: clear errors for what is not valid, and trust for a project's file and the files that it names."""

import os
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.run.companion.hooks import find_hooks
from stackmem.settings.hook_files import HOOKS_FILE, own_hooks, project_hooks
from tests.in_process import command_line

ONE = '[[before_tool]]\ncommand = "python3 guard.py"\ntools = ["run_*"]\nseconds = 5\nrequired = true\n'


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config" / "stackmem" / "hooks.toml"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def folder(tmp_path: Path, own: Path) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    (place / HOOKS_FILE).write_text(ONE, encoding="utf-8")
    (place / "guard.py").write_text("print()\n", encoding="utf-8")
    return place


def found(folder: Path) -> list[str]:
    return [hook.source for hook in find_hooks(folder, "", os.environ).hooks]


def test_a_table_may_be_single_or_repeated(own: Path):
    own.write_text(ONE + '[after_request]\ncommand = "true"\n', encoding="utf-8")
    first, second = own_hooks(os.environ)
    assert (first.event, first.tools, first.seconds, first.required) == ("before_tool", ("run_*",), 5.0, True)
    assert (second.event, second.seconds, second.sandbox) == ("after_request", 60.0, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[before_tol]]\ncommand = "x"', "hooks.toml:1: no event 'before_tol'; did you mean before_tool?"),
        ('[[before_tool]]\ncomand = "x"', "before_tool has no key 'comand'; did you mean command?"),
        ("[[before_tool]]\ncommand = 7", "Expected `str`, got `int`"),
        ("[[before_tool]]\nseconds = 7", "missing required field `command`"),
        ('[[before_tool]]\ncommand = " "', "the command is empty"),
        ('before_tool = "x"', "before_tool must be a table"),
        ('[[before_tool]]\ncommand = "x"\nseconds = 0', "seconds is 0, it must be above 0"),
        ('[[before_tool]]\ncommand = "x"\nseconds = nan', "seconds is nan"),
        ('[[before_tool]]\ncommand = "x"\nseconds = 1e9', "at most 600"),
        ('[[before_pop]]\ncommand = "x"\ntools = ["a"]', "tools applies only to before_tool and after_tool"),
        ('[[before_tool]]\ncommand = "x"\ntools = ["a\\u001b"]', "is not a pattern for tools"),
        ('[[before_apply]]\ncommand = "x"\nsandbox = true', "before_apply has no sandbox"),
        ('[[before_tool]]\ncommand = "' + "x" * 10_001 + '"', "at most 10,000 characters"),
        ('[[before_tool]]\ncommand = "x"\n' * 101, "101 hooks, maximum is 100"),
        ("[[before_tool", "is not valid TOML"),
        ("#" * 300_000, "is larger than 262,144 bytes"),
    ],
)
def test_what_is_not_valid_stops_with_a_clear_error(own: Path, text: str, message: str):
    own.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        own_hooks(os.environ)
    assert message in str(caught.value)


def test_a_link_is_not_a_project_file(folder: Path):
    (folder / "real.toml").write_text(ONE, encoding="utf-8")
    (folder / HOOKS_FILE).unlink()
    (folder / HOOKS_FILE).symlink_to("real.toml")
    with pytest.raises(UsageError, match="is a link"):
        project_hooks(folder)


def test_a_project_needs_trust_and_a_change_of_a_named_file_ends_it(folder: Path):
    assert found(folder) == []
    (note,) = find_hooks(folder, "", os.environ).notes
    assert f"{HOOKS_FILE} is ignored because it is not trusted; run stackmem trust {folder}" in note
    shown = command_line(["trust", ".", "--yes"], os.environ, folder)
    assert 'before_tool run_*  "python3 guard.py"' in shown.stdout
    assert "guard.py" in shown.stdout
    assert found(folder) == [HOOKS_FILE]
    (folder / "guard.py").write_text("print('changed')\n", encoding="utf-8")
    assert found(folder) == []
    command_line(["trust", ".", "--yes"], os.environ, folder)
    assert found(folder) == [HOOKS_FILE]
    command_line(["trust", ".", "--remove"], os.environ, folder)
    assert found(folder) == []


def test_config_lists_hooks_and_names_a_file_that_is_not_trusted(folder: Path, own: Path):
    own.write_text('[after_request]\ncommand = "notify me"\n', encoding="utf-8")
    shown = command_line(["config"], os.environ, folder)
    assert "hook.after_request" in shown.stdout
    assert "notify me" in shown.stdout
    assert "is not trusted" in shown.stderr
