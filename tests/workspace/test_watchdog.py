"""Shared memory of neighbors, as a command's watchdog sees it."""

import os
from itertools import chain, repeat
from pathlib import Path

import pytest

from stackmem.workspace import watchdog
from stackmem.workspace.profile import Profile
from stackmem.workspace.watchdog import ControlGroup

MIB = 1 << 20
PROFILE = Profile(memory_mib=60, tmp_mib=1, shm_mib=1)


def looked(monkeypatch, tmp_path, shared, neighbors):
    """Return the watchdog's findings for these totals and neighbors' shares, one measurement after another, in MiB."""
    told = chain([0], (mib * MIB for mib in shared), repeat(shared[-1] * MIB))
    nothing = tmp_path / "nothing"
    monkeypatch.setattr(watchdog, "ControlGroup", lambda: ControlGroup(nothing, nothing))
    monkeypatch.setattr(watchdog, "_shared_bytes", lambda: next(told))
    monkeypatch.setattr(watchdog, "_neighbors", lambda *_: watchdog._Neighbors(neighbors * MIB, 0))
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
        ([300, 0], 0, ""),  # it ended between reading the machine's sum and the list of neighbors
        ([300, 300, 300, 300, 0], 0, ""),  # it is no longer listed, and its memory is not free yet
        ([50], 0, ""),
    ],
)
def test_memory_freed_by_a_neighbor_is_not_attributed_to_the_command(monkeypatch, tmp_path, shared, neighbors, reason):
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
    process = tmp_path / "self"
    process.mkdir()
    (process / "cgroup").write_text(groups)
    assert ControlGroup(tmp_path, tmp_path / "fs").file is None
    file = stat(tmp_path / "fs" / place, "anon 5", "shmem 3")
    assert ControlGroup(tmp_path, tmp_path / "fs").file == file
    assert ControlGroup(tmp_path, tmp_path / "fs").shared_bytes() == 3


@pytest.mark.parametrize("groups", [None, "", "no groups\n", "0::/\n"])
def test_without_group_information_no_group_is_reported(tmp_path, groups):
    if groups is not None:
        (tmp_path / "self").mkdir()
        (tmp_path / "self" / "cgroup").write_text(groups)
    assert ControlGroup(tmp_path, tmp_path / "fs").file is None
    assert ControlGroup(tmp_path, tmp_path / "fs").shared_bytes() is None


@pytest.mark.parametrize(
    ("own", "other", "has"),
    [
        ("0::/a\n", "0::/a\n", True),
        ("0::/a\n", "0::/a/within\n", True),
        ("0::/a\n", "0::/ab\n", False),
        ("0::/a\n", "0::/\n", False),
        ("0::/\n", "0::/a\n", True),
        ("4:memory:/a\n0::/x\n", "4:memory:/a\n0::/y\n", True),
        ("4:memory:/a\n0::/x\n", "4:memory:/b\n0::/x\n", False),
    ],
)
def test_a_group_has_its_own_processes_and_those_of_groups_within(tmp_path, own, other, has):
    for pid, groups in (("self", own), ("17", other)):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cgroup").write_text(groups)
    assert ControlGroup(tmp_path, tmp_path / "fs").has(17) is has
    assert not ControlGroup(tmp_path, tmp_path / "fs").has(18)


@pytest.mark.parametrize(
    ("before", "after", "neighbors", "reason"),
    [
        (["shmem 0"], ["shmem 1000"], 0, ""),
        (["shmem 0"], [f"shmem {300 * MIB}"], 0, "memory"),
        (["shmem 0"], [f"shmem {300 * MIB}"], 280, ""),
        (["shmem 0", "total_shmem 5"], ["shmem 0", f"total_shmem {300 * MIB}"], 0, "memory"),  # of a subgroup
        ([f"shmem {300 * MIB}"], [f"shmem {310 * MIB}"], 0, ""),
        (["shmem 0"], ["nothing is told"], 0, "memory"),  # then the machine's sum applies
    ],
)
def test_memory_of_other_groups_is_not_attributed_to_the_command(
    monkeypatch, tmp_path, before, after, neighbors, reason
):
    told = iter([0])
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/\n")
    stat(tmp_path / "fs", *before)
    monkeypatch.setattr(watchdog, "ControlGroup", lambda: ControlGroup(tmp_path, tmp_path / "fs"))
    monkeypatch.setattr(watchdog, "_shared_bytes", lambda: next(told, 900 * MIB))
    monkeypatch.setattr(watchdog, "_neighbors", lambda *_: watchdog._Neighbors(0, neighbors * MIB))
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        dog = watchdog.Watchdog(PROFILE, folder)
        stat(tmp_path / "fs", *after)
        assert dog.look([]) == reason
    finally:
        os.close(folder)
