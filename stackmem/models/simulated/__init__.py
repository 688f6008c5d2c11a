"""The simulated model, one file per question: what a text says, what is known, what to do, what to keep."""

from __future__ import annotations

from .reader import BoundedReader
from .sight import VARIANTS

__all__ = ["VARIANTS", "BoundedReader"]
