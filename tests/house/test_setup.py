"""`make solve` on a machine with missing parts names them and the single command that installs them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT

TOOLS = ("bash", "cat", "dirname", "flock", "grep", "id", "sha256sum")


@pytest.fixture
def machine(tmp_path) -> Path:
    """A checkout, and `bin`, its whole PATH: no bwrap, apt-get or sudo until a test adds them."""
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup.sh", checkout / "scripts")
    path = tmp_path / "bin"
    path.mkdir()
    for tool in TOOLS:
        (path / tool).symlink_to(shutil.which(tool) or f"/usr/bin/{tool}")
    (path / "python3").symlink_to(sys.executable)
    return tmp_path


def put(machine: Path, tool: str, script: str) -> None:
    program = machine / "bin" / tool
    program.unlink(missing_ok=True)
    program.write_text(f"#!/bin/bash\n{script}\n")
    program.chmod(0o755)


def set_up(machine: Path, *arguments: str, **named: str) -> subprocess.CompletedProcess[str]:
    command = [shutil.which("bash") or "/bin/bash", "scripts/setup.sh", *arguments]
    environ = {"PATH": str(machine / "bin"), "HOME": os.environ["HOME"], **named}
    return subprocess.run(
        command,
        cwd=machine / "checkout",
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_apt_get_the_missing_packages_are_named(machine):
    ran = set_up(machine, "run")
    assert ran.returncode == 2
    assert "missing: bubblewrap; apt-get is not available" in ran.stderr
    assert not (machine / "checkout" / ".venv").exists()


def test_the_tests_need_ps_tmux_and_a_browser_and_a_run_does_not(machine):
    named = r"missing: bubblewrap procps tmux chromium(-headless-shell)?; apt-get is not available"
    assert re.search(named, set_up(machine, "test").stderr)
    assert "missing: bubblewrap; apt-get is not available" in set_up(machine, "run").stderr


@pytest.mark.parametrize(
    ("sudo", "command"), [(None, "su -c 'apt-get update && "), ("exit 1", "sudo sh -c 'apt-get update && ")]
)
def test_a_user_without_rights_gets_the_single_command(machine, sudo, command):
    put(machine, "id", "echo 1000")
    put(machine, "apt-get", "echo called >&2")
    if sudo is not None:
        put(machine, "sudo", sudo)
    ran = set_up(machine, "run")
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].startswith(command)
    assert ran.stderr.splitlines()[-1].endswith("bubblewrap'")
    assert "called" not in ran.stderr


def test_a_user_without_rights_learns_how_to_do_without(machine):
    put(machine, "id", "echo 1000")
    put(machine, "apt-get", "exit 1")
    line = "set-up: if you cannot install packages, run: make solve ARGS='--isolation namespaces'"
    assert line in set_up(machine, "run").stderr.splitlines()
    assert "if you cannot" not in set_up(machine, "test").stderr


def test_who_does_without_bubblewrap_is_not_asked_for_it(machine):
    real = sys.executable
    put(machine, "python3", f'case "$*" in *ensurepip*) exit 1 ;; *) exec "{real}" "$@" ;; esac')
    asked = f"missing: python3.{sys.version_info.minor}-venv; apt-get is not available"
    assert asked in set_up(machine, "run", WITHOUT="bubblewrap").stderr
    assert asked not in set_up(machine, "run").stderr


APT = "apt-get update && apt-get install -y --no-install-recommends bubblewrap"


def test_sudo_without_a_password_is_not_used_unless_asked_for(machine):
    put(machine, "id", "echo 1000")
    put(machine, "sudo", "echo sudo >>called")
    put(machine, "apt-get", "echo apt-get >>called")
    ran = set_up(machine, "run")
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1] == f"sudo sh -c '{APT}'"
    assert "set-up: to let make run the command itself, add SUDO=1: make solve SUDO=1" in ran.stderr.splitlines()
    assert not (machine / "checkout" / "called").exists()


def test_sudo_that_is_asked_for_runs_after_its_command_is_printed(machine):
    put(machine, "id", "echo 1000")
    put(machine, "sudo", 'echo "sudo ran $*" >&2; exit 1')
    put(machine, "apt-get", "exit 0")
    ran = set_up(machine, "run", STACKMEM_SUDO="1")
    said = ran.stderr.splitlines()
    assert said.index(f"sudo sh -c '{APT}'") < said.index("sudo ran apt-get update -qq")
    assert "apt-get failed" in ran.stderr
    assert ran.returncode == 2


def test_root_installs_without_a_question_after_the_packages_and_the_command_are_printed(machine):
    put(machine, "id", "echo 0")
    put(machine, "apt-get", 'echo "apt-get ran $*" >&2; exit 1')
    put(machine, "sudo", "echo sudo >>called")
    ran = set_up(machine, "run")
    said = ran.stderr.splitlines()
    announced = said.index("set-up: missing: bubblewrap; installing them on this machine with this command:")
    assert said[announced + 1] == f"sh -c '{APT}'"
    assert said.index("apt-get ran update -qq") == announced + 2
    assert not (machine / "checkout" / "called").exists()


@pytest.mark.parametrize(("words", "value"), [(("SUDO=1",), "1"), ((), "")])
def test_make_hands_the_permission_on(tmp_path, words, value):
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "solve.sh"
    script.write_text('#!/bin/sh\necho "[$STACKMEM_SUDO]"\n')
    script.chmod(0o755)
    # make runs these tests and passes its own variables to children.
    handed_on = ("SUDO", "STACKMEM_SUDO", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
    environ = {name: value for name, value in os.environ.items() if name not in handed_on}
    ran = subprocess.run(
        ["make", "solve", *words], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"[{value}]\n"


def test_a_python_without_its_venv_module_is_given_it_by_its_own_version(machine):
    put(machine, "bwrap", "exit 0")
    real, version = sys.executable, sys.version_info.minor
    put(machine, "python3", f'case "$*" in *ensurepip*) exit 1 ;; *) exec "{real}" "$@" ;; esac')
    ran = set_up(machine, "run")
    assert f"missing: python3.{version}-venv; apt-get is not available" in ran.stderr
    assert ran.returncode == 2


def test_an_old_python_is_refused_with_the_way_out(machine):
    put(machine, "python3", "exit 1")
    ran = set_up(machine, "run")
    assert "missing Python 3.11 or later" in ran.stderr
    assert ran.returncode == 2


def test_a_missing_purpose_is_a_usage_error(machine):
    assert set_up(machine).returncode == 2
    assert set_up(machine, "solve").returncode == 2


def test_the_answer_to_the_set_up_does_not_reach_stackmem():
    script = (ROOT / "scripts" / "solve.sh").read_text()
    assert (
        script.index("scripts/setup.sh run")
        < script.index("unset STACKMEM_SUDO")
        < script.index("exec .venv/bin/stackmem")
    )
