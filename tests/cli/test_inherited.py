"""What a parent may have left odd for the program, and that neither it nor its commands suffer from it."""

import json
import os
import resource
import signal
import subprocess

import pytest

from stackmem.core.facts import ToolReturned
from tests.stage import Stage, command, events, pop

C_LIBRARYS = 0b11 << 31  # signals 32 and 33, which no program may touch; they are as whoever runs the tests has them
STATUS = "grep -E '^Sig(Blk|Ign)' /proc/self/status; umask; ulimit -n"


def odd_parent() -> None:
    """In the child before it becomes the program: as a careless or hostile parent leaves it."""
    for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGUSR2})
    os.umask(0o700)
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 4096))


@pytest.mark.parametrize("level", ["bubblewrap", "namespaces", "landlock", "none"])
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
