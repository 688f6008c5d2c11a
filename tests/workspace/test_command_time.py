"""When a command ends, how it is killed, and that its processes die with it."""

import contextlib
import itertools
import os
import pty
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from stackmem.workspace.ending import wait_for_end
from stackmem.workspace.isolation.launch import limited, line_of_life
from stackmem.workspace.profile import Profile
from tests.conftest import CAMPAIGN
from tests.workspace.sandboxes import (
    ALL,
    BUBBLEWRAP,
    CONFINED,
    CONTAINED,
    bystander,
    hostile,
    interrupted_after,
    living,
    py,
    sh,
    soon,
    stands_still,
)

CANCELS = 250 if CAMPAIGN else 15
KILLS = 250
BEAT = "while :; do echo x >> beat; sleep 0.02; done"
DAEMONS = {
    "background": f"({BEAT}) &",
    "nohup": f"nohup bash -c '{BEAT}' >/dev/null 2>&1 &",
    "setsid": f"setsid bash -c '{BEAT}' >/dev/null 2>&1 </dev/null &",
    "setsid that holds the pipe": f"setsid bash -c '{BEAT}' &",
    "double fork": f"(setsid bash -c '({BEAT}) & disown' >/dev/null 2>&1 &)",
    "deaf": f"setsid bash -c 'trap \"\" TERM INT HUP QUIT; {BEAT}' &",
}
HOPPER = """
import os, time
if os.fork(): os._exit(0)
os.setsid()
end = time.monotonic() + 20
while time.monotonic() < end:
    open("beat", "a").write("x")
    if os.fork(): os._exit(0)
    os.setsid()
"""

LIMITS = (0.4, 4, 40)  # seconds; within the first, the command gets far enough to be observed


@hostile(*ALL)
def test_a_command_that_sleeps_is_killed_at_its_limit_and_keeps_what_it_printed(place, level, opened):
    with opened(place, level) as workspace:
        for seconds in LIMITS:
            start = time.monotonic()
            done = sh(workspace, "trap '' TERM INT HUP; echo partial; sleep 10000; sleep 10000", seconds=seconds)
            assert time.monotonic() - start >= seconds
            assert (done.failed, done.exit_code, done.reason) == (True, None, "timeout")
            if done.text.startswith("partial"):
                break
    assert done.text == f"partial\n[timed out after {seconds:g} s; everything it started was killed]"


@hostile(*ALL)
def test_no_daemon_outlives_its_command(place, level, opened):
    with opened(place, level) as workspace:
        started = "\n".join(DAEMONS.values())
        for after, limits in (("sleep 0.2; echo over", (100,)), ("sleep 1000", LIMITS)):
            for seconds in limits:
                (workspace.root / "beat").write_text("")
                done = sh(workspace, f"{started}\n{after}", seconds=seconds)
                assert done.reason == ("" if "over" in after else "timeout"), done
                assert stands_still(workspace.root / "beat", 0.15)
                if (workspace.root / "beat").stat().st_size > len(DAEMONS):
                    break
            assert (workspace.root / "beat").stat().st_size > len(DAEMONS)
            assert living(str(workspace.root)) == []


@hostile(*ALL)
def test_a_daemon_that_hops_from_process_to_process_dies(place, level, opened):
    with opened(place, level) as workspace:
        (workspace.root / "beat").write_text("")
        assert py(workspace, HOPPER).reason == ""
        assert stands_still(workspace.root / "beat", 0.1)
        assert sh(workspace, "python program.py; sleep 1000", seconds=0.5).reason in {"timeout", "processes"}
        assert stands_still(workspace.root / "beat", 0.1)


@hostile(*CONFINED, documented=("none",))
def test_killing_everything_kills_only_what_is_inside(place, level, opened):
    with opened(place, level) as workspace, bystander() as other:
        for command in ("kill -9 0", "kill -9 -1", f"kill -9 {other.pid} {os.getpid()} {os.getppid()}"):
            sh(workspace, command)
            assert other.poll() is None, command
        assert "killed" in sh(workspace, "kill -9 0").text or level == "namespaces"
        assert sh(workspace, "echo well").text == "well\n[exit 0]"


@hostile(*CONFINED, documented=("none",))
def test_processes_of_the_host_cannot_be_traced_or_read(place, level, opened):
    program = """
import ctypes, pathlib, sys
libc = ctypes.CDLL(None, use_errno=True)
for pid in map(int, sys.argv[1:]):
    print("traced") if libc.ptrace(16, pid, 0, 0) == 0 else None
    for name in ("environ", "mem", "maps"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                print("read", name) if name == "mem" or file.read(1) else None
        except OSError:
            pass
"""
    with opened(place, level) as workspace, bystander({"CANARY": "yes"}) as other:
        (workspace.root / "program.py").write_text(program)
        # Inside a PID namespace the number may belong to a process of the command.
        number = other.pid if other.pid > 100 else 99999
        assert sh(workspace, f"python program.py {number}").text == "[exit 0]"


@hostile(*CONTAINED, documented=("landlock", "none"))
def test_processes_of_the_host_are_not_listed(place, level, opened):
    with opened(place, level) as workspace, bystander() as other:
        listed = sh(workspace, "ls /proc | grep -E '^[0-9]+$' | wc -l; cat /proc/[0-9]*/cmdline | tr '\\0' ' '").text
    assert int(listed.split()[0]) < 12
    assert "pytest" not in listed
    assert other.args[0] not in listed


@hostile(*ALL)
def test_programs_that_ask_get_no_answer_and_end(place, level, opened):
    asks = ["cat", "read x", "python -c 'input()'", "head -c1 /dev/tty", "ssh -o ConnectTimeout=1 localhost true",
            "git init -q g; cd g; git commit --allow-empty", "less program.py", "sudo true",
            "bash -i -c 'read x'", "python -c 'import getpass; getpass.getpass()'"]  # fmt: skip
    with opened(place, level) as workspace:
        done = sh(workspace, "; ".join(f"({each})" for each in asks), seconds=15)
    assert done.reason == ""


@hostile(*BUBBLEWRAP)
def test_an_editor_without_a_terminal_ends(place, level, opened):
    with opened(place, level) as workspace:
        assert sh(workspace, "vi -c q", seconds=15).reason == ""  # it waits two seconds itself


@hostile(*ALL)
def test_no_byte_reaches_the_terminal_of_the_harness(place, level, opened):
    program = """
import fcntl, os
for name in NAMES:
    try:
        fd = os.open(name, os.O_RDWR | os.O_NOCTTY)
        os.write(fd, b"INJECTED")
        fcntl.ioctl(fd, 0x5412, b"I")
        print("injected", name)
    except OSError:
        pass
for fd in (0, 1, 2):
    try:
        fcntl.ioctl(fd, 0x5412, b"I")
        print("injected", fd)
    except OSError:
        pass
"""
    names = ["/dev/tty"]
    child, terminal = pty.fork()
    if child == 0 and level in CONFINED:
        names += ["/dev/console", os.ttyname(0)]  # without confinement the user's terminal can be opened by its name
    if child == 0:
        report = b"failed"
        with contextlib.suppress(BaseException), opened(place, level) as workspace:
            report = py(workspace, f"NAMES = {names}\n{program}").text.encode()
        os.write(1, b"<" + report + b">")
        os._exit(0)
    shown = b""
    with contextlib.suppress(OSError):  # a terminal reports this when its other side closes
        while select.select([terminal], [], [], 30)[0] and (piece := os.read(terminal, 4096)):
            shown += piece
    os.waitpid(child, 0)
    os.close(terminal)
    assert shown == b"<[exit 0]>"


@hostile(*ALL)
def test_a_command_that_closes_its_output_is_still_waited_for(place, level, opened):
    with opened(place, level) as workspace:
        assert sh(workspace, "exec >&- 2>&-; sleep 0.5; echo x > late").exit_code == 0
        assert (workspace.root / "late").exists()
        assert sh(workspace, "exec >&- 2>&-; sleep 1000", seconds=0.3).reason == "timeout"


@hostile(*ALL)
def test_ctrl_c_at_any_moment_leaves_no_process_behind(place, level, opened):
    # Unusual durations identify our sleeps among the host's processes.
    mark = f"9{os.getpid()}{len(level)}"
    with opened(place, level) as workspace:
        for trial in range(CANCELS):
            with contextlib.suppress(KeyboardInterrupt), interrupted_after(0.0002 + 0.012 * trial / CANCELS):
                sh(workspace, f"setsid sleep {mark} & sleep {mark}", seconds=10)
                pytest.fail("the interrupt was swallowed")
        assert soon(lambda: living(mark) == [], 1), living(mark)
        assert sh(workspace, "echo well").text == "well\n[exit 0]"


def interrupted_at(number: int) -> Callable[..., Any]:
    """A tracer that raises Ctrl-C at this moment, counted from 0, of the code that concurrent starts share.

    Python checks for signals when it enters functions and when calls return.
    """
    moments = iter(range(number, -1, -1))

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if Path(frame.f_code.co_filename).name not in {"threading.py", "_base.py", "spawner.py", "workspace.py"}:
            return None if event == "call" and frame.f_code.co_name not in {"run", "start", "abandon"} else trace
        if event in {"call", "return"} and next(moments, None) == 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    return trace


@hostile("none")
def test_ctrl_c_at_each_call_among_what_threads_share_lets_the_next_command_run(place, level, opened):
    texts = queue.SimpleQueue[str]()
    with opened(place, level) as workspace:
        for number in itertools.count(step=1 if CAMPAIGN else 4):
            before = sys.gettrace()
            sys.settrace(interrupted_at(number))
            try:
                ended = sh(workspace, "true").exit_code == 0
            except KeyboardInterrupt:
                ended = False
            finally:
                sys.settrace(before)
            threading.Thread(target=lambda: texts.put(sh(workspace, "echo well").text), daemon=True).start()
            assert texts.get(timeout=60) == "well\n[exit 0]", number
            if ended:
                break
        assert number > 30  # a start has at least this many moments


@hostile(*CONTAINED, documented=("landlock", "none"))
def test_a_command_dies_with_a_harness_that_is_killed(place, level, opened):
    mark = f"8{os.getpid()}{len(level)}"
    harness = os.fork()
    if harness == 0:
        tempfile.tempdir = str(place)  # a killed process leaves its temporary folders
        with contextlib.suppress(BaseException), opened(place, level) as workspace:
            sh(workspace, f"(setsid sleep {mark} &) ; sleep {mark}", seconds=30)
        os._exit(0)
    try:
        # While the sandbox starts, its own programs carry the mark too.
        started = soon(lambda: len(living(f"sleep\0{mark}")) >= 2)
    finally:
        os.kill(harness, signal.SIGKILL)
        os.waitpid(harness, 0)
    assert started
    assert soon(lambda: living(mark) == [], 1.5)


@pytest.mark.parametrize("alive", [True, False])
def test_a_command_begins_only_while_the_harness_lives(alive):
    with contextlib.ExitStack() as harness:
        life = os.dup(line_of_life(harness))
        argv = limited("echo began", Profile(), count_processes=False, life=life)
        if not alive:
            harness.close()
        ran = subprocess.run(argv, pass_fds=[life], capture_output=True, text=True, timeout=100)
    os.close(life)
    assert (ran.stdout, ran.returncode) == (("began\n", 0) if alive else ("", 1))


@pytest.mark.campaign
@hostile(*CONTAINED, documented=("landlock", "none"))
def test_of_many_harnesses_that_are_killed_while_they_start_a_command_next_to_none_leaves_it_running(
    place, level, opened
):
    mark = f"6{os.getpid()}{len(level)}"
    with opened(place, level) as workspace:
        started = time.monotonic()
        sh(workspace, "true")
        whole = time.monotonic() - started
        for trial in range(KILLS):
            harness = os.fork()
            if harness == 0:
                with contextlib.suppress(BaseException):
                    sh(workspace, f"sleep {mark}", seconds=30)
                os._exit(0)
            time.sleep(whole * trial / KILLS)
            os.kill(harness, signal.SIGKILL)
            os.waitpid(harness, 0)
        time.sleep(2 * whole)  # a start in progress has finished by now
        try:
            assert soon(lambda: len(living(f"sleep\0{mark}")) <= KILLS // 50)
        finally:  # a waiter for a canceled start runs nothing
            for pid in living(mark):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)


@hostile(*ALL)
def test_commands_may_be_started_from_threads_that_end(place, level, opened):
    texts = []
    with opened(place, level) as workspace:
        for _ in range(2):
            thread = threading.Thread(target=lambda: texts.append(sh(workspace, "sleep 0.2; echo well").text))
            thread.start()
            thread.join()
    assert texts == ["well\n[exit 0]"] * 2


@hostile(*ALL)
def test_a_fork_bomb_is_stopped_and_the_next_command_runs(place, level, opened):
    bomb = """
import os, time
for _ in range(300):
    if os.fork() == 0:
        time.sleep(2)
        os._exit(0)
time.sleep(2)
"""
    with opened(place, level, process_limit=60) as workspace:
        done = py(workspace, bomb)
        assert done.failed
        assert done.reason == "processes" or "BlockingIOError" in done.text
        assert sh(workspace, "echo well").text == "well\n[exit 0]"


@hostile(*ALL)
def test_a_thousand_threads_are_stopped(place, level, opened):
    program = "import threading, time\nfor _ in range(1000): threading.Thread(target=time.sleep, args=(1,)).start()"
    with opened(place, level, process_limit=200) as workspace:
        done = py(workspace, program)
    assert done.failed
    assert done.reason == "processes" or "can't start new thread" in done.text


@hostile(*BUBBLEWRAP)
def test_a_spinning_command_leaves_the_harness_its_time(place, level, opened):
    with opened(place, level) as workspace:
        spin = "for i in $(seq 8); do (while :; do :; done) & done; wait"  # endless unless ended
        assert sh(workspace, spin, seconds=0.5).reason == "timeout"


@hostile("bubblewrap", "none")
def test_a_command_costs_no_look_at_the_processes_of_the_host(place, level, opened):
    looks = []
    sys.addaudithook(lambda event, found: looks.append(found[0]) if event == "os.listdir" else None)
    with opened(place, level) as workspace:
        assert sh(workspace, "sleep 0.4").text == "[exit 0]"
    assert "/proc" not in looks
    assert any(str(look).startswith("/proc/") for look in looks)  # the command's own processes are watched


def test_unkillable_processes_are_given_up_in_bounded_time():
    process = subprocess.Popen(["/bin/sleep", "10000"])
    pidfd = os.pidfd_open(process.pid)
    try:
        assert not wait_for_end([pidfd], 0.2)
        process.kill()
        assert wait_for_end([pidfd], 60)
    finally:
        os.close(pidfd)
        process.kill()
        process.wait()
