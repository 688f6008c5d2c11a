from decimal import Decimal

import pytest

from ledger.money import format_amount, parse_amount, round_cents


@pytest.mark.parametrize(
    ("text", "cents"), [("3", 300), ("3.5", 350), ("0.05", 5), ("-3.50", -350), ("1,234.5", 123450), (" 7 ", 700)]
)
def test_amounts_are_read(text, cents):
    assert parse_amount(text) == cents


@pytest.mark.parametrize("text", ["", "x", "1.234", "1,23", "--1", "1."])
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(ValueError):
        parse_amount(text)


def test_amounts_are_printed():
    assert [format_amount(cents) for cents in (0, 5, -5, 123450)] == ["0.00", "0.05", "-0.05", "1,234.50"]


@pytest.mark.parametrize(("value", "cents"), [("0.4", 0), ("0.5", 1), ("1.5", 2), ("2.5", 3), ("7", 7)])
def test_halves_go_up(value, cents):
    assert round_cents(Decimal(value)) == cents
