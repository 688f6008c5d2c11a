"""Budgets and limits. A call that exceeds a budget is refused; a run that reaches a limit ends."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from .messages import ToolSpec

PROMPT_CHARS = 4_000
"""Maximum prompt of a sub-agent or a branch, in characters. The tool's description states the same number."""
PROGRAM_DEPTH = 50
"""Maximum nesting of a program's frames. The agent's own pushes are counted from the frame that the program gave it."""
PROGRAM_RESULT_CHARS = 100_000
"""Maximum result of a program's frame, in characters."""
UNFIT_RESULTS = 3
"""Number of results that do not fit the schema after which a frame fails."""


class Budgets(Struct, frozen=True):
    """Maximum sizes of what the agent may store and pass on, in Unicode code points unless stated otherwise.

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


class FileShown(Struct, frozen=True):
    """A file whose full text is in the model's first prompt."""

    path: str
    text: str


class FirstLook(Struct, frozen=True):
    """The part of the workspace that a small model sees before its first step.

    Attributes:
        listing: The files as ``list_files`` prints them, shortened if there are many.
        files: Short files that the task mentions.
    """

    listing: str
    files: tuple[FileShown, ...] = ()


class SmallSize(Struct, frozen=True):
    """Settings for a small model (``--size small``).

    Attributes:
        result_bytes: Maximum size of one result as the model sees it.
        reply_tokens: Maximum length of a reply. It doubles after each reply that was cut off at this limit.
        later: Tools that are announced once half of the model's window is used. They are not in the list of tools: the
            list is the beginning of every prompt, and a change there would invalidate the provider's cache.
        look: Files shown before the first step. Omitted in older runs.
    """

    result_bytes: int = 2_048
    reply_tokens: int = 1_024
    later: tuple[ToolSpec, ...] = ()
    look: FirstLook | UnsetType = UNSET


class Limits(Struct, frozen=True):
    """What a run, or a frame with a constraint, may use. None means no limit.

    Attributes:
        steps: Model replies.
        tokens: Prompt and output tokens together, cached ones included.
        usd: Cost according to the run's price row.
        seconds: Wall time.
    """

    steps: int | None = 200
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None
