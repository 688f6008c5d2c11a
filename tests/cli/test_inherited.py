"""The program and its commands tolerate odd state inherited from a parent process."""

import errno
import json
import os
import resource
import signal
import subprocess

import pytest

from stackmem.core.errors import WorkspaceError, way_out
from stackmem.core.facts import ToolReturned
from stackmem.workspace.tree import remove_tree
from tests.stage import Stage, command, events, pop, with_bubblewrap

C_LIBRARYS = 0b11 << 31  # signals 32 and 33 are reserved for the C library; they stay as the test runner has them
STATUS = "grep -E '^Sig(Blk|Ign)' /proc/self/status; umask; ulimit -n"


def odd_parent() -> None:
    """Run in the child before it becomes the program: sets up what a careless or hostile parent leaves."""
    for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGUSR2})
    os.umask(0o700)
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 4096))


@pytest.mark.parametrize("level", [pytest.param("bubblewrap", marks=with_bubblewrap), "namespaces", "landlock", "none"])
def test_a_run_of_an_odd_parent_solves_its_task_and_its_commands_have_the_defaults(stage: Stage, level):
    task = stage.task(command(STATUS), command("exit 3"), command("yes | head -1; sleep 0.1"), pop("Done."))
    arguments = stage.arguments("solve", task, "--model", "demo", "--isolation", level, "--json")
    ran = subprocess.run(
        arguments, cwd=stage.elsewhere, env=stage.environ(), capture_output=True, text=True, check=False, timeout=100,
        stdin=subprocess.DEVNULL, preexec_fn=odd_parent,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["outcome"] == "solved"
    status, failed, piped = events(stage.only_run(), ToolReturned)
    masks = {
        line.split()[0]: int(line.split()[1], 16) & ~C_LIBRARYS
        for line in status.text.splitlines()
        if line[:3] == "Sig"
    }
    assert masks == {"SigBlk:": 0, "SigIgn:": 0}
    assert (failed.exit_code, piped.exit_code) == (3, 0)


def small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))


def test_a_limit_of_the_parent_is_named_with_its_way_out(stage: Stage):
    ran = stage.run("solve", stage.task(pop()), "--model", "demo", preexec_fn=small_files)
    assert ran.returncode == 5
    assert ran.stderr.startswith("stackmem: ")
    assert ran.stderr.endswith("(File too large); allow larger files, for example with: ulimit -f unlimited\n")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "allow more open files, for example with: ulimit -n 1024"),
        (FileNotFoundError(errno.ENOENT, "No such file", "rm"), "add the folder of this program to PATH"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/a/rm"), "free disk space or change the permissions there"),
        (OSError(errno.ENOSPC, "No space left on device"), "free disk space or change the permissions there"),
    ],
)
def test_a_failed_system_call_is_reported_with_a_fix(error: OSError, told: str):
    assert way_out(error) == told


def test_a_program_that_is_not_on_the_path_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WorkspaceError, match=r"rm cannot be run .*; add the folder .* PATH"):
        remove_tree(tmp_path / "a")


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (0, 1, 2)], ids=str)
@pytest.mark.parametrize(("word", "code"), [("runs", 0), ("nosuch", 2)])
def test_a_standard_stream_that_is_closed_is_as_one_that_leads_nowhere(stage: Stage, closed, word, code):
    def close() -> None:
        for number in closed:
            os.close(number)

    ran = subprocess.run(
        stage.arguments(word), cwd=stage.elsewhere, env=stage.environ(), capture_output=True, text=True, check=False,
        preexec_fn=close,
    )  # fmt: skip
    assert (ran.returncode, "Traceback" in ran.stderr) == (code, False), ran.stderr
