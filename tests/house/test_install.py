"""`make install` links the command and never replaces a file of the user."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.house.sources import ROOT


def install(checkout: Path, home: Path, **named: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), **named}
    return subprocess.run(["bash", "scripts/install.sh"], cwd=checkout, env=environ, capture_output=True, text=True)


def checkout_in(folder: Path) -> Path:
    """Return a checkout whose set-up does nothing and whose pip notes its arguments."""
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "install.sh", folder / "scripts")
    programs = {"scripts/setup.sh": "true", ".venv/bin/python": 'echo "$@" >> pip.txt', ".venv/bin/stackmem": "true"}
    for name, line in programs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"#!/bin/bash\n{line}\n")
        (folder / name).chmod(0o755)
    return folder


def test_the_command_is_linked_and_the_lock_is_installed_with_hashes(tmp_path: Path) -> None:
    checkout, home = checkout_in(tmp_path / "checkout"), tmp_path / "home"
    for _ in range(2):
        ran = install(checkout, home)
        assert ran.returncode == 0, ran.stderr
    link = home / ".local" / "bin" / "stackmem"
    assert link.resolve() == (checkout / ".venv" / "bin" / "stackmem").resolve()
    flags = "--require-hashes --only-binary :all: --no-deps"
    assert f"{flags} --requirement requirements-install.lock" in (checkout / "pip.txt").read_text()
    assert f"{link.parent} is not in PATH" in ran.stderr


def test_another_folder_can_be_named(tmp_path: Path) -> None:
    checkout = checkout_in(tmp_path / "checkout")
    ran = install(checkout, tmp_path / "home", BIN=str(tmp_path / "bin"))
    assert (ran.returncode, (tmp_path / "bin" / "stackmem").is_symlink()) == (0, True)


def test_a_file_of_the_user_is_not_replaced(tmp_path: Path) -> None:
    checkout = checkout_in(tmp_path / "checkout")
    own = tmp_path / "bin" / "stackmem"
    own.parent.mkdir()
    own.write_text("mine")
    ran = install(checkout, tmp_path / "home", BIN=str(own.parent))
    assert ran.returncode == 2
    assert "is not a link; remove it" in ran.stderr
    assert own.read_text() == "mine"
