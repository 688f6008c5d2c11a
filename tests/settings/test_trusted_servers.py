"""The servers shown for a folder are the ones recorded as trusted and started."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import fields

from stackmem.core.errors import UsageError
from stackmem.settings import mcp_servers
from stackmem.settings.mcp_servers import SERVERS_FILE, Server, read_folder, servers, trust, trusted_path
from stackmem.settings.tools.mcp_servers import own_servers
from stackmem.settings.tools.own_tools import TOOLS
from tests.in_process import command_line

HARMLESS = '[files]\ncommand = ["true"]\n'
HOSTILE = '[files]\ncommand = ["touch", "ran"]\n'


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


def write(place: Path, text: str) -> None:
    (place / SERVERS_FILE).write_text(text, encoding="utf-8")


def shown(place: Path) -> str:
    done = command_line(["trust", ".", "--yes"], os.environ, place)
    assert done.returncode == 0, done.stderr
    return done.stdout


def starts(place: Path) -> bool:
    found, warnings = servers(os.environ, place)
    assert bool(found) != bool(warnings)
    return bool(found)


def test_every_field_that_is_set_is_shown(place: Path) -> None:
    values = {
        "env": {"LD_PRELOAD": "./evil.so", "PATH": "./bin"},
        "tools": ["read"],
        "names": {"read": "look"},
        "most": 7,
        "parallel": ["look"],
        "idempotent": ["all"],
        "seconds": 9.5,
    }
    assert {field.name for field in fields(Server)} == {"command", "url", *values}
    write(
        place,
        '[one]\ncommand = ["npx", "a b", "--flag"]\nenv = { LD_PRELOAD = "./evil.so", PATH = "./bin" }\n'
        'tools = ["read"]\nnames = { read = "look" }\nmost = 7\nparallel = ["look"]\n'
        'idempotent = ["all"]\nseconds = 9.5\n'
        '[two]\nurl = "https://example.org/mcp"\n',
    )
    lines = shown(place).splitlines()
    assert lines[:2] == ["[one]", 'command = ["npx", "a b", "--flag"]']
    for name, value in values.items():
        assert f"{name} = {json.dumps(value)}" in lines
    assert lines[-3:-1] == ["[two]", 'url = "https://example.org/mcp"']


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (r"\u001b[2K\u001b[1A", r"\u001b[2K\u001b[1A"),
        (r"\u202Eexe", r"\u202eexe"),
        (r"\u200b", r"\u200b"),
        (r"\r\nfine", r"\r\nfine"),
        (r"\u007f\u009b1A", r"\x7f\x9b1A"),
        (r"\u2028", r"\u2028"),
        (r"\u00a0", r"\xa0"),
    ],
)
def test_characters_that_a_terminal_obeys_are_shown_as_codes(place: Path, written: str, told: str) -> None:
    write(place, f'[one]\ncommand = ["x", "{written}"]\nenv = {{ "A{written}" = "{written}" }}\n')
    text = shown(place)
    assert f'command = ["x", "{told}"]' in text
    assert f'env = {{"A{told}": "{told}"}}' in text
    assert all(char.isprintable() or char == "\n" for char in text)


def test_a_hostile_folder_name_is_escaped_in_the_warning(tmp_path: Path) -> None:
    place = tmp_path / "a\x1b[2Jb"
    place.mkdir()
    write(place, HARMLESS)
    (warning,) = servers(os.environ, place)[1]
    assert warning.isprintable()
    assert r"a\x1b[2Jb" in warning


def test_a_file_that_is_swapped_after_it_was_shown_is_not_trusted(place: Path) -> None:
    write(place, HARMLESS)
    found = read_folder(place)
    write(place, HOSTILE)
    trust(found, os.environ)
    assert not starts(place)
    write(place, HARMLESS)
    assert starts(place)


def test_the_command_records_what_it_showed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is swapped at every read, so a second read would see different content."""
    write(place, HARMLESS)
    swap_after_each_read(place, monkeypatch, HOSTILE)
    assert "touch" not in shown(place)
    assert not starts(place)
    write(place, HARMLESS)
    assert starts(place)


def test_a_file_that_is_swapped_after_the_check_does_not_start(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(place, HARMLESS)
    trust(read_folder(place), os.environ)
    swap_after_each_read(place, monkeypatch, HOSTILE)
    found, _ = servers(os.environ, place)
    assert [server.command for server in found.values()] == [("true",)]
    assert (place / SERVERS_FILE).read_text() == HOSTILE


def swap_after_each_read(place: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    read = mcp_servers.read_within

    def read_and_swap(path: Path, most: int) -> bytes:
        raw = read(path, most)
        write(place, text)
        return raw

    monkeypatch.setattr(mcp_servers, "read_within", read_and_swap)


def test_a_folder_link_that_is_turned_is_not_trusted(tmp_path: Path, place: Path) -> None:
    (tmp_path / "other").mkdir()
    write(tmp_path / "other", HARMLESS)
    write(place, HARMLESS)
    (tmp_path / "link").symlink_to(place)
    found = read_folder(tmp_path / "link")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(tmp_path / "other")
    trust(found, os.environ)
    assert starts(place)
    assert not starts(tmp_path / "link")


def changed(path: Path) -> None:
    path.write_text("evil", encoding="utf-8")


def leading_elsewhere(path: Path) -> None:
    path.unlink()
    path.symlink_to(sys.executable)


@pytest.mark.parametrize("change", [changed, Path.unlink, leading_elsewhere])
@pytest.mark.parametrize(
    "table",
    ['command = ["python", "tools/s.py"]', 'command = ["./tools/s.py"]',
     'command = ["x"]\nenv = { PYTHONPATH = "/lib:tools/s.py" }',
     'command = ["x"]\nenv = { LD_PRELOAD = "a.so tools/s.py" }'],
)  # fmt: skip
def test_files_of_the_folder_that_a_server_names_are_shown_and_compared(
    place: Path, table: str, change: Callable[[Path], None]
) -> None:
    (place / "tools").mkdir()
    (place / "tools" / "s.py").write_text("fine", encoding="utf-8")
    write(place, f"[one]\n{table}\n")
    assert 'tools/s.py" in this folder: SHA-256 ' in shown(place)
    assert starts(place)
    change(place / "tools" / "s.py")
    assert not starts(place)


def test_a_link_out_of_the_folder_counts_by_where_it_leads(tmp_path: Path, place: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    (place / "python").symlink_to(tmp_path / "old")
    write(place, '[one]\ncommand = ["./python"]\n')
    assert f"link to {tmp_path / 'old'}" in shown(place)
    (tmp_path / "old").write_text("upgraded", encoding="utf-8")
    assert starts(place)
    (place / "python").unlink()
    (place / "python").symlink_to(tmp_path / "new")
    assert not starts(place)


def test_words_that_are_no_files_of_the_folder_are_left_alone(place: Path) -> None:
    os.mkfifo(place / "pipe")
    (place / "folder").mkdir()
    words = ["pipe", "folder", "../x", "/etc", "a\x00b", "x" * 5_000, "", "."]
    write(place, f"[one]\ncommand = {json.dumps(words)}\n")
    assert read_folder(place).files == ()


def test_a_servers_file_that_is_not_a_file_or_has_no_end_is_refused(place: Path) -> None:
    os.mkfifo(place / SERVERS_FILE)
    with pytest.raises(UsageError, match="cannot be read"):
        read_folder(place)
    (place / SERVERS_FILE).unlink()
    with (place / SERVERS_FILE).open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match="is larger than"):
        read_folder(place)


def test_trust_of_an_older_version_which_did_not_show_everything_ends(place: Path) -> None:
    write(place, HARMLESS)
    path = trusted_path(os.environ)
    path.parent.mkdir(parents=True)
    digest = mcp_servers.hashlib.sha256(HARMLESS.encode()).hexdigest()
    path.write_text(json.dumps({str(place): digest}))
    assert not starts(place)


def test_nothing_of_an_untrusted_folder_starts(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(place, HOSTILE)
    monkeypatch.chdir(place)
    with own_servers(os.environ, place):
        assert not TOOLS
    assert not (place / "ran").exists()


@pytest.mark.parametrize(
    "server",
    [
        'command = ["node", "--require=./bin/serve"]',
        'command = ["sh", "-c", "cd . && ./bin/serve --all"]',
        'command = ["serve"]\nenv = { PATH = "./bin:/usr/bin" }',
        'command = ["node"]\nenv = { NODE_OPTIONS = "--require=./bin/serve" }',
    ],
)
def test_a_file_that_is_named_within_a_word_is_part_of_what_is_trusted(place: Path, server) -> None:
    write(place, f"[one]\n{server}\n")
    (place / "bin").mkdir()
    (place / "bin" / "serve").write_text("one", encoding="utf-8")
    assert "bin/serve" in shown(place)
    assert starts(place)
    (place / "bin" / "serve").write_text("two", encoding="utf-8")
    assert not starts(place)
