"""The bill of ``adaptive`` compared with the cheapest other strategy, on a short and a long world."""

import pytest

from stackmem.lab.bench.plan import Trial, TrialSubject, Variant
from stackmem.lab.bench.trial import Job, run_trial

SETTINGS = {"isolation": "memory", "fsync": "none"}


def bill(row, read: float) -> float:
    """Return the bill in input tokens, with output weighted by five."""
    written = row["bill_write_5m"] * 1.25 + row["bill_write_1h"] * 2
    return row["bill_uncached"] + row["bill_read"] * read + written + row["bill_output"] * 5


@pytest.mark.parametrize(("horizon", "read"), [(10, 0.1), (60, 0.1), (60, 0.025)])
def test_it_is_within_three_in_a_hundred_of_the_cheapest(tmp_path, horizon, read):
    bills = {}
    for spelled in ("full", "isolated", "fold", f"adaptive:read={read:g}"):
        subject, variant = TrialSubject("ledger", "ledger", horizon=horizon, noise=1.0), Variant(spelled, spelled)
        name = spelled.replace(":", "-")
        trial = Trial(name, subject, 1, "sim/bounded-reader", variant, SETTINGS)
        row = run_trial(Job(trial, str(tmp_path), "claude-sonnet-5-5", 10.0, "none"))
        assert (row["solved"], row["not_sent"]) == (1, 0)
        bills[name] = bill(row, read)
    assert bills.pop(f"adaptive-read={read:g}") <= 1.03 * min(bills.values())
