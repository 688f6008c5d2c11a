"""Sums of money."""

from decimal import ROUND_HALF_UP, Decimal


def total(amounts: list[str]) -> Decimal:
    """The sum, rounded half up to cents."""
    return sum(map(Decimal, amounts), Decimal(0)).quantize(Decimal("0.01"), ROUND_HALF_UP)
