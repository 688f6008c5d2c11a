"""What every worker needs, imported once by the process that they are forked from: they share its memory."""

from __future__ import annotations

import stackmem.memory
import stackmem.models.registry
import stackmem.models.tokens
import stackmem.run.solve

from . import trial

stackmem.models.tokens.count("", "claude-sonnet-5-5")  # reads the ranks of the tokenizer, 60 MB once decoded

__all__ = ["trial"]
