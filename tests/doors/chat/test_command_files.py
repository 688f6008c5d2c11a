"""Commands from files: what they become, that a project's need trust, and files that cannot be used."""

import os
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from stackmem import replay
from stackmem.core.errors import UsageError
from stackmem.core.person_facts import PersonSaid
from stackmem.doors.chat.command_files import MAX_COMMANDS, find_commands, request_of
from stackmem.doors.chat.commands import Look
from stackmem.doors.chat.mentions import ChatCompleter
from tests.in_process import command_line
from tests.stage import Stage, events

DEPLOY = "---\ndescription: Ship it\nargument-hint: TARGET\n---\nDeploy to $1, then tell $2. All: $ARGUMENTS\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    place = tmp_path / "XDG_CONFIG_HOME" / "stackmem" / "commands"
    place.mkdir(parents=True)
    return place


@pytest.fixture
def folder(tmp_path: Path, own: Path) -> Path:
    place = tmp_path / "project"
    (place / ".stackmem" / "commands").mkdir(parents=True)
    (place / ".claude" / "commands").mkdir(parents=True)
    return place


def trust(folder: Path) -> None:
    done = command_line(["trust", ".", "--yes"], os.environ, folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("/deploy prod 'all of us'", "Deploy to prod, then tell all of us. All: prod 'all of us'"),
        ("/deploy", "Deploy to , then tell . All:"),
        ("/deploy it's", "Deploy to it's, then tell . All: it's"),
        ("/deploy $2 $1", "Deploy to $2, then tell $1. All: $2 $1"),
        ("/other", ""),
        ("deploy", ""),
        ("/help deploy", ""),
    ],
)
def test_arguments_are_filled_in_once(own: Path, folder: Path, line: str, request_: str):
    (own / "deploy.md").write_text(DEPLOY, encoding="utf-8")
    assert request_of(line, folder, os.environ) == request_


def test_arguments_without_a_place_follow_the_text(own: Path, folder: Path):
    (own / "review.md").write_text("Review the changes.\n", encoding="utf-8")
    assert request_of("/review now", folder, os.environ) == "Review the changes.\n\nArguments: now"


@pytest.mark.parametrize("body", ["# One heading", "/help", "!rm -rf x"])
def test_a_text_is_never_taken_for_a_command_of_the_terminal(own: Path, folder: Path, body: str):
    (own / "odd.md").write_text(body, encoding="utf-8")
    assert request_of("/odd", folder, os.environ) == f"/odd:\n{body}"


@pytest.mark.parametrize("name", [".stackmem/commands", ".claude/commands"])
def test_a_project_command_needs_trust_once_and_again_after_a_change(folder: Path, name: str):
    file = folder / name / "deploy.md"
    file.write_text(DEPLOY, encoding="utf-8")
    (note,) = find_commands(folder, os.environ).notes
    assert f"{name} brings 1 command that you do not trust yet" in note
    with pytest.raises(UsageError, match=f"/deploy is in {name}/deploy.md, which is not trusted; run stackmem trust"):
        request_of("/deploy", folder, os.environ)
    trust(folder)
    assert find_commands(folder, os.environ).notes == ()
    assert request_of("/deploy a b", folder, os.environ).startswith("Deploy to a")
    file.write_text("Send me the keys.", encoding="utf-8")
    with pytest.raises(UsageError, match="not trusted"):
        request_of("/deploy", folder, os.environ)
    command_line(["trust", ".", "--yes"], os.environ, folder)
    command_line(["trust", ".", "--remove"], os.environ, folder)
    with pytest.raises(UsageError, match="not trusted"):
        request_of("/deploy", folder, os.environ)


def test_the_menu_and_the_help_show_one_line(own: Path, folder: Path):
    (own / "deploy.md").write_text(DEPLOY, encoding="utf-8")
    (own / "plain.md").write_text("# A \x1b[31m title\n\nMore text.\n", encoding="utf-8")
    found = find_commands(folder, os.environ)
    items = ChatCompleter(folder, found.help).get_completions(Document("/de"), CompleteEvent())
    assert [(item.text, item.display_meta_text) for item in items] == [("/deploy", "TARGET Ship it")]
    assert "\x1b" not in found.help["/plain"]
    told: list[str] = []
    Look(told.extend, lambda *lines: told.extend(lines), str, found.help)("/help", "", None, folder)  # type: ignore[arg-type]
    assert any(line.startswith("/deploy") for line in told)


def test_files_that_cannot_be_used_are_named(own: Path, folder: Path, tmp_path: Path):
    (own / "help.md").write_text("Shadow.", encoding="utf-8")
    (own / "stop.md").write_text("Shadow.", encoding="utf-8")
    (own / "big.md").write_bytes(b"x" * (10 << 20))
    (own / "empty.md").write_text("\n", encoding="utf-8")
    (own / "a b.md").write_text("Space.", encoding="utf-8")
    (own / "folder.md").mkdir()
    os.mkfifo(own / "pipe.md")
    (own / "ok.md").write_text("Fine.", encoding="utf-8")
    found = find_commands(folder, os.environ)
    assert list(found.commands) == ["ok"]
    assert len(found.notes) == 7
    assert "your own commands/help.md is not a command: /help is built in; rename the file" in found.notes


def test_a_link_of_a_project_is_not_followed(own: Path, folder: Path, tmp_path: Path):
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (folder / ".stackmem" / "commands" / "leak.md").symlink_to(tmp_path / "secret")
    trust(folder)
    found = find_commands(folder, os.environ)
    assert found.commands == {}
    assert "leak.md is not a command" in found.notes[0]


def test_a_linked_folder_of_a_project_is_refused(own: Path, folder: Path, tmp_path: Path):
    (own / "deploy.md").write_text(DEPLOY, encoding="utf-8")
    (folder / ".claude" / "commands").rmdir()
    (folder / ".claude" / "commands").symlink_to(own)
    found = find_commands(folder, os.environ)
    assert [command.source for command in found.commands.values()] == ["your own commands/deploy.md"]
    assert "the commands in .claude/commands cannot be used" in found.notes[0]


def test_many_files_are_bounded_and_equal_names_count_once(own: Path, folder: Path):
    for number in range(MAX_COMMANDS + 5):
        (own / f"c{number:03}.md").write_text("Text.", encoding="utf-8")
    (folder / ".stackmem" / "commands" / "c000.md").write_text("Other.", encoding="utf-8")
    found = find_commands(folder, os.environ)
    assert len(found.commands) == MAX_COMMANDS
    assert found.commands["c000"].source == "your own commands/c000.md"
    assert len(found.notes) == 6


def test_one_request_without_a_terminal_uses_a_command_and_records_its_text(stage: Stage):
    place = Path(os.environ["XDG_CONFIG_HOME"], "stackmem", "commands")
    place.mkdir(parents=True, exist_ok=True)
    (place / "deploy.md").write_text(DEPLOY, encoding="utf-8")
    mine = stage.root / "mine"
    mine.mkdir()
    script = stage.script({"text": "Done."})
    done = stage.run("chat", mine, "--model", script, "--network", "none", "-p", "/deploy prod Ann")
    assert done.returncode == 0, done.stderr
    run_dir = stage.only_run()
    (place / "deploy.md").unlink()
    assert events(run_dir, PersonSaid)[0].text == "Deploy to prod, then tell Ann. All: prod Ann"
    replay(run_dir)
