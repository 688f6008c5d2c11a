"""Files with permission rules: clear errors for what is not valid, and trust for a project's rules that allow."""

import os
from pathlib import Path

import pytest

from stackmem.core.conversation.permissions import RULED_TOOLS
from stackmem.core.errors import UsageError
from stackmem.run.companion.permissions import find_permissions
from stackmem.settings.permission_rules import PERMISSIONS_FILE, own_rules, project_rules
from tests.in_process import command_line

BOTH = '[allow]\nrun_command = "make*"\n\n[deny]\nrun_command = ["git push*", "rm *"]\n'


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config" / "stackmem" / "permissions.toml"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def folder(tmp_path: Path, own: Path) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    (place / PERMISSIONS_FILE).write_text(BOTH, encoding="utf-8")
    return place


def effects(folder: Path, place: str = "") -> list[str]:
    return [rule.effect for rule in find_permissions(folder, place, os.environ).rules]


def test_without_a_file_there_are_no_rules(own: Path, tmp_path: Path):
    assert find_permissions(tmp_path, "", os.environ).rules == ()


def test_a_value_is_one_pattern_or_several(own: Path):
    own.write_text(BOTH, encoding="utf-8")
    rules = own_rules(os.environ, RULED_TOOLS)
    assert [(rule.effect, rule.pattern) for rule in rules] == [
        ("allow", "make*"), ("deny", "git push*"), ("deny", "rm *"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[denied]\nrun_command = "x"', "permissions.toml:1: no table 'denied'; did you mean deny?"),
        ('deny = "x"', "permissions.toml:1: deny must be a table"),
        ('[deny]\n\nrun_comand = "x"', "permissions.toml:3: no tool 'run_comand'; did you mean run_command?"),
        ('[deny]\n"" = "x"', "no tool ''"),
        ("[deny]\nrun_command = 7", "must be a pattern or a list of patterns, not '7'"),
        ('[deny]\nrun_command = ["x", ["y"]]', "must be a pattern or a list of patterns"),
        ("[deny.run_command]\nx = 1", "must be a pattern or a list of patterns"),
        ('[deny]\nrun_command = " "', 'has an empty pattern; write "*" for every call'),
        ('[deny]\nrun_command = "a\\u001bb"', "has a control character"),
        ('[deny]\nrun_command = "' + "x" * 1_001 + '"', "1,001 characters, maximum is 1,000"),
        ("[deny]\nrun_command = [" + '"x",' * 1_001 + "]", "1,001 patterns, maximum is 1,000"),
        ("[deny", "is not valid TOML"),
        ("[deny]\nrun_command = " + "[" * 5_000, "is not valid TOML"),
        ('[deny]\nrun_command = "x"\nrun_command = "y"', "is not valid TOML"),
        ("#" * 300_000, "is larger than 262,144 bytes"),
    ],
)
def test_what_is_not_valid_stops_with_a_clear_error(own: Path, text: str, message: str):
    own.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        own_rules(os.environ, RULED_TOOLS)
    assert message in str(caught.value)


def test_bytes_that_are_not_text_stop_with_a_clear_error(own: Path):
    own.write_bytes(b"\xff\xfe[deny]")
    with pytest.raises(UsageError, match="is not valid TOML"):
        own_rules(os.environ, RULED_TOOLS)


def test_a_project_that_is_not_trusted_can_deny_but_not_allow(folder: Path):
    found = find_permissions(folder, "", os.environ)
    assert [rule.effect for rule in found.rules] == ["deny", "deny"]
    assert "[allow] in stackmem.permissions.toml is ignored" in found.notes[0]
    done = command_line(["trust", ".", "--yes"], os.environ, folder)
    assert done.returncode == 0, done.stderr
    assert 'the rule [allow] run_command = "make*"' in done.stdout
    assert effects(folder) == ["allow", "deny", "deny"]
    assert find_permissions(folder, "", os.environ).notes == ()
    (folder / PERMISSIONS_FILE).write_text(BOTH.replace("make*", "*"), encoding="utf-8")
    assert effects(folder) == ["deny", "deny"]


@pytest.mark.parametrize("environ", [{}, {"XDG_STATE_HOME": "/dev/null"}])
def test_without_a_usable_record_of_trust_a_project_cannot_allow(folder: Path, environ: dict[str, str]):
    found = find_permissions(folder, "", environ)
    assert [rule.effect for rule in found.rules] == ["deny", "deny"]
    assert "the record of trust is not usable" in found.notes[0]


def test_trust_can_be_removed(folder: Path):
    assert command_line(["trust", ".", "--yes"], os.environ, folder).returncode == 0
    assert command_line(["trust", ".", "--remove"], os.environ, folder).returncode == 0
    assert effects(folder) == ["deny", "deny"]


def test_trust_needs_an_answer(folder: Path):
    done = command_line(["trust", "."], os.environ, folder)
    assert done.returncode == 2
    assert "read the permission rules above" in done.stderr
    assert effects(folder) == ["deny", "deny"]


def test_the_rules_of_the_root_count_in_a_subfolder_and_users_rules_everywhere(folder: Path, own: Path):
    own.write_text('[ask]\nrun_command = "curl*"\n', encoding="utf-8")
    (folder / "web").mkdir()
    (folder / "web" / PERMISSIONS_FILE).write_text('[ask]\nrun_command = "npm*"\n', encoding="utf-8")
    assert effects(folder, "web") == ["ask", "deny", "deny", "ask"]
    assert effects(folder) == ["ask", "deny", "deny"]


def test_a_link_is_refused(folder: Path, tmp_path: Path):
    (tmp_path / "other.toml").write_text(BOTH, encoding="utf-8")
    (folder / PERMISSIONS_FILE).unlink()
    (folder / PERMISSIONS_FILE).symlink_to(tmp_path / "other.toml")
    with pytest.raises(UsageError, match="is a link"):
        project_rules(folder, RULED_TOOLS)
