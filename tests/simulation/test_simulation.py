"""Histories of crashes, one seed each: two hundred in CI, a hundred thousand in campaigns."""

from pathlib import Path

from tests.conftest import CAMPAIGN
from tests.simulation.histories import Reference, live_through

SEEDS = 100_000 if CAMPAIGN else 200


def test_whatever_kills_a_run_it_comes_to_the_same_end(tmp_path: Path):
    reference = Reference(tmp_path / "reference")
    for seed in range(SEEDS):
        try:
            live_through(seed, reference, tmp_path / "history")
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
