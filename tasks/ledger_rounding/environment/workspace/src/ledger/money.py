"""Amounts of money: whole cents in an int."""

import re
from decimal import Decimal

_AMOUNT = re.compile(r"(-?)(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d{1,2}))?")


def parse_amount(text):
    """The cents of a written amount, such as ``1,234.5`` or ``-3``."""
    found = _AMOUNT.fullmatch(text.strip())
    if not found:
        raise ValueError(f"no amount: {text!r}")
    sign, whole, cents = found.groups()
    value = int(whole.replace(",", "")) * 100 + int((cents or "0").ljust(2, "0"))
    return -value if sign else value


def format_amount(cents):
    """How an amount is printed: ``1,234.50``."""
    sign = "-" if cents < 0 else ""
    whole, rest = divmod(abs(cents), 100)
    return f"{sign}{whole:,}.{rest:02}"


def round_cents(value):
    """The whole cents of a Decimal number of cents."""
    return int(value + Decimal("0.5"))
