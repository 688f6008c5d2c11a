"""Who can read a run, and which parts of an address are recorded."""

import os
import stat
from pathlib import Path

from tests.providers.chat_server import ChatServer, Refusal
from tests.stage import Stage, command, pop


def wide(folder: Path) -> list[str]:
    """Return what other users could open in a folder if they could enter it."""
    return [path.name for path in folder.iterdir() if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_a_run_is_its_owners_alone_whatever_the_mask_and_doctor_names_one_that_is_not(stage: Stage):
    before = os.umask(0)
    try:
        stage.solve(stage.task(command("echo x > made"), pop("Done.")))
        run = stage.only_run()
        assert stage.call("fork", "last", "--at", "1").returncode == 0
    finally:
        os.umask(before)
    for folder in stage.runs.iterdir():
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert wide(folder) == []
    assert "other users" not in stage.call("doctor").stdout
    run.chmod(0o755)
    warning = f"other users of this machine can read 1 of the runs in {stage.runs}; chmod -R go= makes them private"
    assert warning in stage.call("doctor").stdout


def test_a_login_in_an_address_is_neither_kept_nor_shown(stage: Stage):
    with ChatServer(Refusal(400, "no")) as server:
        address = server.url.replace("http://", "http://somebody:hidden-word@")
        ran = stage.run("solve", stage.task(pop("Done.")), "--model", "openai/none", "--base-url", address)
    gone = stage.call("solve", stage.task(name="other"), "--model", "openai/none", "--base-url", address)
    assert f"no server answers at {server.url}/v1" in gone.stderr
    assert "hidden-word" not in ran.stdout + ran.stderr + gone.stdout + gone.stderr
    for path in stage.only_run().iterdir():
        assert not path.is_file() or b"hidden-word" not in path.read_bytes(), path.name
