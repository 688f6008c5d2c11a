"""The simulated model, one file per question: what a text says, what is known, what to do, what to keep."""

from __future__ import annotations

from .dials import PERFECT, SETTINGS, ReaderDials, read_dial
from .reader import BoundedReader
from .sight import VARIANTS

__all__ = ["PERFECT", "SETTINGS", "VARIANTS", "BoundedReader", "ReaderDials", "read_dial"]
