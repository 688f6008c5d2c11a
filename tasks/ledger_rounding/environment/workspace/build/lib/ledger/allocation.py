"""Sharing an amount out over the lines of an invoice."""

from decimal import Decimal

from ledger.money import round_cents


def allocate(total, weights):
    """Shares of ``total`` cents, one per weight and in proportion to it; together they are the total."""
    if any(weight > 0 for weight in weights) and any(weight < 0 for weight in weights):
        raise ValueError("lines of different signs cannot share an amount")
    whole = sum(weights)
    if whole == 0:
        if total:
            raise ValueError("there is nothing to share the amount over")
        return [0] * len(weights)
    shares = [round_cents(Decimal(total * weight) / whole) for weight in weights]
    shares[-1] += total - sum(shares)
    return shares
