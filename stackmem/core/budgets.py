"""Budgets are characters of memory, refused when exceeded; limits are resources of a run, and end it."""

from __future__ import annotations

from msgspec import Struct

from .messages import ToolSpec

PROMPT_CHARS = 4_000
"""What a sub-agent or a branch is told at most; its tool says so."""
PROGRAM_DEPTH = 50
"""Frames of programs on one another; the agent's own pushes count from the frame that it was given."""
PROGRAM_RESULT_CHARS = 100_000
"""Most characters of a result that a program's frame returns."""
UNFIT_RESULTS = 3
"""Results that do not fit their schema, after which the frame has failed."""


class Budgets(Struct, frozen=True):
    """How much each memory holds, in Unicode code points unless named otherwise.

    Attributes:
        depth: Pushes below the root (the root is depth 0).
        heap_chunks: Number of chunks.
    """

    intent_chars: int = 200
    return_chars: int = 200
    constraint_chars: int = 100
    context_chars: int = 500
    name_chars: int = 64
    verify_chars: int = 200
    result_chars: int = 1_000
    root_result_chars: int = 4_000
    depth: int = 5
    heap_chars: int = 10_000
    heap_chunks: int = 64
    description_chars: int = 200
    source_chars: int = 200


class SmallSize(Struct, frozen=True):
    """What a run gives a small model (``--size small``).

    Attributes:
        result_bytes: Most bytes of one result that the model is shown.
        reply_tokens: Longest reply; twice as long after each reply that this cut off.
        later: Tools that the model is told of once half of its window is used. They are not in the list of tools:
            that is the beginning of every prompt, and a change there would cost the provider's cache.
    """

    result_bytes: int = 2_048
    reply_tokens: int = 1_024
    later: tuple[ToolSpec, ...] = ()


class Limits(Struct, frozen=True):
    """What a run, or a frame with a constraint, may use; None is no limit.

    Attributes:
        steps: Model replies.
        tokens: Prompt and output tokens together, cached ones included.
        usd: Cost by the price row of the run.
        seconds: Wall time.
    """

    steps: int | None = 200
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None
