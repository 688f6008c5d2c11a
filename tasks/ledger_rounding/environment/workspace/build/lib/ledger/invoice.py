"""Invoices: lines, discounts, taxes, totals."""

import csv
from dataclasses import dataclass
from decimal import Decimal

from ledger.allocation import allocate
from ledger.money import parse_amount, round_cents


@dataclass(frozen=True)
class Line:
    description: str
    quantity: Decimal
    unit_cents: int
    tax_rate: Decimal  # in percent

    @property
    def amount(self):
        return round_cents(self.quantity * self.unit_cents)


@dataclass(frozen=True)
class Invoice:
    number: str
    date: str  # YYYY-MM-DD
    lines: tuple
    discount: int = 0

    def discounted(self):
        """The amount of each line, its share of the discount taken off."""
        amounts = [line.amount for line in self.lines]
        shares = allocate(self.discount, amounts)
        return [amount - share for amount, share in zip(amounts, shares)]

    def net_by_rate(self):
        nets = {}
        for line, amount in zip(self.lines, self.discounted()):
            nets[line.tax_rate] = nets.get(line.tax_rate, 0) + amount
        return nets

    def tax_by_rate(self):
        return {rate: tax_on(net, rate) for rate, net in self.net_by_rate().items()}

    @property
    def net(self):
        return sum(self.net_by_rate().values())

    @property
    def tax(self):
        return sum(self.tax_by_rate().values())

    @property
    def gross(self):
        return self.net + self.tax


def tax_on(net, rate):
    """The tax in cents on a net amount at a rate in percent."""
    return round_cents(net * rate / 100)


def read_invoices(path):
    """The invoices of an export, in the order of their first lines."""
    lines, dates, discounts = {}, {}, {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            number = row["number"]
            lines.setdefault(number, []).append(
                Line(
                    row["description"],
                    Decimal(row["quantity"]),
                    parse_amount(row["unit_price"]),
                    Decimal(row["tax_rate"]),
                )
            )
            dates.setdefault(number, row["date"])
            discounts[number] = discounts.get(number, 0) + parse_amount(row["discount"] or "0")
    return [Invoice(number, dates[number], tuple(lines[number]), discounts[number]) for number in lines]
