"""The simulated model: parsing of texts, knowledge, decisions, and storage, one file each."""

from __future__ import annotations

from .dials import PERFECT, SETTINGS, ReaderDials, read_dial
from .reader import BoundedReader
from .sight import VARIANTS

__all__ = ["PERFECT", "SETTINGS", "VARIANTS", "BoundedReader", "ReaderDials", "read_dial"]
