"""Chooses between the full size of prompts and tools and the small one, for ``--size``."""

from __future__ import annotations

from stackmem.core.strategy import MemoryStrategy
from stackmem.errors import UsageError
from stackmem.memory.small import STRATEGIES_FOR_SMALL, has_small_size
from stackmem.models.parameter_count import count_in_name
from stackmem.models.registry import Model, is_served

SMALL_PARAMETERS = 9_000_000_000
"""A model with at most so many parameters is small."""
SMALL_WINDOW_TOKENS = 8_192
"""So is one with a window of at most so many tokens: the full prompts take a third of it."""


def is_small(size: str, model: Model, strategy: MemoryStrategy) -> bool:
    """Whether the run uses the small size.

    Args:
        size: ``small``, ``full`` or ``auto``; ``auto`` goes by the model, and only for models that a server answers.

    Raises:
        UsageError: ``small`` was asked for, and the strategy has no small size.
    """
    if size == "small" and not has_small_size(strategy):
        known = ", ".join(STRATEGIES_FOR_SMALL)
        raise UsageError(f"the strategy {strategy.name} has no small size; leave --size out, or choose one of {known}")
    if size != "auto":
        return size == "small"
    if not is_served(model.name) or not has_small_size(strategy):
        return False
    parameters = getattr(model, "parameters", None) or count_in_name(model.name.partition("/")[2])
    few = parameters is not None and parameters <= SMALL_PARAMETERS
    return few or model.window_tokens <= SMALL_WINDOW_TOKENS
