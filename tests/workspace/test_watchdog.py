"""Shared memory that a neighbor has just given back, as the watchdog of a command sees it."""

import os
from itertools import chain, repeat

import pytest

from stackmem.workspace import watchdog
from stackmem.workspace.profile import Profile

MIB = 1 << 20
PROFILE = Profile(memory_mib=60, tmp_mib=1, shm_mib=1)


def looked(monkeypatch, tmp_path, shared, neighbors):
    """What a look says where this is shared and this is the neighbors', one measurement after another, in MiB."""
    told = chain([0], (mib * MIB for mib in shared), repeat(shared[-1] * MIB))
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
