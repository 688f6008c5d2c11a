"""Memory, disk and files: each bomb is stopped, and each resource has its own limit."""

import ctypes
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from stackmem.workspace.tree import remove_tree
from tests.stage import ROOT
from tests.workspace.sandboxes import ALL, BUBBLEWRAP, CONFINED, MOUNTED, hostile, py, quiet_disk, sh


@hostile(*ALL)
def test_one_allocation_over_the_limit_is_refused_to_the_program(place, level, opened):
    with opened(place, level, process_memory_mib=512) as workspace:
        done = py(workspace, "try:\n    bytearray(600 << 20)\nexcept MemoryError:\n    print('refused')")
    assert done.text == "refused\n[exit 0]"


@hostile(*ALL)
def test_processes_that_together_take_too_much_memory_are_killed(place, level, opened):
    program = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        block = b"x" * (100 << 20)
        time.sleep(3)
        os._exit(0)
time.sleep(3)
"""
    with opened(place, level, memory_mib=250) as workspace:
        assert py(workspace, program).reason == "memory"
        assert sh(workspace, "echo well").text == "well\n[exit 0]"


@hostile(*BUBBLEWRAP, "landlock")
def test_memory_files_that_belong_to_no_process_are_counted(place, level, opened):
    program = """
import os, time
fd = os.memfd_create("fill")
for _ in range(400):
    os.write(fd, b"x" * (1 << 20))
time.sleep(3)
"""
    with opened(place, level, memory_mib=100, tmp_mib=1, shm_mib=1) as workspace:
        assert py(workspace, program).reason == "memory"


@hostile(*BUBBLEWRAP, moot=("namespaces", "landlock", "none"))
def test_shared_memory_that_a_neighbor_fills_is_not_the_commands(place, level, opened):
    fill = "head -c 300M /dev/zero > {}/fill; sleep 1"  # in addition to shared memory of browsers in other tests
    neighbor = Path("/dev/shm", f"stackmem-test-{os.getpid()}")
    neighbor.mkdir()
    try:
        small = opened(place, level, memory_mib=150, tmp_mib=1, shm_mib=1)
        with small as workspace, opened(place, level, tmp_mib=600) as other:
            beside = threading.Thread(target=sh, args=(other, fill.format("/tmp")))
            beside.start()
            host = subprocess.Popen(["bash", "-c", fill.format(neighbor)])
            assert sh(workspace, "sleep 1; echo well").text == "well\n[exit 0]"
            host.wait()
            beside.join()
    finally:
        remove_tree(neighbor)


@hostile(*BUBBLEWRAP, "landlock")
def test_memory_files_that_a_neighbor_holds_are_not_the_commands(place, level, opened):
    file = os.memfd_create("fill")
    try:
        with opened(place, level, memory_mib=150, tmp_mib=1, shm_mib=1) as workspace:
            later = threading.Timer(0.2, os.write, (file, bytes(300 << 20)))
            later.start()
            assert sh(workspace, "sleep 1.2; echo well").text == "well\n[exit 0]"
            later.join()
            assert os.fstat(file).st_size == 300 << 20
    finally:
        os.close(file)


# All tests that fill shared memory are in this file, because tests in a file run one after the other.
GROUPS = Path("/sys/fs/cgroup/memory")  # version 1 only; in version 2 a group with processes has no subgroups
ENTERS = """
import os, sys
open(os.path.join(sys.argv[1], "cgroup.procs"), "w").write(str(os.getpid()))
"""
FILLS = (
    ENTERS
    + """
os.write(os.memfd_create("fill"), bytes(300 << 20))
print(flush=True)
input()
"""
)
WITHOUT_TEST_FILES = [
    "unshare", "--mount", "sh", "-c", 'mountpoint -q "$0" && umount --lazy "$0"; exec "$@"', tempfile.gettempdir(),
]  # fmt: skip
LOOKS = (
    ENTERS
    + """
import pathlib, subprocess, time
from stackmem.workspace.profile import Profile
from stackmem.workspace.watchdog import Watchdog

dog = Watchdog(Profile(memory_mib=60, tmp_mib=1, shm_mib=1), os.open("/", os.O_RDONLY))
if sys.argv[4]:
    pathlib.Path(sys.argv[4]).write_bytes(bytes(200 << 20))
time.sleep(0.1)  # the system tells in hundredths of a second when a process began
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
with subprocess.Popen([sys.executable, "-c", sys.argv[3], sys.argv[2]], **pipes) as holds:
    assert holds.stdout.readline() == b"\\n"
    print({dog.look([]) for _ in range(5)})
    holds.stdin.write(b"\\n")
"""
)


@pytest.mark.skipif(not os.access(GROUPS / "cgroup.procs", os.W_OK), reason="control groups cannot be created here")
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "next to a neighbor of the group"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["in the group", "elsewhere"])
def test_the_kernel_says_which_group_holds_a_memory_file(elsewhere, beside):
    """The file is younger than the command, so it may belong to the command.

    Memory file systems that the group sees count as its neighbors, so it must not see the one with the tests' files.
    """
    own, other = (GROUPS / f"stackmem-test-{os.getpid()}-{name}" for name in ("own", "other"))
    shared = Path("/dev/shm", own.name)
    own.mkdir()
    other.mkdir()
    try:
        places = [str(own), str(other if elsewhere else own), FILLS, str(shared) if beside else ""]
        ran = subprocess.run(
            [*WITHOUT_TEST_FILES, sys.executable, "-c", LOOKS, *places],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        # If another test frees memory at that moment, a look may find less.
        assert ran.stdout == "{''}\n" if elsewhere else "memory" in ran.stdout
    finally:
        shared.unlink(missing_ok=True)
        own.rmdir()
        other.rmdir()


@hostile(*MOUNTED, documented=("namespaces", "landlock", "none"))
def test_private_file_systems_have_their_size(place, level, opened):
    with opened(place, level, tmp_mib=4, shm_mib=2) as workspace:
        done = sh(workspace, "for d in /tmp /dev/shm; do head -c 20M /dev/zero > $d/x; wc -c < $d/x; rm $d/x; done")
    assert done.text.count("No space left on device") == 2
    assert str(4 << 20) in done.text
    assert str(2 << 20) in done.text


@hostile(*ALL)
def test_one_file_stops_growing_at_its_limit(place, level, opened):
    with opened(place, level, file_mib=3) as workspace:
        done = sh(workspace, "head -c 20M /dev/zero > big")
        assert done.failed
        assert (workspace.root / "big").stat().st_size == 3 << 20


@hostile(*ALL)
def test_a_flood_of_files_is_stopped_and_reported(place, level, opened):
    program = "import time\nfor i in range(9000): open(f'f{i}', 'w').close()\ntime.sleep(3)"
    # Enough to exceed the thousands of files that other tests remove meanwhile.
    with quiet_disk() as disk, opened(disk, level, new_files=1000) as workspace:
        done = py(workspace, program)
    assert done.reason == "disk"
    assert "filled the disk" in done.text


@hostile(*ALL)
def test_a_command_that_takes_too_much_disk_is_stopped(place, level, opened):
    with quiet_disk() as disk, opened(disk, level, disk_mib=50) as workspace:
        done = sh(workspace, "for i in 1 2 3 4 5 6; do head -c 20M /dev/urandom > f$i; done; sync -f .; sleep 3")
    assert done.reason == "disk"


@hostile(*ALL)
def test_no_core_is_dumped(place, level, opened):
    with opened(place, level) as workspace:
        assert sh(workspace, "ulimit -c; bash -c 'kill -SEGV $$'; exit 0").text.startswith("0\n")
        assert os.listdir(workspace.root) == []


@hostile(*ALL)
def test_limits_cannot_be_raised_again(place, level, opened):
    with opened(place, level, file_mib=3, open_files=100, process_memory_mib=600) as workspace:
        limits = sh(workspace, "ulimit -c -f -n -d | awk '{print $NF}' | tr '\\n' ' '").text
        raised = sh(workspace, "ulimit -n 200 || ulimit -f unlimited || ulimit -d unlimited || echo kept").text
    assert limits.startswith("0 3072 100 614400")
    if level not in ("none",) or os.geteuid():  # root without a sandbox may raise any limit
        assert raised.endswith("kept\n[exit 0]")


@hostile(*BUBBLEWRAP)
def test_the_harness_stays_quick_while_a_command_takes_all_processors(place, level, opened):
    longest = 0.0
    with opened(place, level) as workspace:
        thread = threading.Thread(
            target=sh, args=(workspace, "for i in 1 2 3 4; do (while :; do :; done) & done; wait", 0.6)
        )
        thread.start()
        while thread.is_alive():
            before = time.monotonic()
            time.sleep(0.01)
            longest = max(longest, time.monotonic() - before)
    assert longest < 10  # enough time for a busy machine


@hostile(*BUBBLEWRAP)
def test_memory_bombs_leave_other_processes_alone(place, level, opened):
    with opened(place, level) as workspace:
        assert sh(workspace, "sleep 0.6; cat /proc/$$/oom_score_adj").text == "1000\n[exit 0]"
    assert Path("/proc/self/oom_score_adj").read_text().strip() != "1000"


@hostile(*CONFINED, documented=("none",))
def test_shared_memory_queues_and_semaphores_do_not_outlive_the_command(place, level, opened):
    key = 0x5000_0000 + os.getpid() * 8 + CONFINED.index(level)
    program = f"""
import ctypes
libc = ctypes.CDLL(None)
print(libc.shmget({key}, 4096, 0o1666), libc.msgget({key}, 0o1666), libc.semget({key}, 1, 0o1666))
"""
    with opened(place, level) as workspace:
        assert py(workspace, program).exit_code == 0
    libc = ctypes.CDLL(None)
    assert (libc.shmget(key, 0, 0), libc.msgget(key, 0), libc.semget(key, 0, 0)) == (-1, -1, -1)
