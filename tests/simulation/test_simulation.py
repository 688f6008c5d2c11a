"""Crash histories, one seed each: five hundred in CI, a hundred thousand in campaigns."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from stackmem.run.opened import Person
from stackmem.run.resume import resume
from tests.campaigns import LONG, Campaign
from tests.conftest import CAMPAIGN
from tests.simulation.ground import Disk, mixed, weather
from tests.simulation.histories import Reference, begin, ends_as, live_through, place_of_histories

SEEDS = 100_000 if CAMPAIGN else 125
PARTS = 1 if CAMPAIGN else 4
FOUND = (635, 23_114)
"""Seeds that once found a fault: a lock left by Ctrl-C, and a missing line end that went unnoticed."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with TemporaryDirectory(prefix="stackmem-", dir=place_of_histories(tmp_path_factory.mktemp("histories"))) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def reference(place: Path) -> Reference:
    return Reference(place / "reference")


@LONG
@pytest.mark.parametrize("part", range(PARTS))
def test_a_killed_run_always_reaches_the_same_end(reference: Reference, place: Path, part: int):
    for number in Campaign("simulated crashes", SEEDS):
        seed = part * SEEDS + number
        try:
            live_through(seed, reference, place / "history")
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_a_signal_within_any_call_of_the_disk_leaves_no_lock(reference: Reference, place: Path):
    at = 0
    while True:
        at += 1
        run = place / f"life-{at}" / reference.folder.name
        begin(run, reference, Random(4))
        disk = Disk(run, "ctrl-c", at, Random(at))
        with weather(None) as clock, disk, suppress(KeyboardInterrupt):
            resume(run, {}, os.environ, person=Person(clock=clock))
        assert not (run / "trace.lock").exists(), at
        if disk.calls < at:
            break
        ends_as(run, reference)
    assert at > 20


@pytest.mark.parametrize("seed", FOUND)
def test_earlier_findings_stay_fixed(reference: Reference, place: Path, seed: int):
    live_through(seed, reference, place / "history")


def test_a_seed_makes_the_same_history_again_to_the_byte(reference: Reference, place: Path):
    for seed in range(20):
        assert live_through(seed, reference, place / "history") == live_through(seed, reference, place / "history")


def test_a_power_cut_leaves_every_sector_old_or_new():
    old, new = b"a" * 700, b"a" * 700 + b"b" * 2_000
    left = {mixed(old, new, Random(seed)) for seed in range(300)}
    assert {old, new} <= left
    assert any(kept[700:].strip(b"\0").startswith(b"b") and b"\0" in kept[700:1024] for kept in left), "no hole"
    assert all(kept[:512] == old[:512] and len(old) <= len(kept) <= len(new) for kept in left)
