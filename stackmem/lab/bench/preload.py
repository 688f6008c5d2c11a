"""Imports for workers, done once in the process that forks them, so that they share its memory."""

from __future__ import annotations

import stackmem.memory
import stackmem.models.registry
import stackmem.models.tokens
import stackmem.run.solve

from . import trial

stackmem.models.tokens.count("", "claude-sonnet-5-5")  # reads the tokenizer's ranks, 60 MB once decoded

__all__ = ["trial"]
