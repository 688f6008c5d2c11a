"""Shared memory of neighbors, as the watchdog of a command sees it."""

import os
import subprocess
import sys
import time
from itertools import chain, repeat
from pathlib import Path

import pytest

from stackmem.workspace import watchdog
from stackmem.workspace.profile import Profile
from stackmem.workspace.watchdog import group_file

MIB = 1 << 20
PROFILE = Profile(memory_mib=60, tmp_mib=1, shm_mib=1)


def looked(monkeypatch, tmp_path, shared, neighbors):
    """What a look says where this is shared and this is the neighbors', one measurement after another, in MiB."""
    told = chain([0], (mib * MIB for mib in shared), repeat(shared[-1] * MIB))
    monkeypatch.setattr(watchdog, "group_file", lambda: None)
    monkeypatch.setattr(watchdog, "_shared_bytes", lambda: next(told))
    monkeypatch.setattr(watchdog, "_neighbors_bytes", lambda *_: neighbors * MIB)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        return watchdog.Watchdog(PROFILE, folder).look([])
    finally:
        os.close(folder)


@pytest.mark.parametrize(
    ("shared", "neighbors", "reason"),
    [
        ([300], 0, "memory"),
        ([300], 280, ""),
        ([300, 0], 0, ""),  # it ended between the machine's sum and the list of neighbors
        ([300, 300, 300, 300, 0], 0, ""),  # it is not listed any more, and its memory is not free yet
        ([50], 0, ""),
    ],
)
def test_what_a_neighbor_gives_back_is_not_the_commands(monkeypatch, tmp_path, shared, neighbors, reason):
    assert looked(monkeypatch, tmp_path, shared, neighbors) == reason


def stat(folder: Path, *lines: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "memory.stat"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


@pytest.mark.parametrize(
    ("groups", "place"),
    [
        ("0::/user.slice/session-1.scope\n", "user.slice/session-1.scope"),
        ("5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n", "memory/a/b"),
        ("0::/the/hosts/path\n", ""),
        ("4:memory:/docker/the-hosts\n", "memory"),
    ],
    ids=["version 2", "version 1", "in a container", "in a container, version 1"],
)
def test_the_file_of_a_process_group_is_found(tmp_path, groups, place):
    (tmp_path / "cgroup").write_text(groups)
    assert group_file(tmp_path / "cgroup", tmp_path / "fs") is None
    file = stat(tmp_path / "fs" / place, "anon 5", "shmem 3")
    assert group_file(tmp_path / "cgroup", tmp_path / "fs") == file


@pytest.mark.parametrize("groups", [None, "", "no groups\n", "0::/\n"])
def test_where_no_group_is_told_there_is_none(tmp_path, groups):
    if groups is not None:
        (tmp_path / "cgroup").write_text(groups)
    assert group_file(tmp_path / "cgroup", tmp_path / "fs") is None


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (["shmem 0"], ["shmem 1000"], ""),
        (["shmem 0"], [f"shmem {300 * MIB}"], "memory"),
        (["shmem 0", "total_shmem 5"], ["shmem 0", f"total_shmem {300 * MIB}"], "memory"),  # of a group within
        ([f"shmem {300 * MIB}"], [f"shmem {310 * MIB}"], ""),
        (["shmem 0"], ["nothing is told"], "memory"),  # then the machine's sum holds
        (["nothing is told"], ["shmem 1000"], "memory"),
    ],
)
def test_what_neighbors_of_other_groups_hold_is_not_the_commands(monkeypatch, tmp_path, before, after, reason):
    told = iter([0])
    file = stat(tmp_path / "group", *before)
    monkeypatch.setattr(watchdog, "group_file", lambda: file)
    monkeypatch.setattr(watchdog, "_shared_bytes", lambda: next(told, 300 * MIB))
    monkeypatch.setattr(watchdog, "_neighbors_bytes", lambda *_: 0)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        dog = watchdog.Watchdog(PROFILE, folder)
        stat(file.parent, *after)
        assert dog.look([]) == reason
    finally:
        os.close(folder)


GROUPS = Path("/sys/fs/cgroup/memory")  # of version 1; in version 2 a group that has processes has no groups within
FILLS = """
import os, sys
if sys.argv[1]:
    open(os.path.join(sys.argv[1], "cgroup.procs"), "w").write(str(os.getpid()))
os.write(os.memfd_create("fill"), bytes(300 << 20))
print(flush=True)
input()
"""


@pytest.mark.skipif(not os.access(GROUPS / "cgroup.procs", os.W_OK), reason="no control group can be made here")
@pytest.mark.parametrize(("elsewhere", "reason"), [(True, ""), (False, "memory")])
def test_the_kernel_says_which_group_holds_a_memory_file(tmp_path, elsewhere, reason):
    """It is younger than the command, so that it may be the command's own."""
    group = GROUPS / f"stackmem-test-{os.getpid()}"
    group.mkdir()
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        dog = watchdog.Watchdog(PROFILE, folder)
        time.sleep(0.1)  # the system tells in hundredths of a second when a process began
        command = [sys.executable, "-c", FILLS, str(group) if elsewhere else ""]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holds:
            assert holds.stdin is not None
            assert holds.stdout is not None
            assert holds.stdout.readline() == b"\n"
            assert dog.look([]) == reason
            holds.stdin.write(b"\n")
    finally:
        os.close(folder)
        group.rmdir()
