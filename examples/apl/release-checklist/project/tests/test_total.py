"""Run as a script, it needs nothing but Python."""

from decimal import Decimal

from total import total

assert total(["0.005"]) == Decimal("0.01"), "half is rounded up"
assert total([]) == Decimal("0.00"), "nothing costs nothing"
