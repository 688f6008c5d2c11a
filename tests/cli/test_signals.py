"""After Ctrl-C, SIGTERM and kill -9 the trace is complete, the result is printed, and no process is left."""

import json
import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest

from stackmem import replay
from stackmem.core.facts import ChecksReturned, RunEnded
from tests.stage import SOLVED, Stage, call, command, events, eventually, fails, pop, push

SECONDS = 7_654_321


def alive(mark: str) -> list[int]:
    """Return the processes whose command line contains the mark, except the test's own."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = each.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if mark in line and "pytest" not in line and "stackmem" not in line:
            found.append(int(each.parent.name))
    return found


def sleeping(mark: str) -> list[int]:
    """Return only the command's own processes; while the sandbox starts there are others."""
    found = []
    for process in alive(mark):
        try:
            found += [process] if Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"sleep\0") else []
        except OSError:
            continue
    return found


def mark_of(stage: Stage) -> str:
    """Return a number of seconds that no other process sleeps."""
    return f"{SECONDS}.{os.getpid()}{abs(hash(str(stage.root))) % 10**6:06}"


def interrupted(stage: Stage, process: subprocess.Popen[str], number: int = signal.SIGINT) -> dict:
    """Send a signal to the whole group, as a terminal does, and return the result."""
    os.killpg(process.pid, number)
    stdout, stderr = process.communicate(timeout=100)
    assert process.returncode == 128 + number, stderr
    assert "Traceback" not in stderr
    result = json.loads(stdout)
    assert replay(result["run_dir"]).events == result["records"]
    assert json.loads((Path(result["run_dir"]) / "result.json").read_text("utf-8"))["signal"] == number
    return result


@pytest.mark.parametrize("isolation", ["auto", "none"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_a_command_ends_the_run_and_all_its_processes(stage: Stage, isolation, number):
    mark = mark_of(stage)
    lingering = f"touch made; setsid sleep {mark} & sleep {mark} & sleep {mark}"
    flags = ["--model", "demo", "--json", "--isolation", isolation]
    process = stage.start("solve", stage.task(push(), command(lingering), pop(), pop()), *flags)
    eventually(lambda: len(sleeping(mark)) >= 2)
    result = interrupted(stage, process, number)
    assert (result["ending"], result["outcome"], result["changed"]) == ("interrupted", "interrupted", ["made"])
    assert isinstance(events(result["run_dir"])[-1], RunEnded)
    eventually(lambda: not alive(mark), what=f"gone: {mark}")


@pytest.mark.parametrize(
    "waits",
    [{**pop(), "latency_seconds": 600}, fails("429", retry_after_seconds=60)],
    ids=["a model call", "the wait before another attempt"],
)
def test_ctrl_c_while_the_model_is_waited_for_ends_the_run(stage: Stage, waits):
    process = stage.start("solve", stage.task(command("true"), waits, pop()), "--model", "demo", "--json")
    eventually(lambda: stage.written() >= 3 + ("fault" in waits))
    time.sleep(0.2)
    result = interrupted(stage, process)
    assert (result["ending"], result["steps"]) == ("interrupted", 1)


def test_ctrl_c_during_the_checks_leaves_their_verdict_open(stage: Stage):
    mark = mark_of(stage)
    process = stage.start(
        "solve", stage.task(pop("All done."), test=f"sleep {mark}\n" + SOLVED), "--model", "demo", "--json"
    )
    eventually(lambda: sleeping(mark))
    result = interrupted(stage, process)
    assert (result["ending"], result["outcome"], result["check_error"]) == (
        "popped", "unsolved", "the checks were interrupted",
    )  # fmt: skip
    assert isinstance(events(result["run_dir"])[-1], ChecksReturned)
    eventually(lambda: not alive(mark), 5)


@pytest.mark.parametrize("isolation", ["auto", "none"])
def test_a_second_ctrl_c_ends_at_once_with_the_trace_whole(stage: Stage, isolation):
    mark = mark_of(stage)
    task = stage.task(command(f"sleep {mark} & sleep {mark}"), pop())
    process = stage.start("solve", task, "--model", "demo", "--json", "--isolation", isolation)
    eventually(lambda: len(sleeping(mark)) >= 2)
    os.killpg(process.pid, signal.SIGINT)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=100)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert replay(stage.only_run()).outcome == "interrupted"
    if isolation == "auto":  # without isolation only the program itself could end them
        eventually(lambda: not alive(mark), 5)
    for left in alive(mark):
        os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize("moment", [1, 4, 9])
def test_a_run_that_was_killed_replays_up_to_there(stage: Stage, moment):
    steps = [call("heap_alloc", name=f"chunk-{number}", content="x") | {"latency_seconds": 0.1} for number in range(9)]
    process = stage.start("solve", stage.task(*steps, pop()), "--model", "demo", "--json")
    eventually(lambda: stage.written() >= moment)
    process.kill()
    stdout, _ = process.communicate(timeout=100)
    assert (process.returncode, stdout) == (-signal.SIGKILL, "")
    found = replay(stage.only_run())
    stats = stage.run("trace", "stats", stage.only_run()).stdout.splitlines()[0]
    listed = json.loads(stage.run("runs", "--json").stdout)[0]["outcome"]
    assert (found.outcome, "interrupted after" in stats, listed) == ("interrupted", True, "interrupted")
    assert found.events >= moment


def test_a_command_dies_with_the_program_that_was_killed(stage: Stage):
    mark = mark_of(stage)
    process = stage.start("solve", stage.task(command(f"setsid sleep {mark} & sleep {mark}"), pop()), "--model", "demo")
    eventually(lambda: len(sleeping(mark)) >= 2)
    process.kill()
    process.communicate(timeout=100)
    eventually(lambda: not alive(mark), 5)


def test_ctrl_c_while_a_task_is_checked_leaves_neither_processes_nor_folders(stage: Stage):
    mark, scratch = mark_of(stage), stage.root / "tmp"
    scratch.mkdir()
    process = stage.start("tasks", "check", stage.task(pop(), test=f"sleep {mark}\n"), env={"TMPDIR": str(scratch)})
    eventually(lambda: sleeping(mark))
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=100)
    assert (process.returncode, stdout) == (130, "")
    assert stderr == "stackmem: interrupted before there was a result; run the command again\n"
    assert list(scratch.glob("stackmem-task-check-*")) == []
    eventually(lambda: not alive(mark), 5)


def on_a_terminal(stage: Stage, *arguments: object) -> tuple[subprocess.Popen, int]:
    """Start the program with its own terminal as all three standard files; return the terminal's other end too."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        stage.arguments(*arguments), cwd=stage.elsewhere, stdin=theirs, stdout=theirs, stderr=theirs,
        env=stage.environ({"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}), start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    return process, ours


def read_all(ours: int) -> str:
    shown = b""
    while True:
        try:
            part = os.read(ours, 65_536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    return shown.decode(errors="replace")


HIDDEN, BACK = "\x1b[?25l", "\x1b[?25h"


def test_on_a_terminal_the_status_is_drawn_below_and_the_cursor_given_back(stage: Stage):
    hostile = "\x1b]0;owned\x07\x1b[31m\u202e"
    task = stage.task(push(), command(f"sleep 0.4; printf '{hostile}'; false"), pop(), pop())
    process, ours = on_a_terminal(stage, "solve", task, "--model", "demo")
    shown = read_all(ours)
    assert process.wait(100) == 0
    assert "root > child | step 2 | context " in shown, ascii(shown)
    assert "push_frame child -> frame-1" in shown
    assert shown.rindex(BACK) > shown.rindex(HIDDEN)
    assert "\x1b[32msolved\x1b[0m (popped) in 4 steps" in shown
    assert not any(part in shown for part in ("\x1b]", "\x07", "\x1b[31m", "\u202e"))


@pytest.mark.parametrize("times", [1, 2])
def test_a_terminal_gets_its_cursor_back_from_a_run_that_was_interrupted(stage: Stage, times):
    mark = mark_of(stage)
    process, ours = on_a_terminal(stage, "solve", stage.task(command(f"sleep {mark}"), pop()), "--model", "demo")
    eventually(lambda: sleeping(mark))
    for _ in range(times):
        os.kill(process.pid, signal.SIGINT)
    shown = read_all(ours)
    assert process.wait(100) == 130
    assert shown.rindex(BACK) > shown.rindex(HIDDEN)
    eventually(lambda: not alive(mark), 5)
