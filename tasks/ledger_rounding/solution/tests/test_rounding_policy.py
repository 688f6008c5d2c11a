"""docs/rounding.md, rule by rule; each of these failed before its cause was repaired."""

from dataclasses import replace
from decimal import Decimal

import pytest

from ledger.allocation import allocate
from ledger.invoice import Invoice, Line
from ledger.money import round_cents
from ledger.statement import statement_of


def invoice(*lines, discount=0, date="2026-03-01"):
    made = tuple(Line("thing", Decimal(quantity), cents, Decimal(rate)) for quantity, cents, rate in lines)
    return Invoice("1", date, made, discount)


def credit_note(of):
    return replace(of, lines=tuple(replace(line, quantity=-line.quantity) for line in of.lines), discount=-of.discount)


@pytest.mark.parametrize(("value", "cents"), [("-0.4", 0), ("-0.5", -1), ("-2.4", -2), ("-2.5", -3), ("-2.6", -3)])
def test_r1_negative_halves_go_away_from_zero(value, cents):
    assert round_cents(Decimal(value)) == cents


def test_r3_a_cent_left_over_goes_to_the_largest_fraction():
    assert allocate(100, [745, 235, 2140]) == [24, 7, 69]


def test_r3_of_equal_fractions_the_first_line_gets_the_cent():
    assert allocate(100, [1, 1, 1]) == [34, 33, 33]
    assert allocate(2, [5, 5, 5]) == [1, 1, 0]


def test_r4_the_tax_of_a_statement_is_the_sum_of_the_taxes():
    invoices = [invoice(("1", 3, "19")) for _ in range(3)]  # 0.57 cents each, which are 1; together 1.71, which are 2
    assert statement_of(invoices, "2026-03").tax == 3


def test_r5_a_credit_note_mirrors_its_invoice():
    original = invoice(("1.5", 1890, "7"), ("3", 235, "19"), ("2.5", 219, "7"), discount=245)
    mirror = credit_note(original)
    assert [-amount for amount in mirror.discounted()] == original.discounted()
    assert (mirror.net, mirror.tax, mirror.gross) == (-original.net, -original.tax, -original.gross)
