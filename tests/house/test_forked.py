"""A program in a fork of the test process behaves like one in a new interpreter."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import can_fork
from tests.stage import Stage, pop

STATE = """
import json, os, resource, signal, sys, threading
handlers = {number: str(signal.getsignal(number)) for number in signal.valid_signals()}
streams = [(each.encoding, each.errors, each.line_buffering) for each in (sys.stdin, sys.stdout, sys.stderr)]
print(json.dumps({
    "argv": sys.argv, "cwd": os.getcwd(), "files": sorted(os.listdir("/proc/self/fd"))[:-1], "handlers": handlers,
    "streams": streams, "environ": sorted(os.environ.items()), "threads": threading.active_count(), "name": __name__,
    "timers": signal.getitimer(signal.ITIMER_REAL), "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "stdin": sys.stdin.read(), "limit": resource.getrlimit(resource.RLIMIT_NOFILE),
}))
"""
ENDS = [
    "raise SystemExit(3)", "raise SystemExit('no')", "raise ValueError('no')", "raise SystemExit(300)",
    "import os; os.kill(os.getpid(), 15)", "import atexit; atexit.register(print, 'late')",
    "import threading; threading.Timer(0.1, print, ['late']).start()",
    "import sys; sys.stdout.write('no newline'); sys.stderr.write('no newline')",
    "import os; os.close(1); print('lost')", "print('\\ud800')", "import os; os.abort()",
    "import tempfile; made = tempfile.TemporaryDirectory(dir='.')",
]  # fmt: skip


def fresh(stage: Stage, code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words], cwd=stage.elsewhere, env=stage.environ(), capture_output=True, text=True,
        stdin=subprocess.DEVNULL, check=False, timeout=100,
    )  # fmt: skip


def test_a_program_finds_the_same_state(stage: Stage):
    assert json.loads(stage.python(STATE, "a", "b").stdout) == json.loads(fresh(stage, STATE, "a", "b").stdout)


@pytest.mark.parametrize("count", range(84, 106, 3))
def test_many_open_files_of_the_test_change_nothing(stage: Stage, count: int):
    with contextlib.ExitStack() as opened:
        while opened.enter_context(Path(os.devnull).open("rb")).fileno() < count:
            pass
        done = stage.python("import os; os.write(1, os.read(0, 9) + b'out'); os.write(2, b'err')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "out", "err")


@pytest.mark.parametrize("code", ENDS)
def test_a_program_ends_in_the_same_way(stage: Stage, code: str):
    forked, new = stage.python(code), fresh(stage, code)
    assert (forked.returncode, forked.stdout) == (new.returncode, new.stdout)
    assert forked.stderr.splitlines()[-1:] == new.stderr.splitlines()[-1:]
    assert list(stage.elsewhere.iterdir()) == []


def test_two_programs_draw_different_random_numbers(stage: Stage):
    code = "import random; print(random.random())"
    assert stage.python(code).stdout != stage.python(code).stdout


def test_variables_that_python_reads_when_it_starts_need_a_new_interpreter(stage: Stage):
    assert can_fork(stage.environ({"ANTHROPIC_API_KEY": "x"}), {"stdin": subprocess.PIPE})
    assert not can_fork(stage.environ({"PYTHONIOENCODING": "latin-1"}), {})
    assert not can_fork(stage.environ({"LC_ALL": "C"}), {})
    assert not can_fork(stage.environ(), {"preexec_fn": print})


def test_a_command_that_was_started_can_be_signaled_and_waited_for(stage: Stage):
    running = stage.start("solve", stage.task({"wait_seconds": 600, **pop()}), "--model", "demo", "--quiet")
    with running:
        assert running.poll() is None
        running.send_signal(signal.SIGKILL)
        assert running.wait(100) == -signal.SIGKILL
