"""What a metric is made of: something that is shown each moment of a run in turn and then has a value."""

from __future__ import annotations

from typing import Protocol

from .moments import Moment

Value = int | float | None


class Fold(Protocol):
    def add(self, moment: Moment) -> None: ...

    @property
    def value(self) -> Value:
        """Of the moments so far; None where they hold nothing to tell it by."""
