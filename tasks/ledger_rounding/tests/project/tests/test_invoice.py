from decimal import Decimal

import pytest

from ledger.allocation import allocate
from ledger.invoice import Invoice, Line


def line(unit_cents, rate="19", quantity="1"):
    return Line("thing", Decimal(quantity), unit_cents, Decimal(rate))


def test_shares_add_up():
    assert sum(allocate(100, [1, 1, 1])) == 100


def test_equal_lines_share_equally():
    assert allocate(90, [500, 500, 500]) == [30, 30, 30]


def test_mixed_signs_share_nothing():
    with pytest.raises(ValueError):
        allocate(10, [5, -3])


def test_tax_is_rounded_once_per_rate():
    invoice = Invoice("1", "2026-01-01", (line(3), line(3), line(3)))
    assert invoice.tax_by_rate() == {Decimal("19"): 2}


def test_totals():
    invoice = Invoice("1", "2026-01-01", (line(1000), line(2000, "7")), discount=300)
    assert (invoice.net, invoice.tax, invoice.gross) == (2700, 171 + 126, 2997)
