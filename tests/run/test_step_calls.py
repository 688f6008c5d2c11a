"""The harness calls few functions between a reply and the next request."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.overhead import MAX_CALLS, calls_per_step


@pytest.mark.parametrize("strategy", MAX_CALLS)
def test_a_plain_step_makes_no_more_calls_than_allowed(strategy: str, tmp_path: Path) -> None:
    assert calls_per_step(strategy, tmp_path) <= MAX_CALLS[strategy]
